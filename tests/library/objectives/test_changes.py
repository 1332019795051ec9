"""Fast flips of single bits: the same values as separate decoder passes, and the same z(epsilon)."""

import pytest
import torch

import hardmax as hm
from hardmax.estimators._single_changes import evaluate_single_changes
from hardmax.evaluator import Evaluator
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
    flips = model.changes(z)
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


def make_decoder(kind, entries):
    torch.manual_seed(0)
    nn = torch.nn
    decoders = {
        "linear": nn.Sequential(nn.Flatten(), nn.Linear(entries, 63)),
        "two layers": nn.Sequential(nn.Flatten(), nn.Linear(entries, 20), nn.ReLU(), nn.Linear(20, 63, bias=False)),
        "three layers": nn.Sequential(
            nn.Flatten(), nn.Linear(entries, 9, bias=False), nn.Tanh(), nn.Linear(9, 8), nn.ReLU(), nn.Linear(8, 63)
        ),
    }
    decoder = decoders[kind].double()
    for parameter in decoder.parameters():
        parameter.data *= 4
    return decoder


X = torch.rand(5, 63, generator=torch.Generator().manual_seed(4), dtype=torch.float64).round()


@pytest.mark.parametrize("kind", ["linear", "two layers", "three layers"])
@pytest.mark.parametrize("likelihood", [hm.BernoulliLikelihood, hm.GaussianLikelihood])
@pytest.mark.parametrize("space", [hm.Binary(6), hm.Categorical(4, 3), hm.Categorical(2, 5)], ids=str)
def test_changes_of_other_decoders(kind, likelihood, space):
    f = likelihood(make_decoder(kind, space.score_shape[-1] * (space.n if len(space.score_shape) > 1 else 1)), X)
    z = space.sample(torch.zeros(5, *space.score_shape, dtype=torch.float64), 3)
    expected = torch.stack([f(space.change(z, torch.tensor(i))) - f(z) for i in range(space.changes)], -1).detach()
    changes = f.changes(z)
    wanted = torch.rand(expected.shape) < 0.5
    torch.testing.assert_close(changes.gains(wanted), expected[wanted])
    torch.testing.assert_close(changes.gains(torch.ones_like(wanted)).view(expected.shape), expected)
    if likelihood is hm.BernoulliLikelihood and kind != "three layers":
        assert (changes.bounds >= expected - 1e-9).all()
    else:
        assert changes.bounds is None


