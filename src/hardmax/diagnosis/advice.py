"""The measured quality of an estimator, its name in the table, and the recommended estimator."""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from math import sqrt
from typing import Any

from hardmax.errors import ArgumentError
from hardmax.estimators import AbstractEstimator


def name_estimators(
    estimators: Mapping[str, AbstractEstimator] | Sequence[AbstractEstimator],
) -> dict[str, AbstractEstimator]:
    """Return estimators by name: the caller's names, or their constructor calls, numbered if two are equal.

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
    r"""How far an estimator's estimates are from the exact gradient, and the cost of one of them.

    Write $g_{db}$ for the estimates of example b, $m_b$ for their mean and $G_b$ for the exact gradient. All numbers
    are relative to $|G|^2 = \sum_b |G_b|^2$: squares are added over examples before anything is divided, so that
    examples with a tiny gradient do not dominate.

    Attributes:
        name: name of the row.
        estimator: the estimator itself.
        samples: S, the number of samples of each estimate.
        bias: $\sqrt{\sum_b |m_b - G_b|^2 - \mathrm{noise}} / |G|$, zero where the noise exceeds the sum. The
            noise that is subtracted is $\mathrm{floor}^2$.
        floor: noise floor of the bias, $\sqrt{\sum_b \mathrm{variance}_b / \mathrm{draws}} / |G|$. If the
            reference is itself a mean of estimates, it includes the variance of the reference.
        biased: whether the bias is significant: it exceeds four standard deviations of the subtracted noise.
        deviation: standard deviation of one estimate, $\sqrt{\sum_b \mathrm{variance}_b} / |G|$, over all scores
            of an example.
        cosine: cosine between a single estimate and the exact gradient, over the scores of an example, mean over draws
            and examples. An estimate of zero counts as zero. An example without a gradient has no cosine and is left
            out; so is one whose gradient is below 1 % of the root mean square over examples.
        evaluations: number of evaluations of f for one estimate, mean per example.
        solves: number of arg maxes, counted in the same way.
        seconds: time of one estimate for the entire batch, with its backward pass to the scores. Estimates are computed
            in blocks; this is the median.
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
        r"""Return the error of a mean over `batch` examples.

        $$ \sqrt{\mathrm{bias}^2 + \mathrm{deviation}^2 / \mathrm{batch}} $$

        Noise falls with the number of examples, bias does not.
        """
        return sqrt(self.bias**2 + self.deviation**2 / batch)

    def to_dict(self) -> dict[str, Any]:
        """Return all fields, for JSON."""
        return {**vars(self), "estimator": format_estimator(self.estimator)}


@dataclass(frozen=True)
class Refusal:
    """An estimator that could not be measured.

    Attributes:
        name: name of the estimator.
        estimator: the estimator itself.
        reason: message of the error that it raised.
    """

    name: str
    estimator: AbstractEstimator
    reason: str

    def to_dict(self) -> dict[str, Any]:
        """Return all fields, for JSON."""
        return {**vars(self), "estimator": format_estimator(self.estimator)}


BATCH = 100  # default number of examples in a training step
_BUDGET_TOLERANCE = 1.05  # evaluations up to this multiple of the budget count as equal
_NEAR_LEAST = 1.1  # up to this multiple of the least squared error, an estimator without bias is preferred
_NEARLY_AS_GOOD = 1.25  # up to this multiple of the least error, a much faster estimator is mentioned
_MUCH_FASTER = 3.0
_SAME_TIME = 1.1  # times within this ratio are called the same
_ROUNDING = 1e-5  # smaller errors are rounding, and count as equal


@dataclass(frozen=True)
class Recommendation:
    r"""The estimator to use, and why.

    Attributes:
        name: name of its row.
        estimator: the estimator itself.
        samples: S, its number of samples.
        batch: number of examples in the batch that the error refers to.
        error: $\sqrt{\mathrm{bias}^2 + \mathrm{deviation}^2 / \mathrm{batch}}$, relative to the exact gradient.
        reason: the reason in a few sentences, with the numbers.
        seconds: time of one estimate for the entire batch that was measured.
    """

    name: str
    estimator: AbstractEstimator
    samples: int
    batch: int
    error: float
    reason: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"

    def to_dict(self) -> dict[str, Any]:
        """Return all fields, for JSON."""
        return {**vars(self), "estimator": format_estimator(self.estimator)}


