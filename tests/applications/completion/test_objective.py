"""Mixtures of Gaussians against torch.distributions, quadrature and Monte Carlo; and the max-operation loss."""

import pytest
import torch
from mixed_models import largest_z
from torch.distributions import Categorical, Independent, MixtureSameFamily, Normal, kl_divergence

import hardmax as hm
from hardmax.applications.completion import (
    GaussianMixture,
    choose_component,
    chosen_kl,
    estimated_kl,
    max_operation_loss,
    sampled_kl,
)

B, K, C = 3, 4, 2


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.fixture
def mixture():
    return GaussianMixture(random(B, K), 2 * random(B, K, C, seed=1), random(B, K, C, seed=2) / 2)


@pytest.fixture
def q():
    return random(B, C, seed=3), random(B, C, seed=4) / 2


def make_reference(mixture):
    components = Independent(Normal(mixture.mean, (mixture.log_variance / 2).exp()), 1)
    return MixtureSameFamily(Categorical(logits=mixture.scores), components)


class TestMixture:
    def test_log_prob(self, mixture):
        z = random(7, B, C, seed=5)
        torch.testing.assert_close(mixture.log_prob(z), make_reference(mixture).log_prob(z), rtol=0, atol=1e-12)

    def test_kl_to_components(self, mixture, q):
        expected = torch.stack(
            [
                kl_divergence(
                    Normal(q[0], (q[1] / 2).exp()), Normal(mixture.mean[:, j], (mixture.log_variance[:, j] / 2).exp())
                ).sum(-1)
                for j in range(K)
            ],
            -1,
        )
        torch.testing.assert_close(mixture.kl_to_components(*q), expected, rtol=0, atol=1e-12)

    def test_samples_have_the_mixtures_moments(self, mixture):
        draws = 20_000
        z, component = mixture.sample(draws, generator=torch.Generator().manual_seed(0))
        assert largest_z(component, mixture.log_weights.exp()) < 5.5
        assert largest_z(z, make_reference(mixture).mean) < 5.5
        assert largest_z(z.square(), make_reference(mixture).variance + make_reference(mixture).mean.square()) < 5.5

    def test_each_systematic_sample_has_the_distribution_of_the_mixture(self, mixture):
        sets, count = 20_000, 3
        many = GaussianMixture(
            *(t.expand(sets, *t.shape) for t in (mixture.scores, mixture.mean, mixture.log_variance))
        )
        z, component = many.systematic_sample(count, generator=torch.Generator().manual_seed(0))
        for number in range(count):
            assert largest_z(component[number], mixture.log_weights.exp()) < 5.5
            assert largest_z(z[number], make_reference(mixture).mean) < 5.5
            assert (
                largest_z(z[number].square(), make_reference(mixture).variance + make_reference(mixture).mean.square())
                < 5.5
            )

    @pytest.mark.parametrize("count", [1, 7, 40])
    def test_systematic_samples_have_each_component_in_proportion_to_its_weight(self, mixture, count):
        _, component = mixture.systematic_sample(count, generator=torch.Generator().manual_seed(1))
        expected = count * mixture.log_weights.exp()
        counts = component.sum(0)
        assert (counts >= expected.floor()).all()
        assert (counts <= expected.ceil()).all()
        assert (counts.sum(-1) == count).all()

    @pytest.mark.parametrize("draw", ["sample", "systematic_sample"])
    def test_samples_have_gradients_only_for_the_gaussians(self, draw, mixture):
        scores, mean = mixture.scores.requires_grad_(), mixture.mean.requires_grad_()
        z, _ = getattr(GaussianMixture(scores, mean, mixture.log_variance), draw)(5)
        z.sum().backward()
        assert scores.grad is None
        assert mean.grad.abs().sum() > 0


