"""Which estimator to take, and why."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hardmax.diagnosis.naming import short_name
from hardmax.diagnosis.quality import Quality
from hardmax.estimators import AbstractEstimator

BATCH = 100  # examples in a step of training
_OVER = 1.05  # evaluations beyond the budget that still count as equal
_WITHIN = 1.1  # of the least squared error: there an estimator without bias is preferred
_NEARLY = 1.25  # of the least error: worth it where time matters
_CHEAPER = 3.0
_NOTHING = 1e-5  # smaller errors are rounding, and all the same


@dataclass(frozen=True)
class Recommendation:
    """The estimator to take, and why.

    Attributes:
        name: of its row.
        estimator: itself.
        samples: S.
        batch: examples that the error is for.
        error: `sqrt(bias^2 + deviation^2 / batch)`, relative to the exact gradient.
        reason: sentences with the numbers.
    """

    name: str
    estimator: AbstractEstimator
    samples: int
    batch: int
    error: float
    reason: str

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"

    def to_dict(self) -> dict[str, Any]:
        """Return all of it, for JSON."""
        return {**vars(self), "estimator": short_name(self.estimator)}


def recommend(rows: Sequence[Quality], evaluations: float, batch: int = BATCH) -> Recommendation | None:
    """Choose the estimator with the least `bias^2 + deviation^2 / batch` at equal evaluations.

    Among those within 10% of the least, one whose bias does not show is preferred. Those that take more evaluations
    than the others are not considered. Where the choice has no error at all, the quickest such is taken.

    Args:
        rows: what was measured.
        evaluations: the number that counts as equal.
        batch: examples in a step of training.

    Returns:
        The choice; None where there are no rows.
    """
    equal = [row for row in rows if row.evaluations <= _OVER * evaluations] or list(rows)
    if not equal:
        return None
    error = {row.name: max(row.error(batch), _NOTHING) for row in rows}
    least = min(error[row.name] for row in equal)
    near = [row for row in equal if error[row.name] ** 2 <= _WITHIN * least**2]
    chosen = min([row for row in near if not row.biased] or near, key=lambda row: (error[row.name], row.seconds))
    told = [_numbers(chosen, error[chosen.name], evaluations, batch, len(equal))]
    others = sorted((row for row in equal if row is not chosen), key=lambda row: error[row.name])
    if others and error[others[0].name] < error[chosen.name]:
        told.append(f"{others[0].name} has {_short(error[others[0].name])}, but a bias.")
    elif others:
        told.append(f"The next best is {others[0].name} with {_short(error[others[0].name])}.")
    quick = [
        row
        for row in others
        if _CHEAPER * row.seconds <= chosen.seconds and error[row.name] <= _NEARLY * error[chosen.name]
    ]
    if quick:
        told.append(
            f"{quick[0].name} is nearly as good ({_short(error[quick[0].name])}) and takes "
            f"{1e3 * quick[0].seconds:.2g} ms instead of {1e3 * chosen.seconds:.2g} ms."
        )
    better = [row for row in rows if row not in equal and error[row.name] < error[chosen.name]]
    if better:
        names = ", ".join(f"{row.name} ({row.evaluations:.4g})" for row in better)
        told.append(f"Better, but at more evaluations: {names}.")
    return Recommendation(chosen.name, chosen.estimator, chosen.samples, batch, chosen.error(batch), " ".join(told))


def _numbers(row: Quality, error: float, evaluations: float, batch: int, count: int) -> str:
    bias = f"bias {row.bias:.2g}" if row.biased else "no bias seen"
    noise = f"standard deviation {row.deviation:.2g}" if row.deviation > _NOTHING else "no noise"
    samples = "1 sample" if row.samples == 1 else f"{row.samples} samples"
    what = (
        f"of {count} at up to {evaluations:.4g} evaluations" if count > 1 else f"at {row.evaluations:.4g} evaluations"
    )
    return (
        f"with {samples} the least error {what}: {_short(error)} of the gradient's size in a batch of {batch} "
        f"({bias}, {noise})."
    )


def _short(error: float) -> str:
    return "0" if error <= _NOTHING else f"{error:.2g}"
