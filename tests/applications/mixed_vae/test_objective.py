"""Discrete and Gaussian latents together: how they join, the terms of the bound, and the bounds by quadrature."""

import math

import pytest
import torch
from mixed_models import JOINS, Small, largest_z
from torch.distributions import Normal

import hardmax as hm
from hardmax.applications.mixed_vae import (
    GaussianRows,
    MixedObjective,
    SharedGaussian,
    exact_mixed_bounds,
    mixed_elbo,
    sampled_mixed_bounds,
)

MORE_JOINS = [
    *JOINS,
    GaussianRows(hm.Categorical(2, 3), 1),
    GaussianRows(hm.PairwiseBinary(3), 2),
    SharedGaussian(hm.Permutation(3), 2),
    GaussianRows(hm.Chain(2, 3), 1),
]


# --------------------------------------------------------------------------------------------------------------- joins
class TestJoins:
    def test_rows(self):
        join = GaussianRows(hm.Binary(2), 2)
        assert (join.rows, join.width) == (4, 8)
        z_c = torch.arange(1.0, 9.0).view(4, 2)  # the rows of z = 00, then those of z = 11
        assert join.join(torch.tensor([0.0, 1.0]), z_c).tolist() == [1, 2, 0, 0, 0, 0, 7, 8]
        assert join.sum_used_rows(torch.tensor([0.0, 1.0]), torch.tensor([1.0, 10.0, 100.0, 1000.0])) == 1001

    def test_beside(self):
        join = SharedGaussian(hm.Categorical(3), 2)
        assert (join.rows, join.width) == (1, 5)
        z = torch.eye(3)
        assert join.join(z, torch.tensor([[7.0, 8.0]])).tolist() == [[1, 0, 0, 7, 8], [0, 1, 0, 7, 8], [0, 0, 1, 7, 8]]
        assert join.sum_used_rows(z, torch.tensor([5.0])).tolist() == [5, 5, 5]

    @pytest.mark.parametrize("join", MORE_JOINS, ids=str)
    @pytest.mark.parametrize("batch", [(), (4,), (2, 3), (0,)], ids=str)
    def test_shapes(self, join, batch):
        z = join.space.enumerate()
        z = z.view(len(z), *(1 for _ in batch), *join.space.event_shape)
        z = z.expand(-1, *batch, *join.space.event_shape)
        assert join.join(z, torch.zeros(*batch, join.rows, join.c)).shape == (len(z), *batch, join.width)
        assert join.sum_used_rows(z, torch.zeros(*batch, join.rows)).shape == (len(z), *batch)

    @pytest.mark.parametrize("join", MORE_JOINS, ids=str)
    def test_used_at_the_mean_is_the_mean(self, join):
        z, per_row = join.space.enumerate(dtype=torch.float64), torch.randn(join.rows, dtype=torch.float64)
        torch.testing.assert_close(join.sum_used_rows(z.mean(0), per_row), join.sum_used_rows(z, per_row).mean())

    @pytest.mark.parametrize("join", MORE_JOINS, ids=str)
    def test_draws_of_the_prior(self, join):
        """For every z, the Gaussians in the decoder's input are standard normal and independent."""
        count = 20_000
        z_c = join.sample_prior(count, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        assert z_c.shape == (count, join.rows, join.c)
        for z in join.space.enumerate(dtype=torch.float64):
            gaussians = join.join(z.expand(count, *z.shape), z_c)
            gaussians = gaussians[:, (gaussians != 0).any(0) & (gaussians != 1).any(0)]
            assert gaussians.shape[1] == (
                join.c if isinstance(join, SharedGaussian) else int(join.weights(z).sum()) * join.c
            )
            products = (gaussians[:, :, None] * gaussians[:, None]).flatten(1)
            assert largest_z(gaussians, torch.zeros(gaussians.shape[1])) < 5.5
            assert largest_z(products, torch.eye(gaussians.shape[1]).flatten()) < 5.5

    def test_values_of_z_share_draws_of_the_prior(self):
        rows = GaussianRows(hm.Categorical(3), 2).sample_prior(5)
        assert (rows == rows[:, :1]).all()
        rows = GaussianRows(hm.Binary(3), 2).sample_prior(5)
        assert torch.equal(rows[:, :3], rows[:, 3:])
        assert not torch.equal(rows[:, 0], rows[:, 1])

    def test_used_is_deprecated(self):
        join, z = SharedGaussian(hm.Categorical(3), 2), torch.eye(3)
        with pytest.warns(DeprecationWarning, match=r"use SharedGaussian\.sum_used_rows"):
            assert join.used(z, torch.tensor([5.0])).tolist() == [5, 5, 5]

    def test_no_dimensions(self):
        for join in (GaussianRows, SharedGaussian):
            with pytest.raises(hm.ArgumentError, match=r"at least one continuous dimension.*c=0"):
                join(hm.Binary(2), 0)


# ----------------------------------------------------------------------------------------------------------- objective
@pytest.mark.parametrize("join", JOINS, ids=str)
def test_rows_agree_with_a_call(join):
    model = Small(join)
    noise = torch.randn(2, 3, join.rows, join.c, dtype=torch.float64)
    f = model.objective(2, 3, noise=noise)
    z = join.space.sample(torch.zeros(2, 3, *join.space.score_shape, dtype=torch.float64), 4)
    index = torch.tensor([5, 0, 0, 3])
    chosen = z.flatten(1, 2)[[0, 1, 2, 3], index]
    torch.testing.assert_close(f.rows(chosen, index), f(z).flatten(1)[[0, 1, 2, 3], index])


def test_noise():
    model = Small(JOINS[0])
    first, again, other = (model.objective(4, generator=torch.Generator().manual_seed(s)) for s in (0, 0, 1))
    assert torch.equal(first.z_c, again.z_c)
    assert not torch.equal(first.z_c, other.z_c)
    assert len(first.noise.unique()) == first.noise.numel()  # different for each example, row and dimension


def test_gaussians_that_do_not_fit():
    join, likelihood = (
        GaussianRows(hm.Categorical(3), 2),
        hm.BernoulliLikelihood(torch.nn.Linear(6, 5), torch.ones(4, 5)),
    )
    good, bad = torch.zeros(4, 3, 2), torch.zeros(4, 1, 2)
    for mean, log_variance, noise, name in (
        (bad, good, good, "mean"),
        (good, bad, good, "log_variance"),
        (good, good, bad, "noise"),
    ):
        with pytest.raises(hm.ShapeError, match=rf"^{name} has shape \[4, 1, 2\].*need \[4, 3, 2\]"):
            MixedObjective(likelihood, join, mean, log_variance, noise=noise)


@pytest.mark.parametrize(
    "estimator",
    [hm.Exact(), hm.Direct(0.3), hm.LocalExpectation(), hm.Reinforce("leave-one-out"), hm.GumbelSoftmax(0.5), "auto"],
    ids=str,
)
@pytest.mark.parametrize("kl", ["auto", "beside", "none"])
@pytest.mark.parametrize("join", JOINS, ids=str)
def test_terms(join, kl, estimator):
    """The value is reconstruction - kl, and the KL is that of both latents for any samples."""
    model = Small(join)
    f, scores = model.objective(2, 3), model.scores.expand(2, 3, *model.scores.shape)
    out = mixed_elbo(f, scores, estimator, prior=model.prior, kl=kl, samples=3)
    assert out.z.shape == (3, 2, 3, *join.space.event_shape)
    assert not out.kl.requires_grad
    assert not out.reconstruction.requires_grad
    torch.testing.assert_close(out.value.detach(), out.reconstruction - out.kl)
    gaussians = torch.stack([model.gaussian_kl(z) for z in model.members])
    expected = (model.log_q().exp() * (model.log_q() - model.log_p() + gaussians)).sum()
    torch.testing.assert_close(out.kl, expected.detach().expand(2, 3))
    if estimator == hm.Exact():
        likelihood = model.values() + gaussians
        torch.testing.assert_close(out.reconstruction, (model.log_q().exp() * likelihood).sum().detach().expand(2, 3))


def test_terms_of_a_structured_space():
    """The KL of the Gaussians is evaluated at the samples."""
    model = Small(GaussianRows(hm.PairwiseBinary(3), 2))
    scores = model.scores.expand(4, *model.scores.shape)
    out = mixed_elbo(model.objective(4), scores, samples=5)
    torch.testing.assert_close(out.value.detach(), out.reconstruction - out.kl)
    torch.testing.assert_close(out.reconstruction, model.objective(4).reconstruction(out.z).mean(0).detach())


def test_auto_goes_backward_through_one_category():
    rows = []

    class Decoder(torch.nn.Linear):
        def forward(self, z):
            rows.append((len(z), torch.is_grad_enabled()))
            return super().forward(z)

    join = GaussianRows(hm.Categorical(10), 2)
    likelihood = hm.BernoulliLikelihood(Decoder(20, 5), torch.zeros(4, 5))
    f = MixedObjective(likelihood, join, torch.zeros(4, 10, 2), torch.zeros(4, 10, 2))
    mixed_elbo(f, torch.zeros(4, 10))
    assert rows == [(40, False), (4, True)]


# --------------------------------------------------------------------------------------- KL and bounds, by integration
def check_kl(model, join=None):
    """Compare the KL with the mean of log q - log p over samples of both latents, from the definitions."""
    generator = torch.Generator().manual_seed(0)
    draws = 100_000
    z = torch.multinomial(model.log_q().exp(), draws, replacement=True, generator=generator)
    noise = torch.randn(draws, *model.mean.shape, generator=generator, dtype=torch.float64)
    z_c = model.mean + noise * (model.log_variance / 2).exp()
    ratio = (model.log_q() - model.log_p())[z]
    for index, member in enumerate(model.members):
        for row in model.used_rows(member):
            log_ratio = model.posterior(row).log_prob(z_c[:, row]) - Normal(0.0, 1.0).log_prob(z_c[:, row])
            ratio = ratio + (z == index) * log_ratio.sum(-1)
    kl = mixed_elbo(model.objective(join=join), model.scores, hm.Exact(), prior=model.prior).kl
    z = largest_z(ratio.detach(), kl)
    assert z < 5.5, f"|z| = {z:.1f}"


GRID = torch.linspace(-9, 9, 361, dtype=torch.float64)


def integrate(model):
    """Return log p(x), the bound and log p(x, z) of each z, by quadrature; c is 1 and z uses at most two rows."""
    step, log_joint, terms = GRID[1] - GRID[0], [], []
    for z in model.members:
        rows = model.used_rows(z)
        places = torch.cartesian_prod(*[GRID] * len(rows)).view(-1, len(rows))

        def log_likelihood(at, z=z, rows=rows):
            z_c = torch.zeros(len(at), model.join.rows, 1, dtype=torch.float64)
            z_c[:, rows, 0] = at
            return model.log_likelihood(z, z_c).detach()

        volume = len(rows) * math.log(step)
        prior = Normal(0.0, 1.0).log_prob(places).sum(-1)
        log_joint.append((log_likelihood(places) + prior + volume).logsumexp(0))
        deviation = (model.log_variance[rows, 0] / 2).exp().detach()
        values = log_likelihood(model.mean[rows, 0].detach() + deviation * places)
        terms.append(((prior + volume).exp() * values).sum() - model.gaussian_kl(z).detach())
    log_joint, terms, log_q = (
        torch.stack(log_joint) + model.log_p().detach(),
        torch.stack(terms),
        model.log_q().detach(),
    )
    return log_joint.logsumexp(0), (log_q.exp() * (terms + model.log_p().detach() - log_q)).sum(), log_joint


def small_with_one_dimension(join):
    model = Small(join)
    with torch.no_grad():  # q must not be much narrower than the prior, or importance weights have no variance
        model.log_variance.mul_(0.2)
    return model


def check_bounds(model, bounds, join=None, samples=1, draws=50_000):
    """Compare sampled bounds with quadrature: the bound, and p(x), of which importance weights are unbiased."""
    log_likelihood, elbo, _ = integrate(model)
    batch = [t.detach().expand(draws, *t.shape) for t in (model.scores, model.mean, model.log_variance)]
    likelihood = hm.BernoulliLikelihood(model.decoder, model.x.expand(draws, 5))
    with torch.no_grad():
        result = bounds(
            likelihood,
            join or model.join,
            *batch,
            samples=samples,
            prior=model.prior,
            generator=torch.Generator().manual_seed(0),
        )
    torch.testing.assert_close(result.elbo, result.reconstruction - result.kl)
    pairs = ("elbo", result.elbo, elbo), ("p(x)", result.log_likelihood.exp(), log_likelihood.exp())
    for name, values, exact in pairs:
        z = largest_z(values, exact)
        assert z < 5.5, f"{name}: |z| = {z:.1f}, mean {values.mean()}, by quadrature {exact}"
    return result


ONE_DIMENSION = [
    GaussianRows(hm.Categorical(2), 1),
    GaussianRows(hm.Binary(2), 1),
    SharedGaussian(hm.Categorical(2), 1),
    SharedGaussian(hm.Binary(2), 1),
]


@pytest.mark.parametrize("join", JOINS, ids=str)
def test_kl_against_monte_carlo(join):
    check_kl(Small(join))


@pytest.mark.parametrize("samples", [1, 3])
@pytest.mark.parametrize("bounds", [exact_mixed_bounds, sampled_mixed_bounds])
@pytest.mark.parametrize("join", ONE_DIMENSION, ids=str)
def test_bounds_against_quadrature(join, bounds, samples):
    check_bounds(small_with_one_dimension(join), bounds, samples=samples)


@pytest.mark.parametrize("join", ONE_DIMENSION, ids=str)
def test_many_samples_approach_log_p(join):
    model = small_with_one_dimension(join)
    log_likelihood, elbo, _ = integrate(model)
    assert elbo < log_likelihood
    few = check_bounds(model, exact_mixed_bounds, samples=1, draws=20_000).log_likelihood.mean()
    many = check_bounds(model, exact_mixed_bounds, samples=500, draws=20)
    assert (many.elbo < many.log_likelihood).all()
    assert elbo < few < log_likelihood - 0.02
    assert (many.log_likelihood.mean() - log_likelihood).abs() < 0.05


def test_bounds_of_a_batch_in_chunks():
    model = Small(GaussianRows(hm.Binary(3), 2))
    batch = [t.detach().expand(2, 3, *t.shape) for t in (model.scores, model.mean, model.log_variance)]
    likelihood = hm.BernoulliLikelihood(model.decoder, model.x.expand(2, 3, 5), batch_dims=2)
    at_once, chunks = (
        exact_mixed_bounds(
            likelihood, model.join, *batch, samples=4, generator=torch.Generator().manual_seed(0), chunk_size=size
        )
        for size in (None, 3)
    )
    assert at_once.elbo.shape == (2, 3)
    torch.testing.assert_close(vars(at_once), vars(chunks))


# ------------------------------------------------------------------------------------------------------- planted errors
def make_broken(join, **methods):
    """Return the join with a method replaced, in a subclass that is made at run time."""
    return type("Broken", (type(join),), methods)(join.space, join.c)


WRONG = {
    "KL of the wrong row": lambda self, z, per_row: type(self).__bases__[0].sum_used_rows(self, z, per_row.roll(1, -1)),
    "KL forgotten": lambda self, z, per_row: 0 * type(self).__bases__[0].sum_used_rows(self, z, per_row),
    "KL of all rows": lambda self, z, per_row: per_row.sum(-1).expand(z.shape[: z.dim() - 1]),
}


class TestPlantedErrors:
    """Each check above must fail on a planted error."""

    @pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
    @pytest.mark.parametrize("join", JOINS[:2], ids=str)
    def test_in_the_kl(self, join, wrong):
        model, bad = Small(join), make_broken(join, sum_used_rows=wrong)
        with pytest.raises(AssertionError):
            check_kl(model, bad)
        with pytest.raises(AssertionError):
            torch.testing.assert_close(model.objective(join=bad)(model.members), model.values())

    @pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
    @pytest.mark.parametrize("bounds", [exact_mixed_bounds, sampled_mixed_bounds])
    def test_in_the_bounds(self, bounds, wrong):
        model = small_with_one_dimension(GaussianRows(hm.Binary(2), 1))
        with pytest.raises(AssertionError, match="quadrature"):
            check_bounds(model, bounds, make_broken(model.join, sum_used_rows=wrong))

    def test_forgotten_beside(self):
        model = Small(JOINS[2])
        with pytest.raises(AssertionError):
            check_kl(model, make_broken(model.join, sum_used_rows=WRONG["KL forgotten"]))

    def test_noise_shared_between_rows(self, monkeypatch):
        """Rows that are used together must have independent noise."""
        model = small_with_one_dimension(GaussianRows(hm.Binary(2), 1))
        randn = torch.randn
        shared = lambda shape, **options: randn((*shape[:-2], 1, shape[-1]), **options).expand(shape)  # noqa: E731
        monkeypatch.setattr(torch, "randn", shared)
        with pytest.raises(AssertionError, match="quadrature"):
            check_bounds(model, exact_mixed_bounds)
