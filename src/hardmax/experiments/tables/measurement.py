"""What a measurement of gradient estimators is made of. No torch here: the command line lists it from this."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from hardmax.applications.discrete_vae.config import DiscreteConfig
from hardmax.experiments.tables.declaration import Options

if TYPE_CHECKING:
    from hardmax.estimators import AbstractEstimator


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
        options: of the training, fields of `DiscreteConfig`; epochs are those below.
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
    def training(self) -> DiscreteConfig:
        """What the training is told; where it is written to is left open."""
        return DiscreteConfig(epochs=self.epochs[-1], **self.options)
