"""SPO+, the direct loss and regret: against definitions, finite differences and enumeration; with planted errors."""

import pytest
import torch
from torch import Tensor

import hardmax as hm
from hardmax.random import make_generator

SPACES = [hm.Categorical(4), hm.Subset(5, 2), hm.Permutation(3), hm.Binary(4), hm.PairwiseBinary(3), hm.Chain(3, 2)]


def draw(space: hm.AbstractSpace, *names, batch: int = 6) -> Tensor:
    return torch.randn(batch, *space.score_shape, generator=make_generator(0, str(space), *names), dtype=torch.float64)


def enumerate_values(space: hm.AbstractSpace, weights: Tensor) -> Tensor:
    """Return <weights, statistics(z)> of every z, `[B, M]`."""
    members = space.statistics(space.enumerate(dtype=torch.float64)).flatten(1)
    return weights.flatten(1) @ members.mT


@pytest.mark.parametrize("space", SPACES, ids=str)
class TestSPOPlus:
    def test_definition(self, space):
        scores, costs = draw(space, "scores"), draw(space, "costs")
        predicted = -scores
        best = enumerate_values(space, costs).min(-1)
        expected = (
            enumerate_values(space, costs - 2 * predicted).max(-1).values
            + 2 * enumerate_values(space, predicted).gather(1, best.indices[:, None])[:, 0]
            - best.values
        )
        assert torch.allclose(hm.spo_plus_loss(scores, costs, space), expected)

    def test_gradient_is_the_derivative(self, space):
        """The loss is piecewise linear: finite differences are exact away from kinks."""
        scores, costs = draw(space, "scores").requires_grad_(), draw(space, "costs")
        hm.spo_plus_loss(scores, costs, space).sum().backward()
        step, direction = 1e-6, draw(space, "direction")
        difference = hm.spo_plus_loss(scores + step * direction, costs, space) - hm.spo_plus_loss(
            scores - step * direction, costs, space
        )
        slope = (scores.grad * direction).flatten(1).sum(-1)
        assert torch.allclose(difference / (2 * step), slope, atol=1e-6)
        assert slope.abs().max() > 0.1

    def test_upper_bound_of_the_regret_and_zero_at_the_truth(self, space):
        scores, costs = draw(space, "scores"), draw(space, "costs")
        regret = hm.regret(scores, costs, space)
        best = enumerate_values(space, costs).min(-1).values
        chosen = enumerate_values(space, scores).argmax(-1, keepdim=True)
        assert torch.allclose(regret, enumerate_values(space, costs).gather(1, chosen)[:, 0] - best)
        assert (hm.spo_plus_loss(scores, costs, space) >= regret - 1e-9).all()
        assert torch.allclose(hm.spo_plus_loss(-costs, costs, space), torch.zeros(6, dtype=torch.float64))
        assert (regret > 0.1).any()

    def test_it_is_a_fenchel_young_loss(self, space):
        scores, costs = draw(space, "scores"), draw(space, "costs")
        same = hm.fenchel_young_loss(2 * scores, space.argmax(-costs), space, noise=costs[None])
        assert torch.allclose(hm.spo_plus_loss(scores, costs, space), same)

    def test_noise_smooths(self, space):
        """With noise, value and gradient are those of the mean over the noise, by enumeration of z for every draw."""
        scores, costs = draw(space, "scores").requires_grad_(), draw(space, "costs")
        noise = space.noise((50, 6), make_generator(4), dtype=torch.float64)
        value = hm.spo_plus_loss(scores, costs, space, noise=noise)
        value.sum().backward()
        combined = (2 * scores.detach() + costs + noise).flatten(0, 1)
        table = enumerate_values(space, combined)
        members = space.statistics(space.enumerate(dtype=torch.float64))
        best = members[table.argmax(-1)].view(50, *scores.shape)
        target = space.statistics(space.argmax(-costs))
        assert torch.allclose(scores.grad, 2 * (best.mean(0) - target))
        expected = table.max(-1).values.view(50, 6) - space.dot(combined.view(50, *scores.shape), target)
        assert torch.allclose(value, expected.mean(0))
        generator = make_generator(4)
        drawn = hm.spo_plus_loss(scores, costs, space, samples=50, generator=generator)
        assert torch.allclose(drawn, value)

    def test_known_targets_give_the_same(self, space):
        scores, costs = draw(space, "scores"), draw(space, "costs")
        target = space.argmax(-costs)
        assert torch.equal(
            hm.spo_plus_loss(scores, costs, space, target=target), hm.spo_plus_loss(scores, costs, space)
        )
        assert torch.equal(hm.regret(scores, costs, space, target=target), hm.regret(scores, costs, space))


