"""Gaussian latents against torch.distributions, a model with closed forms, and the errors of the sources."""

import math
import runpy
from pathlib import Path

import pytest
import torch
from scipy.stats import kstest, norm
from torch.autograd import gradcheck
from torch.distributions import Independent, MultivariateNormal, Normal, kl_divergence

import hardmax as hm

FORMS = ["prior-contrastive", "joint-contrastive"]
EXAMPLES = Path(__file__).parents[3] / "examples"


def largest_z(draws, exact):
    """Return the largest |z| of the mean of draws `[draws, ...]`; above 5.5 is not chance (1e-6, 25 components)."""
    error = draws.std(0) / len(draws) ** 0.5
    return ((draws.mean(0) - exact) / error.clamp_min(1e-12)).abs().max().item()


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def factor(*batch, d, seed=0):
    """Return lower triangular factors with a positive diagonal."""
    raw = random(*batch, d, d, seed=seed)
    return raw.tril(-1) + torch.diag_embed(raw.diagonal(dim1=-2, dim2=-1).exp())


def diagonal(mean, log_variance):
    return Independent(Normal(mean, (log_variance / 2).exp()), 1)


# ------------------------------------------------------------------------------------------- KL, closed forms
def check_kl(kl):
    """Assert what a KL between diagonal Gaussians must satisfy."""
    for batch in [(), (4,), (2, 3)]:
        mean, log_variance, mean2, log_variance2 = random(4, *batch, 5)
        q, p = diagonal(mean, log_variance), diagonal(mean2, log_variance2)
        standard = diagonal(torch.zeros_like(mean), torch.zeros_like(mean))
        close = {"rtol": 0, "atol": 1e-12}
        torch.testing.assert_close(kl(mean, log_variance, mean2, log_variance2), kl_divergence(q, p), **close)
        torch.testing.assert_close(kl(mean, log_variance), kl_divergence(q, standard), **close)
        assert (kl(mean, log_variance, mean, log_variance) == 0).all()


def test_kl_agrees_with_torch():
    check_kl(hm.gaussian_kl)


def zeros(mean, mean2, log_variance2):
    """Fill in the standard normal."""
    zero = torch.zeros_like(mean)
    return (zero if mean2 is None else mean2), (zero if log_variance2 is None else log_variance2)


def published_standard(mean, log_variance, mean2=None, log_variance2=None):
    """The sign error of the notes on auto-encoding variational Bayes: half the sum without the minus."""
    if mean2 is not None or log_variance2 is not None:
        return hm.gaussian_kl(mean, log_variance, mean2, log_variance2)
    return (1 + log_variance - mean.square() - log_variance.exp()).sum(-1) / 2


def published_distance(mean, log_variance, mean2=None, log_variance2=None):
    """The errors of the loss of pluralistic image completion: the distance of the means subtracted, no -d/2."""
    mean2, log_variance2 = zeros(mean, mean2, log_variance2)
    gap = log_variance2 - log_variance
    return (gap + (-gap).exp() - (mean - mean2).square() * (-log_variance2).exp()).sum(-1) / 2


def upside_down(mean, log_variance, mean2=None, log_variance2=None):
    mean2, log_variance2 = zeros(mean, mean2, log_variance2)
    return hm.gaussian_kl(mean2, log_variance2, mean, log_variance)


def mean_of_one(mean, log_variance, mean2=None, log_variance2=None):
    """The error of the lecture slides: a standard normal with mean 1."""
    return hm.gaussian_kl(mean, log_variance, torch.ones_like(mean) if mean2 is None else mean2, log_variance2)


@pytest.mark.parametrize("wrong", [published_standard, published_distance, upside_down, mean_of_one])
def test_published_errors_are_detected(wrong):
    with pytest.raises(AssertionError):
        check_kl(wrong)


