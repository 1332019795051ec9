"""One draw of direct optimization in slow motion: each step from the scores to the estimate of the gradient."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from hardmax.errors import NotExactError
from hardmax.estimators import Direct
from hardmax.estimators._single_changes import evaluate_single_changes
from hardmax.evaluator import Evaluator
from hardmax.studio.gradients.problem import Problem, make_problem
from hardmax.studio.gradients.state import LabState


@dataclass(frozen=True)
class DirectDraw:
    """The steps of one estimate of `Direct`; every list has one number for each score.

    Attributes:
        scores: the scores.
        perturbed: scores plus noise.
        z: statistics of z*, the arg max of the perturbed scores.
        raised: perturbed scores plus epsilon f, where f is that of the single changes of z*.
        z_epsilon: statistics of z(epsilon), the arg max of those.
        gradient: the estimate, (z(epsilon) - z*) / epsilon.
        epsilon: epsilon.
    """

    scores: list[float]
    perturbed: list[float]
    z: list[float]
    raised: list[float]
    z_epsilon: list[float]
    gradient: list[float]
    epsilon: float


def draw_direct(check: Callable[[], None], state: LabState, epsilon: float, seed: int) -> DirectDraw:
    """Compute one draw of `Direct(epsilon)` with one sample.

    Args:
        check: raises an error to cancel the work.
        state: the problem.
        epsilon: strength of the perturbation.
        seed: seed of the noise.

    Raises:
        NotExactError: `Direct` does not support the space with this f.
    """
    check()
    problem, estimator = make_problem(state), Direct(epsilon)
    estimator.specialise(problem.f).check(problem.space, 1)
    noise = estimator.draw_noise(problem.space, 1, (), torch.Generator().manual_seed(seed))
    perturbed = problem.space.perturb(problem.scores, noise)
    z = problem.space.argmax(perturbed)
    raised = _add_values(problem, perturbed, z, epsilon)
    z_epsilon = problem.space.argmax(raised)
    before, after = (problem.space.statistics(each.to(noise.dtype)) for each in (z, z_epsilon))
    gradient = problem.space.pull_back((after - before) / epsilon, noise)
    steps = (problem.scores, perturbed, before, raised, after, gradient)
    return DirectDraw(*(step.flatten().tolist() for step in steps), epsilon=epsilon)


def _add_values(problem: Problem, perturbed: Tensor, z: Tensor, epsilon: float) -> Tensor:
    """Return the perturbed scores plus epsilon f, as `Direct` does."""
    if hasattr(problem.f, "augment"):
        return problem.f.augment(perturbed, epsilon)  # pyright: ignore[reportFunctionMemberAccess]
    if not problem.space.offers("parts"):
        raise NotExactError(f"{problem.space} has no single changes of z")
    _, parts = evaluate_single_changes(Evaluator(problem.f, problem.scores, problem.space), problem.space, z)
    return problem.space.augment(perturbed, epsilon * parts)
