"""How good an estimator is, in numbers."""

from dataclasses import dataclass
from math import sqrt
from typing import Any

from hardmax.diagnosis.naming import short_name
from hardmax.estimators import AbstractEstimator


@dataclass(frozen=True)
class Quality:
    """How far an estimator's estimates are from the exact gradient, and what one of them costs.

    With the estimates `g_db` of example b, their mean `m_b` and the exact gradient `G_b`, all is relative to
    `|G|^2 = sum_b |G_b|^2`: squares are added over examples before anything is divided, so that examples with a tiny
    gradient do not decide.

    Attributes:
        name: of the row.
        estimator: the estimator itself.
        samples: S of each estimate.
        bias: `sqrt(sum_b |m_b - G_b|^2 - noise) / |G|`, zero where noise is more than all; the noise that was
            subtracted is `floor^2`.
        floor: the noise floor of the bias: `sqrt(sum_b variance_b / draws) / |G|`, and the same of the reference where
            that is itself a mean of estimates.
        biased: whether the bias shows, by four standard deviations of the noise that was subtracted.
        deviation: standard deviation of one estimate, `sqrt(sum_b variance_b) / |G|`, over all scores of an example.
        cosine: of a single estimate with the exact gradient, over the scores of an example, mean over draws and
            examples; an estimate of zero counts as zero, an example whose gradient is zero not at all.
        evaluations: of f, mean per example for one estimate.
        solves: arg maxes, counted the same way.
        seconds: of one estimate for the whole batch, with its backward pass to the scores, made in blocks; median.
    """

    name: str
    estimator: AbstractEstimator
    samples: int
    bias: float
    floor: float
    biased: bool
    deviation: float
    cosine: float
    evaluations: float
    solves: float
    seconds: float

    def error(self, batch: int) -> float:
        """Return `sqrt(bias^2 + deviation^2 / batch)`: the error of a mean over so many examples.

        Noise falls with their number and bias does not.
        """
        return sqrt(self.bias**2 + self.deviation**2 / batch)

    def to_dict(self) -> dict[str, Any]:
        """Return all of it, for JSON."""
        return {**vars(self), "estimator": short_name(self.estimator)}


@dataclass(frozen=True)
class Refusal:
    """An estimator that could not take part.

    Attributes:
        name: of the estimator.
        estimator: itself.
        reason: what it says.
    """

    name: str
    estimator: AbstractEstimator
    reason: str

    def to_dict(self) -> dict[str, Any]:
        """Return all of it, for JSON."""
        return {**vars(self), "estimator": short_name(self.estimator)}