def test_descent_on_the_published_sign_drives_q_away():
    """Why the sign matters: descent on -KL leads away from the prior, descent on KL leads to it."""
    for kl, ends in [(hm.gaussian_kl, True), (published_standard, False)]:
        mean = torch.full((1,), 0.5, dtype=torch.float64, requires_grad=True)
        for _ in range(200):
            step = torch.autograd.grad(kl(mean, torch.zeros_like(mean)), mean)[0]
            mean = (mean - 0.1 * step).detach().requires_grad_()
        assert (mean.abs().item() < 1e-6) == ends


def test_kl_full_agrees_with_torch():
    for batch in [(), (4,), (2, 3)]:
        mean, mean2 = random(2, *batch, 3)
        scale, scale2 = factor(*batch, d=3), factor(*batch, d=3, seed=1)
        q, p = MultivariateNormal(mean, scale_tril=scale), MultivariateNormal(mean2, scale_tril=scale2)
        standard = MultivariateNormal(torch.zeros_like(mean), torch.eye(3, dtype=torch.float64))
        close = {"rtol": 1e-12, "atol": 1e-12}
        torch.testing.assert_close(hm.gaussian_kl_full(mean, scale, mean2, scale2), kl_divergence(q, p), **close)
        torch.testing.assert_close(hm.gaussian_kl_full(mean, scale), kl_divergence(q, standard), **close)
        torch.testing.assert_close(
            hm.gaussian_kl_full(mean, scale, mean2), hm.gaussian_kl_full(mean - mean2, scale), **close
        )
        same = hm.gaussian_kl_full(mean, scale, mean, scale)
        torch.testing.assert_close(same, torch.zeros_like(same), **close)


def test_kl_full_of_a_diagonal_is_the_diagonal_kl():
    mean, log_variance, mean2, log_variance2 = random(4, 6, 3)
    full = hm.gaussian_kl_full(
        mean, torch.diag_embed((log_variance / 2).exp()), mean2, torch.diag_embed((log_variance2 / 2).exp())
    )
    torch.testing.assert_close(full, hm.gaussian_kl(mean, log_variance, mean2, log_variance2), rtol=1e-12, atol=1e-12)


def test_kl_spreads_a_shared_second_gaussian():
    mean, log_variance = random(2, 4, 3)
    mean2, log_variance2 = random(2, 3, seed=1)
    torch.testing.assert_close(
        hm.gaussian_kl(mean, log_variance, mean2, log_variance2),
        hm.gaussian_kl(mean, log_variance, mean2.expand(4, 3), log_variance2.expand(4, 3)),
    )
    scale, scale2 = factor(4, d=3), factor(d=3, seed=1)
    torch.testing.assert_close(
        hm.gaussian_kl_full(mean, scale, mean2, scale2),
        hm.gaussian_kl_full(mean, scale, mean2.expand(4, 3), scale2.expand(4, 3, 3)),
    )


def test_kl_gradients():
    inputs = [t.clone().requires_grad_() for t in random(4, 2, 3)]
    assert gradcheck(hm.gaussian_kl, inputs)
    mean, mean2 = inputs[0], inputs[1]
    scale, scale2 = factor(2, d=3).requires_grad_(), factor(2, d=3, seed=1).requires_grad_()
    assert gradcheck(hm.gaussian_kl_full, [mean, scale, mean2, scale2])
    equal = torch.autograd.grad(hm.gaussian_kl(mean, mean2, mean.detach(), mean2.detach()).sum(), [mean, mean2])
    for gradient in equal:  # the minimum
        torch.testing.assert_close(gradient, torch.zeros_like(gradient))


def test_entries_above_the_diagonal_are_ignored():
    mean, scale, scale2, noise = random(3), factor(d=3), factor(d=3, seed=1), random(3, 3, seed=2)
    filled, filled2 = ((scale + noise.triu(1)).requires_grad_(), (scale2 + noise.triu(1)).requires_grad_())
    kl = hm.gaussian_kl_full(mean, filled, None, filled2)
    torch.testing.assert_close(kl, hm.gaussian_kl_full(mean, scale, None, scale2))
    for gradient in torch.autograd.grad(kl, [filled, filled2]):
        assert (gradient.triu(1) == 0).all()
    first, second = (
        hm.gaussian_sample_full(mean, s, 5, generator=torch.Generator().manual_seed(0)) for s in (scale, filled)
    )
    assert torch.equal(first, second)