def recommend(rows: Sequence[Quality], evaluations: float, batch: int = BATCH) -> Recommendation | None:
    """Choose the estimator with the least `bias^2 + deviation^2 / batch` at equal evaluations.

    Among the estimators within 10% of the least, one without a significant bias is preferred. Estimators that exceed
    the budget of evaluations are not considered, unless all do. If several have no error at all, the fastest is chosen.

    Args:
        rows: the measurements.
        evaluations: budget of evaluations of f for each example.
        batch: number of examples in a training step.

    Returns:
        The recommendation; None if there are no rows.
    """
    equal = [row for row in rows if row.evaluations <= _BUDGET_TOLERANCE * evaluations] or list(rows)
    if not equal:
        return None
    error = {row.name: max(row.error(batch), _ROUNDING) for row in rows}
    least = min(error[row.name] for row in equal)
    near = [row for row in equal if error[row.name] ** 2 <= _NEAR_LEAST * least**2]
    chosen = min([row for row in near if not row.biased] or near, key=lambda row: (error[row.name], row.seconds))
    sentences = [_describe_choice(chosen, error[chosen.name], evaluations, batch, len(equal))]
    others = sorted((row for row in equal if row is not chosen), key=lambda row: error[row.name])
    if others and error[others[0].name] < error[chosen.name]:
        price = _compare_seconds(others[0], chosen)
        sentences.append(f"{others[0].name} has {_format_error(error[others[0].name])}, but a bias, {price}.")
    elif others:
        price = _compare_seconds(others[0], chosen)
        sentences.append(f"The next best is {others[0].name} with {_format_error(error[others[0].name])}, {price}.")
    quick = [
        row
        for row in others
        if _MUCH_FASTER * row.seconds <= chosen.seconds and error[row.name] <= _NEARLY_AS_GOOD * error[chosen.name]
    ]
    if quick:
        sentences.append(
            f"{quick[0].name} is nearly as good ({_format_error(error[quick[0].name])}) and takes "
            f"{_format_milliseconds(quick[0])} instead of {_format_milliseconds(chosen)}."
        )
    better = [row for row in rows if row not in equal and error[row.name] < error[chosen.name]]
    if better:
        names = ", ".join(f"{row.name} ({row.evaluations:.4g})" for row in better)
        sentences.append(f"Better, but at more evaluations: {names}.")
    return Recommendation(
        chosen.name, chosen.estimator, chosen.samples, batch, chosen.error(batch), " ".join(sentences), chosen.seconds
    )


def _describe_choice(row: Quality, error: float, evaluations: float, batch: int, count: int) -> str:
    bias = f"bias {row.bias:.2g}" if row.biased else "no bias seen"
    noise = f"standard deviation {row.deviation:.2g}" if row.deviation > _ROUNDING else "no noise"
    samples = "1 sample" if row.samples == 1 else f"{row.samples} samples"
    budget = (
        f"of {count} at up to {evaluations:.4g} evaluations" if count > 1 else f"at {row.evaluations:.4g} evaluations"
    )
    return (
        f"with {samples} the least error {budget}: {_format_error(error)} of the gradient's size in a batch of {batch} "
        f"({bias}, {noise}). One estimate of the batch takes {_format_milliseconds(row)}."
    )


def _compare_seconds(row: Quality, other: Quality) -> str:
    """Return the time of an estimate, and its ratio to that of another estimator."""
    ratio = row.seconds / other.seconds if other.seconds else 1.0
    length = "about as long" if 1 / _SAME_TIME < ratio < _SAME_TIME else f"{ratio:.2g} times as long"
    return f"in {_format_milliseconds(row)} ({length})"


def _format_milliseconds(row: Quality) -> str:
    return f"{1e3 * row.seconds:.2g} ms"


def _format_error(error: float) -> str:
    return "0" if error <= _ROUNDING else f"{error:.2g}"
