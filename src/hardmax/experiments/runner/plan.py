"""The runs that a table or figure needs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hardmax.experiments.tables.declaration import AbstractTrainings, Cell, Look
from hardmax.training.config import TrainConfig


@dataclass(frozen=True)
class Planned:
    """A run to be made, or made already.

    Attributes:
        cell: what it is for.
        config: what it is told; `config.out` is its folder.
        look: how its model is looked at once it is trained; None: not at all.
    """

    cell: Cell
    config: TrainConfig
    look: Look | None = None

    @property
    def seed(self) -> int:
        """Seed of the run."""
        return self.config.seed

    @property
    def name(self) -> str:
        """The folder's name."""
        return Path(self.config.out).name


def plan(
    experiment: AbstractTrainings, cells: Sequence[Cell], out: Path, *, quick: bool = False, data_dir: str | None = None
) -> list[Planned]:
    """Return the runs of cells, seed by seed: once every cell has run with the first, there is a whole table."""
    return [
        Planned(
            cell,
            replace(
                experiment.config(cell, seed, quick=quick),
                out=str(out / f"{cell.name}-seed{seed}"),
                data_dir=data_dir,
            ),
            experiment.looked(quick=quick),
        )
        for seed in (experiment.quick.seeds if quick else experiment.seeds)
        for cell in cells
    ]
