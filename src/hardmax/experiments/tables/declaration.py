"""Declaration of a table or figure: cells, panels, the runs that it needs, and a quick form. No torch here.

There are three kinds: an `Experiment` trains with many methods and compares numbers, a `Gallery` trains a few models
and shows figures that they draw, a `Measurement` (in `measurement.py`) trains once and compares estimators of the
gradient.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from fnmatch import filter as filter_names
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, final, runtime_checkable

from hardmax.applications.registry import find_application
from hardmax.errors import ArgumentError
from hardmax.experiments.rows import AbstractPlannedRow, Row, is_same_run
from hardmax.experiments.tables.metrics import BOUND, NLL, Metric
from hardmax.training.config import TrainConfig

Options = Mapping[str, Any]


@dataclass(frozen=True)
class Panel:
    """A panel of a figure: the metric of some cells by epochs, evaluations or seconds.

    Attributes:
        by: the horizontal axis: epochs, evaluations of f for each training example, or seconds of training.
        problem: only cells of this problem are drawn; None: all cells. Panels of one problem share their vertical axis.
    """

    by: Literal["epoch", "evaluations", "seconds"]
    problem: str | None = None


@dataclass(frozen=True)
class CurvesFigure:
    """A figure of curves, in panels.

    Attributes:
        rows: rows of panels, from the top.
        name: suffix of its file name, if the table or figure has several files.
        title: suffix to the title of the table or figure.
    """

    rows: tuple[tuple[Panel, ...], ...] = ((Panel("epoch"), Panel("seconds")),)
    name: str = ""
    title: str = ""

    @property
    def problems(self) -> tuple[str, ...]:
        """Problems that have separate panels; empty if all cells share the panels."""
        return tuple(dict.fromkeys(panel.problem for row in self.rows for panel in row if panel.problem is not None))


def make_slug(label: str) -> str:
    """Return the form of a label in `--only`, folder names and files of published numbers."""
    return re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-")


@dataclass(frozen=True)
class Cell:
    """One method on one problem, run once for every seed.

    Attributes:
        problem: the space of z or the data; in a figure, cells of one problem share a marker, or a panel; in a grid,
            they share a line.
        method: how it is trained; in a figure, cells of one method share a colour; in a grid, they share a column.
        group: the origin of the method, such as "the paper's"; in a figure, cells of one group share a dash.
        lr: learning rate, tuned for this cell: a shared rate would favour the methods that it suits.
        options: fields of the configuration that the other cells may not share.
        method_in_name: the method as it appears in `name`, where it differs from `method`.
    """

    problem: str
    method: str
    group: str
    lr: float
    options: Options = field(default_factory=dict)
    method_in_name: str | None = None

    @property
    def label(self) -> str:
        """Its name on pages."""
        return f"{self.problem}, {self.method}"

    @property
    def name(self) -> str:
        """Its name for `--only`, folders and rows."""
        return make_slug(f"{self.problem}, {self.method_in_name or self.method}")

    @property
    def description(self) -> str:
        """The text that `--list` prints next to the name."""
        return f"{self.group}, lr {self.lr:g}"


@dataclass(frozen=True)
class FigureSpec:
    """The figure that each trained model of a gallery draws.

    Attributes:
        kind: name of the figure in `runner.model_figures`.
        options: its options, plain numbers and strings; a row stores them under `look`.
    """

    kind: str
    options: Options = field(default_factory=dict)


@dataclass(frozen=True)
class AbstractQuick(ABC):
    """A form that takes a minute, with data that comes with hardmax: it only shows that the code works.

    Attributes:
        options: fields of the configuration that replace those of the full form.
        note: how it differs from the full form, for the reader.
    """

    options: Options
    note: str


@final
@dataclass(frozen=True)
class Quick(AbstractQuick):
    """The quick form of a table or figure that consists of trainings.

    Attributes:
        seeds: usually one.
        figure_options: options of a gallery's figure that replace those of the full form.
    """

    seeds: tuple[int, ...] = (0,)
    figure_options: Options = field(default_factory=dict)


@runtime_checkable
class Item(Protocol):
    """An item that `--only` selects: a cell or a part."""

    @property
    def name(self) -> str:
        """Its name for `--only`."""
        ...

    @property
    def description(self) -> str:
        """The text that `--list` prints next to the name."""
        ...


@dataclass(frozen=True, kw_only=True)
class AbstractExperiment(ABC):
    """A table or figure that `hardmax reproduce` creates.

    Attributes:
        name: its name for `hardmax reproduce`.
        title: one line.
        claim: the claim of the paper, or of another publication, in complete sentences.
        setting: the training and the measurement, for the reader.
        options: fields of the configuration that all of its runs share.
        quick: a form that takes a minute.
        notes: further information for the reader, a paragraph each.
        planned_row: class of its planned rows.
        work: its units of work, in messages: "runs", or "measurements" during one training.
        item_kind: kind of item that `--only` selects: "cell" or "part".
    """

    name: str
    title: str
    claim: str
    setting: str
    options: Options
    quick: AbstractQuick
    notes: tuple[str, ...] = ()

    planned_row: ClassVar[type[AbstractPlannedRow]]
    work: ClassVar[Literal["runs", "measurements"]]
    item_kind: ClassVar[Literal["cell", "part"]]

    @property
    @abstractmethod
    def items(self) -> Sequence[Item]:
        """All items that `--only` selects from, in the order of the table."""

    @abstractmethod
    def describe(self, seeds: Sequence[int] = (), *, quick: bool = False) -> str:
        """Return the line that `--list` prints above the items.

        Raises:
            ArgumentError: one of the seeds is not a seed of the table.
        """

    @abstractmethod
    def plan(
        self,
        out: Path,
        *,
        quick: bool = False,
        data_dir: str | None = None,
        only: Sequence[str] = (),
        seeds: Sequence[int] = (),
    ) -> Sequence[AbstractPlannedRow]:
        """Return the runs or measurements that it needs, in the order of execution.

        Args:
            out: folder that runs are written to.
            quick: whether to plan the quick form.
            data_dir: folder that holds the named data sets.
            only: names of items, or patterns; empty: all.
            seeds: seeds of the table; empty: all.

        Raises:
            ArgumentError: an unknown item or seed.
        """

    def choose_items(self, names: Sequence[str] = ()) -> list[Any]:
        """Return the items of these names in the order of the table; without names, all.

        A name may be a shell pattern: `mnist-*-direct` matches all cells of that method on MNIST.

        Raises:
            ArgumentError: no item has this name.
        """
        known = {item.name: item for item in self.items}
        chosen: set[str] = set()
        for name in names:
            matching = filter_names(known, name)
            if not matching:
                near = get_close_matches(name.lower(), known, n=1)
                hint = f"did you mean {near[0]}? " if near else ""
                kind = self.item_kind
                raise ArgumentError(f"{self.name} has no {kind} {name!r}; {hint}its {kind}s are: {', '.join(known)}")
            chosen.update(matching)
        return [item for name, item in known.items() if not names or name in chosen]


@dataclass(frozen=True)
class PlannedRun(AbstractPlannedRow):
    """A run, planned or finished.

    Attributes:
        cell: the cell that it belongs to.
        config: its configuration; `config.out` is its folder.
        figure: the figure that the trained model draws; None: no figure.
    """

    cell: Cell
    config: TrainConfig
    figure: FigureSpec | None = None

    fields: ClassVar[frozenset[str]] = frozenset({
        "experiment", "cell", "seed", "config", "hash", "command", "seconds", "test", "validation",
    })  # fmt: skip
    key_fields: ClassVar[tuple[str, ...]] = ("cell", "seed")

    @property
    def seed(self) -> int:
        """Seed of the run."""
        return self.config.seed

    @property
    def name(self) -> str:
        """The folder's name."""
        return Path(self.config.out).name

    @property
    def key(self) -> tuple[str, int]:
        """The cell's name and the seed."""
        return self.cell.name, self.seed

    def matches(self, row: Row) -> bool:
        """Whether a row belongs to a run with the same configuration and the same figure."""
        options = None if self.figure is None else self.figure.options
        same = (row["cell"], row["seed"], row.get("look")) == (*self.key, options)
        return same and is_same_run(row["config"], self.config)


