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
from hardmax.report.run import MetricsRow, Run
from hardmax.report.sections import AbstractReport, Tiles, describe_data, make_tile, spread_indices
from hardmax.report.tables import Fact, Quantity, format_number, format_percent
from hardmax.training.task import prepare_split


@dataclass(frozen=True)
class HashingRow(MetricsRow):
    """A row of `metrics.jsonl` of a hash encoder; on the training set only `objective` is measured."""

    objective: float | None
    precision: float | None
    balance: float | None
    correlation: float | None

    @property
    def loss(self) -> float | None:
        """The loss that training minimises."""
        return None if self.objective is None else -self.objective


# The test images are `[N, channels, H, W]`.
HashingRun = Run[HashingConfig, HashEncoder, HashingRow, Tensor]


_MOST_QUERIES = 500


def draw_distances(name: str, images: Images, queries: Tensor, codes: Tensor) -> tuple[Markup, str]:
    """Draw the distribution of distances between test and training codes; return the figure and its caption.

    Args:
        name: name of the figure, unique on the page.
        images: the data, for its labels.
        queries: `[Q, n]`, codes of test images.
        codes: `[N, n]`, codes of training images.
    """
    sample = queries[:_MOST_QUERIES]
    distances, bits = hamming_distance(pack_codes(sample), pack_codes(codes)), queries.shape[1]
    groups = {"all": np.ones(distances.shape, dtype=bool)}
    if images.labels is not None:
        same = images.labels["test"][: len(sample), None].numpy() == images.labels["train"].numpy()
        groups = {"same class": same, "other class": ~same}
    means = {group: float(distances[mask].mean()) for group, mask in groups.items() if mask.any()}
    summary = "; ".join(f"{group}: {mean:.1f} bits on average" for group, mean in means.items())
    with draw_svg(name, f"Distances between codes. {summary}") as figure:
        for (group, mask), colour in zip(groups.items(), COLOURS, strict=False):
            counts = np.bincount(distances[mask], minlength=bits + 1)
            figure.axes.plot(np.arange(bits + 1), 100 * counts / max(counts.sum(), 1), color=colour, label=group)
        figure.axes.set(xlabel="bits that differ", ylabel="pairs (%)")
        figure.axes.set_ylim(bottom=0)
        figure.axes.legend()
    return (
        figure.svg,
        f"Distances between {len(sample):,} test images and all training images. {summary[:1].upper()}{summary[1:]}.",
    )


_QUERIES, _NEAREST = 8, 7


def tile_nearest(images: Images, test_images: Tensor, queries: Tensor, train: Tensor, codes: Tensor) -> Tiles:
    """Return one row for each of a few test images from all over the test set: the image, and the nearest ones.

    Args:
        images: the data, for its labels.
        test_images: `[Q, channels, H, W]`, the test images as the encoder reads them.
        queries: `[Q, n]`, their codes.
        train: `[N, channels, H, W]`, the training images.
        codes: `[N, n]`, their codes.
    """
    packed_queries, packed_codes = pack_codes(queries), pack_codes(codes)
    labels = images.labels
    rows = []
    for i in spread_indices(len(test_images), _QUERIES):
        positions, distances = find_nearest(packed_queries[i], packed_codes, _NEAREST)
        label = -1 if labels is None else int(labels["test"][i])
        tiles = [make_tile(test_images[i, None], f"test image {i}", "query")]
        for position, distance in zip(positions.tolist(), distances.tolist(), strict=True):
            other = -1 if labels is None else int(labels["train"][position])
            wrong = "wrong" if label >= 0 and other >= 0 and other != label else ""
            tiles.append(make_tile(train[position, None], f"training image {position}", f"{distance}", mark=wrong))
        rows.append(("", tiles))
    classes = " Images of another class are marked as wrong." if labels is not None else ""
    note = (
        f"Left: a test image. Right: the training images with the nearest of {len(codes):,} codes, and the number of "
        f"bits that differ.{classes}"
    )
    return Tiles(note, rows)


_PAIRS = {
    "neighbours": "pairs of images with similar pixels; it used no labels",
    "distorted": "pairs of distorted copies of one image; it used no labels",
    "labels": "pairs of images of one class",
}


