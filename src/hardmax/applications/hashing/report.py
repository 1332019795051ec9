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
        """The loss that training minimises."""
        return None if self.objective is None else -self.objective


# The test images are `[N, channels, H, W]`.
HashingRun = Run[HashingConfig, HashEncoder, HashingMeasured, Tensor]


_MOST = 500  # queries


def draw_distances(name: str, images: Images, queries: Tensor, codes: Tensor) -> tuple[Markup, str]:
    """Draw the distribution of distances over pairs; return the figure, and a note that explains it.

    Args:
        name: of the figure, unique on the page.
        images: for their labels.
        queries: codes of test images.
        codes: codes of training images.
    """
    sample = queries[:_MOST]
    distances, bits = hamming_distance(pack_codes(sample), pack_codes(codes)), queries.shape[1]
    groups = {"all": np.ones(distances.shape, dtype=bool)}
    if images.labels is not None:
        same = images.labels["test"][: len(sample), None].numpy() == images.labels["train"].numpy()
        groups = {"same class": same, "other class": ~same}
    means = {group: float(distances[mask].mean()) for group, mask in groups.items() if mask.any()}
    summary = "; ".join(f"{group}: {mean:.1f} bits in the mean" for group, mean in means.items())
    with draw_svg(name, f"Distances between codes. {summary}") as figure:
        for (group, mask), colour in zip(groups.items(), COLOURS, strict=False):
            counts = np.bincount(distances[mask], minlength=bits + 1)
            figure.axes.plot(np.arange(bits + 1), 100 * counts / max(counts.sum(), 1), color=colour, label=group)
        figure.axes.set(xlabel="bits that differ", ylabel="pairs (%)")
        figure.axes.set_ylim(bottom=0)
        figure.axes.legend()
    return (
        figure.svg,
        f"Between {len(sample):,} test pictures and all training pictures. {summary[:1].upper()}{summary[1:]}.",
    )


_QUERIES, _NEAREST = 8, 7


def tile_nearest(images: Images, pictures: Tensor, queries: Tensor, train: Tensor, codes: Tensor) -> Tiles:
    """Return one row for each of a few test images, spread over the test set: the image, and its nearest ones.

    Args:
        images: for their labels.
        pictures: the test images as the encoder reads them.
        queries: their codes.
        train: the training images.
        codes: their codes.
    """
    sought, searched = pack_codes(queries), pack_codes(codes)
    labels = images.labels
    rows = []
    for i in spread_indices(len(pictures), _QUERIES):
        places, distances = find_nearest(sought[i], searched, _NEAREST)
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
    """Nearest images by code, and the distances between codes."""

    nearest: Tiles
    distances: Markup
    distances_note: str


def _format_share(share: float | None) -> str:
    return format_number(share) if share is None else format_percent(share)


def _format_value(value: float | None) -> str:
    return format_number(value) if value is None else f"{value:.3f}"


@final
class HashingReport(AbstractReport[HashingRun]):
    """The report of a hash encoder: images retrieved by code, and the usage of the bits."""

    row = HashingMeasured
    quantities = (
        Quantity("Loss", "contrastive loss of the codes of pairs", lambda row: row.loss, "lower", _format_value),
        Quantity(
            "Precision@100",
            "of the 100 nearest training pictures, those of the same class",
            lambda row: row.precision,
            "higher",
            _format_share,
        ),
        Quantity("Balance", "1 where each bit is one for half of them", lambda row: row.balance, shown=_format_value),
        Quantity(
            "Correlation", "of two bits; 0 where each says its own", lambda row: row.correlation, shown=_format_value
        ),
    )
    kept_by = "lowest loss"
    sections = {"nearest": "Nearest pictures", "distances": "Distances"}  # noqa: RUF012
    template = "report.html.j2"
    styles = ("report.css",)

    def pictures(self, config: HashingConfig, images: Images) -> Tensor:
        """Return the test images that are the queries after each epoch."""
        return prepare_split(config, images, "test")[: config.evaluate_images]

    def subject(self, run: HashingRun) -> str:
        """Return a sentence with the number of bits and the training data."""
        return f"Encoder of pictures to codes of {run.config.bits} bits, {describe_data(run)}."

    def method(self, run: HashingRun) -> str:
        """Return a sentence on the training pairs."""
        return f"It learned from {_PAIRS[run.config.pairs]}."

    def measurement(self, run: HashingRun) -> str:
        """Return a sentence on what the numbers are averaged over."""
        searches = (
            f"{len(run.pictures):,} test pictures, searched for among {len(run.images.train):,} training pictures"
        )
        return f"Means over {searches}; of codes that are equally far, in the mean over their orders."

    def facts(self, run: HashingRun) -> list[Fact]:
        """Return the length of a code."""
        size = f"{run.config.bits / 8:g} bytes"
        return [Fact("A code", "Code", "of a picture", size, size)]

    def curves_of_run(self, run: HashingRun) -> list[Curves]:
        """Draw loss and precision by epoch."""
        loss = make_lines(run, lambda row: row.loss)
        note = "Of training, codes are drawn; of the others, the best ones."
        return [
            draw_curves("loss", "Loss by epoch", "epoch", "loss", loss, mark=run.best_epoch, note=note),
            *_draw_precision(make_lines(run, _precision_percent), "Precision by epoch", run.best_epoch),
        ]

    def curves_of_runs(self, runs: Sequence[HashingRun], names: Sequence[str]) -> list[Curves]:
        """Draw test loss and test precision of several runs by epoch."""
        loss = make_lines_of_runs(runs, names, lambda row: row.loss)
        return [
            draw_curves("loss", "Test loss by epoch", "epoch", "test loss", loss),
            *_draw_precision(make_lines_of_runs(runs, names, _precision_percent), "Test precision by epoch"),
        ]

    def build_content(self, run: HashingRun, index: int) -> Content:
        """Return the nearest images by code, and the distances between codes."""
        train = prepare_split(run.config, run.images, "train")
        codes, queries = encode_bits(run.model, train), encode_bits(run.model, run.pictures)
        figure, note = draw_distances(f"distances-{index}", run.images, queries, codes)
        return Content(tile_nearest(run.images, run.pictures, queries, train, codes), figure, note)


def _precision_percent(row: HashingMeasured) -> float | None:
    return None if row.precision is None else 100 * row.precision


def _draw_precision(lines: Sequence[Line], title: str, mark: int | None = None) -> list[Curves]:
    """Draw precision, if there are labels to measure it with."""
    if all(math.isnan(value) for line in lines for value in line.y):
        return []
    return [draw_curves("precision", title, "epoch", "precision@100 (%)", lines, mark=mark)]
