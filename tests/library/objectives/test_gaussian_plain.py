"""Gaussian latents without shape checks: tensors that do not fit, and torch.compile and torch.func."""

import pytest
import torch

import hardmax as hm

pytestmark = pytest.mark.plain  # without shape checks

ZERO = torch.zeros(4, 3)


def raise_if_called(z):
    raise AssertionError("the likelihood was called")


def elbo(mean, log_variance):
    return hm.gaussian_elbo(raise_if_called, mean, log_variance)


@pytest.mark.parametrize("function", [hm.gaussian_sample, hm.gaussian_kl, elbo])
@pytest.mark.parametrize(
    ("mean", "log_variance", "error", "message"),
    [
        (ZERO, torch.zeros(3), hm.ShapeError, r"\[4, 3\] and \[3\].*chunk\(2"),
        (ZERO, torch.zeros(4, 2), hm.ShapeError, r"\[\*B, D\].*\[4, 3\] and \[4, 2\]"),
        (torch.zeros(()), torch.zeros(()), hm.ShapeError, r"\[\] and \[\]"),
        (ZERO.long(), ZERO, hm.DtypeError, "mean.*int64"),
        (ZERO, ZERO.long(), hm.DtypeError, "log_variance.*int64"),
        (ZERO, 0.0, hm.DtypeError, "log_variance.*float"),
    ],
)
def test_parameters_that_do_not_fit(function, mean, log_variance, error, message):
    with pytest.raises(error, match=message):
        function(mean, log_variance)


@pytest.mark.parametrize("function", [hm.gaussian_sample_full, hm.gaussian_kl_full])
@pytest.mark.parametrize(
    ("mean", "scale_tril", "error", "message"),
    [
        (ZERO, torch.eye(3), hm.ShapeError, r"\[4, 3\] and \[3, 3\].*expand"),
        (ZERO, ZERO, hm.ShapeError, r"\[\*B, D, D\].*\[4, 3\] and \[4, 3\]"),
        (torch.zeros(()), torch.zeros(()), hm.ShapeError, r"\[\] and \[\]"),
        (ZERO, torch.eye(3).long(), hm.DtypeError, "scale_tril.*int64"),
    ],
)
def test_factors_that_do_not_fit(function, mean, scale_tril, error, message):
    with pytest.raises(error, match=message):
        function(mean, scale_tril)


def test_second_gaussian_of_the_wrong_kind():
    with pytest.raises(hm.DtypeError, match=r"mean2.*int64"):
        hm.gaussian_kl(ZERO, ZERO, ZERO.long())


def test_unknown_form():
    with pytest.raises(hm.ArgumentError, match=r"'prior-contrastive' or 'joint-contrastive', got 'A'"):
        hm.gaussian_elbo(raise_if_called, ZERO, ZERO, form="A")


def test_likelihood_that_returns_no_tensor():
    with pytest.raises(hm.DtypeError, match=r"likelihood returns.*float"):
        hm.gaussian_elbo(lambda z: 1.0, ZERO, ZERO)


def bound(form):
    worth = torch.linspace(-1, 1, 3, dtype=torch.float64)
    return lambda mean, log_variance: hm.gaussian_elbo(
        lambda z: (z * worth).sin().sum(-1), mean, log_variance, form=form, samples=2
    ).value.sum()


@pytest.mark.parametrize("form", ["prior-contrastive", "joint-contrastive"])
def test_grad_and_compile(form):
    """The same noise (torch's global generator, which torch.compile and torch.func use) gives the same gradient."""
    mean, log_variance = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    leaves = [mean.clone().requires_grad_(), log_variance.clone().requires_grad_()]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        expected = torch.autograd.grad(bound(form)(*leaves), leaves)
        torch.manual_seed(0)
        torch.testing.assert_close(torch.func.grad(bound(form), (0, 1))(mean, log_variance), expected)
        torch.manual_seed(0)
        compiled = torch.compile(bound(form), backend="aot_eager", fullgraph=True)
        torch.testing.assert_close(torch.autograd.grad(compiled(*leaves), leaves), expected)


def test_vmap_of_the_divergences():
    mean, log_variance = torch.randn(2, 5, 4, 3, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(torch.func.vmap(hm.gaussian_kl)(mean, log_variance), hm.gaussian_kl(mean, log_variance))
    scale = torch.eye(3).expand(5, 4, 3, 3) * 2
    torch.testing.assert_close(torch.func.vmap(hm.gaussian_kl_full)(mean, scale), hm.gaussian_kl_full(mean, scale))
    draws = torch.func.vmap(hm.gaussian_sample, randomness="different")(mean, log_variance)
    assert draws.shape == (5, 1, 4, 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"latents": 0}, "latents must be at least 1, got 0"),
        ({"architecture": "flow"}, "architecture must be 'mlp' or 'conv', got 'flow'"),
        ({"likelihood": "poisson"}, "likelihood must be 'bernoulli' or 'gaussian', got 'poisson'"),
    ],
)
def test_models_that_cannot_be_built(options, message):
    with pytest.raises(hm.ArgumentError, match=message):
        hm.GaussianVAE.build(**{"latents": 2, "shape": (1, 4, 4), **options})
