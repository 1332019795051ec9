"""Fast flips of single bits: the same values as separate decoder passes, and the same z(epsilon)."""

import pytest
import torch

import hardmax as hm
from hardmax.nn import MLPDecoder

SPACES = [hm.Binary(6), hm.PairwiseBinary(6), hm.PairwiseBinary(6, supermodular=True)]


@pytest.fixture
def model():
    torch.manual_seed(0)
    decoder = MLPDecoder((1, 7, 9), hm.Binary(6), hidden=20).double()
    for parameter in decoder.parameters():
        parameter.data *= 4
    return hm.BernoulliLikelihood(decoder, torch.rand(5, 63, dtype=torch.float64).round())


def bits(*shape):
    return (torch.rand(*shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64) < 0.5).double()


def test_gains_and_bounds(model):
    z = bits(3, 5, 6)
    flips = model.flips(z)
    expected = torch.stack([model(hm.Binary(6).change(z, torch.tensor(i))) - model(z) for i in range(6)], -1).detach()
    wanted = torch.rand(3, 5, 6) < 0.5
    torch.testing.assert_close(flips.gains(wanted), expected[wanted])
    torch.testing.assert_close(flips.gains(torch.ones(3, 5, 6, dtype=torch.bool)).view(3, 5, 6), expected)
    assert (flips.bounds >= expected - 1e-9).all()
    assert (flips.bounds - expected).median() < expected.abs().median()  # tight enough to be useful
    assert flips.gains(torch.zeros(3, 5, 6, dtype=torch.bool)).shape == (0,)


@pytest.mark.parametrize("space", SPACES, ids=str)
@pytest.mark.parametrize("epsilon", [1.0, 0.1])
@pytest.mark.parametrize("kl", ["auto", "none"])
def test_lazy_flips_change_nothing(model, space, epsilon, kl):
    """The same z(epsilon) as from all flips, and fewer evaluations."""
    scores = torch.randn(5, *space.score_shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    scores = torch.cat([scores[:, :6], scores[:, 6:].abs() / 5], -1) if space == SPACES[2] else scores
    noise = space.noise((8, 5), generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    results = []
    for f in (model, lambda z: model(z)):
        held = scores.clone().requires_grad_()
        out = hm.elbo(f, held, space, hm.Direct(epsilon), noise=noise, kl=kl)
        results.append((out, torch.autograd.grad(out.value.sum(), held)[0]))
    (lazy, gradient), (every, expected) = results
    torch.testing.assert_close(gradient, expected)
    torch.testing.assert_close(lazy.value, every.value)
    assert lazy.evaluations < every.evaluations == 8 * 7


@pytest.mark.parametrize("space", SPACES, ids=str)
@pytest.mark.parametrize("roulette", [False, True])
def test_conditional_gradient_by_flips_by_rows_and_by_f(model, space, roulette):
    class Rows:
        def __call__(self, z):
            return model(z)

        def rows(self, z, index):
            return model.rows(z, index)

    scores = torch.randn(5, *space.score_shape, dtype=torch.float64).abs() / 5
    noise = space.noise((2, 5), dtype=torch.float64)
    gradients = []
    for f in (model, Rows(), lambda z: model(z)):
        held = scores.clone().requires_grad_()
        out = hm.elbo(f, held, space, hm.ConditionalGradient(roulette=roulette), noise=noise)
        gradients.append(torch.autograd.grad(out.value.sum(), held)[0])
    torch.testing.assert_close(gradients[1], gradients[0])
    torch.testing.assert_close(gradients[2], gradients[0])


def test_other_decoders_have_no_flips():
    x = torch.rand(5, 63).round()
    assert not hasattr(hm.BernoulliLikelihood(torch.nn.Linear(6, 63), x), "flips")
    assert not hasattr(hm.BernoulliLikelihood(MLPDecoder((1, 7, 9), hm.Categorical(6)), x), "flips")
    assert not hasattr(hm.GaussianLikelihood(MLPDecoder((1, 7, 9), hm.Binary(6)), x), "flips")
