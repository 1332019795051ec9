"""What a table or figure is made of. No torch here: the command line shows its help and lists from this.

There are two kinds: an `Experiment` trains in many ways and compares the bounds, a `Measurement` trains once and
compares estimators of the gradient on the way.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from hardmax.experiments.panels import Picture
from hardmax.training.config import TrainConfig

if TYPE_CHECKING:
    from hardmax.estimators import AbstractEstimator

Options = Mapping[str, Any]
Metric = Literal["negative_elbo", "nll"]


@dataclass(frozen=True)
class Cell:
    """One way to train, run once for every seed.

    Attributes:
        column: what z is or comes from; in a figure, cells of one column share a marker, or a panel; in a grid, a line.
        row: how it is trained; in a figure, cells of one row share a colour; in a grid, a column.
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
        claim: what the paper says that it shows, or what was published elsewhere; whole sentences.
        setting: what is the same for all cells, for the reader.
        options: the same as fields of `TrainConfig`.
        cells: in the order of the table.
        quick: a form that takes a minute.
        seeds: each cell is run once with each.
        metric: what is drawn and tabulated after each epoch, of the test pictures.
        epochs: those that have a column in the table, beside the last one.
        view: what the table is: "epochs" has a line for each cell and a column for each of the epochs, "grid" has the
            last epoch alone, a line for each column of cells and a column for each row of them.
        published: file in `paper/` with the numbers that a grid is compared with.
        pictures: of the curves.
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
    metric: Metric = "negative_elbo"
    epochs: tuple[int, ...] = (1, 3, 5, 10)
    view: Literal["epochs", "grid"] = "epochs"
    published: str | None = None
    pictures: tuple[Picture, ...] = (Picture(),)
    notes: tuple[str, ...] = ()

    def config(self, cell: Cell, seed: int, *, quick: bool = False) -> TrainConfig:
        """Return what a cell's run is told; where it is written to is left open."""
        chosen = {**self.options, **cell.options, **(self.quick.options if quick else {})}
        return replace(TrainConfig(), lr=cell.lr, seed=seed, **chosen)


@dataclass(frozen=True)
class Entrant:
    """An estimator that is measured.

    Attributes:
        name: how a user would type it; before it "posterior", where it takes the whole integrand of a bound.
        estimator: itself.
        kl: how the KL takes part where the gradient is that of a bound.
        line: what it shares with those that differ from it by their step alone; in a figure they are joined.
        step: its epsilon or tau.
    """

    name: str
    estimator: "AbstractEstimator"
    kl: Literal["auto", "beside"] = "beside"
    line: str | None = None
    step: float | None = None

    @property
    def label(self) -> str:
        """What a figure calls it."""
        return self.name if self.line is None else f"{self.line}, {self.step:g}"


def ladder(
    line: str,
    typed: str,
    steps: Sequence[float],
    make: "Callable[[float], AbstractEstimator]",
    kl: Literal["auto", "beside"] = "beside",
) -> list[Entrant]:
    """Return entrants that differ by their epsilon or tau alone.

    Args:
        line: what they share.
        typed: their names, with `{}` in place of the step.
        steps: epsilons or taus.
        make: from a step to an estimator.
        kl: as for `Entrant`.
    """
    return [Entrant(typed.format(f"{step:g}"), make(step), kl, line, step) for step in steps]


@dataclass(frozen=True)
class Part:
    """Estimators that are measured under the same conditions, a table of their own.

    Attributes:
        name: what `--only` calls it.
        title: what a reader sees.
        objective: what the gradient is of: `E[log p(x | z)]`, or the whole bound.
        evaluations: of f for each picture that an estimate may take; each estimator gets as many samples as fit.
        samples: of every estimator, instead of that.
        drawn: whether it has a picture.
    """

    name: str
    title: str
    objective: Literal["expectation", "bound"] = "bound"
    evaluations: float | None = None
    samples: int | None = None
    drawn: bool = True


@dataclass(frozen=True)
class QuickMeasurement:
    """A form that takes a minute and no data but what comes with hardmax; fields as in `Measurement`."""

    options: Options
    note: str
    epochs: tuple[int, ...]
    draws: int
    pictures: int


@dataclass(frozen=True)
class Measurement:
    """A table or figure of gradient estimators, measured against the exact gradient while one model is trained.

    Attributes:
        name: what `hardmax reproduce` calls it.
        title: one line.
        claim: what it is about: "The paper: ..." and the like, whole sentences.
        setting: what is trained and measured, for the reader.
        options: of the training, fields of `TrainConfig`; epochs are those below.
        epochs: after which is measured; training ends with the last.
        draws: independent estimates of each estimator.
        pictures: the first so many of the validation pictures.
        parts: tables, in their order.
        entrants: which estimators a part has; imports them, and so torch, when called.
        view: how they are shown: "ladders" draws bias and noise against the step of each line, "points" bias against
            noise.
        quick: a form that takes a minute.
        notes: what else a reader should know, a line each.
    """

    name: str
    title: str
    claim: str
    setting: str
    options: Options
    epochs: tuple[int, ...]
    draws: int
    pictures: int
    parts: tuple[Part, ...]
    entrants: Callable[[Part], list[Entrant]]
    view: Literal["ladders", "points"]
    quick: QuickMeasurement
    notes: tuple[str, ...] = ()

    def form(self, *, quick: bool) -> "Measurement":
        """Return the full form, or the quick one in its place."""
        if not quick:
            return self
        small = self.quick
        options = {**self.options, **small.options}
        return replace(self, options=options, epochs=small.epochs, draws=small.draws, pictures=small.pictures)

    @property
    def training(self) -> TrainConfig:
        """What the training is told; where it is written to is left open."""
        return replace(TrainConfig(), epochs=self.epochs[-1], **self.options)
