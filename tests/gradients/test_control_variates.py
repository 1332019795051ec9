"""REBAR, RELAX and debiased Direct: unbiased with any control variate, with less variance for a good one."""

import pytest
import torch
from cases import SMALL_SPACES

import hardmax as hm
from hardmax.estimators import control_variates as conditioning
from hardmax.estimators import control_variates as debiased_direct
from hardmax.spaces import AbstractFactorised
from hardmax.testing import assert_unbiased


def network(perturbed):
    """A control variate with no relation to f."""
    return 2 * torch.tanh(perturbed).flatten(1 if perturbed.dim() < 3 else 2).sum(-1)


def moments(estimator, space, f, samples=1, draws=20_000):
    """Return the mean and the total variance of the gradient."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(space.score_shape, generator=generator, dtype=torch.float64)
    copies = scores.expand(draws, *scores.shape).clone().requires_grad_()
    hm.expectation(f, copies, space, estimator, samples=samples, generator=generator).value.sum().backward()
    return copies.grad.mean(0), float(copies.grad.var(0).sum())


@pytest.mark.parametrize("samples", [1, 2])
@pytest.mark.parametrize("space", SMALL_SPACES, ids=str)
@pytest.mark.parametrize(
    "estimator",
    [hm.Rebar(0.5), hm.Rebar(1.0, scale=0.3), hm.Relax(network), hm.Relax(network, hm.Rebar(0.5))],
    ids=["rebar", "rebar-weak", "relax", "relax-rebar"],
)
def test_unbiased(estimator, space, samples):
    assert_unbiased(estimator, space, samples=samples, draws=50_000, resolution=0.4)


@pytest.mark.parametrize("space", SMALL_SPACES, ids=str)
@pytest.mark.parametrize(("epsilon", "draws"), [(1.0, 1), (0.3, 3)])
def test_debiased_direct_is_unbiased(space, epsilon, draws):
    assert_unbiased(hm.DebiasedDirect(epsilon, draws), space, draws=100_000, resolution=0.4)


@pytest.mark.parametrize("space", [hm.Binary(3), hm.Categorical(3, 2)], ids=str)
def test_direct_itself_is_biased(space):
    with pytest.raises(AssertionError, match="biased"):
        assert_unbiased(hm.Direct(1.0, two_sided=True), space, draws=100_000, resolution=0.4)


@pytest.mark.parametrize("error", ["no-condition", "no-path", "half-residue"])
@pytest.mark.parametrize("space", [hm.Binary(3), hm.Categorical(3, 2)], ids=str)
def test_planted_errors_are_caught(monkeypatch, space, error):
    right = conditioning.estimate_conditioned_gradient

    def wrong(scores, space, noise, z, residue, slope):
        if error == "half-residue":
            return right(scores, space, noise, z, residue / 2, slope)
        nothing = torch.zeros_like(slope)
        path = 0 if error == "no-path" else slope.mean(0)
        given = 0 if error == "no-condition" else right(scores, space, noise, z, 0 * residue, slope) - slope.mean(0)
        return right(scores, space, noise, z, residue, nothing) + path + given

    monkeypatch.setattr(debiased_direct, "estimate_conditioned_gradient", wrong)
    with pytest.raises(AssertionError, match="biased"):
        assert_unbiased(hm.DebiasedDirect(1.0, 4), space, draws=60_000, resolution=0.4)


@pytest.mark.parametrize("space", SMALL_SPACES, ids=str)
def test_conditional_inverts_residual(space):
    generator = torch.Generator().manual_seed(0)
    scores = 3 * torch.randn(4, *space.score_shape, generator=generator, dtype=torch.float64)
    noise = space.noise((2_000, 4), generator=generator, dtype=torch.float64)
    z = space.draw(scores, noise)
    residual = space.residual(scores, noise, z)
    torch.testing.assert_close(space.conditional(scores, residual, z), space.perturb(scores, noise))
    # The residual is independent of z and distributed as noise, so new noise in its place has the same arg max.
    new_noise = space.noise((2_000, 4), generator=generator, dtype=torch.float64)
    assert torch.equal(space.draw(torch.zeros_like(scores), space.conditional(scores, new_noise, z)), z)
    for value in (0.0, 1.0):
        subset = residual[z == value]
        if len(subset) > 100:
            error = noise.std() / len(subset) ** 0.5
            assert abs(float(subset.mean() - noise.mean())) < 6 * error


@pytest.mark.parametrize("space", [hm.Categorical(1), hm.Categorical(4), hm.Categorical(40, 3)], ids=str)
def test_slope_without_conditional_in_closed_form_equals_automatic_derivative(space):
    generator = torch.Generator().manual_seed(0)
    scores = 3 * torch.randn(7, *space.score_shape, generator=generator, dtype=torch.float64)
    noise = space.noise((6, 7), generator=generator, dtype=torch.float64)
    z, slope = space.draw(scores, noise), torch.randn(noise.shape, generator=generator, dtype=torch.float64)
    expected = AbstractFactorised.deduct_conditional(space, scores, noise, z, slope)
    torch.testing.assert_close(space.deduct_conditional(scores, noise, z, slope), expected)


@pytest.mark.parametrize("space", [hm.Binary(3), hm.Categorical(4)], ids=str)
def test_antithetic_noise_has_the_same_distribution(space):
    noise = space.noise((40_000,), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    other = space.antithetic(noise)
    torch.testing.assert_close(space.antithetic(other), noise)
    rank = noise.flatten().sort().values, other.flatten().sort().values
    gap = (torch.searchsorted(*rank) - torch.arange(len(rank[0]))).abs().max() / len(rank[0])
    assert gap < 2.5 * (2 / len(rank[0])) ** 0.5  # Kolmogorov-Smirnov, level 1e-5
    assert torch.corrcoef(torch.stack([noise.flatten(), other.flatten()]))[0, 1] < -0.8


@pytest.mark.parametrize("space", [hm.Binary(20), hm.Categorical(4, 3)], ids=str)
def test_a_control_variate_pays(space):
    """With two evaluations each, the variance of REBAR is well below that of leave-one-out."""
    generator = torch.Generator().manual_seed(0)
    inner = torch.randn(*space.event_shape, 30, generator=generator, dtype=torch.float64)
    outer = torch.randn(30, generator=generator, dtype=torch.float64)
    f = lambda z: torch.tanh(torch.tensordot(z, inner, len(space.event_shape)) / 2) @ outer  # noqa: E731
    _, rebar = moments(hm.Rebar(0.5), space, f)
    _, reinforce = moments(hm.Reinforce("leave-one-out"), space, f, samples=2)
    assert rebar < 0.7 * reinforce


def test_many_draws_come_to_the_local_expectation():
    """The variance of debiased Direct falls with the draws towards that of local expectation, never below."""
    space = hm.Categorical(3, 2)
    f = lambda z: torch.tanh(z.flatten(-2) @ torch.arange(6.0, dtype=torch.float64) - 4)  # noqa: E731
    _, few = moments(hm.DebiasedDirect(2.0, 1), space, f)
    _, many = moments(hm.DebiasedDirect(2.0, 32), space, f, draws=8_000)
    _, limit = moments(hm.LocalExpectation(), space, f)
    assert limit < many < few
    assert many - limit < 0.15 * (few - limit)


def test_auxiliary_lowers_the_variance_and_touches_nothing_else():
    space, weight = hm.Binary(4), torch.tensor(0.45, requires_grad=True)
    f = lambda z: (z - weight).square().sum(-1) * 3  # noqa: E731
    estimator = hm.Rebar(tau=2.0, scale=-1.0, learned=True)
    scores = torch.zeros(256, 4, requires_grad=True)
    generator = torch.Generator().manual_seed(0)
    out = hm.expectation(f, scores, space, estimator, generator=generator)
    assert out.auxiliary is not None
    first = out.auxiliary.item()
    out.auxiliary.backward()
    assert weight.grad is None
    assert scores.grad is None
    assert all(parameter.grad is not None for parameter in estimator.parameters())
    optimizer = torch.optim.Adam(estimator.parameters(), lr=0.05)
    for _ in range(150):
        out = hm.expectation(f, scores, space, estimator, generator=generator)
        optimizer.zero_grad()
        out.auxiliary.backward()
        optimizer.step()
    assert out.auxiliary.item() < 0.2 * first
    assert hm.expectation(f, scores, space, hm.Rebar()).auxiliary is None


def test_auxiliary_gradient_is_that_of_the_squared_gradient():
    """Against central differences, for the temperature and the scale."""
    space = hm.Categorical(3, 2)
    f = lambda z: (z.flatten(-2) * torch.arange(6.0, dtype=torch.float64)).sum(-1).sin()  # noqa: E731
    scores = torch.randn(5, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    scores = torch.stack([scores, -scores], -2).requires_grad_()
    noise = space.noise((1, 5), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    estimator = hm.Rebar(tau=0.7, scale=0.8, learned=True)
    hm.expectation(f, scores, space, estimator, noise=noise).auxiliary.backward()

    def square(log_tau, scale):
        tau = float(torch.tensor(log_tau, dtype=torch.float64).exp())
        value = hm.expectation(f, scores, space, hm.Rebar(tau, scale), noise=noise).value.sum()
        return float(torch.autograd.grad(value, scores)[0].square().sum()) / 5

    log_tau, step = float(torch.tensor(0.7).log()), 1e-3
    estimates = [parameter.grad.item() for parameter in estimator.parameters()]
    expected = [
        (square(log_tau + step, 0.8) - square(log_tau - step, 0.8)) / (2 * step),
        (square(log_tau, 0.8 + step) - square(log_tau, 0.8 - step)) / (2 * step),
    ]
    torch.testing.assert_close(torch.tensor(estimates), torch.tensor(expected), rtol=2e-3, atol=1e-4)


def test_structured_spaces_are_refused():
    scores = torch.zeros(6)
    for estimator in (hm.Rebar(), hm.Relax(network), hm.DebiasedDirect()):
        with pytest.raises(hm.NotExactError, match="independent"):
            hm.expectation(lambda z: z.sum(-1), scores, hm.PairwiseBinary(3), estimator)
