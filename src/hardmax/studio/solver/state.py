"""The state of the solver lab, as it is in the address of its page."""

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from hardmax.errors import ArgumentError
from hardmax.studio.solver.encoding import decode_grid, encode_grid
from hardmax.studio.solver.examples import make_example
from hardmax.studio.solver.problems import MOST_CELLS, MOST_SAMPLES, PROBLEMS, LabSetting


@dataclass(frozen=True)
class SolverState:
    """What one sees in the solver lab."""

    problem: Literal["path", "cut", "matching", "image"] = "path"
    """Problem to solve."""
    size: int = 0
    """Number of rows and of columns of the grid; 0 is the default of the problem."""
    seed: int = 0
    """Seed of the first grid, and of the noise."""
    values: str = ""
    """Painted numbers, as `encode_grid` writes them; nothing is the example of the problem."""
    worth: str = ""
    """Worth of the cells, written in the same way."""
    noise: float = 0.5
    """Size of the noise of perturbed decisions."""
    coupling: float = 0.5
    """What two equal neighbours of a cut are worth."""
    monotone: bool = False
    """Whether the steps of a path lead only right and down."""
    perturbed: bool = True
    """Whether perturbed decisions are drawn."""
    estimator: str = "ImplicitMLE"
    """Estimator of the gradient."""
    step: float = 1.0
    """How far the estimator moves the scores."""
    samples: int = 100
    """Number of samples of the noise."""
    image: Literal["terrain", "portrait"] = "terrain"
    """Image to cut."""
    strokes: str = ""
    """Strokes on the image, as `encode_strokes` writes them; nothing is the example."""
    edges: float = 8.0
    """What two equal neighbours of the same colour are worth."""
    trust: float = 1.0
    """Weight of the colours under the strokes."""

    def __post_init__(self) -> None:
        if self.size and not 2 <= self.size <= MOST_CELLS:
            raise ArgumentError(f"size must be 2 to {MOST_CELLS}, got {self.size}")
        if not 1 <= self.samples <= MOST_SAMPLES:
            raise ArgumentError(f"samples must be 1 to {MOST_SAMPLES}, got {self.samples}")
        if not (0 <= self.edges <= 1000 and 0 <= self.trust <= 1000):
            raise ArgumentError(f"edges and trust must be 0 to 1000, got {self.edges} and {self.trust}")

    @property
    def rows(self) -> int:
        """Number of rows of the grid."""
        return self.size or PROBLEMS[self.problem].sizes[0]


def make_setting(state: SolverState) -> LabSetting:
    """Return the problem of a state.

    Raises:
        ArgumentError: the grids of the state are broken, or an option cannot be used.
    """
    values, worth = make_example(state.problem, state.rows, state.seed)
    if state.values:
        values = decode_grid(state.values, state.rows, state.rows)
        problem = PROBLEMS[state.problem]
        values = values.clip(problem.least, problem.most)
    if state.worth:
        worth = decode_grid(state.worth, state.rows, state.rows)
    return LabSetting(
        state.problem, torch.tensor(values, dtype=torch.float32), torch.tensor(worth, dtype=torch.float32), state.noise,
        state.coupling, state.monotone, state.estimator, state.step, state.samples, state.seed,
    )  # fmt: skip


def store_grids(state: SolverState, values: Tensor, worth: Tensor) -> SolverState:
    """Return the state with other grids."""
    return replace(state, values=encode_grid(values.numpy()), worth=encode_grid(worth.numpy()))
