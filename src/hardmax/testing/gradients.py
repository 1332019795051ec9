"""Statistical tests of an estimator's gradient against enumeration.

Each function draws estimates in float64 on a problem small enough to enumerate, compares them with the exact gradient,
and raises `AssertionError` with the numbers if they disagree. It also fails if it could not have detected an error: if
noise would hide a real error, the message asks for more draws.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log, sqrt

import torch
from torch import Tensor

from hardmax.errors import ArgumentError
from hardmax.estimators import AbstractEstimator
from hardmax.expectations import expectation
from hardmax.spaces import AbstractSpace
from hardmax.types import Objective

FALSE_ALARM = 1e-6
_BLOCK = 50_000  # estimates drawn at once; bounds the memory


@dataclass(frozen=True)
class Ladder:
    r"""How an estimator's bias falls along a ladder, a decreasing sequence of epsilon or tau.

    Attributes:
        steps: values of epsilon or tau, decreasing.
        bias: relative bias of the gradient at each step, without its noise floor.
        noise: how much of each bias may be noise, at the false-alarm rate.
        order: the exponent p of $\mathrm{bias} \propto \mathrm{step}^p$ between the first and the last step. If the
            last bias is below its standard error, the standard error is used instead, and the order is a lower bound.
    """

    steps: tuple[float, ...]
    bias: tuple[float, ...]
    noise: tuple[float, ...]
    order: float


def assert_exact(
    estimator: AbstractEstimator,
    space: AbstractSpace,
    *,
    f: Objective | None = None,
    scores: Tensor | None = None,
    samples: int = 1,
    tolerance: float = 1e-10,
    seed: int = 0,
) -> None:
    """Assert that every single estimate has the exact value and gradient, as computed by enumeration.

    Args:
        estimator: the estimator to test.
        space: a space small enough to enumerate.
        f: an objective that works for any batch shape; None is a smooth non-linear one.
        scores: `[*score]`, float64; None draws them.
        samples: S, the number of samples of each estimate.
        tolerance: largest absolute difference.
        seed: seed of all randomness.

    Raises:
        AssertionError: the difference is too large; the message gives the largest one.

    Example:
        >>> import hardmax as hm
        >>> from hardmax.testing import assert_exact
        >>> assert_exact(hm.Exact(), hm.Binary(3))
    """
    f, scores = _make_problem(space, f, scores, seed)
    truth = _compute_exact(f, scores, space)
    estimates = _draw_estimates(estimator, f, scores, space, samples, 8, torch.Generator().manual_seed(seed))
    worst = float((estimates - truth).abs().max())
    if not worst <= tolerance:
        raise AssertionError(f"{estimator} on {space} is off by up to {worst:.3g} (tolerance {tolerance:.3g})")


def assert_unbiased(
    estimator: AbstractEstimator,
    space: AbstractSpace,
    *,
    f: Objective | None = None,
    scores: Tensor | None = None,
    samples: int = 1,
    draws: int = 200_000,
    false_alarm: float = FALSE_ALARM,
    resolution: float = 0.2,
    seed: int = 0,
) -> float:
    r"""Assert that the mean of many estimates is the exact value and gradient, by a z-test.

    $$ z_j = \frac{\mathrm{mean}_j - \mathrm{exact}_j}{\text{standard error}_j} $$

    for the value and for every component of the gradient. The largest of them is compared with the normal quantile at
    `false_alarm`, divided by their number (Bonferroni).

    Args:
        estimator: the estimator to test.
        space: a space small enough to enumerate.
        f: an objective that works for any batch shape; None is a smooth non-linear one.
        scores: `[*score]`, float64; None draws them.
        samples: S, the number of samples of each estimate.
        draws: number of estimates.
        false_alarm: probability that a correct estimator fails.
        resolution: relative error of the gradient that must be detectable; the test fails if noise could hide it.
        seed: seed of all randomness.

    Returns:
        The largest $|z|$.

    Raises:
        AssertionError: the means disagree, with the largest z in the message; or there are too few draws to decide.

    Example:
        >>> import hardmax as hm
        >>> from hardmax.testing import assert_unbiased
        >>> largest = assert_unbiased(hm.Reinforce(), hm.Categorical(3))
    """
    f, scores = _make_problem(space, f, scores, seed)
    truth = _compute_exact(f, scores, space)
    mean, error = _average_estimates(estimator, f, scores, space, samples, draws, seed)
    threshold = _compute_threshold(false_alarm, len(truth))
    detectable = threshold * float(error[1:].norm()) / float(truth[1:].norm())
    if not detectable <= resolution:
        needed = draws * (detectable / resolution) ** 2
        raise AssertionError(
            f"{estimator} on {space}: {draws:,} draws would only show a relative error of {detectable:.2g} in the "
            f"gradient, not {resolution:.2g}; raise draws (about {needed:,.0f} are needed)"
        )
    # Components without any variance must be exact up to rounding.
    z = (mean - truth).abs() / error.clamp_min(1e-12)
    if not z.max() <= threshold:
        raise AssertionError(
            f"{estimator} on {space} is biased: |z| up to {z.max():.1f}, expected at most {threshold:.1f}; value and "
            f"gradient {mean.tolist()}, exact {truth.tolist()}, standard error {error.tolist()}"
        )
    return float(z.max())


def assert_bias_vanishes(
    ladder: Callable[[float], AbstractEstimator],
    space: AbstractSpace,
    *,
    steps: Sequence[float] = (0.8, 0.4, 0.2),
    order: float = 1.0,
    f: Objective | None = None,
    scores: Tensor | None = None,
    samples: int = 1,
    draws: int = 1_000_000,
    false_alarm: float = FALSE_ALARM,
    resolution: float = 0.1,
    slack: float = 0.3,
    seed: int = 0,
) -> Ladder:
    r"""Assert that an estimator's bias falls to zero along a ladder of epsilon or tau, at least at some order.

    The relative bias $|\mathrm{mean} - \mathrm{exact}| / |\mathrm{exact}|$ of the gradient is measured at every step.
    It must fall from each step to the next, and from the first to the last as
    $\mathrm{step}^{\mathrm{order} - \mathrm{slack}}$ or faster, within the noise.

    Args:
        ladder: returns the estimator for an epsilon or tau.
        space: a space small enough to enumerate.
        steps: values of epsilon or tau, decreasing.
        order: the order that the bias should have.
        f: an objective that works for any batch shape; None is a smooth non-linear one.
        scores: `[*score]`, float64; None draws them.
        samples: S, the number of samples of each estimate.
        draws: number of estimates at every step.
        false_alarm: probability that a correct estimator fails.
        resolution: relative bias that must be detectable at the last step; the test fails if noise could hide it.
        slack: how far the measured order may be below `order`, since steps are not infinitely small.
        seed: seed of all randomness.

    Returns:
        The measured bias, noise and order.

    Raises:
        AssertionError: the bias does not fall, with its value at every step in the message; or there are too few draws
            to decide.
        ArgumentError: steps are not decreasing.

    Example:
        >>> import hardmax as hm
        >>> from hardmax.testing import assert_bias_vanishes
        >>> ladder = assert_bias_vanishes(lambda e: hm.Direct(epsilon=e), hm.Categorical(3))
        >>> ladder.bias[0] > ladder.bias[-1]
        True
    """
    if len(steps) < 2 or sorted(steps, reverse=True) != list(steps):
        raise ArgumentError(f"steps must be at least two falling numbers, got {list(steps)}")
    f, scores = _make_problem(space, f, scores, seed)
    gradient = _compute_exact(f, scores, space)[1:]
    threshold = _compute_threshold(false_alarm, len(gradient) * len(steps))
    bias, noise = [], []
    for step in steps:
        mean, error = _average_estimates(ladder(step), f, scores, space, samples, draws, seed)
        floor = float(error[1:].norm())
        distance = float((mean[1:] - gradient).norm())
        bias.append(sqrt(max(distance**2 - floor**2, 0.0)) / float(gradient.norm()))
        noise.append(threshold * floor / float(gradient.norm()))

    name = f"{ladder(steps[-1])} on {space}"
    biases = ", ".join(f"{s:g}: {b:.3g} (noise {e:.2g})" for s, b, e in zip(steps, bias, noise, strict=True))
    if not noise[-1] <= resolution:
        raise AssertionError(
            f"{name}: {draws:,} draws would only show a relative bias of {noise[-1]:.2g}, not {resolution:.2g}; "
            f"raise draws"
        )
    highest = [b + e for b, e in zip(bias, noise, strict=True)]
    lowest = [max(b - e, 1e-12) for b, e in zip(bias, noise, strict=True)]
    falls = all(low <= high for high, low in zip(highest, lowest[1:], strict=False))
    needed = (steps[-1] / steps[0]) ** (order - slack)
    if not (falls and lowest[-1] <= highest[0] * needed):
        raise AssertionError(f"{name}: the bias does not fall with order {order:g}; relative bias by step {biases}")
    measured = log(max(bias[0], 1e-12) / max(bias[-1], noise[-1] / threshold)) / log(steps[0] / steps[-1])
    return Ladder(tuple(steps), tuple(bias), tuple(noise), measured)


def _make_problem(
    space: AbstractSpace, f: Objective | None, scores: Tensor | None, seed: int
) -> tuple[Objective, Tensor]:
    """Return f and scores, or their defaults: standard normal scores, and a smooth f that is nowhere linear."""
    generator = torch.Generator().manual_seed(seed)
    event = tuple(range(-len(space.event_shape), 0))
    if scores is None:
        scores = torch.randn(space.score_shape, generator=generator, dtype=torch.float64)
    weight = torch.randn(5, *space.event_shape, generator=generator, dtype=torch.float64)
    offset = torch.randn(5, generator=generator, dtype=torch.float64)

    def smooth(z: Tensor) -> Tensor:
        return sum((torch.tanh((z * w).sum(event) + b) for w, b in zip(weight, offset, strict=True)), z.new_zeros(()))

    return f or smooth, scores.detach().double()


def _compute_exact(f: Objective, scores: Tensor, space: AbstractSpace) -> Tensor:
    """Return the exact value and gradient, `[1 + scores]`, from the members of the space and their statistics only."""
    scores = scores.clone().requires_grad_()
    members = space.enumerate(dtype=torch.float64)
    q = (space.statistics(members).flatten(1) @ scores.flatten()).softmax(0)
    value = q @ f(members).detach()
    value.backward()
    assert scores.grad is not None
    return torch.cat([value.detach().view(1), scores.grad.flatten()])


def _draw_estimates(
    estimator: AbstractEstimator,
    f: Objective,
    scores: Tensor,
    space: AbstractSpace,
    samples: int,
    draws: int,
    generator: torch.Generator,
) -> Tensor:
    """Return values and gradients of independent estimates, `[draws, 1 + scores]`, computed in one batch."""
    batch = scores.expand(draws, *scores.shape).clone().requires_grad_()
    value = expectation(f, batch, space, estimator, samples=samples, generator=generator).value
    value.sum().backward()
    assert batch.grad is not None
    return torch.cat([value.detach().view(-1, 1), batch.grad.flatten(1)], 1)


def _average_estimates(
    estimator: AbstractEstimator,
    f: Objective,
    scores: Tensor,
    space: AbstractSpace,
    samples: int,
    draws: int,
    seed: int,
) -> tuple[Tensor, Tensor]:
    """Return the mean of the estimates and its standard error, each `[1 + scores]`."""
    generator = torch.Generator().manual_seed(seed)
    total = square = torch.zeros(1 + scores.numel(), dtype=torch.float64)
    for start in range(0, draws, _BLOCK):
        count = min(_BLOCK, draws - start)
        estimates = _draw_estimates(estimator, f, scores, space, samples, count, generator)
        total, square = total + estimates.sum(0), square + estimates.square().sum(0)
    mean = total / draws
    return mean, ((square / draws - mean.square()).clamp_min(0) / draws).sqrt()


def _compute_threshold(false_alarm: float, components: int) -> float:
    """Return the |z| that any component exceeds with probability at most `false_alarm` (Bonferroni)."""
    tail = torch.tensor(false_alarm / (2 * components), dtype=torch.float64)
    return -float(torch.special.ndtri(tail))
