"""`estimator="auto"`: the choice of an estimator by the space and by the number of evaluations of f.

The choice depends on shapes and on the methods of f, never on measured time: the same call chooses the same estimator
on every machine.
"""

import logging

from hardmax.errors import ArgumentError
from hardmax.estimators.abstract import AbstractEstimator
from hardmax.estimators.direct import Direct
from hardmax.estimators.exact import Exact, LocalExpectation
from hardmax.estimators.registry import ESTIMATORS, Settings, make_estimator
from hardmax.estimators.structured import ConditionalGradient, GibbsCovariance
from hardmax.spaces import AbstractFactorised, AbstractSpace, Categorical
from hardmax.types import Objective
from hardmax.validation import check_space

MANY_EVALUATIONS = 20
"""No estimator that is chosen automatically takes more evaluations of f than this, unless f makes them cheap."""

_log = logging.getLogger(__name__)


def choose_estimator(name: str, f: Objective, space: AbstractSpace) -> AbstractEstimator:
    """Choose the estimator of `hardmax.expectation`.

    Args:
        name: must be "auto".
        f: the objective; `rows`, `table`, `pairs` and `changes` make evaluations cheap.
        space: the space of z.

    Raises:
        ArgumentError: name is not "auto".

    Example:
        >>> import hardmax as hm
        >>> choose_estimator("auto", lambda z: z.sum(-1), hm.Binary(6))
        LocalExpectation(roulette=False)
        >>> choose_estimator("auto", lambda z: z.sum(-1), hm.Binary(200))
        GibbsCovariance()
    """
    _check_name(name)
    check_space(space)
    if space.categories is not None:
        return Exact() if _has_table(f) or space.size <= MANY_EVALUATIONS else _sample(space, Exact(), space.size)
    if isinstance(space, AbstractFactorised):
        return _choose_for_independent(f, space)
    return GibbsCovariance() if space.offers("draw") else Direct()


def choose_bound_estimator(name: str, likelihood: Objective, space: AbstractSpace) -> AbstractEstimator:
    """Choose the estimator of `hardmax.elbo`, where posterior direct and the conditional gradient are possible.

    Arguments and errors as for `choose_estimator`.
    """
    _check_name(name)
    check_space(space)
    if space.categories is not None:
        if _has_table(likelihood):
            return Exact()
        return Direct() if space.size <= MANY_EVALUATIONS else _sample(space, Direct(), space.size)
    if isinstance(space, AbstractFactorised):
        return _choose_for_independent(likelihood, space)
    if space.offers("draw"):
        return GibbsCovariance()
    return ConditionalGradient(roulette=hasattr(likelihood, "rows")) if space.offers("fields") else Direct()


def needs_many_evaluations(space: AbstractSpace) -> bool:
    """Return whether evaluating z and all its single changes takes more than `MANY_EVALUATIONS`."""
    return 1 + space.changes > MANY_EVALUATIONS


def _choose_for_independent(f: Objective, space: AbstractFactorised) -> AbstractEstimator:
    local = LocalExpectation(roulette=hasattr(f, "rows"))
    if not needs_many_evaluations(space) or _evaluates_changes(f, space):
        return local
    return _sample(space, local, 1 + space.changes)


def _sample(space: AbstractSpace, instead: AbstractEstimator, evaluations: int) -> AbstractEstimator:
    """Return leave-one-out samples. At equal evaluations they have about the variance of `LocalExpectation`."""
    estimator = GibbsCovariance()
    _log.info(
        "auto chooses %s with %d samples for %s: %s would evaluate f %d times per example",
        estimator,
        estimator.default_samples,
        space,
        instead,
        evaluations,
    )
    return estimator


def _evaluates_changes(f: Objective, space: AbstractSpace) -> bool:
    """Return whether f evaluates single changes of z by itself; a likelihood does so for some decoders."""
    if hasattr(f, "evaluates_changes"):
        return f.evaluates_changes(space)  # pyright: ignore[reportFunctionMemberAccess]
    return hasattr(f, "changes") or (hasattr(f, "flips") and space.offers("fields"))


def _has_table(f: Objective) -> bool:
    return hasattr(f, "table") or hasattr(f, "pairs")


def _check_name(name: str) -> None:
    if name != "auto":
        raise ArgumentError(f"estimator must be an estimator such as Direct() or 'auto', got {name!r}{_suggest(name)}")


def _suggest(name: str) -> str:
    """Return what to pass instead of the name of an estimator on the command line."""
    key = name.lower().replace("_", "-").replace(" ", "-")
    if key not in ESTIMATORS:
        return ""
    return f"; pass hm.{type(make_estimator(key, Settings(Categorical(2)))).__name__}()"


def check_estimator(estimator: object) -> None:
    """Raise `ArgumentError` unless this is an instance of an estimator."""
    if isinstance(estimator, AbstractEstimator):
        return
    if isinstance(estimator, type) and issubclass(estimator, AbstractEstimator):
        raise ArgumentError(
            f"estimator must be an instance, got the class {estimator.__name__}; pass {estimator.__name__}()"
        )
    if isinstance(estimator, str):
        _check_name(estimator)
    raise ArgumentError(f"estimator must be an estimator such as hm.Direct(), got {estimator!r}")
