"""What a page tells of sequence GANs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from torch import Tensor

from hardmax.data import Sequences
from hardmax.random import stream
from hardmax.report.curves import Curves, Line, draw, lines_of_run, lines_of_runs
from hardmax.report.numbers import Fact, Quantity, number, percent
from hardmax.report.sequence_gan import describe
from hardmax.report.sequence_gan.language import Language, language
from hardmax.report.sequence_gan.run import SequenceGANMeasured, SequenceGANRun
from hardmax.report.sequence_gan.samples import Written, write_samples
from hardmax.report.story import AbstractStory
from hardmax.training.sequence_gan.config import SequenceGANConfig

_SAMPLES = 24


@dataclass(frozen=True)
class Told:
    """What it writes, and how often each sentence."""

    samples: list[Written]
    language: Language | None


def _percent(share: float | None) -> str:
    return number(None) if share is None else percent(share)


def _used(row: SequenceGANMeasured) -> float | None:
    return None if row.entropy is None else math.exp(row.entropy)


@final
class SequenceGANStory(AbstractStory[SequenceGANRun]):
    """What it writes, how much of that is right, and how much of the language it writes."""

    examples = "sequences"
    kept_by = "highest log q"
    row = SequenceGANMeasured
    quantities = (
        Quantity("−log q", "of real sequences, in nats", lambda row: row.nll, "lower"),
        Quantity("Validity", "probability of writing a sentence", lambda row: row.validity, "higher", _percent),
        Quantity("Coverage", "sentences that it writes", lambda row: row.coverage, "higher", _percent),
        Quantity("Divergence", "of 3-grams from real ones, nats", lambda row: row.divergence, "lower"),
        Quantity("Sequences used", "exp of the entropy", _used),
        Quantity("Distinct", "draws that are left, each counted once", lambda row: row.distinct, shown=_percent),
    )
    sections = {"samples": "Samples", "language": "Language"}  # noqa: RUF012
    template = "sequence_gan/sections.html.j2"
    styles = ("sequence_gan/style.css",)

    def pictures(self, config: SequenceGANConfig, images: Sequences) -> Tensor:
        """Return the test sequences."""
        return images.test

    def subject(self, run: SequenceGANRun) -> str:
        """Say what was trained on what."""
        return describe.subject(run)

    def method(self, run: SequenceGANRun) -> str:
        """Say what stood in for the derivative of the arg max."""
        return describe.method(run)

    def measurement(self, run: SequenceGANRun) -> str:
        """Say what is exact in the numbers."""
        return describe.measurement(run)

    def facts(self, run: SequenceGANRun) -> list[Fact]:
        """Return nothing else."""
        return []

    def curves_of_run(self, run: SequenceGANRun) -> list[Curves]:
        """Draw validity and coverage, and the game, by epoch."""
        return [
            *_shares(lines_of_run(run, lambda row: row.validity), "validity", "Validity by epoch", run.best_epoch),
            *_shares(lines_of_run(run, lambda row: row.coverage), "coverage", "Coverage by epoch", run.best_epoch),
            _curve(lines_of_run(run, lambda row: row.divergence), "divergence", "Divergence of 3-grams by epoch"),
            draw(
                "game",
                "The discriminator's loss by epoch",
                "epoch",
                "loss (nats)",
                lines_of_run(run, lambda row: row.discriminator_loss),
                note="2 log 2 = 1.39 is a discriminator that cannot tell; 0 is one that always can.",
            ),
        ]

    def curves_of_runs(self, runs: Sequence[SequenceGANRun], names: Sequence[str]) -> list[Curves]:
        """Draw the same of several runs."""
        return [
            *_shares(lines_of_runs(runs, names, lambda row: row.validity), "validity", "Validity by epoch"),
            *_shares(lines_of_runs(runs, names, lambda row: row.coverage), "coverage", "Coverage by epoch"),
            _curve(
                lines_of_runs(runs, names, lambda row: row.divergence), "divergence", "Divergence of 3-grams by epoch"
            ),
        ]

    def told(self, run: SequenceGANRun, index: int) -> Told:
        """Return what it writes, and how often each sentence."""
        return Told(
            write_samples(run.model, run.images, _SAMPLES, stream(run.config.seed, "report", "samples")),
            language(run, f"language-{index}"),
        )


def _shares(lines: Sequence[Line], name: str, title: str, mark: int | None = None) -> list[Curves]:
    """Draw shares in percent, where there are any."""
    found = [Line(line.name, line.x, [100 * value for value in line.y]) for line in lines]
    if all(math.isnan(value) for line in found for value in line.y):
        return []
    return [draw(name, title, "epoch", f"{name} (%)", found, mark=mark)]


def _curve(lines: Sequence[Line], name: str, title: str) -> Curves:
    return draw(name, title, "epoch", f"{name} (nats)", lines)
