"""What the gradient lab measures: q, the exact gradient, clouds of estimates, and ladders of epsilon or tau.

The numbers are those of `hardmax.diagnosis.diagnose`, which computes them here too.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.diagnosis import Diagnosis, diagnose, enumerate_reference
from hardmax.diagnosis.estimates import Moments
from hardmax.errors import HardmaxError
from hardmax.studio.gradients.problem import Problem, make_estimators, make_lab_estimator, make_problem
from hardmax.studio.gradients.state import PARAMETER_RANGE, LabState, get_parameter, parse_estimator

MOST_OUTCOMES = 16  # z in the list of q
_MOST_POINTS = 500  # of a cloud
_LADDER_VALUES, _LADDER_DRAWS = 7, 400
_LEAST_RANGE = 0.3  # half the width of a cloud's axes, relative to the exact gradient


@dataclass(frozen=True)
class Outcomes:
    """The most probable z.

    Attributes:
        labels: each z as text.
        probabilities: q(z).
        values: f(z).
        rest: number of z that are not in the list.
        mean: the expectation of f.
    """

    labels: list[str]
    probabilities: list[float]
    values: list[float]
    rest: int
    mean: float


@dataclass(frozen=True)
class Cloud:
    """The estimates of one estimator.

    Attributes:
        points: `[x, y, count]` of the two components on the axes, equal estimates counted together.
        mean: mean of each component over all draws.
        deviation: standard deviation of each component.
    """

    points: list[list[float]]
    mean: list[float]
    deviation: list[float]


@dataclass(frozen=True)
class Measurements:
    """What is shown of one state.

    Attributes:
        state: the state that was measured.
        outcomes: q and f.
        exact: the exact gradient, flat.
        diagnosis: the measurements of the estimators; None if there is no gradient, or no estimator.
        clouds: the estimates, by the text of the estimator in the state.
        range: half the width of the axes of all clouds.
        problem: why there is no diagnosis, or nothing.
    """

    state: LabState
    outcomes: Outcomes
    exact: list[float]
    diagnosis: Diagnosis | None
    clouds: dict[str, Cloud]
    range: float
    problem: str = ""


@dataclass(frozen=True)
class Ladder:
    """An estimator at several values of its parameter.

    Attributes:
        name: name of the estimator.
        parameter: "epsilon" or "tau".
        values: the values of the parameter.
        bias: bias at each value; the noise floor where it is not significant.
        biased: whether it is significant.
        deviation: standard deviation of one estimate.
    """

    name: str
    parameter: str
    values: list[float]
    bias: list[float]
    biased: list[bool]
    deviation: list[float]


def measure_state(check: Callable[[], None], state: LabState) -> Measurements:
    """Measure what a state describes.

    Args:
        check: called after every block of estimates; raises an error to cancel the work.
        state: the problem and the estimators.
    """
    problem = make_problem(state)
    outcomes = _list_outcomes(problem)
    reference = enumerate_reference(problem.f, problem.scores, problem.space)
    exact = reference.gradient.flatten()
    collected: dict[str, _CloudBuilder] = {}

    def collect(name: str, estimates: Tensor) -> None:
        check()
        collected.setdefault(name, _CloudBuilder(state)).add(estimates.flatten(1))

    diagnosis, reason = None, ""
    try:
        diagnosis = diagnose(
            problem.f,
            problem.scores,
            problem.space,
            make_estimators(state, problem),
            draws=state.draws,
            samples=state.samples or None,
            generator=torch.Generator().manual_seed(state.seed),
            collect=collect,
        )
    except HardmaxError as error:  # no gradient, or no estimators
        reason = str(error)
    clouds = {name: builder.build() for name, builder in collected.items()}
    half = _choose_range(exact, clouds, (state.horizontal, state.vertical))
    return Measurements(state, outcomes, exact.tolist(), diagnosis, clouds, half, reason)


def measure_ladders(check: Callable[[], None], state: LabState, samples: dict[str, int]) -> list[Ladder]:
    """Measure the estimators of a state that have an epsilon or a tau, at several values of it.

    Args:
        check: as for `measure_state`.
        state: the problem and the estimators.
        samples: number of samples of each estimator, by its text in the state; the others are left out.
    """
    problem, ladders = make_problem(state), {}
    low, high = PARAMETER_RANGE
    values = [round(float(value), 4) for value in torch.logspace(low, high, _LADDER_VALUES)]
    for text, count in samples.items():
        name, _ = parse_estimator(text)
        parameter = get_parameter(name)
        if parameter is None or name in ladders:
            continue
        diagnosis = diagnose(
            problem.f,
            problem.scores,
            problem.space,
            {str(value): make_lab_estimator(name, value, problem.space) for value in values},
            draws=_LADDER_DRAWS,
            samples=count,
            generator=torch.Generator().manual_seed(state.seed),
            observe=lambda name, count: check(),
        )
        rows = diagnosis.rows
        ladders[name] = Ladder(
            name,
            parameter,
            [float(row.name) for row in rows],
            [row.bias if row.biased else row.floor for row in rows],
            [row.biased for row in rows],
            [row.deviation for row in rows],
        )
    return list(ladders.values())


def _list_outcomes(problem: Problem) -> Outcomes:
    members = problem.space.enumerate()
    q = problem.space.log_prob(problem.scores, members).exp()
    values = problem.f(members)
    shown = torch.arange(len(members))
    if len(members) > MOST_OUTCOMES:
        shown = q.argsort(descending=True)[:MOST_OUTCOMES]
    return Outcomes(
        [_format_z(problem, z) for z in members[shown]],
        q[shown].tolist(),
        values[shown].tolist(),
        len(members) - len(shown),
        float((q * values).sum()),
    )


def _format_z(problem: Problem, z: Tensor) -> str:
    """Return a category as its number, a path as its steps, and anything else as zeros and ones."""
    if problem.space.categories is not None:
        return str(int(z.argmax()) + 1)
    if z.dim() == 2:
        cells = z.nonzero().tolist()
        return "".join("→" if after[1] > before[1] else "↓" for before, after in pairwise(cells))
    return "".join(str(int(bit)) for bit in z)


class _CloudBuilder:
    """Collects the estimates of one estimator."""

    def __init__(self, state: LabState) -> None:
        self._axes = [state.horizontal, state.vertical]
        self._moments, self._points, self._count = Moments(), [], 0

    def add(self, estimates: Float[Tensor, "D K"]) -> None:
        self._moments.add(estimates)
        self._points.append(estimates[: max(_MOST_POINTS - self._count, 0), self._axes])
        self._count += len(estimates)

    def build(self) -> Cloud:
        # Rounded in float64, so that the numbers are short in JSON too.
        points, counts = torch.cat(self._points).mul(1e4).round().div(1e4).unique(dim=0, return_counts=True)
        rows = torch.cat([points, counts[:, None].double()], 1).tolist()
        return Cloud(rows, self._moments.mean.tolist(), self._moments.variance.sqrt().tolist())


def _choose_range(exact: Tensor, clouds: dict[str, Cloud], axes: tuple[int, int]) -> float:
    """Return half the width of axes that show all clouds and their means, except clouds much wider than most."""
    spreads = sorted(max(cloud.deviation[axis] for axis in axes) for cloud in clouds.values())
    distances = [abs(cloud.mean[axis] - float(exact[axis])) for cloud in clouds.values() for axis in axes]
    spread = min(spreads[-1], 4 * spreads[len(spreads) // 2]) if spreads else 0.0
    return max(2.5 * spread, 1.3 * max(distances, default=0.0), _LEAST_RANGE * float(exact.norm()), 1e-3)
