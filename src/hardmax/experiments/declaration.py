"""What a table or figure is made of. No torch here: the command line shows its help and lists from this."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from hardmax.training.config import TrainConfig

Options = Mapping[str, Any]
Metric = Literal["negative_elbo", "nll"]


@dataclass(frozen=True)
class Cell:
    """One way to train, run once for every seed.

    Attributes:
        column: what z is or comes from; in a figure, cells of one column share a marker.
        row: how it is trained; in a figure, cells of one row share a colour.
        group: whose way it is, such as "the paper's"; in a figure, cells of one group share a dash.
        lr: learning rate, tuned for this cell: at a shared one a comparison tells who likes that rate.
        options: fields of `TrainConfig` that the other cells may not share.
    """

    column: str
    row: str
    group: str
    lr: float
    options: Options = field(default_factory=dict)

    @property
    def label(self) -> str:
        """What a reader sees."""
        return f"{self.column}, {self.row}"

    @property
    def name(self) -> str:
        """What `--only` and folders call it."""
        return re.sub(r"[^a-z0-9]+", "-", self.label.lower()).strip("-")


@dataclass(frozen=True)
class Quick:
    """A form that takes a minute and no data but what comes with hardmax: it shows that all works, and no more.

    Attributes:
        options: fields of `TrainConfig` that replace those of every cell.
        seeds: usually one.
        note: what is smaller, for the reader.
    """

    options: Options
    note: str
    seeds: tuple[int, ...] = (0,)


@dataclass(frozen=True)
class Experiment:
    """A table or figure.

    Attributes:
        name: what `hardmax reproduce` calls it.
        title: one line.
        claim: what the paper says that it shows.
        setting: what is the same for all cells, for the reader.
        options: the same as fields of `TrainConfig`.
        cells: in the order of the table.
        quick: a form that takes a minute.
        seeds: each cell is run once with each.
        metric: what is drawn and tabulated after each epoch, of the test pictures.
        epochs: those that have a column in the table, beside the last one.
    """

    name: str
    title: str
    claim: str
    setting: str
    options: Options
    cells: tuple[Cell, ...]
    quick: Quick
    seeds: tuple[int, ...] = (0,)
    metric: Metric = "negative_elbo"
    epochs: tuple[int, ...] = (1, 3, 5, 10)

    def config(self, cell: Cell, seed: int, *, quick: bool = False) -> TrainConfig:
        """Return what a cell's run is told; where it is written to is left open."""
        chosen = {**self.options, **cell.options, **(self.quick.options if quick else {})}
        return replace(TrainConfig(), lr=cell.lr, seed=seed, **chosen)
