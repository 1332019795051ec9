"""Space defined by a solver of the user: any function that returns the best z of given scores."""

import itertools
import math
import warnings
import weakref
from collections.abc import Callable
from typing import Any, ClassVar, Literal, final

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.errors import ArgumentError, NotExactError, ShapeError, SolverError
from hardmax.solvers.external import ExternalSolver, Solve
from hardmax.solvers.solution import ROUNDING, Solution, certify_solution
from hardmax.solvers.solution_cache import SolutionCache
from hardmax.spaces.abstract import AbstractSpace
from hardmax.spaces.perturbation import Perturbation
from hardmax.tracing import is_eager

Sense = Literal["max", "min"]
_PROBES = 16  # solutions that the first answers of a solver are compared with

# torch's operators take numbers and tensors only; an operator finds its space by this number.
_spaces: "weakref.WeakValueDictionary[int, SolverSpace]" = weakref.WeakValueDictionary()
_numbers = itertools.count()


@final
class SolverSpace(AbstractSpace):
    r"""The z that a solver of yours can return: bring any arg max, such as a shortest path, a schedule or a MILP.

    $$ \mathrm{solve}(\mathrm{scores}) = \operatorname{argmax}_z \langle \mathrm{scores}, \mathrm{statistics}(z)
       \rangle $$

    **Scores are values: larger is better.** A solver that minimises costs gets `sense="min"`; it is then called with
    `costs = -scores`. A network that predicts costs passes `scores = -costs`, and the solver receives the costs as
    they were predicted.

    Estimators that need an arg max alone work: `PerturbedOptimizer`, `ImplicitMLE`, `AdaptiveImplicitMLE`, `Blackbox`,
    `IdentityBackward`; so do `fenchel_young_loss`, `spo_plus_loss` and `direct_loss`. `Direct` needs an f with a method
    `augment` (such as `LinearObjective`), or `neighbours`. The distribution of z is that of the arg max of perturbed
    scores (perturb-and-MAP); there are no probabilities, samples of q or marginals.

    The first answers of the solver are compared with each other. If most z are worse for their own scores than the z of
    other examples, the sense is wrong, and an error says so; if some are, the solver is not exact, and a warning says
    so.

    Args:
        solve: takes the scores of one problem as a numpy array of float64 `[*score]`, and returns z `[*event]`, as an
            array, a list or a tensor; or `(z, bound)`, with a bound of the value of every z (for a minimum, a lower
            bound of the cost), which makes `solve(...).gap` a certificate. None means that there is no solution. A
            function whose parameter is annotated as `torch.Tensor` gets a tensor.
        score_shape: shape of the scores of one problem.
        event_shape: shape of one z; by default that of the scores.
        sense: "max" if `solve` maximises, "min" if it minimises costs.
        batched: `solve` takes a batch `[B, *score]` and returns `[B, *event]`, or `([B, *event], [B])`.
        arrays: "numpy" or "torch": what `solve` takes; "auto" decides by its annotation.
        statistics: maps z `[*L, *event]` to the features that scores weigh, `[*L, *score]`, as tensors; by default z
            itself.
        neighbours: maps z `[*L, *event]` to similar members of the space, `[M, *L, *event]`, as tensors; for `Direct`.
        is_feasible: maps a z (batched: several) to whether it is allowed; an answer that is not gives an error.
        perturbation: the noise of perturbed arg maxes. Solvers that need costs of one sign, such as Dijkstra, need
            `Perturbation("multiplicative", scale)`; then no score ever changes its sign: estimators and losses that
            move scores stop at zero.
        workers: number of problems that are solved at the same time. The results do not depend on it.
        backend: "threads", for solvers that release Python's lock, or "processes". Processes import the main script:
            protect it by `if __name__ == "__main__":`.
        timeout: seconds for one call of `solve`; needs, and uses, processes.
        cache: number of distinct solutions to keep, see `SolutionCache`; 0: none.
        reuse: probability that a problem is answered by the best stored solution instead of the solver.

    Raises:
        ArgumentError: an argument cannot be used.

    Example:
        >>> import numpy as np, torch, hardmax as hm
        >>> def choose_two(costs):
        ...     z = np.zeros(4)
        ...     z[np.argsort(costs)[:2]] = 1
        ...     return z
        >>> space = hm.SolverSpace(choose_two, (4,), sense="min")
        >>> costs = torch.tensor([[3.0, 1.0, 4.0, 2.0]], requires_grad=True)
        >>> z = hm.sample(-costs, space, hm.Blackbox(step=4.0))
        >>> z.tolist()
        [[0.0, 1.0, 0.0, 1.0]]
        >>> z[..., 3].sum().backward()  # the loss: item 3 should not be chosen, so a step makes it more expensive
        >>> costs.grad[0, 3].item()
        -0.25

    References:
        Vlastelica et al., 2020; Niepert et al., 2021; Berthet et al., 2020: solvers as layers. McAllester, Hazan &
        Keshet, 2010; Lorberbom et al., 2019, section 4.1: any structure whose arg max can be solved.
    """

    takes_masks: ClassVar[bool] = False  # solvers differ in what they do with infinity
    alternatives: ClassVar[str] = (
        "it has an arg max alone: use ImplicitMLE(), PerturbedOptimizer(), Blackbox() or IdentityBackward(), or "
        "Direct() with an f that has augment (LinearObjective) or a SolverSpace with neighbours"
    )

    def __init__(
        self,
        solve: Solve,
        score_shape: int | tuple[int, ...],
        *,
        event_shape: int | tuple[int, ...] | None = None,
        sense: Sense = "max",
        batched: bool = False,
        arrays: Literal["auto", "numpy", "torch"] = "auto",
        statistics: Callable[[Tensor], Tensor] | None = None,
        neighbours: Callable[[Tensor], Tensor] | None = None,
        is_feasible: Callable[[Any], Any] | None = None,
        perturbation: Perturbation | None = None,
        workers: int = 1,
        backend: Literal["threads", "processes"] = "threads",
        timeout: float | None = None,
        cache: int = 0,
        reuse: float = 0.0,
    ) -> None:
        score_shape = _read_shape("score_shape", score_shape)
        event_shape = score_shape if event_shape is None else _read_shape("event_shape", event_shape)
        _check_arguments(solve, sense, arrays, backend, batched, workers, timeout)
        if event_shape != score_shape and statistics is None:
            raise ArgumentError(
                f"z has shape {list(event_shape)} and scores have {list(score_shape)}: pass statistics, the function "
                "from z to the features that scores weigh"
            )
        if reuse and not cache:
            raise ArgumentError(f"reuse={reuse} needs a cache of solutions; pass cache=100 or so")
        self._score_shape, self._event_shape = score_shape, event_shape
        self.sense = sense
        self.perturbation = Perturbation() if perturbation is None else perturbation
        self.cache = SolutionCache(cache, reuse) if cache else None
        self._solver = ExternalSolver(
            solve, event_shape, batched, arrays, backend, workers, timeout, is_feasible=is_feasible
        )
        self._statistics, self._neighbours = statistics, neighbours
        self._probes: Tensor | None = None
        self._probed = 0
        self._register()

    @classmethod
    def from_pyepo(cls, model: Any, **options: Any) -> "SolverSpace":
        """Make a space of a model of PyEPO: an object with `setObj(costs)`, `solve()`, `num_cost` and `modelSense`.

        Args:
            model: a `pyepo.model.opt.optModel`. It keeps its objective inside, so that several threads cannot share
                it: use `backend="processes"` with several workers.
            options: further arguments of `SolverSpace`.
        """
        for name in ("setObj", "solve", "num_cost", "modelSense"):
            if not hasattr(model, name):
                raise ArgumentError(f"{type(model).__name__} is no model of PyEPO: it has no {name}")
        if options.get("workers", 1) > 1 and options.get("backend", "threads") == "threads":
            raise ArgumentError("a model of PyEPO cannot be shared by several threads; pass backend='processes'")

        def solve(costs: Any) -> Any:
            model.setObj(costs)
            return model.solve()[0]

        return cls(solve, (int(model.num_cost),), sense="min" if int(model.modelSense) > 0 else "max", **options)

    def __repr__(self) -> str:
        name = getattr(self._solver.solve, "__name__", type(self._solver.solve).__name__)
        return f"SolverSpace({name}, {self._score_shape}, sense={self.sense!r})"

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._register()

    def _register(self) -> None:
        self._number = next(_numbers)
        _spaces[self._number] = self

    # ------------------------------------------------------------------------------- the space
    @property
    def score_shape(self) -> tuple[int, ...]:
        """Shape of the scores of one problem."""
        return self._score_shape

    @property
    def event_shape(self) -> tuple[int, ...]:
        """Shape of one z."""
        return self._event_shape

    @property
    def size(self) -> int:
        """Not known: a solver does not count its solutions."""
        raise NotExactError(f"{self} does not know how many z there are")

    @property
    def has_constant_sum(self) -> bool:
        """False: the solver is not known to choose the same number of parts always."""
        return False

    @property
    def chosen_solver(self) -> str | None:
        """Name of the function."""
        return getattr(self._solver.solve, "__name__", None)

    def offers(self, name: str) -> bool:
        """Return whether this space has a method; `neighbours` only if they were given."""
        return self._neighbours is not None if name == "neighbours" else super().offers(name)

    def argmax(self, scores: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Call the solver, or reuse stored solutions: `[*B, *score] -> [*B, *event]`, no gradient."""
        self.batch_shape(scores)
        scores = scores.detach()
        return self._argmax(scores) if is_eager(scores) else _run_solver(scores, self._number)

    def solve(self, scores: Float[Tensor, "..."]) -> Solution:
        """Call the solver for every problem, without the cache, and return z with its value and bound.

        The bound is infinite where the solver returns none.
        """
        batch = self.batch_shape(scores)
        flat = self._flatten(scores.detach())
        z, value, bound = self._run(flat)
        solver, scale = self.chosen_solver or "solver", flat.abs().sum(-1)
        solution = certify_solution(z, value, bound, scale, solver)
        z = z.view(*batch, *self.event_shape).to(scores.dtype)
        return Solution(z, value.view(batch), solution.bound.view(batch), solver)

    def augment(self, scores: Float[Tensor, "..."], values: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return scores plus values; with multiplicative noise no score changes its sign, but stops at zero."""
        moved = scores + values
        return moved if self.perturbation.kind != "multiplicative" else torch.where(scores * moved < 0, 0.0, moved)

    def statistics(self, z: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return the features of z that scores weigh: `[*L, *event] -> [*L, *score]`; by default z."""
        if self._statistics is None:
            return z
        features = self._statistics(z)
        lead = z.shape[: z.dim() - len(self.event_shape)]
        if tuple(features.shape) != (*lead, *self.score_shape):
            raise ShapeError(
                f"statistics of z {list(z.shape)} must have shape {[*lead, *self.score_shape]}, got "
                f"{list(features.shape)}"
            )
        return features

    def neighbours(self, z: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return similar members of the space: `[*L, *event] -> [M, *L, *event]`."""
        if self._neighbours is None:
            raise NotExactError(f"{self} has no neighbours of z; pass neighbours= when you create it")
        near = self._neighbours(z)
        if near.dim() != z.dim() + 1 or near.shape[1:] != z.shape:
            raise ShapeError(
                f"neighbours of z {list(z.shape)} must have shape {['M', *z.shape]}, got {list(near.shape)}"
            )
        return near.to(z.dtype)

    # ------------------------------------------------------------------------------- calls of the solver
    def _argmax(self, scores: Tensor) -> Tensor:
        flat = self._flatten(scores)
        if self.cache is None:
            z, _, _ = self._run(flat)
        else:
            z = flat.new_empty(len(flat), *self.event_shape)
            is_reused = self.cache.choose_reused(len(flat))
            if is_reused.any():
                z[is_reused], _ = self.cache.find_best(flat[is_reused])
            z[~is_reused], _, _ = self._run(flat[~is_reused])
        lead = scores.shape[: scores.dim() - len(self.score_shape)]
        return z.view(*lead, *self.event_shape).to(scores.device, scores.dtype)

    def _run(self, flat: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Solve `[B, D]` scores: z `[B, *event]`, the values `[B]` and upper bounds of them `[B]`; all float64."""
        sign = 1 if self.sense == "max" else -1
        z, bound = self._solver.run((sign * flat).view(len(flat), *self.score_shape))
        features = self._flatten(self.statistics(z))
        value = (flat * features).sum(-1)
        bound = torch.full_like(value, math.inf) if bound is None else sign * bound
        self._check_bounds(value, bound, flat)
        if self._probed < _PROBES:
            self._probe(flat, features, value)
        if self.cache is not None:
            self.cache.compare(flat, value)
            self.cache.add(z, features)
        return z, value, bound

    def _flatten(self, scores: Tensor) -> Tensor:
        lead = scores.shape[: scores.dim() - len(self.score_shape)]
        return scores.reshape(math.prod(lead), math.prod(self.score_shape)).to("cpu", torch.float64)

    def _check_bounds(self, value: Tensor, bound: Tensor, flat: Tensor) -> None:
        wrong = bound < value - 1e-6 * flat.abs().sum(-1) - ROUNDING
        if wrong.any():
            example, sign = int(wrong.nonzero()[0]), 1 if self.sense == "max" else -1
            raise SolverError(
                f"the solver returned a z of value {sign * value[example]:g} and the bound {sign * bound[example]:g} "
                f"for example {example}: no bound of a {self.sense}imum; is sense={self.sense!r} right?"
            )

    def _probe(self, flat: Tensor, features: Tensor, value: Tensor) -> None:
        """Compare the first solutions with each other: each must be the best one for its own scores."""
        probes = features if self._probes is None else torch.cat([self._probes, features])
        probes = self._probes = probes.unique(dim=0)[: 4 * _PROBES]
        if len(probes) < 2 or not len(flat):
            return
        self._probed += len(flat)
        values = flat @ probes.mT
        tolerance = 1e-6 * flat.abs().sum(-1, keepdim=True)
        is_better, is_worse = values > value[:, None] + tolerance, values < value[:, None] - tolerance
        other = {"max": "min", "min": "max"}[self.sense]
        if is_better.sum() > 2 and not is_worse.any():
            self._probes, self._probed = None, 0
            raise ArgumentError(
                f"{self} returns z that are worse for their own scores than the z of other examples: it seems to solve "
                f"for a {other}imum; pass sense={other!r}"
            )
        if is_better.any() and is_worse.any():
            self._probed = _PROBES
            example = int(is_better.any(-1).nonzero()[0])
            warnings.warn(
                f"{self} is not exact, or its feasible set depends on the example: the z that it returned for example "
                f"{example} has value {value[example]:g}, and the z of another example has {values[example].max():g}",
                stacklevel=2,
            )


def _read_shape(name: str, shape: Any) -> tuple[int, ...]:
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if not all(isinstance(size, int) and size > 0 for size in shape):
        raise ArgumentError(f"{name} must be positive integers, such as (40,), got {shape}")
    return shape


def _check_arguments(
    solve: Any, sense: Any, arrays: Any, backend: Any, batched: bool, workers: int, timeout: float | None
) -> None:
    if not callable(solve):
        raise ArgumentError(f"solve must be a function of scores, got {type(solve).__name__}")
    for name, value, known in (
        ("sense", sense, ("max", "min")),
        ("arrays", arrays, ("auto", "numpy", "torch")),
        ("backend", backend, ("threads", "processes")),
    ):
        if value not in known:
            raise ArgumentError(f"{name} must be one of {', '.join(map(repr, known))}, got {value!r}")
    if workers < 1:
        raise ArgumentError(f"workers must be at least 1, got {workers}")
    if batched and workers > 1:
        raise ArgumentError(f"batched=True hands the whole batch to one call, got workers={workers}; leave one of both")
    if timeout is not None and not timeout > 0:
        raise ArgumentError(f"timeout must be a positive number of seconds, got {timeout}")


# ------------------------------------------------------------------------------- one operator for torch
@torch.library.custom_op("hardmax::solver_argmax", mutates_args=())
def _run_solver(scores: Tensor, number: int) -> Tensor:
    return _spaces[number]._argmax(scores)


@_run_solver.register_fake
def _(scores, number):
    space = _spaces[number]
    return scores.new_empty(*scores.shape[: scores.dim() - len(space.score_shape)], *space.event_shape)


@_run_solver.register_vmap
def _(info, in_dims, scores, number):
    return _run_solver(scores.movedim(in_dims[0], 0), number), 0
