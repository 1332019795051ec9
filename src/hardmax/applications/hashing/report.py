"""The report of a hash encoder."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from markupsafe import Markup
from torch import Tensor

from hardmax.applications.hashing.config import HashingConfig
from hardmax.applications.hashing.model import HashEncoder
from hardmax.applications.hashing.search import find_nearest, hamming_distance
from hardmax.applications.hashing.task import encode_bits, pack_codes
from hardmax.data import Images
from hardmax.drawing.svg import COLOURS, draw_svg
from hardmax.report.curves import Curves, Line, draw_curves, make_lines, make_lines_of_runs
from hardmax.report.run import Measured, Run
from hardmax.report.sections import AbstractReport, Tiles, describe_data, make_tile, spread_indices
from hardmax.report.tables import Fact, Quantity, format_number, format_percent
from hardmax.training.task import prepare_split


@dataclass(frozen=True)
class HashingMeasured(Measured):
    """A row of a hash encoder; only `objective` is measured for train."""

    objective: float | None
    precision: float | None
    balance: float | None
    correlation: float | None

    @property
    def loss(self) -> float | None:
        """What training minimises."""
        return None if self.objective is None else -self.objective


# The test pictures are `[N, channels, H, W]`.
HashingRun = Run[HashingConfig, HashEncoder, HashingMeasured, Tensor]


_MOST = 500  # queries


def draw_distances(name: str, images: Images, queries: Tensor, codes: Tensor) -> tuple[Markup, str]:
    """Draw what share of pairs has which distance; return the figure, and how to read it.

    Args:
        name: of the figure, unlike any other on the page.
        images: for their labels.
        queries: codes of test pictures.
        codes: those of training pictures.
    """
    some = queries[:_MOST]
    found, bits = hamming_distance(pack_codes(some), pack_codes(codes)), queries.shape[1]
    groups = {"all": np.ones(found.shape, dtype=bool)}
    if images.labels is not None:
        same = images.labels["test"][: len(some), None].numpy() == images.labels["train"].numpy()
        groups = {"same class": same, "other class": ~same}
    means = {group: float(found[mask].mean()) for group, mask in groups.items() if mask.any()}
    told = "; ".join(f"{group}: {mean:.1f} bits in the mean" for group, mean in means.items())
    with draw_svg(name, f"Distances between codes. {told}") as drawn:
        for (group, mask), colour in zip(groups.items(), COLOURS, strict=False):
            counts = np.bincount(found[mask], minlength=bits + 1)
            drawn.axes.plot(np.arange(bits + 1), 100 * counts / max(counts.sum(), 1), color=colour, label=group)
        drawn.axes.set(xlabel="bits that differ", ylabel="pairs (%)")
        drawn.axes.set_ylim(bottom=0)
        drawn.axes.legend()
    return drawn.svg, f"Between {len(some):,} test pictures and all training pictures. {told[:1].upper()}{told[1:]}."


_QUERIES, _FOUND = 8, 7


def tile_nearest(images: Images, pictures: Tensor, queries: Tensor, train: Tensor, codes: Tensor) -> Tiles:
    """Return a row for each of some test pictures, from all over the test set: itself, and the nearest ones.

    Args:
        images: for their labels.
        pictures: the test pictures as the encoder sees them.
        queries: their codes.
        train: the training pictures.
        codes: their codes.
    """
    sought, searched = pack_codes(queries), pack_codes(codes)
    labels = images.labels
    rows = []
    for i in spread_indices(len(pictures), _QUERIES):
        places, distances = find_nearest(sought[i], searched, _FOUND)
        label = -1 if labels is None else int(labels["test"][i])
        tiles = [make_tile(pictures[i, None], f"test picture {i}", "query")]
        for place, distance in zip(places.tolist(), distances.tolist(), strict=True):
            other = -1 if labels is None else int(labels["train"][place])
            wrong = "wrong" if label >= 0 and other >= 0 and other != label else ""
            tiles.append(make_tile(train[place, None], f"training picture {place}", f"{distance}", mark=wrong))
        rows.append(("", tiles))
    classes = "; wrong ones are of another class" if labels is not None else ""
    note = (
        f"Left, a test picture; beside it the training pictures with the nearest of {len(codes):,} codes, and in how "
        f"many bits they differ{classes}."
    )
    return Tiles(note, rows)


_PAIRS = {
    "neighbours": "pairs of pictures with alike pixels; no label was looked at",
    "distorted": "pairs of distorted copies of one picture; no label was looked at",
    "labels": "pairs of pictures of one class",
}


@dataclass(frozen=True)
class Content:
    """What its codes find, and how far they are apart."""

    nearest: Tiles
    distances: Markup
    distances_note: str


def _percent(share: float | None) -> str:
    return format_number(share) if share is None else format_percent(share)


def _precise(value: float | None) -> str:
    return format_number(value) if value is None else f"{value:.3f}"


@final
class HashingReport(AbstractReport[HashingRun]):
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
    template = "report.html.j2"
    styles = ("report.css",)

    def pictures(self, config: HashingConfig, images: Images) -> Tensor:
        """Return the test pictures that were searched for after each epoch."""
        return prepare_split(config, images, "test")[: config.evaluate_images]

    def subject(self, run: HashingRun) -> str:
        """Say how many bits, and what was trained on."""
        return f"Encoder of pictures to codes of {run.config.bits} bits, {describe_data(run)}."

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
        loss = make_lines(run, lambda row: row.loss)
        note = "Of training, codes are drawn; of the others, the best ones."
        return [
            draw_curves("loss", "Loss by epoch", "epoch", "loss", loss, mark=run.best_epoch, note=note),
            *_precision(make_lines(run, _of), "Precision by epoch", run.best_epoch),
        ]

    def curves_of_runs(self, runs: Sequence[HashingRun], names: Sequence[str]) -> list[Curves]:
        """Draw test loss and test precision of several runs by epoch."""
        loss = make_lines_of_runs(runs, names, lambda row: row.loss)
        return [
            draw_curves("loss", "Test loss by epoch", "epoch", "test loss", loss),
            *_precision(make_lines_of_runs(runs, names, _of), "Test precision by epoch"),
        ]

    def build_content(self, run: HashingRun, index: int) -> Content:
        """Return what its codes find, and how far they are apart."""
        train = prepare_split(run.config, run.images, "train")
        codes, queries = encode_bits(run.model, train), encode_bits(run.model, run.pictures)
        figure, note = draw_distances(f"distances-{index}", run.images, queries, codes)
        return Content(tile_nearest(run.images, run.pictures, queries, train, codes), figure, note)


def _of(row: HashingMeasured) -> float | None:
    return None if row.precision is None else 100 * row.precision


def _precision(lines: Sequence[Line], title: str, mark: int | None = None) -> list[Curves]:
    """Draw precision, where there are labels to judge by."""
    if all(math.isnan(value) for line in lines for value in line.y):
        return []
    return [draw_curves("precision", title, "epoch", "precision@100 (%)", lines, mark=mark)]