@dataclass(frozen=True, kw_only=True)
class AbstractTrainings(AbstractExperiment):
    """A table or figure that consists of trainings: cells, each run once with each seed.

    Attributes:
        options: `model` selects the application to train, by default the discrete VAE.
        cells: in the order of the table.
        quick: a form that takes a minute.
        seeds: each cell is run once with each.
    """

    cells: tuple[Cell, ...]
    quick: Quick
    seeds: tuple[int, ...] = (0,)

    planned_row = PlannedRun
    work = "runs"
    item_kind = "cell"

    @property
    def items(self) -> Sequence[Cell]:
        """The cells."""
        return self.cells

    def make_config(self, cell: Cell, seed: int, *, quick: bool = False) -> TrainConfig:
        """Return the configuration of a cell's run, without its output folder."""
        chosen = {**self.options, **cell.options, **(self.quick.options if quick else {})}
        return find_application(chosen.get("model", "discrete")).load_config()(lr=cell.lr, seed=seed, **chosen)

    def choose_figure(self, *, quick: bool = False) -> FigureSpec | None:
        """Return the figure that each model draws; None if only numbers of the training are needed."""
        return None

    def choose_seeds(self, seeds: Sequence[int] = (), *, quick: bool = False) -> list[int]:
        """Return these seeds in the order of the table, or of its quick form; without seeds, all.

        Raises:
            ArgumentError: one of them is not a seed of the table.
        """
        known = self.quick.seeds if quick else self.seeds
        for seed in seeds:
            if seed not in known:
                form = f"the quick form of {self.name}" if quick else self.name
                raise ArgumentError(f"{form} has no seed {seed}; its seeds are: {', '.join(map(str, known))}")
        return [seed for seed in known if not seeds or seed in seeds]

    def describe(self, seeds: Sequence[int] = (), *, quick: bool = False) -> str:
        """Return a line with the seeds of its runs."""
        return f"seeds {', '.join(map(str, self.choose_seeds(seeds, quick=quick)))}; cells:"

    def plan(
        self,
        out: Path,
        *,
        quick: bool = False,
        data_dir: str | None = None,
        only: Sequence[str] = (),
        seeds: Sequence[int] = (),
    ) -> list[PlannedRun]:
        """Return the runs of cells, seed by seed: the table is complete once every cell has run with the first seed."""
        cells = self.choose_items(only)
        return [
            PlannedRun(
                cell,
                replace(
                    self.make_config(cell, seed, quick=quick),
                    out=str(out / f"{cell.name}-seed{seed}"),
                    data_dir=data_dir,
                ),
                self.choose_figure(quick=quick),
            )
            for seed in self.choose_seeds(seeds, quick=quick)
            for cell in cells
        ]


