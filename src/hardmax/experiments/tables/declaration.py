"""What a table or figure consists of: cells, panels, and a quick form. No torch here."""

import re
from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, final

from hardmax.applications.registry import find_application
from hardmax.experiments.tables.metrics import BOUND, NLL, Metric
from hardmax.training.config import TrainConfig

if TYPE_CHECKING:
    from hardmax.experiments.runner.model_figures import Exhibit


@dataclass(frozen=True)
class Panel:
    """The metric of some cells against epochs or seconds.

    Attributes:
        by: what is on the horizontal axis; seconds are those of training alone.
        column: cells of this column are drawn; without it, all are. Panels of one column share their vertical axis.
    """

    by: Literal["epoch", "seconds"]
    column: str | None = None


@dataclass(frozen=True)
class Picture:
    """A picture of a table or figure.

    Attributes:
        rows: of panels, from the top.
        name: what its file's name ends in, where the table or figure has several pictures.
        title: what it adds to the title of the table or figure.
    """

    rows: tuple[tuple[Panel, ...], ...] = ((Panel("epoch"), Panel("seconds")),)
    name: str = ""
    title: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        """Those that have panels of their own; none where all cells share the panels."""
        return tuple(dict.fromkeys(panel.problem for row in self.rows for panel in row if panel.problem is not None))


Options = Mapping[str, Any]


def slug(label: str) -> str:
    """Return a label as `--only`, folders and files of published numbers have it."""
    return re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-")


@dataclass(frozen=True)
class Cell:
    """One way to train, run once for every seed.

    Attributes:
        column: what z is or comes from; in a figure, cells of one column share a marker, or a panel; in a grid, a line.
        row: how it is trained; in a figure, cells of one row share a colour; in a grid, a column.
        group: whose way it is, such as "the paper's"; in a figure, cells of one group share a dash.
        lr: learning rate, tuned for this cell: at a shared one a comparison tells who likes that rate.
        options: fields of the configuration that the other cells may not share.
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
        return slug(self.label)


@dataclass(frozen=True)
class Look:
    """How a model is looked at once it is trained.

    Attributes:
        make: from the run's configuration, and the options, to what is shown; a function of a module, which imports
            torch when called.
        options: of it, plain numbers and texts; a row keeps them.
    """

    make: "Callable[..., Exhibit]"
    options: Options = field(default_factory=dict)


@dataclass(frozen=True)
class Quick:
    """A form that takes a minute and no data but what comes with hardmax: it shows that all works, and no more.

    Attributes:
        options: fields of the configuration that replace those of every cell.
        note: what is smaller, for the reader.
        seeds: usually one.
        looking: options of a gallery's look that replace those of the full form.
    """

    options: Options
    note: str
    seeds: tuple[int, ...] = (0,)
    looking: Options = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class AbstractTrainings(ABC):
    """What is made of trainings: cells, each run once with each seed.

    Attributes:
        name: what `hardmax reproduce` calls it.
        title: one line.
        claim: what the paper says that it shows, or what was published elsewhere; whole sentences.
        setting: what is the same for all cells, for the reader.
        options: the same as fields of the configuration; `model` says which, by default the discrete VAE's.
        cells: in the order of the table.
        quick: a form that takes a minute.
        seeds: each cell is run once with each.
        notes: what else a reader should know, a paragraph each.
    """

    name: str
    title: str
    claim: str
    setting: str
    options: Options
    cells: tuple[Cell, ...]
    quick: Quick
    seeds: tuple[int, ...] = (0,)
    notes: tuple[str, ...] = ()

    def config(self, cell: Cell, seed: int, *, quick: bool = False) -> TrainConfig:
        """Return what a cell's run is told; where it is written to is left open."""
        chosen = {**self.options, **cell.options, **(self.quick.options if quick else {})}
        return find_application(chosen.get("model", "discrete")).load_config()(lr=cell.lr, seed=seed, **chosen)

    def looked(self, *, quick: bool = False) -> Look | None:
        """Return how the models are looked at; None where numbers of the training are all that is wanted."""
        return None


@final
@dataclass(frozen=True, kw_only=True)
class Experiment(AbstractTrainings):
    """A table, or a figure of curves.

    Attributes:
        metrics: of the test pictures; the first is drawn and tabulated after each epoch, all of them after the last.
        epochs: those that have a column in the table, beside the last one.
        view: what the table is: "epochs" has a line for each cell and a column for each of the epochs, "grid" has the
            last epoch alone, a line for each column of cells and a column for each row of them.
        published: file in `paper/` with the numbers that a grid is compared with.
        pictures: of the curves.
        evaluated: what is evaluated, how often, where a table counts that.
        verdict: from what the seeds of a cell came to after the last epoch, by the metrics' keys, to a few words;
            without it there are none.
    """

    metrics: tuple[Metric, ...] = (BOUND, NLL)
    epochs: tuple[int, ...] = (1, 3, 5, 10)
    view: Literal["epochs", "grid"] = "epochs"
    published: str | None = None
    pictures: tuple[Picture, ...] = (Picture(),)
    evaluated: str = "log p(x | z), for each picture and step"
    verdict: Callable[[Sequence[Mapping[str, float]]], str] | None = None


@final
@dataclass(frozen=True, kw_only=True)
class Gallery(AbstractTrainings):
    """A figure of what trained models draw, a panel for each cell, with numbers beneath.

    Attributes:
        look: what is shown of each model.
        metrics: columns of the table of numbers; those that the look gives, or the test pictures after the last epoch.
    """

    look: Look
    metrics: tuple[Metric, ...]

    def looked(self, *, quick: bool = False) -> Look:
        """Return the look of the full form, or of the quick one."""
        return replace(self.look, options={**self.look.options, **(self.quick.looking if quick else {})})