def test_kl_close_to_equality_is_not_lost_to_rounding():
    gap = torch.tensor([1e-3], dtype=torch.float32)
    kl = hm.gaussian_kl(torch.zeros(1), gap).double().item()
    assert kl == pytest.approx(hm.gaussian_kl(torch.zeros(1).double(), gap.double()).item(), rel=1e-3)


# ------------------------------------------------------------------------------------------- samples
def check_sample(sample):
    """Assert that every component of samples follows its distribution."""
    mean, log_variance = random(3), torch.tensor([-3.0, 0.5, 2.0], dtype=torch.float64)
    z = sample(mean, log_variance, 50_000, generator=torch.Generator().manual_seed(0))
    for i in range(3):
        assert kstest(z[:, i], norm(mean[i].item(), (log_variance[i] / 2).exp().item()).cdf).pvalue > 1e-6


def test_samples_follow_the_law():
    check_sample(hm.gaussian_sample)


@pytest.mark.parametrize("power", [1.0, 0.25])
def test_samples_with_another_scale_are_detected(power):
    """The error of the lecture slides, noise times the variance (power 1), and half the logarithm of the deviation."""

    def wrong(mean, log_variance, samples, generator):
        noise = torch.randn(samples, *mean.shape, generator=generator, dtype=mean.dtype)
        return mean + noise * (power * log_variance).exp()

    with pytest.raises(AssertionError):
        check_sample(wrong)


def test_full_samples_have_the_covariance():
    mean, scale = random(3), factor(d=3)
    z = hm.gaussian_sample_full(mean, scale, 200_000, generator=torch.Generator().manual_seed(0))
    assert largest_z(z, mean) < 5.5
    centred = z - mean
    products = centred[:, :, None] * centred[:, None, :]
    assert largest_z(products, scale @ scale.mT) < 5.5
    assert largest_z(products, scale.mT @ scale) > 5.5  # the transposed factor would be detected


def test_full_samples_of_a_diagonal_factor_are_the_diagonal_samples():
    mean, log_variance = random(2, 4, 3)
    first, second = torch.Generator().manual_seed(0), torch.Generator().manual_seed(0)
    torch.testing.assert_close(
        hm.gaussian_sample_full(mean, torch.diag_embed((log_variance / 2).exp()), 5, generator=first),
        hm.gaussian_sample(mean, log_variance, 5, generator=second),
    )


def test_gradients_go_through_the_sample():
    mean, log_variance = (t.clone().requires_grad_() for t in random(2, 4, 3))
    scale = factor(4, d=3).requires_grad_()
    z = hm.gaussian_sample(mean, log_variance, 5, generator=torch.Generator().manual_seed(0))
    for_mean, for_log_variance = torch.autograd.grad(z.sum(), [mean, log_variance])
    torch.testing.assert_close(for_mean, torch.full_like(mean, 5))
    torch.testing.assert_close(for_log_variance, ((z - mean) / 2).sum(0))

    def full(mean, scale):
        return hm.gaussian_sample_full(mean, scale, 5, generator=torch.Generator().manual_seed(0))

    assert gradcheck(full, [mean, scale])