@final
@dataclass(frozen=True, kw_only=True)
class Experiment(AbstractTrainings):
    """A table, or a figure of curves.

    Attributes:
        metrics: of the test images; the first is drawn and tabulated after each epoch, all of them after the last.
        epochs: epochs that have a column in the table, in addition to the last one.
        view: form of the table: "epochs" has a line for each cell and a column for each of the epochs; the others have
            only the last epoch: "grid" has a line for each problem and a column for each method, "methods" has a line
            for each method and a column for each problem.
        published: file next to the declarations with the numbers that a grid is compared with.
        figures: figures of the curves.
        evaluated: the function whose evaluations the table counts, and per which unit.
        reference: method whose last value the others are timed to, in a further table; None: no such table.
        verdict: returns a few words on a cell from the metrics of its seeds after the last epoch, by key; None: no
            verdict.
    """

    metrics: tuple[Metric, ...] = (BOUND, NLL)
    epochs: tuple[int, ...] = (1, 3, 5, 10)
    view: Literal["epochs", "grid", "methods"] = "epochs"
    published: str | None = None
    figures: tuple[CurvesFigure, ...] = (CurvesFigure(),)
    evaluated: str = "log p(x | z), for each image and step"
    reference: str | None = None
    verdict: Callable[[Sequence[Mapping[str, float]]], str] | None = None


@final
@dataclass(frozen=True, kw_only=True)
class Gallery(AbstractTrainings):
    """A figure with one panel for each trained cell, and a table of numbers below.

    Attributes:
        figure: the figure that each model draws.
        metrics: columns of the table of numbers; those of the model's figure, or of the test images after the last
            epoch.
    """

    figure: FigureSpec
    metrics: tuple[Metric, ...]

    def choose_figure(self, *, quick: bool = False) -> FigureSpec:
        """Return the figure of the full form, or of the quick one."""
        return replace(self.figure, options={**self.figure.options, **(self.quick.figure_options if quick else {})})
