"""The mixed VAE without shape checks: arguments that cannot be used, and torch.compile and torch.func."""

import pytest
import torch

import hardmax as hm
from hardmax.applications.mixed_vae import GaussianRows, MixedObjective, MixedVAE, SharedGaussian, mixed_elbo

pytestmark = pytest.mark.plain  # without shape checks


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"join": "above"}, r"join must be one of \['rows', 'beside'\], got 'above'"),
        ({"architecture": "transformer"}, r"must be 'mlp', 'conv' or 'conv-classifier', got 'transformer'"),
        ({"prior": "flat"}, r"prior must be.*'flat'"),
        ({"likelihood": "poisson"}, r"likelihood must be.*'poisson'"),
        ({"continuous": 0}, r"at least one continuous dimension, got c=0"),
    ],
)
def test_options(options, message):
    with pytest.raises(hm.ArgumentError, match=message):
        MixedVAE.build(hm.Categorical(3), (1, 4, 4), **options)


def test_other_tensors():
    model, x = MixedVAE.build(hm.Categorical(3), (1, 4, 4)), torch.rand(2, 1, 4, 4)
    with pytest.raises(hm.ShapeError, match=r"z_d has shape \[2\].*need \[2, 3\]"):
        model.labelled_bound(x, torch.tensor([0, 2]))
    with pytest.raises(hm.ShapeError, match=r"noise has shape \[2, 20\].*need \[2, 3, 20\]"):
        model(x, continuous_noise=torch.zeros(2, 20))
    with pytest.raises(hm.ShapeError, match=r"noise has shape \[2, 3\].*\[S, 2, 3\]"):
        model(x, noise=torch.zeros(2, 3))
    with pytest.raises(hm.ArgumentError, match="samples"):
        model.bounds(x, samples=0)
    with pytest.raises(hm.ArgumentError, match="nan for example"):
        model(x, continuous_noise=torch.full((2, 3, 20), float("nan")))


@pytest.mark.parametrize("join", [GaussianRows(hm.Categorical(3), 2), SharedGaussian(hm.Binary(3), 2)], ids=str)
# Not Exact: "aot_eager" fails on the strides of softplus's backward pass there; torch's default backend does not.
@pytest.mark.parametrize("estimator", ["auto", hm.Reinforce(), hm.GumbelSoftmax(0.5)], ids=str)
def test_grad_and_compile(join, estimator):
    generator = torch.Generator().manual_seed(0)

    def random(*shape):
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    x, scores, prior = random(4, 5).sigmoid(), random(4, 3), random(3)
    mean, log_variance, continuous_noise = random(3, 4, join.rows, 2)
    noise = join.space.noise((2, 4), generator=generator, dtype=torch.float64)
    decoder = torch.nn.Linear(join.width, 5).double()

    def value(scores, prior, mean, log_variance):
        likelihood = hm.BernoulliLikelihood(decoder, x)
        f = MixedObjective(likelihood, join, mean, log_variance, noise=continuous_noise)
        return mixed_elbo(f, scores, estimator, prior=prior, noise=noise).value.sum()

    leaves = [tensor.clone().requires_grad_() for tensor in (scores, prior, mean, log_variance)]
    expected = torch.autograd.grad(value(*leaves), leaves)
    gradients = torch.func.grad(value, (0, 1, 2, 3))(scores, prior, mean, log_variance)
    torch.testing.assert_close(gradients, expected)
    torch._dynamo.reset()
    compiled = torch.compile(value, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(torch.autograd.grad(compiled(*leaves), leaves), expected)