@dataclass(frozen=True)
class Content:
    """The model-specific sections of the report: nearest images by code, and the distances between codes."""

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

    row = HashingRow
    quantities = (
        Quantity("Loss", "contrastive loss of the codes of pairs", lambda row: row.loss, "lower", _format_value),
        Quantity(
            "Precision@100",
            "share of the 100 nearest training images that are of the same class",
            lambda row: row.precision,
            "higher",
            _format_share,
        ),
        Quantity(
            "Balance", "1 if each bit is one for half of the images", lambda row: row.balance, to_text=_format_value
        ),
        Quantity(
            "Correlation", "of two bits; 0 if they are uncorrelated", lambda row: row.correlation, to_text=_format_value
        ),
    )
    criterion = "lowest loss"
    sections = {"nearest": "Nearest images", "distances": "Distances"}  # noqa: RUF012
    template = "report.html.j2"
    styles = ("report.css",)

    def prepare_test_examples(self, config: HashingConfig, images: Images) -> Tensor:
        """Return the test images that are the queries after each epoch."""
        return prepare_split(config, images, "test")[: config.evaluate_images]

    def describe_model(self, run: HashingRun) -> str:
        """Return a sentence with the number of bits and the training data."""
        return f"Encoder of images to codes of {run.config.bits} bits, {describe_data(run)}."

    def describe_training(self, run: HashingRun) -> str:
        """Return a sentence on the training pairs."""
        return f"It learned from {_PAIRS[run.config.pairs]}."

    def describe_measurement(self, run: HashingRun) -> str:
        """Return sentences on what the numbers are averaged over."""
        ties = "Codes at the same distance are averaged over all their orders."
        if run.config.searched == "rest":
            return (
                f"Means over at most {run.config.evaluate_images:,} test images, as many of each class, each searched "
                f"for among all other images. {ties}"
            )
        searches = (
            f"{len(run.test_examples):,} test images, each searched for among {len(run.images.train):,} training images"
        )
        return f"Means over {searches}. {ties}"

    def list_facts(self, run: HashingRun) -> list[Fact]:
        """Return the size of a code in bytes."""
        size = f"{run.config.bits / 8:g} bytes"
        return [Fact("A code", "Code", "of an image", size, size)]

    def draw_run_curves(self, run: HashingRun) -> list[Curves]:
        """Draw loss and precision by epoch."""
        loss = make_lines(run, lambda row: row.loss)
        note = "Training samples the codes; validation and test use the most probable ones."
        return [
            draw_curves("loss", "Loss by epoch", "epoch", "loss", loss, mark=run.best_epoch, note=note),
            *_draw_precision(make_lines(run, _precision_percent), "Precision by epoch", run.best_epoch),
        ]

    def draw_comparison_curves(self, runs: Sequence[HashingRun], names: Sequence[str]) -> list[Curves]:
        """Draw test loss and test precision of several runs by epoch."""
        loss = make_lines_of_runs(runs, names, lambda row: row.loss)
        return [
            draw_curves("loss", "Test loss by epoch", "epoch", "test loss", loss),
            *_draw_precision(make_lines_of_runs(runs, names, _precision_percent), "Test precision by epoch"),
        ]

    def build_content(self, run: HashingRun, index: int) -> Content:
        """Return the nearest images by code, and the distances between codes."""
        train = prepare_split(run.config, run.images, "train")
        codes, queries = encode_bits(run.model, train), encode_bits(run.model, run.test_examples)
        figure, note = draw_distances(f"distances-{index}", run.images, queries, codes)
        return Content(tile_nearest(run.images, run.test_examples, queries, train, codes), figure, note)


def _precision_percent(row: HashingRow) -> float | None:
    return None if row.precision is None else 100 * row.precision


def _draw_precision(lines: Sequence[Line], title: str, mark: int | None = None) -> list[Curves]:
    """Draw precision, if there are labels to measure it with."""
    if all(math.isnan(value) for line in lines for value in line.y):
        return []
    return [draw_curves("precision", title, "epoch", "precision@100 (%)", lines, mark=mark)]