class TestDivergences:
    def exact(self, mixture, q, draws=50_000):
        z = hm.gaussian_sample(*q, draws, generator=torch.Generator().manual_seed(0))
        own = Independent(Normal(q[0], (q[1] / 2).exp()), 1)
        return own.log_prob(z) - make_reference(mixture).log_prob(z)

    def test_sampled_is_the_divergence(self, mixture, q):
        z = hm.gaussian_sample(*q, 3_000, generator=torch.Generator().manual_seed(1))
        many = GaussianMixture(
            *(t.expand(3_000, *t.shape) for t in (mixture.scores, mixture.mean, mixture.log_variance))
        )
        single = sampled_kl(*(t.expand(3_000, B, C) for t in q), many, z[None]).value
        assert largest_z(single, self.exact(mixture, q).mean(0)) < 5.5

    @pytest.mark.parametrize("rule", ["responsibility", "distance", "fair"])
    def test_a_choice_is_above_the_divergence(self, rule, mixture, q):
        kl = chosen_kl(*q, mixture, rule)
        assert (kl.value > self.exact(mixture, q).mean(0)).all()
        assert (kl.component.sum(-1) == 1).all()

    def test_responsibility_gives_the_smallest_of_all_bounds(self, mixture, q):
        energies = mixture.kl_to_components(*q) - mixture.log_weights
        torch.testing.assert_close(chosen_kl(*q, mixture).value, energies.amin(-1), rtol=0, atol=1e-12)
        assert (chosen_kl(*q, mixture, "distance").value >= energies.amin(-1)).all()

    @pytest.mark.parametrize(("rule", "used"), [("distance", 1), ("responsibility", 1), ("fair", 4)])
    def test_components_that_learn_from_data_far_from_all_of_them(self, rule, used):
        """Four clusters, and four components far from all of them: with "fair" all learn, else only the nearest one."""
        corners = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]], dtype=torch.float64)
        means = (10 + corners + 0.1 * random(4, 2, seed=8)).requires_grad_()
        scores = torch.zeros(4, dtype=torch.float64, requires_grad=True)
        optimizer = torch.optim.Adam([means, scores], lr=0.1)
        data = corners.repeat_interleave(50, 0) + 0.1 * random(200, 2, seed=9)
        for _ in range(400):
            mixture = GaussianMixture(scores.expand(200, 4), means.expand(200, 4, 2), torch.zeros(200, 4, 2).double())
            kl = chosen_kl(data, torch.zeros_like(data), mixture, rule)
            optimizer.zero_grad()
            kl.value.mean().backward()
            optimizer.step()
        assert int((kl.component.mean(0) > 0.02).sum()) == used

    def test_the_bound_is_tight_for_components_far_apart(self):
        far = GaussianMixture(
            torch.tensor([0.3, -0.4], dtype=torch.float64),
            torch.tensor([[-40.0], [40.0]], dtype=torch.float64),
            torch.zeros(2, 1, dtype=torch.float64),
        )
        mean, log_variance = torch.tensor([39.0], dtype=torch.float64), torch.zeros(1, dtype=torch.float64)
        expected = 0.5 - float(far.log_weights[1])
        assert float(chosen_kl(mean, log_variance, far).value) == pytest.approx(expected, abs=1e-12)

    def test_estimated_is_smallest_at_the_responsibilities(self, mixture, q):
        best = mixture.responsibility(*q)
        smallest = estimated_kl(*q, mixture, best, hm.Exact()).value
        torch.testing.assert_close(smallest, -best.logsumexp(-1), rtol=0, atol=1e-12)
        worse = estimated_kl(*q, mixture, best + random(B, K, seed=6), hm.Exact()).value
        assert (worse > smallest).all()

    @pytest.mark.parametrize("estimator", [hm.Exact(), hm.Reinforce(), hm.LocalExpectation()], ids=repr)
    def test_estimators_agree_with_the_exact_gradient(self, estimator, mixture, q):
        """The gradient for the encoder's scores, and for the weights, by enumeration."""
        draws = 5_000
        start = random(B, K, seed=7)

        def gradient(estimator, scores, weights, **options):
            mix = GaussianMixture(weights, *(t.expand(*scores.shape[:-2], *t.shape) for t in gaussians))
            estimated_kl(
                *(t.expand(*scores.shape[:-2], *t.shape) for t in q), mix, scores, estimator, **options
            ).value.sum().backward()
            return scores.grad, weights.grad

        gaussians = (mixture.mean, mixture.log_variance)
        exact = gradient(hm.Exact(), start.clone().requires_grad_(), mixture.scores.clone().requires_grad_())
        many = (t.expand(draws, B, K).clone().requires_grad_() for t in (start, mixture.scores))
        estimates = gradient(estimator, *many, generator=torch.Generator().manual_seed(0))
        for estimate, expected in zip(estimates, exact, strict=True):
            assert largest_z(estimate, expected) < 5.5
        assert largest_z(estimates[0] * 2, exact[0]) > 5.5 or estimator == hm.Exact()


