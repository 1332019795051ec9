"""What a table or figure consists of: cells, panels, the runs that it needs, and a quick form. No torch here.

There are three kinds: an `Experiment` trains in many ways and compares numbers, a `Gallery` trains a few models and
shows what they draw, a `Measurement` (in `measurement.py`) trains once and compares estimators of the gradient.
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
    """The metric of some cells against epochs or seconds.

    Attributes:
        by: what is on the horizontal axis; seconds are those of training alone.
        problem: cells of this problem are drawn; without it, all are. Panels of one problem share their vertical axis.
    """

    by: Literal["epoch", "seconds"]
    problem: str | None = None


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
    def problems(self) -> tuple[str, ...]:
        """Problems that have panels of their own; none where all cells share the panels."""
        return tuple(dict.fromkeys(panel.problem for row in self.rows for panel in row if panel.problem is not None))


def make_slug(label: str) -> str:
    """Return a label as `--only`, folders and files of published numbers have it."""
    return re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-")


@dataclass(frozen=True)
class Cell:
    """One way to train, run once for every seed.

    Attributes:
        problem: what z is or comes from; in a figure, cells of one problem share a marker, or a panel; in a grid, it
            is a line.
        method: how it is trained; in a figure, cells of one method share a colour; in a grid, it is a column.
        group: whose method it is, such as "the paper's"; in a figure, cells of one group share a dash.
        lr: learning rate, tuned for this cell: at a shared one a comparison tells who likes that rate.
        options: fields of the configuration that the other cells may not share.
    """

    problem: str
    method: str
    group: str
    lr: float
    options: Options = field(default_factory=dict)

    @property
    def label(self) -> str:
        """What a reader sees."""
        return f"{self.problem}, {self.method}"

    @property
    def name(self) -> str:
        """What `--only` and folders call it."""
        return make_slug(self.label)

    @property
    def description(self) -> str:
        """What `--list` shows beside the name."""
        return f"{self.group}, lr {self.lr:g}"


@dataclass(frozen=True)
class FigureSpec:
    """The figure that each trained model of a gallery draws.

    Attributes:
        kind: which figure, by its name in `runner.model_figures`.
        options: its options, plain numbers and texts; a row keeps them under `look`.
    """

    kind: str
    options: Options = field(default_factory=dict)


@dataclass(frozen=True)
class AbstractQuick(ABC):
    """A form that takes a minute and no data but what comes with hardmax: it shows that all works, and no more.

    Attributes:
        options: fields of the configuration that replace those of the full form.
        note: what is smaller, for the reader.
    """

    options: Options
    note: str


@final
@dataclass(frozen=True)
class Quick(AbstractQuick):
    """The quick form of a table or figure that is made of trainings.

    Attributes:
        seeds: usually one.
        figure_options: options of a gallery's figure that replace those of the full form.
    """

    seeds: tuple[int, ...] = (0,)
    figure_options: Options = field(default_factory=dict)


@runtime_checkable
class Item(Protocol):
    """What `--only` chooses from: a cell or a part."""

    @property
    def name(self) -> str:
        """What `--only` calls it."""
        ...

    @property
    def description(self) -> str:
        """What `--list` shows beside the name."""
        ...


@dataclass(frozen=True, kw_only=True)
class AbstractExperiment(ABC):
    """A table or figure that `hardmax reproduce` makes.

    Attributes:
        name: what `hardmax reproduce` calls it.
        title: one line.
        claim: what the paper says that it shows, or what was published elsewhere; whole sentences.
        setting: what is trained and measured, for the reader.
        options: fields of the configuration that all of its runs share.
        quick: a form that takes a minute.
        notes: what else a reader should know, a paragraph each.
        planned_row: what a row of it belongs to.
        work: what it is made of, in messages: "runs", or "measurements" on the way of one training.
        item_kind: what `--only` chooses from: "cell" or "part".
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
        """All that `--only` chooses from, in the order of the table."""

    @abstractmethod
    def describe(self, seeds: Sequence[int] = (), *, quick: bool = False) -> str:
        """Return the line that `--list` shows above the items.

        Raises:
            ArgumentError: it is not made with one of these seeds.
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
        """Return the runs or measurements that it needs, in the order in which they are made.

        Args:
            out: folder that runs are written to.
            quick: of the quick form.
            data_dir: folder that holds the named data sets.
            only: names of items, or patterns; without them, all.
            seeds: seeds of the table; without them, all.

        Raises:
            ArgumentError: there is no such item, or no such seed.
        """

    def choose_items(self, names: Sequence[str] = ()) -> list[Any]:
        """Return the items of these names in the order of the table; without names, all.

        A name may be a pattern of a shell: `mnist-*-direct` is all of that method on MNIST.

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
    """A run to be made, or made already.

    Attributes:
        cell: what it is for.
        config: its configuration; `config.out` is its folder.
        figure: what its model draws once it is trained; None: nothing.
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
        """Whether a row is of a run with this very configuration, whose model drew this very figure."""
        options = None if self.figure is None else self.figure.options
        same = (row["cell"], row["seed"], row.get("look")) == (*self.key, options)
        return same and is_same_run(row["config"], self.config)


@dataclass(frozen=True, kw_only=True)
class AbstractTrainings(AbstractExperiment):
    """A table or figure that is made of trainings: cells, each run once with each seed.

    Attributes:
        options: `model` says which application is trained, by default the discrete VAE.
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

    def config(self, cell: Cell, seed: int, *, quick: bool = False) -> TrainConfig:
        """Return the configuration of a cell's run; where it is written to is left open."""
        chosen = {**self.options, **cell.options, **(self.quick.options if quick else {})}
        return find_application(chosen.get("model", "discrete")).load_config()(lr=cell.lr, seed=seed, **chosen)

    def choose_figure(self, *, quick: bool = False) -> FigureSpec | None:
        """Return what each model draws; None where numbers of the training are all that is wanted."""
        return None

    def choose_seeds(self, seeds: Sequence[int] = (), *, quick: bool = False) -> list[int]:
        """Return these seeds in the order of the table, or of its quick form; without seeds, all.

        Raises:
            ArgumentError: the table is not made with one of them.
        """
        known = self.quick.seeds if quick else self.seeds
        for seed in seeds:
            if seed not in known:
                form = f"the quick form of {self.name}" if quick else self.name
                raise ArgumentError(f"{form} has no seed {seed}; its seeds are: {', '.join(map(str, known))}")
        return [seed for seed in known if not seeds or seed in seeds]

    def describe(self, seeds: Sequence[int] = (), *, quick: bool = False) -> str:
        """Return the seeds of its runs."""
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
        """Return the runs of cells, seed by seed: once every cell has run with the first, there is a whole table."""
        cells = self.choose_items(only)
        return [
            PlannedRun(
                cell,
                replace(
                    self.config(cell, seed, quick=quick), out=str(out / f"{cell.name}-seed{seed}"), data_dir=data_dir
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
        metrics: of the test pictures; the first is drawn and tabulated after each epoch, all of them after the last.
        epochs: those that have a column in the table, beside the last one.
        view: what the table is: "epochs" has a line for each cell and a column for each of the epochs, "grid" has the
            last epoch alone, a line for each problem and a column for each method.
        published: file beside the declarations with the numbers that a grid is compared with.
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
        figure: what each model draws.
        metrics: columns of the table of numbers; those of the model's figure, or of the test pictures after the last
            epoch.
    """

    figure: FigureSpec
    metrics: tuple[Metric, ...]

    def choose_figure(self, *, quick: bool = False) -> FigureSpec:
        """Return the figure of the full form, or of the quick one."""
        return replace(self.figure, options={**self.figure.options, **(self.quick.figure_options if quick else {})})
