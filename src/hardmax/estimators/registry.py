"""The estimators by their command-line names, and the options that each uses. Does not import torch.

`hardmax train --estimator`, `hardmax diagnose`, the labels of reports and the help texts all come from this list.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from hardmax.errors import ArgumentError

if TYPE_CHECKING:
    from hardmax.estimators import AbstractEstimator
    from hardmax.spaces import AbstractSpace


@dataclass(frozen=True)
class Settings:
    """Settings of an estimator: the options of `hardmax train` of the same names, annealed.

    Attributes:
        space: the space of z.
        epsilon: strength of a perturbation.
        two_sided: whether it is applied in both directions.
        tau: temperature of a relaxation.
        hard: whether f sees hard z where a relaxation is differentiated.
        draws: where the z of a conditional gradient come from.
        baseline: of REINFORCE.
        shortlist: values that a short list has.
        shortlist_variables: variables that have one; None: all.
    """

    space: "AbstractSpace"
    epsilon: float = 1.0
    two_sided: bool = False
    tau: float = 1.0
    hard: bool = False
    draws: Literal["perturb-and-map", "gibbs"] = "perturb-and-map"
    baseline: Literal["none", "mean", "leave-one-out"] = "mean"
    shortlist: int = 4
    shortlist_variables: int | None = None


@dataclass(frozen=True)
class EstimatorRecord:
    """An estimator on the command line.

    Attributes:
        name: its name for `--estimator`.
        options: the options that it uses; all others change nothing.
        make: maps the module `hardmax.estimators` and settings to the estimator.
    """

    name: str
    options: tuple[str, ...]
    make: "Callable[[Any, Settings], AbstractEstimator]"


_RECORDS = (
    EstimatorRecord("direct", ("epsilon", "two_sided"), lambda e, s: e.Direct(s.epsilon, s.two_sided)),
    EstimatorRecord("adaptive-direct", (), lambda e, s: e.AdaptiveDirect()),
    EstimatorRecord("averaged-direct", ("epsilon", "two_sided"), lambda e, s: e.AveragedDirect(s.epsilon, s.two_sided)),
    EstimatorRecord("debiased-direct", ("epsilon",), lambda e, s: e.DebiasedDirect(s.epsilon)),
    EstimatorRecord(
        "shortlist-direct",
        ("epsilon", "shortlist", "shortlist_variables"),
        lambda e, s: e.ShortlistDirect(s.epsilon, s.shortlist, s.shortlist_variables),
    ),
    EstimatorRecord("exact", (), lambda e, s: e.Exact()),
    EstimatorRecord("local-expectation", (), lambda e, s: e.LocalExpectation(roulette=s.space.categories is None)),
    EstimatorRecord("gibbs-covariance", (), lambda e, s: e.GibbsCovariance()),
    EstimatorRecord("conditional", ("draws",), lambda e, s: e.ConditionalGradient(s.draws, roulette=True)),
    EstimatorRecord("reinforce", ("baseline",), lambda e, s: e.Reinforce(s.baseline)),
    EstimatorRecord("unordered-set", (), lambda e, s: e.UnorderedSet()),
    EstimatorRecord("rebar", ("tau",), lambda e, s: e.Rebar(s.tau, learned=True)),
    EstimatorRecord("muprop", (), lambda e, s: e.MuProp()),
    EstimatorRecord("double-control-variates", (), lambda e, s: e.DoubleControlVariates()),
    EstimatorRecord("rodeo", (), lambda e, s: e.Rodeo()),
    EstimatorRecord("disarm", (), lambda e, s: _make_disarm(e, s)),
    EstimatorRecord("arm", (), lambda e, s: e.Arm()),
    EstimatorRecord("arsm", (), lambda e, s: e.Arsm()),
    EstimatorRecord("gumbel-softmax", ("tau", "hard"), lambda e, s: e.GumbelSoftmax(s.tau, s.hard)),
    EstimatorRecord("gumbel-rao", ("tau",), lambda e, s: e.GumbelRao(tau=s.tau)),
    EstimatorRecord("straight-through", ("tau",), lambda e, s: e.StraightThrough(s.tau)),
    EstimatorRecord("gapped-straight-through", ("tau",), lambda e, s: e.GappedStraightThrough(tau=s.tau)),
    EstimatorRecord("reinmax", ("tau",), lambda e, s: e.ReinMax(s.tau)),
    EstimatorRecord("implicit-mle", ("epsilon", "two_sided"), lambda e, s: e.ImplicitMLE(s.epsilon, s.two_sided)),
    EstimatorRecord("adaptive-implicit-mle", (), lambda e, s: e.AdaptiveImplicitMLE()),
)
ESTIMATORS = {record.name: record for record in _RECORDS}

# Options that belong to another option: they have an effect where that one is used.
_ANNEALING = {
    "epsilon_floor": ("epsilon",),
    "tau_floor": ("tau",),
    "anneal": ("epsilon", "tau"),
    "anneal_every": ("epsilon", "tau"),
}


def _make_disarm(estimators: Any, settings: Settings) -> "AbstractEstimator":
    from hardmax.spaces import Binary

    return estimators.DisArm() if isinstance(settings.space, Binary) else estimators.DisArmCategorical()


def make_estimator(name: str, settings: Settings) -> "AbstractEstimator":
    """Return the estimator of a name, created with the settings that it uses."""
    import hardmax.estimators as estimators

    return ESTIMATORS[name].make(estimators, settings)


def unused_options(used: Iterable[str]) -> set[str]:
    """Return the options of estimators that have no effect where these are used."""
    used = set(used)
    known = {option for record in _RECORDS for option in record.options}
    known |= {option for option, owners in _ANNEALING.items() if not used & set(owners)}
    return known - used


def check_two_samples(estimator: object, samples: int) -> None:
    """Raise `ArgumentError` unless there are two samples: a baseline of the others needs another one.

    Args:
        estimator: named in the error.
        samples: S.
    """
    if samples < 2:
        raise ArgumentError(
            f"{estimator} needs at least two samples, got samples={samples}; pass samples=2 or more (hardmax train: "
            "--samples 2)"
        )