class TestMaxOperation:
    """The loss of the notes: corrected it is a KL divergence, as published it is not."""

    def test_corrected_is_the_divergence_of_the_chosen_component(self, mixture, q):
        component = choose_component(*q, mixture, "responsibility")
        mean, log_variance = mixture.select_component(component)
        expected = kl_divergence(Normal(mean, (log_variance / 2).exp()), Normal(q[0], (q[1] / 2).exp())).sum(-1)
        loss = max_operation_loss(*q, mixture)
        torch.testing.assert_close(loss, expected, rtol=0, atol=1e-12)

    def test_zero_at_equality(self, q):
        equal = GaussianMixture(torch.zeros(B, 1, dtype=torch.float64), q[0][:, None], q[1][:, None])
        assert (max_operation_loss(*q, equal) == 0).all()
        published = max_operation_loss(*q, equal, form="published")
        torch.testing.assert_close(published, torch.full((B,), C / 2, dtype=torch.float64), rtol=0, atol=1e-12)

    def test_published_is_the_printed_formula(self, mixture, q):
        mean, log_variance = mixture.select_component(choose_component(*q, mixture, "distance"))
        ratio = (log_variance.sum(-1) - q[1].sum(-1)) / 2
        trace = (log_variance - q[1]).exp().sum(-1) / 2
        squares = ((mean - q[0]).square() * (-q[1]).exp()).sum(-1) / 2
        loss = max_operation_loss(*q, mixture, "distance", "published")
        torch.testing.assert_close(loss, -ratio + trace - squares, rtol=0, atol=1e-12)

    @pytest.mark.parametrize(("form", "sign"), [("corrected", 1), ("published", -1)])
    def test_descent_pulls_or_pushes(self, form, sign, q):
        """A step against the gradient brings the mean nearer; the published formula drives it away."""
        mean = (q[0] + 1.5)[:, None].requires_grad_()
        mixture = GaussianMixture(torch.zeros(B, 1, dtype=torch.float64), mean, q[1][:, None])
        max_operation_loss(*q, mixture, form=form).sum().backward()
        assert (sign * mean.grad > 0).all()

    def test_published_has_no_minimum(self, q):
        means = [q[0][:, None] + away for away in (1.0, 10.0, 1000.0)]
        scores = torch.zeros(B, 1, dtype=torch.float64)
        losses = [
            max_operation_loss(*q, GaussianMixture(scores, mean, q[1][:, None]), form="published") for mean in means
        ]
        assert (losses[1] < losses[0]).all()
        assert (losses[2] < -1e4).all()

    def test_gradients_reach_the_mixture_and_not_the_encoder(self, mixture, q):
        own = [t.clone().requires_grad_() for t in q]
        mean = mixture.mean.clone().requires_grad_()
        max_operation_loss(*own, GaussianMixture(mixture.scores, mean, mixture.log_variance)).sum().backward()
        assert own[0].grad is None
        assert own[1].grad is None
        assert mean.grad.abs().sum() > 0  # in the released code this is zero, too
