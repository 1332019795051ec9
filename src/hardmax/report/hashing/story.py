"""What a page tells of a hash encoder."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from markupsafe import Markup
from torch import Tensor

from hardmax.data import Images
from hardmax.report.curves import Curves, Line, draw, lines_of_run, lines_of_runs
from hardmax.report.describe import trained_on
from hardmax.report.hashing.distances import draw_distances
from hardmax.report.hashing.nearest import nearest_pictures
from hardmax.report.hashing.run import HashingMeasured, HashingRun
from hardmax.report.numbers import Fact, Quantity, number, percent
from hardmax.report.story import AbstractStory
from hardmax.report.tiles import Tiles
from hardmax.training.hashing.config import HashingConfig
from hardmax.training.hashing.evaluate import codes_of
from hardmax.training.held_out import held_out

_PAIRS = {
    "neighbours": "pairs of pictures with alike pixels; no label was looked at",
    "distorted": "pairs of distorted copies of one picture; no label was looked at",
    "labels": "pairs of pictures of one class",
}


@dataclass(frozen=True)
class Told:
    """What its codes find, and how far they are apart."""

    nearest: Tiles
    distances: Markup
    distances_note: str


def _percent(share: float | None) -> str:
    return number(share) if share is None else percent(share)


def _precise(value: float | None) -> str:
    return number(value) if value is None else f"{value:.3f}"


@final
class HashingStory(AbstractStory[HashingRun]):
    """What the codes of pictures find, and how their bits are used."""

    row = HashingMeasured
    quantities = (
        Quantity("Loss", "of the codes of pairs, told from others", lambda row: row.loss, "lower", _precise),
        Quantity(
            "Precision@100",
            "of the 100 nearest training pictures, those of the same class",
            lambda row: row.precision,
            "higher",
            _percent,
        ),
        Quantity("Balance", "1 where each bit is one for half of them", lambda row: row.balance, shown=_precise),
        Quantity("Correlation", "of two bits; 0 where each says its own", lambda row: row.correlation, shown=_precise),
    )
    kept_by = "lowest loss"
    sections = {"nearest": "Nearest pictures", "distances": "Distances"}  # noqa: RUF012
    template = "hashing/sections.html.j2"
    styles = ("hashing/style.css",)

    def pictures(self, config: HashingConfig, images: Images) -> Tensor:
        """Return the test pictures that were searched for after each epoch."""
        return held_out(config, images, "test")[: config.evaluate_images]

    def subject(self, run: HashingRun) -> str:
        """Say how many bits, and what was trained on."""
        return f"Encoder of pictures to codes of {run.config.bits} bits, {trained_on(run)}."

    def method(self, run: HashingRun) -> str:
        """Say what taught it."""
        return f"It learned from {_PAIRS[run.config.pairs]}."

    def measurement(self, run: HashingRun) -> str:
        """Say what the numbers are means over."""
        found = f"{len(run.pictures):,} test pictures, searched for among {len(run.images.train):,} training pictures"
        return f"Means over {found}; of codes that are equally far, in the mean over their orders."

    def facts(self, run: HashingRun) -> list[Fact]:
        """Return how long a code is."""
        size = f"{run.config.bits / 8:g} bytes"
        return [Fact("A code", "Code", "of a picture", size, size)]

    def curves_of_run(self, run: HashingRun) -> list[Curves]:
        """Draw loss and precision by epoch."""
        loss = lines_of_run(run, lambda row: row.loss)
        note = "Of training, codes are drawn; of the others, the best ones."
        return [
            draw("loss", "Loss by epoch", "epoch", "loss", loss, mark=run.best_epoch, note=note),
            *_precision(lines_of_run(run, _of), "Precision by epoch", run.best_epoch),
        ]

    def curves_of_runs(self, runs: Sequence[HashingRun], names: Sequence[str]) -> list[Curves]:
        """Draw test loss and test precision of several runs by epoch."""
        loss = lines_of_runs(runs, names, lambda row: row.loss)
        return [
            draw("loss", "Test loss by epoch", "epoch", "test loss", loss),
            *_precision(lines_of_runs(runs, names, _of), "Test precision by epoch"),
        ]

    def told(self, run: HashingRun, index: int) -> Told:
        """Return what its codes find, and how far they are apart."""
        train = held_out(run.config, run.images, "train")
        codes, queries = codes_of(run.model, train), codes_of(run.model, run.pictures)
        figure, note = draw_distances(f"distances-{index}", run.images, queries, codes)
        return Told(nearest_pictures(run.images, run.pictures, queries, train, codes), figure, note)


def _of(row: HashingMeasured) -> float | None:
    return None if row.precision is None else 100 * row.precision


def _precision(lines: Sequence[Line], title: str, mark: int | None = None) -> list[Curves]:
    """Draw precision, where there are labels to judge by."""
    if all(math.isnan(value) for line in lines for value in line.y):
        return []
    return [draw("precision", title, "epoch", "precision@100 (%)", lines, mark=mark)]
