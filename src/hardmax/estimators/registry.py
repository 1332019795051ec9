"""The registry of estimators: their command-line names, and the options that each of them uses.

`hardmax train --estimator`, `hardmax diagnose`, the labels of reports and the help texts come from this list. This
module does not import torch.
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
    """Settings of an estimator at one training step: options of `hardmax train` with their annealed values.

    Attributes:
        space: the space of z.
        epsilon: strength of the perturbation of the arg max.
        two_sided: whether to perturb in both directions.
        tau: temperature of a relaxation.
        hard: whether f is evaluated at hard z where a relaxation is differentiated.
        draws: how the z of `ConditionalGradient` are drawn.
        baseline: baseline of REINFORCE.
        shortlist: number of values on the list of `ShortlistDirect`.
        shortlist_variables: number of variables that `ShortlistDirect` evaluates in a step; None: all.
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
        options: the options that it uses; all other options have no effect.
        make: function of the module `hardmax.estimators` and the settings that returns the estimator.
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
    EstimatorRecord("reinmax-rao", ("tau",), lambda e, s: e.ReinMaxRao(tau=s.tau)),
    EstimatorRecord("reinmax-cv", ("tau",), lambda e, s: e.ReinMaxCV(tau=s.tau)),
    EstimatorRecord("implicit-mle", ("epsilon", "two_sided"), lambda e, s: e.ImplicitMLE(s.epsilon, s.two_sided)),
    EstimatorRecord("adaptive-implicit-mle", (), lambda e, s: e.AdaptiveImplicitMLE()),
)
ESTIMATORS = {record.name: record for record in _RECORDS}

# Options that belong to other options: they have an effect only where one of those is used.
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
    """Create the estimator of this name from those settings that it uses."""
    import hardmax.estimators as estimators

    return ESTIMATORS[name].make(estimators, settings)


def find_unused_options(used: Iterable[str]) -> set[str]:
    """Return the options of estimators that have no effect if an estimator uses only the given options."""
    used = set(used)
    options = {option for record in _RECORDS for option in record.options}
    options |= {option for option, owners in _ANNEALING.items() if not used & set(owners)}
    return options - used


def check_two_samples(estimator: object, samples: int) -> None:
    """Raise `ArgumentError` if there are fewer than two samples, which a leave-one-out baseline needs.

    Args:
        estimator: the estimator, for the error message.
        samples: number of samples S.
    """
    if samples < 2:
        raise ArgumentError(
            f"{estimator} needs at least two samples, got samples={samples}; pass samples=2 or more (hardmax train: "
            "--samples 2)"
        )
