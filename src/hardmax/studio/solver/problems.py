"""Problems of the solver lab: a grid of numbers, the best path, cut or matching, and the gradient of a loss on it.

Nothing here depends on the page: `solve_problem` and `estimate_gradient` are the lab's numbers, and `write_code` is the
program that computes the same.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from math import nan, prod

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

import hardmax as hm
from hardmax.errors import ArgumentError, HardmaxError
from hardmax.estimators import AbstractEstimator
from hardmax.solvers.solution import record_solvers
from hardmax.spaces import AbstractSpace
from hardmax.studio.solver.image_cut import build_grid

MOST_CELLS = 32  # of a row or column
MOST_SAMPLES = 1024
_REPEATS = 8  # independent estimates that show the spread


@dataclass(frozen=True)
class Problem:
    """A kind of problem.

    Attributes:
        name: its name in links.
        title: what it looks for.
        values: what the painted numbers are.
        decision: noun for z.
        least: lowest number that can be painted.
        most: highest number that can be painted.
        blank: number of an empty grid.
        brushes: names and numbers that the page offers for painting.
        sizes: numbers of rows (and columns) that the page offers; the first one is the default.
    """

    name: str
    title: str
    values: str
    decision: str
    least: float
    most: float
    blank: float
    brushes: tuple[tuple[str, float], ...]
    sizes: tuple[int, ...]


PROBLEMS = {
    problem.name: problem
    for problem in (
        Problem(
            "path",
            "Shortest path",
            "costs of the cells",
            "path",
            0.5,
            9.0,
            1.0,
            (("grass", 1.0), ("sand", 1.5), ("forest", 2.5), ("rock", 5.0), ("water", 9.0)),
            (12, 8, 16, 24),
        ),
        Problem(
            "cut",
            "Minimum cut",
            "scores of the pixels",
            "cut",
            -4.0,
            4.0,
            0.0,
            (
                ("strong background", -4.0),
                ("background", -1.0),
                ("neutral", 0.0),
                ("foreground", 1.0),
                ("strong foreground", 4.0),
            ),
            (16, 8, 12, 24, 32),
        ),
        Problem(
            "matching",
            "Best matching",
            "scores of the pairs",
            "matching",
            -4.0,
            4.0,
            0.0,
            (("very bad", -4.0), ("bad", -1.0), ("neutral", 0.0), ("good", 1.0), ("very good", 4.0)),
            (8, 5, 12, 16),
        ),
    )
}

# The estimators of the lab, each as a function of the step.
ESTIMATORS: dict[str, Callable[[float], AbstractEstimator]] = {
    "ImplicitMLE": lambda step: hm.ImplicitMLE(step),
    "Direct": lambda step: hm.Direct(step),
    "Blackbox": lambda step: hm.Blackbox(step),
    "IdentityBackward": lambda step: hm.IdentityBackward(),
    "PerturbedOptimizer": lambda step: hm.PerturbedOptimizer(),
    "PerturbedReinforce": lambda step: hm.PerturbedReinforce(),
    "GibbsCovariance": lambda step: hm.GibbsCovariance(),
    "StraightThrough": lambda step: hm.StraightThrough(),
}
_USE_STEP = ("ImplicitMLE", "Direct", "Blackbox")


@dataclass(frozen=True, eq=False)
class LabSetting:
    """A problem of the lab, and how its gradient is estimated.

    Attributes:
        problem: name of the problem, a key of `PROBLEMS`.
        values: `[H, W]`, the painted numbers: costs of cells for "path", else scores.
        worth: `[H, W]`, what each cell of z is worth: 1 for cells that z should contain, -1 for those to avoid.
        noise: size of the noise of perturbed decisions, > 0.
        coupling: what two equal neighbours of a cut are worth, at least 0.
        monotone: whether the steps of a path lead only right and down.
        estimator: a key of `ESTIMATORS`.
        step: how far the estimator moves the scores, > 0, if it does.
        samples: number of samples.
        seed: seed of the noise.

    Raises:
        ArgumentError: an option that cannot be used.
    """

    problem: str
    values: Float[Tensor, "H W"]
    worth: Float[Tensor, "H W"]
    noise: float = 0.5
    coupling: float = 0.5
    monotone: bool = False
    estimator: str = "ImplicitMLE"
    step: float = 1.0
    samples: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        for name, known in (("problem", PROBLEMS), ("estimator", ESTIMATORS)):
            if getattr(self, name) not in known:
                raise ArgumentError(f"there is no {name} {getattr(self, name)!r:.80}; there are: {', '.join(known)}")
        height, width = self.values.shape
        if self.worth.shape != self.values.shape or not 2 <= min(height, width) <= max(height, width) <= MOST_CELLS:
            raise ArgumentError(
                f"a grid has 2 to {MOST_CELLS} rows and columns, and a worth for each cell, got {height} x {width} and "
                f"{list(self.worth.shape)}"
            )
        if self.problem == "matching" and height != width:
            raise ArgumentError(f"a matching needs as many rows as columns, got {height} x {width}")
        if not 1 <= self.samples <= MOST_SAMPLES:
            raise ArgumentError(f"samples must be 1 to {MOST_SAMPLES}, got {self.samples}")
        if not (self.noise > 0 and self.step > 0 and self.coupling >= 0):
            raise ArgumentError(
                f"noise and step must be above zero and the coupling at least zero, got {self.noise}, {self.step} and "
                f"{self.coupling}"
            )


@dataclass(frozen=True, eq=False)
class LabSolution:
    """The decision for a setting, and those for perturbed scores.

    Attributes:
        z: `[H, W]`, the best decision: ones for the cells of the path, the foreground, or the pairs.
        value: total cost of a path, total score of a cut or a matching.
        perturbed: `[S, H, W]`, the best decisions for perturbed scores.
        worth: mean worth of the perturbed decisions.
        solver: the solver's name.
        seconds: duration of one arg max.
    """

    z: Float[Tensor, "H W"]
    value: float
    perturbed: Float[Tensor, "S H W"]
    worth: float
    solver: str
    seconds: float

    @property
    def shares(self) -> Float[Tensor, "H W"]:
        """`[H, W]`, how often each cell is chosen."""
        return self.perturbed.mean(0)


@dataclass(frozen=True, eq=False)
class LabGradient:
    """An estimate of the gradient of the expected worth for the scores.

    Attributes:
        gradient: `[H, W]`. For a path, the scores are minus the costs.
        deviation: standard deviation of such an estimate, relative to the mean of several; NaN if that is zero.
        solves: number of arg maxes.
        seconds: duration of one estimate.
    """

    gradient: Float[Tensor, "H W"]
    deviation: float
    solves: float
    seconds: float


def build_space(setting: LabSetting) -> AbstractSpace:
    """Return the space of the decisions."""
    height, width = setting.values.shape
    if setting.problem == "matching":
        return hm.Permutation(height)
    if setting.problem == "cut":
        return build_grid(height, width)
    if setting.monotone:
        return hm.GridPath(height, width, on="nodes")
    noise = hm.Perturbation("multiplicative", setting.noise)
    return hm.GridPath(height, width, connectivity=8, monotone=False, on="nodes", perturbation=noise)


def arrange_scores(setting: LabSetting, cells: Float[Tensor, "*B H W"]) -> Float[Tensor, "..."]:
    """Return the scores of the space from those of the cells, in units of the noise; differentiable."""
    if setting.problem == "path":
        return cells / setting.noise if setting.monotone else cells
    if setting.problem == "matching":
        return cells / setting.noise
    right, below = (torch.full_like(part, setting.coupling) for part in (cells[..., 1:], cells[..., 1:, :]))
    return hm.PairwiseBinary.reward_agreement(cells, right, below) / setting.noise


def make_cell_scores(setting: LabSetting) -> Float[Tensor, "H W"]:
    """Return the scores of the cells, larger is better: minus the costs of a path, else the painted numbers."""
    return -setting.values if setting.problem == "path" else setting.values


def solve_problem(setting: LabSetting) -> LabSolution:
    """Solve a problem, and solve it again with noise on its scores.

    Example:
        >>> import torch
        >>> costs = torch.tensor([[1.0, 9.0, 1.0], [1.0, 9.0, 1.0], [1.0, 1.0, 1.0]])
        >>> solution = solve_problem(LabSetting("path", costs, torch.zeros(3, 3)))
        >>> solution.z.tolist(), solution.value
        ([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 1.0]], 4.0)
    """
    space, cells = build_space(setting), make_cell_scores(setting)
    scores = arrange_scores(setting, cells)
    space.argmax(scores)  # the first call of a process compiles the solver
    began = time.perf_counter()
    with record_solvers() as solvers:
        z = space.argmax(scores)
    seconds = time.perf_counter() - began
    noise = space.noise((setting.samples,), _seed(setting))
    perturbed = space.argmax(space.perturb(scores, noise)).view(-1, *cells.shape)
    z = z.view(cells.shape)
    value = float((setting.values * z).sum())
    if setting.problem == "cut":
        value += setting.coupling * float(sum((z.diff(dim=dim) == 0).sum() for dim in (0, 1)))
    name = ", ".join(solvers) or ("Dijkstra" if setting.problem == "path" else "assignment")
    if setting.problem == "path" and setting.monotone:
        name = "dynamic programming"
    worth = float((perturbed * setting.worth).sum((-2, -1)).mean())
    return LabSolution(z, value, perturbed, worth, name, seconds)


def _seed(setting: LabSetting) -> torch.Generator:
    return torch.Generator().manual_seed(setting.seed)


def make_objective(setting: LabSetting, space: AbstractSpace) -> hm.LinearObjective:
    """Return the worth of a decision, the sum of the worth of its cells."""
    worth = setting.worth.flatten() if setting.problem == "cut" else setting.worth
    padding = prod(space.score_shape) - worth.numel()  # couplings are worth nothing
    return hm.LinearObjective(pad(worth, (0, padding)) if padding else worth, space)


def list_estimators(setting: LabSetting) -> list[str]:
    """Return the names of the estimators that support the problem."""
    space, names = build_space(setting), []
    f = make_objective(setting, space)
    for name, make in ESTIMATORS.items():
        try:
            make(1.0).specialise(f).check(space, 2)
        except HardmaxError:
            continue
        names.append(name)
    return names


def uses_step(estimator: str) -> bool:
    """Return whether an estimator uses the step."""
    return estimator in _USE_STEP


def estimate_gradient(setting: LabSetting, check: Callable[[], None] = lambda: None) -> LabGradient:
    """Estimate the gradient of the expected worth for the scores of the cells, and how much the estimate varies.

    Args:
        setting: the problem and the estimator.
        check: called now and then; it may raise an error to end the work.

    Raises:
        HardmaxError: the estimator does not support the problem.
    """
    space, estimator, generator = build_space(setting), ESTIMATORS[setting.estimator](setting.step), _seed(setting)
    f = make_objective(setting, space)

    def estimate() -> tuple[Tensor, float]:
        cells = make_cell_scores(setting).clone().requires_grad_()
        scores = arrange_scores(setting, cells)
        out = hm.expectation(f, scores, space, estimator, samples=setting.samples, generator=generator)
        return torch.autograd.grad(out.value, cells)[0], out.solves

    began = time.perf_counter()
    gradient, solves = estimate()
    seconds = time.perf_counter() - began
    others = []
    for _ in range(_REPEATS):
        check()
        others.append(estimate()[0])
    size, spread = float(torch.stack(others).mean(0).norm()), float(torch.stack(others).var(0).sum().sqrt())
    return LabGradient(gradient, spread / size if size > 0 else nan, solves, seconds)


def take_step(setting: LabSetting, gradient: Float[Tensor, "H W"], size: float = 1.0) -> Float[Tensor, "H W"]:
    """Return the painted numbers after a step of gradient ascent: the largest change has this size."""
    problem, most = PROBLEMS[setting.problem], float(gradient.abs().max())
    change = gradient * (size / most) if most > 0 else gradient
    values = setting.values - change if setting.problem == "path" else setting.values + change
    return values.clamp(problem.least, problem.most)