@pytest.mark.parametrize("batch", [(), (4,), (2, 3), (0,)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_shapes_dtypes_and_generators(batch, dtype):
    mean, log_variance = random(2, *batch, 3).to(dtype)
    scale = factor(*batch, d=3).to(dtype)
    before = torch.get_rng_state()
    for sample, spread in [(hm.gaussian_sample, log_variance), (hm.gaussian_sample_full, scale)]:
        first, again, other = (
            sample(mean, spread, 7, generator=torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)
        )
        assert first.shape == (7, *batch, 3)
        assert first.dtype == dtype
        assert torch.equal(first, again)
        assert not torch.equal(first, other) or batch == (0,)
    assert hm.gaussian_kl(mean, log_variance).shape == batch
    assert hm.gaussian_kl(mean, log_variance).dtype == dtype
    assert hm.gaussian_kl_full(mean, scale).shape == batch
    for form in FORMS:
        first, again = (
            hm.gaussian_elbo(
                lambda z: -z.square().sum(-1),
                mean,
                log_variance,
                form=form,
                samples=2,
                generator=torch.Generator().manual_seed(1),
            )
            for _ in range(2)
        )
        assert first.value.shape == first.kl.shape == first.reconstruction.shape == batch
        assert first.z.shape == (2, *batch, 3)
        assert first.value.dtype == first.z.dtype == dtype
        assert torch.equal(first.value, again.value)
    assert torch.equal(torch.get_rng_state(), before)


def test_kl_is_the_mean_of_the_log_ratio():
    mean, log_variance, mean2, log_variance2 = random(4, 3)
    z = hm.gaussian_sample(mean, log_variance, 200_000, generator=torch.Generator().manual_seed(0))
    ratio = diagonal(mean, log_variance).log_prob(z) - diagonal(mean2, log_variance2).log_prob(z)
    assert largest_z(ratio, hm.gaussian_kl(mean, log_variance, mean2, log_variance2)) < 5.5

    scale, scale2 = factor(d=3), factor(d=3, seed=1)
    z = hm.gaussian_sample_full(mean, scale, 200_000, generator=torch.Generator().manual_seed(0))
    q, p = MultivariateNormal(mean, scale_tril=scale), MultivariateNormal(mean2, scale_tril=scale2)
    assert largest_z(q.log_prob(z) - p.log_prob(z), hm.gaussian_kl_full(mean, scale, mean2, scale2)) < 5.5


# ------------------------------------------------------------------------------------------- the bound
class Linear:
    """z ~ N(0, I), x = W z + b + noise of variance s2: a model whose quantities have closed forms.

    log p(x) = log N(x; b, W W^T + s2 I); the posterior is N(C W^T (x - b) / s2, C), C = (I + W^T W / s2)^-1;
    E_q[log p(x | z)] = log N(x; W mean + b, s2) - tr(W C_q W^T) / (2 s2) for q with covariance C_q.
    """

    def __init__(self, *, orthogonal=False, z=3, pixels=4, examples=2):
        weight = random(pixels, z, seed=1)
        self.weight = (torch.linalg.qr(weight)[0] * torch.arange(1, z + 1)) if orthogonal else weight
        self.bias, self.x, self.s2 = random(pixels, seed=2), random(examples, pixels, seed=3), 0.7
        self.decoder = torch.nn.Linear(z, pixels, dtype=torch.float64)
        with torch.no_grad():
            self.decoder.weight.copy_(self.weight)
            self.decoder.bias.copy_(self.bias)

    def likelihood(self, copies=None):
        x = self.x if copies is None else self.x.expand(copies, *self.x.shape)
        return hm.GaussianLikelihood(self.decoder, x, math.log(self.s2), batch_dims=x.dim() - 1)

    def log_evidence(self):
        eye = torch.eye(len(self.bias), dtype=torch.float64)
        return MultivariateNormal(self.bias, self.weight @ self.weight.mT + self.s2 * eye).log_prob(self.x)

    def posterior(self):
        eye = torch.eye(self.weight.shape[1], dtype=torch.float64)
        covariance = torch.linalg.inv(eye + self.weight.mT @ self.weight / self.s2)
        return (self.x - self.bias) @ self.weight @ covariance / self.s2, covariance

    def reconstruction(self, mean, covariance):
        log_density = Normal(mean @ self.weight.mT + self.bias, self.s2**0.5).log_prob(self.x).sum(-1)
        return log_density - (self.weight @ covariance @ self.weight.mT).diagonal(dim1=-2, dim2=-1).sum(-1) / (
            2 * self.s2
        )

    def bound(self, mean, log_variance):
        spread = self.reconstruction(mean, torch.diag_embed(log_variance.exp()))
        return spread - hm.gaussian_kl(mean, log_variance)


def test_the_bound_of_the_true_posterior_is_the_evidence():
    """The closed forms agree: a full covariance closes the gap, a diagonal one does not."""
    model = Linear()
    mean, covariance = model.posterior()
    scale = torch.linalg.cholesky(covariance).expand(2, 3, 3)
    full = model.reconstruction(mean, covariance) - hm.gaussian_kl_full(mean, scale)
    torch.testing.assert_close(full, model.log_evidence(), rtol=1e-12, atol=1e-12)
    best = (-torch.linalg.inv(covariance).diagonal().log()).expand(2, 3)  # the best variances of a diagonal q
    assert (model.bound(mean, best) < model.log_evidence() - 1e-3).all()


def check_bound(elbo, samples=1, draws=100_000):
    """Assert that the means of value and gradient of a sampled bound are exact."""
    model, generator = Linear(), torch.Generator().manual_seed(0)
    mean, log_variance = random(2, 2, 3)
    leaves = [t.clone().requires_grad_() for t in (mean, log_variance)]
    exact = model.bound(*leaves)
    exact_gradients = torch.autograd.grad(exact.sum(), leaves)
    batch = [t.expand(draws, 2, 3).clone().requires_grad_() for t in (mean, log_variance)]
    value = elbo(model.likelihood(draws), *batch, samples=samples, generator=generator)
    gradients = torch.autograd.grad(value.sum(), batch)
    assert largest_z(value.detach(), exact.detach()) < 5.5
    for estimates, expected in zip(gradients, exact_gradients, strict=True):
        assert largest_z(estimates, expected) < 5.5
    return value.detach().std(0), gradients


@pytest.mark.parametrize("samples", [1, 3])
@pytest.mark.parametrize("form", FORMS)
def test_both_forms_are_unbiased(form, samples):
    check_bound(lambda *a, **k: hm.gaussian_elbo(*a, form=form, **k).value, samples)


@pytest.mark.parametrize("form", FORMS)
def test_samples_are_averaged(form):
    """S samples divide the variance by S."""
    one, three = (
        check_bound(lambda *a, **k: hm.gaussian_elbo(*a, form=form, **k).value, samples)[0] for samples in (1, 3)
    )
    torch.testing.assert_close(one.square() / three.square(), torch.full_like(one, 3.0), rtol=0.05, atol=0)


def wrong_sign(likelihood, mean, log_variance, **kwargs):
    out = hm.gaussian_elbo(likelihood, mean, log_variance, **kwargs)
    return out.value + 2 * hm.gaussian_kl(mean, log_variance)  # the published -KL in place of the KL


def forgotten_density(likelihood, mean, log_variance, **kwargs):
    """The joint-contrastive form with log q held fixed: the gradient of the entropy is missing."""
    out = hm.gaussian_elbo(likelihood, mean, log_variance, form="joint-contrastive", **kwargs)
    entropy = log_variance.sum(-1) / 2
    return out.value - (entropy - entropy.detach())


def cut_sample(likelihood, mean, log_variance, **kwargs):
    """z without its gradient."""
    out = hm.gaussian_elbo(lambda z: likelihood(z.detach()), mean, log_variance, **kwargs)
    return out.value


@pytest.mark.parametrize("wrong", [wrong_sign, forgotten_density, cut_sample])
def test_wrong_bounds_are_detected(wrong):
    with pytest.raises(AssertionError):
        check_bound(wrong)


@pytest.mark.parametrize("form", FORMS)
def test_terms_and_costs(form):
    model = Linear()
    mean, log_variance = (t.clone().requires_grad_() for t in random(2, 2, 3))
    generator = torch.Generator().manual_seed(0)
    out = hm.gaussian_elbo(model.likelihood(), mean, log_variance, form=form, samples=4, generator=generator)
    assert isinstance(out, hm.Elbo)
    assert (out.evaluations, out.solves, out.auxiliary) == (4.0, 0.0, None)
    assert not any(t.requires_grad for t in (out.z, out.reconstruction, out.kl))
    z = hm.gaussian_sample(mean, log_variance, 4, generator=torch.Generator().manual_seed(0))
    assert torch.equal(out.z, z)
    torch.testing.assert_close(out.reconstruction, model.likelihood()(z).mean(0))
    torch.testing.assert_close(out.value, out.reconstruction - out.kl)
    if form == "prior-contrastive":
        torch.testing.assert_close(out.kl, hm.gaussian_kl(mean, log_variance))
    else:
        standard = diagonal(torch.zeros_like(mean), torch.zeros_like(mean))
        ratio = diagonal(mean, log_variance).log_prob(z) - standard.log_prob(z)
        torch.testing.assert_close(out.kl, ratio.mean(0))
    weight = model.decoder.weight
    torch.testing.assert_close(
        torch.autograd.grad(out.value.sum(), weight), torch.autograd.grad(model.likelihood()(z).mean(0).sum(), weight)
    )


def test_the_joint_form_has_no_variance_at_the_posterior():
    """With orthogonal columns the posterior is diagonal: then log p(x, z) - log q(z) is log p(x), whatever z is."""
    model = Linear(orthogonal=True)
    mean, covariance = model.posterior()
    log_variance = covariance.diagonal().log().expand(2, 3)
    torch.testing.assert_close(torch.diag_embed(log_variance.exp())[0], covariance)
    values = {
        form: hm.gaussian_elbo(
            model.likelihood(500),
            mean.expand(500, 2, 3),
            log_variance.expand(500, 2, 3),
            form=form,
            generator=torch.Generator().manual_seed(0),
        ).value
        for form in FORMS
    }
    evidence = model.log_evidence().expand(500, 2)
    torch.testing.assert_close(values["joint-contrastive"], evidence, rtol=1e-12, atol=1e-12)
    assert (values["prior-contrastive"].std(0) > 0.1).all()
    assert largest_z(values["prior-contrastive"], evidence[0]) < 5.5


def test_full_covariance_reaches_the_evidence():
    """Descent on the sampled bound of a full Gaussian, as a user would write it, ends at log p(x)."""
    model, generator = Linear(examples=1), torch.Generator().manual_seed(0)
    mean = torch.zeros(1, 3, dtype=torch.float64, requires_grad=True)
    raw = torch.zeros(1, 3, 3, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([mean, raw], lr=0.03)

    def scale():
        return raw.tril(-1) + torch.diag_embed(raw.diagonal(dim1=-2, dim2=-1).exp())

    for _ in range(600):
        z = hm.gaussian_sample_full(mean, scale(), 16, generator=generator)
        bound = model.likelihood()(z).mean(0) - hm.gaussian_kl_full(mean, scale())
        optimizer.zero_grad()
        (-bound.sum()).backward()
        optimizer.step()
    with torch.no_grad():
        covariance = scale() @ scale().mT
        bound = model.reconstruction(mean, covariance) - hm.gaussian_kl_full(mean, scale())
    gap = (model.log_evidence() - bound).item()
    assert 0 <= gap < 0.05
    diagonal_gap = model.log_evidence() - model.bound(
        model.posterior()[0], -torch.linalg.inv(model.posterior()[1]).diagonal().log()[None]
    )
    assert diagonal_gap.item() > 0.1  # no diagonal q closes the gap


def test_bernoulli_likelihood_trains_encoder_and_decoder():
    torch.manual_seed(0)
    encoder, decoder = torch.nn.Linear(6, 4), torch.nn.Linear(2, 6)
    x = torch.rand(2, 5, 6).round()
    mean, log_variance = encoder(x).chunk(2, -1)
    out = hm.gaussian_elbo(hm.BernoulliLikelihood(decoder, x, batch_dims=2), mean, log_variance, samples=3)
    assert out.value.shape == (2, 5)
    out.value.sum().backward()
    assert encoder.weight.grad.abs().sum() > 0
    assert decoder.weight.grad.abs().sum() > 0


# ------------------------------------------------------------------------------------------- invalid values
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("which", ["mean", "log_variance"])
def test_parameters_that_are_not_finite(which, bad):
    arguments = {"mean": torch.zeros(4, 3), "log_variance": torch.zeros(4, 3)}
    arguments[which][2, 1] = bad
    with pytest.raises(hm.ArgumentError, match=rf"{which} must be finite.*\[2, 1\].*1 of 12"):
        hm.gaussian_elbo(pytest.fail, **arguments)
    out = hm.gaussian_elbo(lambda z: z.sum(-1), **arguments, validate=False)
    assert not out.value[2].isfinite()


def test_nan_of_the_likelihood_names_the_example():
    worth = torch.ones(2, 4)
    worth[1, 3] = float("nan")
    with pytest.raises(hm.ArgumentError, match=r"nan for example \[1, 3\]"):
        hm.gaussian_elbo(lambda z: z.sum(-1) * worth, torch.zeros(2, 4, 3), torch.zeros(2, 4, 3), samples=2)


def test_arguments():
    zero = torch.zeros(4, 3)
    with pytest.raises(hm.ArgumentError, match=r"samples.*at least 1.*0"):
        hm.gaussian_sample(zero, zero, 0)
    with pytest.raises(hm.ArgumentError, match="samples"):
        hm.gaussian_elbo(pytest.fail, zero, zero, samples=0)
    with pytest.raises(hm.ShapeError, match=r"\[2, 4\].*\[2, 4, 3\].*pixels only"):
        hm.gaussian_elbo(lambda z: z, zero, zero, samples=2)
    with pytest.raises(hm.DtypeError, match="int64"):
        hm.gaussian_elbo(lambda z: z.sum(-1).long(), zero, zero)
    with pytest.raises(hm.ShapeError, match=r"mean2.*\[2\].*\[4, 3\]"):
        hm.gaussian_kl(zero, zero, torch.zeros(2))
    with pytest.raises(hm.ShapeError, match=r"scale_tril2.*\[2, 2\].*\[4, 3, 3\]"):
        hm.gaussian_kl_full(zero, torch.eye(3).expand(4, 3, 3), None, torch.eye(2))
    negative = torch.diag(torch.tensor([1.0, -1.0, 1.0])).expand(4, 3, 3)
    with pytest.raises(hm.ArgumentError, match=r"diagonal of scale_tril must be positive.*-1.0 at index \[0, 1\]"):
        hm.gaussian_kl_full(zero, negative)
    with pytest.raises(hm.ArgumentError, match="diagonal of scale_tril2"):
        hm.gaussian_kl_full(zero, negative.abs() + torch.eye(3), None, negative)


# ------------------------------------------------------------------------------------------- the example of the slides
PROGRAM = runpy.run_path(str(EXAMPLES / "score_function_versus_reparameterization.py"))


@pytest.mark.parametrize("name", ["score_function", "reparameterization"])
@pytest.mark.parametrize("theta", [-2.0, -1.5, 0.0])
def test_gradients_of_the_example_have_the_closed_mean_and_variance(name, theta):
    """z-tests of the mean and of the variance, the latter by the spread of the squares."""
    method, m = PROGRAM[name], PROGRAM["A"] * theta + PROGRAM["B"]
    estimates = PROGRAM["gradients"](method, theta, 1_000_000, torch.Generator().manual_seed(0))
    mean, variance = 2 * PROGRAM["A"] * m, PROGRAM["variance"](method, m)
    assert largest_z(estimates, mean) < 5.5
    squares = (estimates - mean).square()
    assert largest_z(squares, variance) < 5.5
    assert largest_z(squares, 1.1 * variance) > 5.5  # a tenth more would be detected
