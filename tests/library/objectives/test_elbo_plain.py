"""hm.elbo without shape checks: invalid arguments, and torch.compile and torch.func."""

import pytest
import torch

import hardmax as hm

pytestmark = pytest.mark.plain  # without shape checks

SCORES = torch.zeros(4, 3)
SPACE = hm.Categorical(3)


def raise_if_called(z):
    raise AssertionError("the likelihood was called")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"kl": "inside"}, hm.ArgumentError, r"kl must be 'auto', 'beside' or 'none', got 'inside'"),
        ({"kl": None}, hm.ArgumentError, r"kl must be.*None"),
        ({"estimator": "direct"}, hm.ArgumentError, r"Direct\(\).*'auto'.*'direct'"),
        ({"samples": 0}, hm.ArgumentError, "samples"),
        ({"chunk_size": 0}, hm.ArgumentError, "chunk_size"),
        ({"estimator": hm.Reinforce("leave-one-out")}, hm.ArgumentError, "two samples"),
        ({"noise": torch.zeros(4, 3)}, hm.ShapeError, r"\[S, 4, 3\]"),
        ({"scores": torch.zeros(4, 2)}, hm.ShapeError, r"\[4, 2\].*\[\*B, 3\]"),
        ({"scores": SCORES.long()}, hm.DtypeError, r"int64.*\.float\(\)"),
    ],
)
def test_arguments(arguments, error, message):
    arguments = {"scores": SCORES, "space": SPACE, **arguments}
    with pytest.raises(error, match=message):
        hm.elbo(raise_if_called, **arguments)


class Bare(hm.AbstractSpace):
    """A space with an arg max and nothing else."""

    score_shape = event_shape = (3,)
    size = 3

    def argmax(self, scores):
        return SPACE.argmax(scores)

    def statistics(self, z):
        return z

    def noise(self, shape, generator=None, *, dtype=torch.float32, device=None):
        return SPACE.noise(shape, generator, dtype=dtype, device=device)


def test_a_space_that_cannot():
    with pytest.raises(hm.NotExactError, match="Bare"):
        hm.elbo(lambda z: z.sum(-1), SCORES, Bare())


@pytest.mark.parametrize("estimator", [hm.Exact(), hm.Direct(0.5), hm.LocalExpectation(), hm.Reinforce()], ids=str)
@pytest.mark.parametrize("kl", ["auto", "beside", "none"])
@pytest.mark.parametrize("space", [hm.Categorical(3), hm.Binary(3)], ids=str)
def test_grad_and_compile(space, kl, estimator):
    generator = torch.Generator().manual_seed(0)
    worth, prior, scores = torch.randn(3, 3, generator=generator, dtype=torch.float64)
    scores = scores + torch.arange(4, dtype=torch.float64)[:, None]
    noise = space.noise((2, 4), generator=generator, dtype=torch.float64)

    def value(scores, prior, noise):
        f = lambda z: (z * worth).sum(-1).sin()  # noqa: E731
        return hm.elbo(f, scores, space, estimator, prior=prior, kl=kl, noise=noise).value.sum()

    leaves = [scores.clone().requires_grad_(), prior.clone().requires_grad_()]
    expected = torch.autograd.grad(value(*leaves, noise), leaves)
    torch.testing.assert_close(torch.func.grad(value, (0, 1))(scores, prior, noise), expected)
    torch._dynamo.reset()
    compiled = torch.compile(value, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(torch.autograd.grad(compiled(*leaves, noise), leaves), expected)
    each = torch.func.vmap(torch.func.grad(value), in_dims=(0, None, 1))(scores, prior, noise)
    torch.testing.assert_close(each, expected[0])


class TestPriorsAndBatches:
    """Shapes that torch would silently broadcast or reshape raise an error."""

    space, scores = hm.Categorical(10), torch.zeros(2, 10)

    def likelihood(self, count=2):
        return hm.BernoulliLikelihood(torch.nn.Linear(10, 784), torch.zeros(count, 784))

    @pytest.mark.parametrize("estimator", [hm.Exact(), hm.Direct(), hm.Reinforce()], ids=str)
    @pytest.mark.parametrize("size", [1, 7])
    def test_prior_of_the_wrong_shape(self, estimator, size):
        with pytest.raises(hm.ShapeError, match=rf"prior has shape \[{size}\].*\[10\]"):
            hm.elbo(self.likelihood(), self.scores, self.space, estimator, prior=torch.zeros(size))
        with pytest.raises(hm.ShapeError, match="prior"):
            hm.exact_bounds(self.likelihood(), self.scores, self.space, prior=torch.zeros(size))

    @pytest.mark.parametrize("estimator", [hm.Exact(), hm.Direct(), hm.Reinforce()], ids=str)
    def test_other_examples_than_the_scores(self, estimator):
        with pytest.raises(hm.ShapeError):
            hm.elbo(self.likelihood(3), self.scores, self.space, estimator)

    def test_empty_batch(self):
        out = hm.elbo(self.likelihood(0), self.scores[:0], self.space, hm.Direct())
        assert out.value.shape == (0,)

    def test_integer_images(self):
        with pytest.raises(hm.DtypeError, match="uint8"):
            hm.BernoulliLikelihood(torch.nn.Linear(10, 784), torch.zeros(2, 784, dtype=torch.uint8))

    def test_bounds_check_their_input(self):
        with pytest.raises(hm.ArgumentError, match="finite"):
            hm.exact_bounds(self.likelihood(), self.scores * float("nan"), self.space)
        with pytest.raises(hm.ArgumentError, match="samples"):
            hm.importance_weighted_bound(self.likelihood(), self.scores, self.space, samples=0)

    def test_chunks_bound_posterior_direct_too(self):
        rows = []

        class Decoder(torch.nn.Linear):
            def forward(self, z):
                rows.append(len(z))
                return super().forward(z)

        likelihood = hm.BernoulliLikelihood(Decoder(10, 784), torch.zeros(2, 784))
        hm.elbo(likelihood, self.scores, self.space, hm.Direct(), chunk_size=3)
        assert max(rows) <= 3

    def test_gaussian_pairs_do_not_cancel(self):
        decoder = torch.nn.Linear(10, 784)
        torch.nn.init.constant_(decoder.bias, 3.0)
        likelihood = hm.GaussianLikelihood(decoder, 3 + 0.1 * torch.randn(4, 784), log_variance=-8.0)
        z = torch.eye(10)
        each = likelihood(z[:, None].expand(-1, 4, -1)).mT
        assert (likelihood.pairs(z) - each).abs().max() < 0.5
