"""The quality of an estimator in numbers, its short name, and the recommended estimator."""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from math import sqrt
from typing import Any

from hardmax.errors import ArgumentError
from hardmax.estimators import AbstractEstimator


def name_estimators(
    estimators: Mapping[str, AbstractEstimator] | Sequence[AbstractEstimator],
) -> dict[str, AbstractEstimator]:
    """Return estimators by name: the caller's names, or constructor calls, with a number where two are equal.

    Raises:
        ArgumentError: there are no estimators, or an element is not one.
    """
    if not isinstance(estimators, Mapping):
        by_name: dict[str, AbstractEstimator] = {}
        for estimator in estimators:
            name, number = format_estimator(estimator), 2
            while name in by_name:
                name, number = f"{format_estimator(estimator)} ({number})", number + 1
            by_name[name] = estimator
        estimators = by_name
    for estimator in estimators.values():
        if not isinstance(estimator, AbstractEstimator):
            raise ArgumentError(f"estimators must be estimators such as Direct(), got {estimator!r}")
    if not estimators:
        raise ArgumentError("there is no estimator to diagnose; pass one or several, such as [Direct(), Reinforce()]")
    return dict(estimators)


def format_estimator(estimator: Any) -> str:
    """Return the constructor call of an estimator, without default arguments except a leading float."""
    if not is_dataclass(estimator):
        return repr(estimator)
    arguments = []
    for i, field in enumerate(field for field in fields(estimator) if field.init and field.repr):
        value = getattr(estimator, field.name)
        if field.default is MISSING or value != field.default or (i == 0 and isinstance(value, float)):
            arguments.append(f"{field.name}={value!r}")
    return f"{type(estimator).__name__}({', '.join(arguments)})"


@dataclass(frozen=True)
class Quality:
    """How far an estimator's estimates are from the exact gradient, and the cost of one of them.

    With the estimates `g_db` of example b, their mean `m_b` and the exact gradient `G_b`, all is relative to
    `|G|^2 = sum_b |G_b|^2`: squares are added over examples before anything is divided, so that examples with a tiny
    gradient do not dominate.

    Attributes:
        name: of the row.
        estimator: the estimator itself.
        samples: S of each estimate.
        bias: `sqrt(sum_b |m_b - G_b|^2 - noise) / |G|`, zero where the noise exceeds the sum; the noise that was
            subtracted is `floor^2`.
        floor: the noise floor of the bias: `sqrt(sum_b variance_b / draws) / |G|`, and the same of the reference where
            that is itself a mean of estimates.
        biased: whether the bias is significant, by four standard deviations of the noise that was subtracted.
        deviation: standard deviation of one estimate, `sqrt(sum_b variance_b) / |G|`, over all scores of an example.
        cosine: of a single estimate with the exact gradient, over the scores of an example, mean over draws and
            examples; an estimate of zero counts as zero, an example whose gradient is zero is excluded.
        evaluations: of f, mean per example for one estimate.
        solves: arg maxes, counted the same way.
        seconds: of one estimate for the whole batch, with its backward pass to the scores, computed in blocks; median.
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
        """Return `sqrt(bias^2 + deviation^2 / batch)`: the error of a mean over `batch` examples.

        Noise falls with their number, bias does not.
        """
        return sqrt(self.bias**2 + self.deviation**2 / batch)

    def to_dict(self) -> dict[str, Any]:
        """Return all fields, for JSON."""
        return {**vars(self), "estimator": format_estimator(self.estimator)}


@dataclass(frozen=True)
class Refusal:
    """An estimator that could not take part.

    Attributes:
        name: of the estimator.
        estimator: itself.
        reason: the message of its error.
    """

    name: str
    estimator: AbstractEstimator
    reason: str

    def to_dict(self) -> dict[str, Any]:
        """Return all fields, for JSON."""
        return {**vars(self), "estimator": format_estimator(self.estimator)}


BATCH = 100  # examples in a step of training
_OVER = 1.05  # evaluations beyond the budget that still count as equal
_WITHIN = 1.1  # of the least squared error: there an estimator without bias is preferred
_NEARLY = 1.25  # of the least error: worth it where time matters
_CHEAPER = 3.0
_NOTHING = 1e-5  # smaller errors are rounding, and count as equal


@dataclass(frozen=True)
class Recommendation:
    """The estimator to use, and why.

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
        """Return all fields, for JSON."""
        return {**vars(self), "estimator": format_estimator(self.estimator)}


def recommend(rows: Sequence[Quality], evaluations: float, batch: int = BATCH) -> Recommendation | None:
    """Choose the estimator with the least `bias^2 + deviation^2 / batch` at equal evaluations.

    Among those within 10% of the least, one without a significant bias is preferred. Those that take more evaluations
    than the others are not considered. Where the choice has no error at all, the fastest such estimator is chosen.

    Args:
        rows: the measurements.
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
    sentences = [_numbers(chosen, error[chosen.name], evaluations, batch, len(equal))]
    others = sorted((row for row in equal if row is not chosen), key=lambda row: error[row.name])
    if others and error[others[0].name] < error[chosen.name]:
        sentences.append(f"{others[0].name} has {_short(error[others[0].name])}, but a bias.")
    elif others:
        sentences.append(f"The next best is {others[0].name} with {_short(error[others[0].name])}.")
    quick = [
        row
        for row in others
        if _CHEAPER * row.seconds <= chosen.seconds and error[row.name] <= _NEARLY * error[chosen.name]
    ]
    if quick:
        sentences.append(
            f"{quick[0].name} is nearly as good ({_short(error[quick[0].name])}) and takes "
            f"{1e3 * quick[0].seconds:.2g} ms instead of {1e3 * chosen.seconds:.2g} ms."
        )
    better = [row for row in rows if row not in equal and error[row.name] < error[chosen.name]]
    if better:
        names = ", ".join(f"{row.name} ({row.evaluations:.4g})" for row in better)
        sentences.append(f"Better, but at more evaluations: {names}.")
    return Recommendation(
        chosen.name, chosen.estimator, chosen.samples, batch, chosen.error(batch), " ".join(sentences)
    )


def _numbers(row: Quality, error: float, evaluations: float, batch: int, count: int) -> str:
    bias = f"bias {row.bias:.2g}" if row.biased else "no bias seen"
    noise = f"standard deviation {row.deviation:.2g}" if row.deviation > _NOTHING else "no noise"
    samples = "1 sample" if row.samples == 1 else f"{row.samples} samples"
    budget = (
        f"of {count} at up to {evaluations:.4g} evaluations" if count > 1 else f"at {row.evaluations:.4g} evaluations"
    )
    return (
        f"with {samples} the least error {budget}: {_short(error)} of the gradient's size in a batch of {batch} "
        f"({bias}, {noise})."
    )


def _short(error: float) -> str:
    return "0" if error <= _NOTHING else f"{error:.2g}"
