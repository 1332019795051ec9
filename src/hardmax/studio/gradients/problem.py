"""The problem of the gradient lab: space, scores and f of a state, and its estimators."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.diagnosis.candidates import find_least_samples
from hardmax.errors import ArgumentError, NotExactError
from hardmax.estimators import AbstractEstimator
from hardmax.estimators.registry import ESTIMATORS, Settings, make_estimator
from hardmax.objectives import LinearObjective
from hardmax.spaces import AbstractSpace, Binary, Categorical, GridPath, PairwiseBinary, Subset
from hardmax.studio.gradients.state import LabState, parse_estimator
from hardmax.types import Objective


@dataclass(frozen=True, eq=False)
class Problem:
    """An expectation whose gradient is estimated.

    Attributes:
        space: the space of z.
        scores: `[*score]`.
        f: the objective.
    """

    space: AbstractSpace
    scores: Float[Tensor, "..."]
    f: Objective


def make_problem(state: LabState) -> Problem:
    """Return the problem that a state describes."""
    space = _make_space(state)
    scores = torch.tensor(state.scores).view(space.score_shape)
    return Problem(space, scores, _make_objective(state, space))


def _make_space(state: LabState) -> AbstractSpace:
    if state.space == "categorical":
        return Categorical(state.size)
    if state.space == "bits":
        return Binary(state.size)
    if state.space == "pairwise":
        return PairwiseBinary(state.size)
    if state.space == "subset":
        return Subset(state.size, state.chosen)
    return GridPath(state.size, state.size, on="nodes")


def _make_objective(state: LabState, space: AbstractSpace) -> Objective:
    r"""Return f, which is also defined between the z, since relaxations evaluate it there.

    With worths $w$: "linear" is $\langle w, z \rangle$; "squared" is $-(\langle w, z \rangle - \mathrm{target})^2$;
    "curved", for one categorical, is $\max w - (\sum_k \sqrt{\max w - w_k} \, z_k)^2$, which is $w_k$ at category k;
    "table" is the multilinear function with the given values at the codes of bits; "parity" is $w \prod_i (2 z_i - 1)$.
    """
    worth = torch.tensor(state.worth)
    if state.f == "curved":
        top = worth.max()
        roots = (top - worth).sqrt()
        return lambda z: top - (z @ roots).square()
    if state.f == "table":
        codes = Binary(state.size).enumerate().bool()
        return lambda z: torch.where(codes, z[..., None, :], 1 - z[..., None, :]).prod(-1) @ worth
    if state.f == "parity":
        return lambda z: worth * (2 * z - 1).prod(-1)
    if state.f == "linear" and state.space != "pairwise":
        return LinearObjective(worth.view(space.score_shape), space)
    worth = worth.view(space.event_shape)
    dims = tuple(range(-worth.dim(), 0))
    if state.f == "linear":
        return lambda z: (z * worth).sum(dims)
    return lambda z: -((z * worth).sum(dims) - state.target).square()


def make_estimators(state: LabState, problem: Problem) -> dict[str, AbstractEstimator]:
    """Return the chosen estimators by their text in the state; one that is chosen twice occurs once."""
    return {text: make_lab_estimator(*parse_estimator(text), problem.space) for text in state.estimators}


def make_lab_estimator(name: str, value: float | None, space: AbstractSpace) -> AbstractEstimator:
    """Return an estimator of the registry, with epsilon or tau set to a value."""
    value = 1.0 if value is None else value
    # A baseline over the batch would need a batch: the lab has one example.
    estimator = make_estimator(name, Settings(space, epsilon=value, tau=value, baseline="leave-one-out"))
    # Roulette evaluates f for some examples of a batch only.
    return replace(estimator, roulette=False) if getattr(estimator, "roulette", False) else estimator  # pyright: ignore


def list_possible_estimators(problem: Problem) -> list[str]:
    """Return the names of the estimators that support the space of a problem, with its f.

    Those that adapt to the other examples of a batch are left out: here is one example.
    """
    names = []
    for name in ESTIMATORS:
        estimator = make_lab_estimator(name, None, problem.space).specialise(problem.f)
        if estimator.couples_examples:
            continue
        try:
            find_least_samples(estimator, problem.space)
        except (NotExactError, ArgumentError):
            continue
        names.append(name)
    return names
