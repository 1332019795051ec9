"""REINFORCE, the score-function estimator."""

from dataclasses import dataclass
from typing import Literal, final

from jaxtyping import Float
from torch import Tensor

from hardmax.errors import ArgumentError
from hardmax.estimators.abstract import AbstractEstimator, carry
from hardmax.evaluator import Evaluator
from hardmax.spaces import AbstractSpace
from hardmax.types import Estimate

Baseline = Literal["none", "mean", "leave-one-out"]


@final
@dataclass(frozen=True)
class Reinforce(AbstractEstimator):
    """The score-function estimator, `(f(z) - baseline) grad log q(z)`, mean over samples.

    A baseline takes away what does not depend on z. For draw s of example b it is the mean of f over

    - `"none"`: nothing, zero;
    - `"mean"`: every other draw in the call, of this example and of the others (zero if there is no other);
    - `"leave-one-out"`: the other draws of the same example; needs two samples or more.

    Bias: none, with each of them, since no draw is in its own baseline. Variance: the highest of all, of the
    size of f^2 without a baseline; leave-one-out is by far the best of the three. Cost: one evaluation of f
    per sample, and f need not be differentiable.

    Args:
        baseline: which draws make the baseline.

    Raises:
        ArgumentError: an unknown baseline; leave-one-out with one sample.

    Example:
        >>> import torch, hardmax as hm
        >>> scores = torch.zeros(4, 3, requires_grad=True)
        >>> estimator = hm.Reinforce(baseline="leave-one-out")
        >>> out = hm.expectation(lambda z: z[..., 0], scores, hm.Categorical(3), estimator, samples=8)
        >>> out.value.sum().backward()
        >>> out.evaluations
        8.0

    References:
        Williams, 1992; Kool, van Hoof & Welling, "Buy 4 REINFORCE samples, get a baseline for free!", 2019.
    """

    baseline: Baseline = "none"

    needs = ("draw", "log_prob")

    def __post_init__(self) -> None:
        if self.baseline not in ("none", "mean", "leave-one-out"):
            raise ArgumentError(f"baseline must be 'none', 'mean' or 'leave-one-out', got {self.baseline!r}")

    @property
    def couples_samples(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """With a baseline of other draws."""
        return self.baseline != "none"

    @property
    def couples_examples(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """With the mean over the other draws of the batch."""
        return self.baseline == "mean"

    def check(self, space: AbstractSpace, samples: int) -> None:
        """Refuse to leave one out of one."""
        super().check(space, samples)
        if self.baseline == "leave-one-out" and samples < 2:
            raise ArgumentError(
                f"baseline='leave-one-out' needs at least two samples, got samples={samples}; "
                f"pass samples=2 or more, or use baseline='mean'"
            )

    def estimate(
        self, f: Evaluator, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> Estimate:
        """Weigh each draw's log-probability by what f gives above the baseline."""
        z = space.draw(scores.detach(), noise)
        values = f(z)
        advantage = values.detach() - self._baseline(values.detach())
        surrogate = (advantage * space.log_prob(scores, z)).mean(0)
        return Estimate(carry(values.mean(0), surrogate), z, f.evaluations, solves=float(len(noise)))

    def _baseline(self, values: Tensor) -> Tensor | float:
        if self.baseline == "none":
            return 0.0
        if self.baseline == "mean":
            return (values.sum() - values) / max(values.numel() - 1, 1)
        return (values.sum(0) - values) / (len(values) - 1)
