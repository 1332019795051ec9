"""Short names for estimators."""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

from hardmax.errors import ArgumentError
from hardmax.estimators import AbstractEstimator


def named(estimators: Mapping[str, AbstractEstimator] | Sequence[AbstractEstimator]) -> dict[str, AbstractEstimator]:
    """Return estimators by name: the caller's, or their own, with a number where two are alike.

    Raises:
        ArgumentError: there are none, or something else is among them.
    """
    if not isinstance(estimators, Mapping):
        found: dict[str, AbstractEstimator] = {}
        for estimator in estimators:
            name, number = short_name(estimator), 2
            while name in found:
                name, number = f"{short_name(estimator)} ({number})", number + 1
            found[name] = estimator
        estimators = found
    for estimator in estimators.values():
        if not isinstance(estimator, AbstractEstimator):
            raise ArgumentError(f"estimators must be estimators such as Direct(), got {estimator!r}")
    if not estimators:
        raise ArgumentError("there is no estimator to diagnose; pass one or several, such as [Direct(), Reinforce()]")
    return dict(estimators)


def short_name(estimator: Any) -> str:
    """Return how an estimator is made, without what is at its default, but for a number that comes first."""
    if not is_dataclass(estimator):
        return repr(estimator)
    told = []
    for i, field in enumerate(field for field in fields(estimator) if field.init and field.repr):
        value = getattr(estimator, field.name)
        if field.default is MISSING or value != field.default or (i == 0 and isinstance(value, float)):
            told.append(f"{field.name}={value!r}")
    return f"{type(estimator).__name__}({', '.join(told)})"
