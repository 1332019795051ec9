"""Spaces against enumeration and against torch.distributions."""

import pytest
import torch
from cases import EDGE_SPACES, SMALL_SPACES
from scipy.stats import kstest

import hardmax as hm
from hardmax.testing import assert_space


@pytest.mark.parametrize("space", [*SMALL_SPACES, *EDGE_SPACES, hm.Categorical(2, 4), hm.Binary(6)], ids=str)
def test_everything_offered_agrees_with_enumeration(space):
    assert_space(space)


@pytest.mark.parametrize("space", SMALL_SPACES, ids=str)
def test_agrees_with_torch_distributions(space):
    generator = torch.Generator().manual_seed(0)
    scores, prior = torch.randn(2, 3, *space.score_shape, generator=generator, dtype=torch.float64)
    q, p = hm.to_distribution(scores, space), hm.to_distribution(prior, space)
    z = space.sample(scores, 4, generator=generator)
    torch.testing.assert_close(space.log_prob(scores, z), q.log_prob(z))
    torch.testing.assert_close(space.entropy(scores), q.entropy())
    torch.testing.assert_close(space.kl(scores, prior), torch.distributions.kl_divergence(q, p))


@pytest.mark.parametrize("space", [hm.Categorical(4), hm.Categorical(4, 2), hm.Binary(3)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_draw_with_marginals_is_draw_and_marginals(space, dtype):
    scores = torch.randn(5, *space.score_shape, generator=torch.Generator().manual_seed(0)).to(dtype).requires_grad_()
    for noise in (space.noise((3, 5)), space.draw_noise((3, 5))):
        z, marginals = space.draw_with_marginals(scores, noise)
        assert torch.equal(z, space.draw(scores.detach(), noise))
        assert torch.equal(marginals, space.marginals(scores))
        assert marginals.requires_grad
        assert not z.requires_grad


@pytest.mark.parametrize("k", [3, 31, 32, 100])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_argmax_is_the_first_of_equal_scores_at_any_size(k, dtype):
    scores = torch.randint(0, 3, (50, k), generator=torch.Generator().manual_seed(0)).to(dtype).requires_grad_()
    first = (scores == scores.amax(-1, keepdim=True)).int().cumsum(-1).eq(0).sum(-1)
    assert torch.equal(hm.Categorical(k).argmax(scores).argmax(-1), first)
    assert torch.equal(hm.Categorical(k).argmax(scores[::2].T.contiguous().T).argmax(-1), first[::2])


@pytest.mark.parametrize("space", [hm.Categorical(4), hm.Categorical(4, 2), hm.Binary(3)], ids=str)
@pytest.mark.parametrize("size", [100.0, 1e4])
def test_saturated_scores_have_finite_quantities_and_gradients(space, size):
    scores = size * torch.linspace(-1, 1, 2 * space.score_shape[-1])[: space.score_shape[-1]]
    scores = scores.expand(space.score_shape).clone().requires_grad_()
    z = space.argmax(scores.detach())
    total = space.kl(scores) + space.entropy(scores) + space.log_prob(scores, z) + space.kl(-scores, scores)
    (gradient,) = torch.autograd.grad(total, scores)
    assert total.isfinite()
    assert gradient.isfinite().all()


@pytest.mark.parametrize("space", [hm.Categorical(3, 2), hm.Binary(2)], ids=str)
def test_leftover_is_uniform_and_independent_of_z(space):
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(space.score_shape, generator=generator, dtype=torch.float64)
    noise = space.noise((40_000,), generator=generator, dtype=torch.float64)
    z = space.draw(scores, noise)
    left = space.leftover(scores, noise, z).flatten(1)
    values = z.argmax(-1) if isinstance(space, hm.Categorical) else z
    for variable in range(space.variables):
        for other in range(space.variables):  # not even of the other variables' values
            for value in values[:, other].unique():
                assert kstest(left[values[:, other] == value, variable], "uniform").pvalue > 1e-6


def test_leftover_of_almost_certain_variables_is_uniform():
    space, scores = hm.Binary(2), torch.tensor([60.0, -60.0])
    noise = space.noise((1000,), generator=torch.Generator().manual_seed(0))
    left = space.leftover(scores, noise, space.draw(scores, noise))
    assert left.isfinite().all()
    assert kstest(left.flatten(), "uniform").pvalue > 1e-6


@pytest.mark.parametrize(("make", "message"), [
    (lambda: hm.Categorical(0), "k=0"),
    (lambda: hm.Categorical(3, 0), "n=0"),
    (lambda: hm.Binary(0), "n=0"),
])  # fmt: skip
def test_empty_spaces_are_refused(make, message):
    with pytest.raises(hm.ArgumentError, match=message):
        make()


@pytest.mark.parametrize("space", [hm.Binary(40), hm.Categorical(10, 30)], ids=str)
def test_too_large_to_enumerate_says_the_size_and_what_to_do(space):
    with pytest.raises(hm.NotExactError, match=rf"{space.size:,} members.*LocalExpectation"):
        space.enumerate()


def test_spaces_are_values():
    assert hm.Categorical(3) == hm.Categorical(3)
    assert len({hm.Categorical(3), hm.Categorical(3), hm.Categorical(3, 1)}) == 2
    with pytest.raises(AttributeError):
        hm.Binary(3).n = 4


def test_sample_follows_generator_dtype_and_batch():
    space, scores = hm.Categorical(3, 2), torch.zeros(5, 4, 2, 3, dtype=torch.bfloat16, requires_grad=True)
    first, again = (space.sample(scores, 7, generator=torch.Generator().manual_seed(1)) for _ in range(2))
    assert first.shape == (7, 5, 4, 2, 3)
    assert first.dtype == torch.bfloat16
    assert not first.requires_grad
    assert torch.equal(first, again)
    assert not torch.equal(first, space.sample(scores, 7, generator=torch.Generator().manual_seed(2)))


def test_a_space_that_cannot_says_so():
    class Bare(hm.AbstractSpace):
        score_shape = event_shape = (2,)
        size = 2

        def argmax(self, scores):
            return scores

        def statistics(self, z):
            return z

        def noise(self, shape, *, generator=None, dtype=torch.float32, device=None):
            return torch.zeros(*shape, 2)

    space, scores = Bare(), torch.zeros(2)
    optional = {
        "draw": (scores, scores), "log_prob": (scores, scores), "entropy": (scores,), "kl": (scores,),
        "marginals": (scores,), "relax": (scores, 1.0), "enumerate": (), "change": (scores, torch.tensor(0)),
        "parts": (scores, scores),
    }  # fmt: skip
    for name, arguments in optional.items():
        assert not space.offers(name)
        with pytest.raises(hm.NotExactError, match="Bare"):
            getattr(space, name)(*arguments)
    with pytest.raises(hm.NotExactError):
        space.changes  # noqa: B018
    for estimator in (
        hm.Exact(),
        hm.Direct(),
        hm.GumbelSoftmax(),
        hm.StraightThrough(),
        hm.Reinforce(),
        hm.LocalExpectation(),
    ):
        with pytest.raises(hm.NotExactError, match=type(estimator).__name__):
            hm.expectation(pytest.fail, scores, space, estimator)