@pytest.mark.parametrize("kind", ["linear", "two layers", "three layers"])
@pytest.mark.parametrize("estimator", [
    hm.Direct(0.5),
    hm.Direct(0.5, two_sided=True),
    hm.AveragedDirect(),
    hm.LocalExpectation(),
    hm.LocalExpectation(roulette=True),
], ids=str)  # fmt: skip
@pytest.mark.parametrize("space", [hm.Binary(6), hm.Categorical(4, 3)], ids=str)
def test_estimates_with_and_without_changes_are_equal(kind, estimator, space):
    f = hm.BernoulliLikelihood(make_decoder(kind, 6 if space == hm.Binary(6) else 12), X)
    scores = torch.randn(5, *space.score_shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    noise = estimator.draw_noise(space, 4, (5,), torch.Generator().manual_seed(3), dtype=torch.float64)

    class Plain:
        def __call__(self, z):
            return f(z)

        def rows(self, z, index):
            return f.rows(z, index)

    results = []
    for objective in (f, Plain()):
        held = scores.clone().requires_grad_()
        out = hm.elbo(objective, held, space, estimator, noise=noise)
        results.append((out, torch.autograd.grad(out.value.sum(), held)[0]))
    (ours, gradient), (plain, expected) = results
    torch.testing.assert_close(gradient, expected)
    torch.testing.assert_close(ours.value, plain.value)
    assert ours.evaluations <= plain.evaluations


@pytest.mark.parametrize("chunk_size", [None, 1, 2, 7, 1000])
@pytest.mark.parametrize("space", [hm.Binary(6), hm.Categorical(4, 3), hm.PairwiseBinary(5), hm.Subset(5, 2)], ids=str)
def test_candidates_in_chunks(space, chunk_size):
    """f sees every change once, whatever the size of the chunks, also if it returns a view of z."""
    z = space.argmax(torch.randn(3, 2, *space.score_shape, dtype=torch.float64))
    weights = torch.randn(space.event_shape, dtype=torch.float64)
    seen = []

    def f(z):
        seen.append(z.clone())
        return z.flatten(2)[..., 1] if chunk_size == 7 else (z * weights).flatten(2).sum(-1).square()

    evaluator = Evaluator(f, torch.zeros(2, *space.score_shape, dtype=torch.float64), space, chunk_size=chunk_size)
    values, parts = evaluate_single_changes(evaluator, space, z)
    candidates = space.neighbours(z)
    expected = space.parts(z, torch.stack([f(c) for c in candidates]) - f(z))
    torch.testing.assert_close(parts, expected)
    assert evaluator.evaluations == 3 * (1 + space.changes)
    assert all(len(z) <= chunk_size for z in seen[: -space.changes - 1]) if chunk_size else True
    assert torch.equal(values, f(z))


def test_categories_instead_of_one_hot():
    decoder = make_decoder("two layers", 7)
    f, index = hm.BernoulliLikelihood(decoder, X), torch.tensor([3, 0, 3, 6])
    one_hot = torch.eye(7, dtype=torch.float64)[index]
    torch.testing.assert_close(f.pairs(index), f.pairs(one_hot))
    torch.testing.assert_close(f.rows(index, torch.tensor([1, 1, 4, 0])), f.rows(one_hot, torch.tensor([1, 1, 4, 0])))
    torch.testing.assert_close(f.table(), f.pairs(torch.eye(7, dtype=torch.float64)))


@pytest.mark.parametrize("k", [3, 7, 40])
def test_gradients_of_a_decoder_by_categories(k):
    """Where categories outnumber the draws, only those drawn have a backward pass; the gradient is the same."""
    decoder, space = make_decoder("two layers", k), hm.Categorical(k)
    scores = torch.randn(5, k, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    noise = space.noise((2, 5), torch.Generator().manual_seed(1), dtype=torch.float64)
    gradients = []
    for f in (hm.BernoulliLikelihood(decoder, X), lambda z: hm.BernoulliLikelihood(decoder, X)(z)):
        decoder.zero_grad()
        held = scores.clone().requires_grad_()
        hm.elbo(f, held, space, hm.Direct(), noise=noise).value.sum().backward()
        gradients.append([held.grad, *(parameter.grad for parameter in decoder.parameters())])
    torch.testing.assert_close(*gradients)


def test_decoders_without_a_first_layer_of_z():
    nn = torch.nn
    hooked = nn.Sequential(nn.Linear(6, 63))
    hooked.register_forward_hook(lambda *_: None)
    z = bits(3, 5, 6)
    for decoder in (
        nn.Sequential(nn.Linear(6, 63), nn.BatchNorm1d(63)),
        nn.Sequential(nn.Dropout(), nn.Linear(6, 63)),
        nn.utils.parametrizations.weight_norm(nn.Linear(6, 63)),
        hooked,
    ):
        f = hm.BernoulliLikelihood(decoder.double(), X)
        assert f.changes(z) is None
        assert not f.takes_categories
        with pytest.raises(hm.DtypeError, match="does not begin with a linear layer of z"):
            f.pairs(torch.tensor([1]))
    each = hm.BernoulliLikelihood(nn.Linear(7, 21).double(), X)  # of the last dimension alone
    assert each.changes(torch.eye(7, dtype=torch.float64)[torch.zeros(2, 5, 3, dtype=torch.int64)]) is None