@pytest.mark.parametrize("towards", [False, True])
@pytest.mark.parametrize("loss", ["hamming", "regret"])
@pytest.mark.parametrize("space", SPACES, ids=str)
class TestDirectLoss:
    def test_value_and_gradient_without_noise(self, space, loss, towards):
        scores, costs = draw(space, "scores").requires_grad_(), draw(space, "costs")
        target, epsilon = space.argmax(draw(space, "target")), 3.0
        value = hm.direct_loss(
            scores, target, space, loss=costs if loss == "regret" else "hamming", epsilon=epsilon, towards=towards
        )
        value.sum().backward()
        members = space.enumerate(dtype=torch.float64)
        if loss == "hamming":
            table = (members.flatten(1) - target.flatten(1)[:, None]).abs().sum(-1)
        else:
            table = enumerate_values(space, costs)
            table = table - space.dot(costs, space.statistics(target))[:, None]
        sign = -1 if towards else 1
        base = enumerate_values(space, scores.detach())
        z, moved = base.argmax(-1), (base + sign * epsilon * table).argmax(-1)
        statistics = space.statistics(members)
        assert torch.allclose(value, table.gather(1, z[:, None])[:, 0])
        assert torch.allclose(scores.grad, sign * (statistics[moved] - statistics[z]) / epsilon)
        assert scores.grad.abs().sum() > 0


@pytest.mark.parametrize("towards", [False, True])
@pytest.mark.parametrize("space", [hm.Categorical(4), hm.Binary(3), hm.Categorical(3, 2)], ids=str)
def test_small_epsilon_gives_the_gradient_of_the_expected_task_loss(space, towards):
    """With the noise of the space, E[loss(argmax)] is an expectation over q, which enumeration knows."""
    draws, epsilon = 400_000, 0.02
    scores, costs = draw(space, "scores", batch=1)[0], draw(space, "costs", batch=1)[0]
    target = space.argmax(-costs)
    leaf = scores.clone().requires_grad_()
    (space.log_probs(leaf).exp() * enumerate_values(space, costs[None])[0]).sum().backward()
    noise = space.noise((draws,), make_generator(1), dtype=torch.float64)
    perturbed, shift = space.perturb(scores, noise), (-epsilon if towards else epsilon) * costs
    terms = (space.argmax(perturbed + shift) - space.argmax(perturbed)) / (-epsilon if towards else epsilon)
    estimate = scores.clone().requires_grad_()
    options = {"loss": costs, "epsilon": epsilon, "noise": noise}
    hm.direct_loss(estimate, target, space, towards=towards, **options).backward()
    spread = costs.max() - costs.min()
    error = 4 * terms.std(0) / draws**0.5 + epsilon * spread**2 / 8  # sampling error and bias
    assert ((estimate.grad - leaf.grad).abs() < error).all()
    assert (leaf.grad.abs() > 2 * error).any()
    # The planted error: the other sign of the loss.
    wrong = scores.clone().requires_grad_()
    hm.direct_loss(wrong, target, space, towards=towards, **{**options, "loss": -costs}).backward()
    assert ((wrong.grad - leaf.grad).abs() > error).any()


def test_the_mean_over_samples_is_the_expected_task_loss():
    space, scores, costs = hm.Categorical(4), *(draw(hm.Categorical(4), name, batch=1)[0] for name in ("a", "b"))
    target = space.argmax(-costs)
    generator = make_generator(3)
    value = hm.direct_loss(scores, target, space, loss=costs, samples=100_000, generator=generator)
    expected = scores.softmax(-1) @ costs - costs.min()
    assert abs(value - expected) < 5 * costs.std() / 100_000**0.5


class TestErrors:
    SPACE = hm.Subset(4, 2)
    SCORES = torch.zeros(3, 4)

    def test_shapes_and_arguments(self):
        target = self.SPACE.argmax(self.SCORES)
        for call in (
            lambda: hm.spo_plus_loss(self.SCORES, torch.zeros(4), self.SPACE),
            lambda: hm.regret(self.SCORES, torch.zeros(2, 4), self.SPACE),
            lambda: hm.direct_loss(self.SCORES, target, self.SPACE, loss=torch.zeros(4)),
        ):
            with pytest.raises(hm.ShapeError, match="costs have shape"):
                call()
        with pytest.raises(hm.ShapeError, match="target has shape"):
            hm.direct_loss(self.SCORES, target[0], self.SPACE)
        with pytest.raises(hm.ArgumentError, match="epsilon must be a positive"):
            hm.direct_loss(self.SCORES, target, self.SPACE, epsilon=0.0)
        with pytest.raises(hm.ArgumentError, match=r"costs must be finite, got nan for example \[0\]"):
            hm.direct_loss(self.SCORES, target, self.SPACE, loss=self.SCORES + float("nan"))
        with pytest.raises(hm.ArgumentError, match="samples must be at least 1"):
            hm.direct_loss(self.SCORES, target, self.SPACE, samples=0)

    def test_linear_objective(self):
        with pytest.raises(hm.ShapeError, match="needs"):
            hm.LinearObjective(torch.zeros(5), self.SPACE)

        class Wrong(hm.LinearObjective):
            def augment(self, scores, epsilon):
                return scores[..., :2]

        with pytest.raises(hm.ShapeError, match=r"f.augment\(\) must return scores"):
            hm.expectation(Wrong(self.SCORES, self.SPACE), self.SCORES, self.SPACE, hm.Direct())
