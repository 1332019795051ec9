"""Declaration of a measurement of gradient estimators. No torch here, so that the command line can list it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, final

from hardmax.applications.discrete_vae.config import DiscreteConfig
from hardmax.errors import ArgumentError
from hardmax.experiments.rows import AbstractPlannedRow, Row, is_same_run
from hardmax.experiments.tables.declaration import AbstractExperiment, AbstractQuick

if TYPE_CHECKING:
    from hardmax.estimators import AbstractEstimator


@dataclass(frozen=True)
class MeasuredEstimator:
    """An estimator that is measured.

    Attributes:
        name: the expression that creates it; prefixed by "posterior" if it uses the entire integrand of a bound.
        estimator: the estimator.
        kl: treatment of the KL if the gradient is that of a bound.
        line: name shared by estimators that differ only in their step; in a figure they are joined.
        step: its epsilon or tau.
    """

    name: str
    estimator: "AbstractEstimator"
    kl: Literal["auto", "beside"] = "beside"
    line: str | None = None
    step: float | None = None

    @property
    def label(self) -> str:
        """Its label in figures."""
        return self.name if self.line is None else f"{self.line}, {self.step:g}"


def make_ladder(
    line: str,
    template: str,
    steps: Sequence[float],
    make: "Callable[[float], AbstractEstimator]",
    kl: Literal["auto", "beside"] = "beside",
) -> list[MeasuredEstimator]:
    """Return estimators that differ only in their epsilon or tau.

    Args:
        line: their shared name.
        template: their names, with `{}` for the step.
        steps: epsilons or taus.
        make: returns the estimator of a step.
        kl: as for `MeasuredEstimator`.
    """
    return [MeasuredEstimator(template.format(f"{step:g}"), make(step), kl, line, step) for step in steps]


@dataclass(frozen=True)
class Part:
    """A group of estimators that are measured under the same conditions, with a table of their own.

    Attributes:
        name: its name for `--only`.
        title: its title on pages.
        objective: the function whose gradient is estimated: `E[log p(x | z)]`, or the bound.
        evaluations: maximum number of evaluations of f per image and estimate; each estimator gets as many samples as
            this allows.
        samples: number of samples of every estimator, instead of `evaluations`.
        drawn: whether it has a figure.
    """

    name: str
    title: str
    objective: Literal["expectation", "bound"] = "bound"
    evaluations: float | None = None
    samples: int | None = None
    drawn: bool = True

    @property
    def description(self) -> str:
        """The text that `--list` prints next to the name."""
        return self.title


@final
@dataclass(frozen=True)
class QuickMeasurement(AbstractQuick):
    """The quick form of a measurement; fields as in `Measurement`."""

    epochs: tuple[int, ...]
    draws: int
    images: int


@dataclass(frozen=True)
class PlannedMeasurement(AbstractPlannedRow):
    """A measurement of one estimator after one epoch, planned or finished.

    Attributes:
        epoch: the epoch after which it is measured.
        part: the conditions.
        measured: the estimator.
        training: configuration of the run that trains the model; `training.out` is its folder.
        draws: number of independent estimates.
        images: number of validation images.
    """

    epoch: int
    part: Part
    measured: MeasuredEstimator
    training: DiscreteConfig
    draws: int
    images: int

    fields: ClassVar[frozenset[str]] = frozenset({
        "experiment", "part", "epoch", "name", "config", "hash", "norm", "samples", "bias", "floor", "biased",
        "deviation", "cosine", "evaluations", "seconds",
    })  # fmt: skip
    key_fields: ClassVar[tuple[str, ...]] = ("part", "epoch", "name")

    @property
    def name(self) -> str:
        """Its name in progress messages."""
        return f"epoch {self.epoch}, {self.part.name}, {self.measured.name}"

    @property
    def key(self) -> tuple[str, int, str]:
        """Names of part and estimator, and the epoch."""
        return self.part.name, self.epoch, self.measured.name

    @property
    def terms(self) -> dict[str, Any]:
        """All settings that it depends on, except the training."""
        return {
            "estimator": self.measured.name,
            "epoch": self.epoch,
            "objective": self.part.objective,
            "kl": self.measured.kl if self.part.objective == "bound" else None,
            "evaluations": self.part.evaluations,
            "samples": self.part.samples,
            "draws": self.draws,
            "pictures": self.images,
        }

    def matches(self, row: Row) -> bool:
        """Whether a row belongs to this part, with the same terms and training."""
        training = row["config"].get("training", {})
        terms = {key: value for key, value in row["config"].items() if key != "training"}
        return row["part"] == self.part.name and terms == self.terms and is_same_run(training, self.training)


@final
@dataclass(frozen=True, kw_only=True)
class Measurement(AbstractExperiment):
    """A table or figure of gradient estimators, compared with the exact gradient while one model is trained.

    Attributes:
        options: fields of the `DiscreteConfig` of the training, except `epochs`, which is below.
        epochs: epochs after which it is measured; training ends with the last.
        draws: number of independent estimates of each estimator.
        images: number of validation images, the first ones of the split.
        parts: tables, in their order.
        estimators: returns the estimators of a part; imports torch when called.
        view: form of the page: "ladders" draws bias and noise by epsilon or tau, "points" draws bias against noise.
        quick: a form that takes a minute.
    """

    epochs: tuple[int, ...]
    draws: int
    images: int
    parts: tuple[Part, ...]
    estimators: Callable[[Part], list[MeasuredEstimator]]
    view: Literal["ladders", "points"]
    quick: QuickMeasurement

    planned_row = PlannedMeasurement
    work = "measurements"
    item_kind = "part"

    @property
    def items(self) -> Sequence[Part]:
        """The parts."""
        return self.parts

    def choose_form(self, *, quick: bool) -> "Measurement":
        """Return the full form, or the quick one."""
        if not quick:
            return self
        small = self.quick
        options = {**self.options, **small.options}
        return replace(self, options=options, epochs=small.epochs, draws=small.draws, images=small.images)

    @property
    def training(self) -> DiscreteConfig:
        """Configuration of the training, without its output folder."""
        return DiscreteConfig(epochs=self.epochs[-1], **self.options)

    def describe(self, seeds: Sequence[int] = (), *, quick: bool = False) -> str:
        """Return a line with the epochs after which it is measured."""
        return f"measured after {', '.join(map(str, self.epochs))} epochs; parts:"

    def plan(
        self,
        out: Path,
        *,
        quick: bool = False,
        data_dir: str | None = None,
        only: Sequence[str] = (),
        seeds: Sequence[int] = (),
    ) -> list[PlannedMeasurement]:
        """Return the measurements of parts, epoch by epoch, of one training in the folder `run`."""
        if seeds:
            raise ArgumentError(f"{self.name} is one training run with measurements, and has no seeds")
        form, parts = self.choose_form(quick=quick), self.choose_items(only)
        training = replace(form.training, out=str(out / "run"), data_dir=data_dir)
        return [
            PlannedMeasurement(epoch, part, measured, training, form.draws, form.images)
            for epoch in form.epochs
            for part in parts
            for measured in form.estimators(part)
        ]
