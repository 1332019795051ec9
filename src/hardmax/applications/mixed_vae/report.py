"""The report of a mixed VAE: samples for each label, reconstructions, and predictions."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.applications.mixed_vae.config import MixedConfig
from hardmax.applications.mixed_vae.model import MixedVAE
from hardmax.applications.mixed_vae.report_labels import (
    Columns,
    Confusion,
    LatentNames,
    Predictions,
    arrange_columns,
    make_confusion,
    predict,
    read_latent_names,
)
from hardmax.applications.mixed_vae.supervision import PreparedImages, prepare_labelled_split
from hardmax.data import Images
from hardmax.random import make_generator
from hardmax.report.curves import (
    Curves,
    Line,
    draw_bound,
    draw_bounds_by_epoch,
    draw_curves,
    make_lines,
    make_lines_of_runs,
)
from hardmax.report.run import Run, VAERow
from hardmax.report.sections import AbstractReport, Tiles, describe_data, make_tile, spread_indices
from hardmax.report.tables import BOUND, Fact, Quantity, format_number


@dataclass(frozen=True)
class MixedRow(VAERow):
    """A row of a mixed VAE; for train, `nll`, the accuracies and in the first epochs the bound are not measured."""

    accuracy: float | None
    accuracy_sampled: float | None


MixedRun = Run[MixedConfig, MixedVAE, MixedRow, PreparedImages]


_MAX_ROW_ATTRIBUTES = 3  # number of attributes whose values are shown next to a row


@dataclass(frozen=True, eq=False)
class Samples:
    """Images that the model generates.

    Attributes:
        images: `[rows, columns, channels, H, W]`. Mean images given the latents.
        rows: for each row, the values of the attributes that no column sets; empty if there are none, or too many.
    """

    images: Float[Tensor, "R C channels H W"]
    rows: list[str]


@torch.no_grad()
def draw_samples(
    model: MixedVAE, latent: LatentNames, columns: Columns, count: int, generator: torch.Generator
) -> Samples:
    """Draw the latents of `count` rows from the prior, and decode them with the setting of each column."""
    _, z_d, z_c = model.sample(count, generator=generator)
    images = [model.decode(latent.apply_setting(z_d, setting), z_c) for setting in columns.settings]
    free = [variable for variable in range(len(latent.names)) if variable not in columns.variables]
    shown = free if len(free) <= _MAX_ROW_ATTRIBUTES else []
    values = latent.get_values(z_d)[:, shown].tolist()
    rows = [latent.format_setting(dict(zip(shown, row, strict=True))) for row in values]
    return Samples(torch.stack(images, 1), rows)


_SUPERVISION = {
    "argmax": "through the arg max",
    "cross-entropy": "by cross-entropy",
    "hamming": "by the expected number of wrong variables",
}


def describe_subject(run: MixedRun, latent: LatentNames) -> str:
    """Describe the model and its data."""
    c = run.model.join.c
    if latent.has_attributes:
        bits = f"a bit for each of {len(latent.names)} attributes" if len(latent.names) > 1 else "one bit"
        latents = f"{bits} ({', '.join(latent.names)}) and {c} continuous dimensions"
    else:
        latents = f"one of {latent.value_count} categories, and {c} continuous dimensions for each"
    return f"Variational auto-encoder with {latents}, {describe_data(run)}."


def describe_method(run: MixedRun) -> str:
    """Describe what the model learned from."""
    config = run.config
    if not config.labels:
        return "Trained without labels: the categories need not correspond to classes."
    text = f"Trained with {config.labels:,} labels, {_SUPERVISION[config.supervision]}"
    if config.consistency:
        text += ", and with its own confident predictions as labels of distorted images"
    return text + ("." if config.elbo else "; without the bound.")


def describe_measurement(run: MixedRun) -> str:
    """Describe what the numbers are means over, and which parts are exact."""
    discrete = "enumerated" if run.model.is_enumerable else "sampled"
    return (
        f"Means over {len(run.test_examples):,} test images, in nats per image. The discrete latent is {discrete}, the "
        "continuous one is sampled once for each image. hardmax evaluate takes more samples, which lowers −log p(x)."
    )


_RECONSTRUCTIONS, _ROWS = 12, 6
_MAX_CAPTION_ATTRIBUTES = 3  # number of attributes in the caption of an image


def tile_reconstructions(run: MixedRun, latent: LatentNames, predictions: Predictions) -> Tiles:
    """Return test images, evenly spread over the test set, above the decodings of their latents."""
    index = spread_indices(len(run.test_examples), _RECONSTRUCTIONS)
    images = run.test_examples[torch.tensor(index)]
    inputs = images.encoder_input
    pairs = torch.stack([images.x, run.model.edit(inputs, run.model.predict(inputs))], 1)
    wrong = (predictions.is_labelled & ~predictions.is_correct).any(1) & bool(run.config.labels)
    tiles = [
        make_tile(
            pair,
            f"test image {i} above its reconstruction",
            *_make_caption(latent, predictions, i),
            mark="wrong" if wrong[i] else "",
        )
        for i, pair in zip(index, pairs, strict=True)
    ]
    latents = (
        "best bits and the mean of the Gaussian"
        if latent.has_attributes
        else "best category and the mean of its Gaussian"
    )
    label_note = ", then the label" if predictions.is_labelled.any() else ""
    note = (
        f"Above, a test image; below, its reconstruction from its {latents}. In the caption: the prediction of the "
        f"encoder{label_note}."
    )
    return Tiles(note, [("", tiles)])


def tile_samples(run: MixedRun, latent: LatentNames, generator: torch.Generator) -> Tiles:
    """Return a tile for every class, or for every combination of attributes; all have the same continuous latents."""
    columns = arrange_columns(latent)
    samples = draw_samples(run.model, latent, columns, _ROWS, generator)
    tiles = []
    for column, head in enumerate(columns.heads):
        words = [f"{latent.names[variable]} {value}" for variable, value in zip(columns.variables, head, strict=True)]
        alt = f"{_ROWS} samples with {', '.join(words)}"
        tiles.append(make_tile(samples.images[:, column], alt, *(words if latent.has_attributes else head)))
    what = "combination of attributes" if latent.has_attributes else latent.names[0]
    note = f"Samples of the model: each column is a {what}; each row has the same continuous latent, from the prior."
    return Tiles(
        f"{note} {columns.note[:1].upper()}{columns.note[1:]}{'.' * bool(columns.note)}".strip(), [("", tiles)]
    )


def _make_caption(latent: LatentNames, predictions: Predictions, index: int) -> list[str]:
    """Return the prediction for an image, and its label."""
    predicted, labels = predictions.predicted[index].tolist(), predictions.labels[index].tolist()
    has_label = bool(predictions.is_labelled[index].any())
    if not latent.has_attributes:
        label = [f"label {latent.get_value_name(labels[0])}"] if has_label else []
        return [latent.get_value_name(predicted[0]), *label]
    if len(latent.names) > _MAX_CAPTION_ATTRIBUTES:
        correct, labelled = int(predictions.is_correct[index].sum()), int(predictions.is_labelled[index].sum())
        return [f"{correct} of {labelled} correct"] if has_label else []
    return [_join_names(latent, predicted), *([f"label: {_join_names(latent, labels)}"] if has_label else [])]


def _join_names(latent: LatentNames, values: list[int]) -> str:
    """Return the names of the attributes that are on."""
    return ", ".join(name for name, value in zip(latent.names, values, strict=True) if value == 1) or "none"


@dataclass(frozen=True)
class Content:
    """The contents of the sections of one run."""

    samples: Tiles
    reconstructions: Tiles
    confusion: Confusion | None


def _format_accuracy(share: float | None) -> str:
    return format_number(share) if share is None or math.isnan(share) else f"{100 * share:.2f} %"


@final
class MixedReport(AbstractReport[MixedRun]):
    """Report of a mixed VAE: samples for each label, reconstructions, and how well it predicts labels."""

    row = MixedRow
    quantities = (
        BOUND,
        Quantity("−log p(x)", "an upper bound; −ELBO is a larger one", lambda row: row.nll, "lower"),
        Quantity("Reconstruction", "−log p(x | z), averaged over q(z | x)", lambda row: row.error),
        Quantity("KL", "from q(z | x) to the prior, of both latents", lambda row: row.kl),
        Quantity("Accuracy", "labels that the arg max predicts", lambda row: row.accuracy, "higher", _format_accuracy),
        Quantity(
            "Accuracy, sampled",
            "labels that a sample of z predicts",
            lambda row: row.accuracy_sampled,
            "higher",
            _format_accuracy,
        ),
    )
    sections = {  # noqa: RUF012
        "samples": "Samples",
        "reconstructions": "Reconstructions",
        "predictions": "Predictions",
    }
    template = "report.html.j2"
    styles = ("report.css",)

    def prepare_test_examples(self, config: MixedConfig, images: Images) -> PreparedImages:
        """Return the test images that were evaluated after each epoch, with their labels."""
        return prepare_labelled_split(config, images, "test")[: config.evaluate_images]

    def describe_model(self, run: MixedRun) -> str:
        """Describe the latents and the training data."""
        return describe_subject(run, read_latent_names(run.config, run.model.space, run.facts))

    def describe_training(self, run: MixedRun) -> str:
        """Describe what the model learned from."""
        return describe_method(run)

    def describe_measurement(self, run: MixedRun) -> str:
        """Describe what the numbers are means over, and which parts are exact."""
        return describe_measurement(run)

    def list_facts(self, run: MixedRun) -> list[Fact]:
        """Return the number of labels that were used."""
        used = f"{run.config.labels:,} of {len(run.images.train):,}"
        return [Fact("Labels", "Labels", "training images whose label was used", used, used)]

    def draw_run_curves(self, run: MixedRun) -> list[Curves]:
        """Draw the bound and the accuracy by epoch."""
        return [
            draw_bound(run),
            *_draw_accuracy(make_lines(run, _accuracy_in_percent), "Accuracy by epoch", run.best_epoch),
        ]

    def draw_comparison_curves(self, runs: Sequence[MixedRun], names: Sequence[str]) -> list[Curves]:
        """Draw the test bound and the test accuracy of several runs by epoch."""
        return [
            draw_bounds_by_epoch(runs, names),
            *_draw_accuracy(make_lines_of_runs(runs, names, _accuracy_in_percent), "Test accuracy by epoch"),
        ]

    def build_content(self, run: MixedRun, index: int) -> Content:
        """Return the contents of the sections of one run."""
        latent = read_latent_names(run.config, run.model.space, run.facts)
        predictions = predict(run.model, latent, run.test_examples)
        return Content(
            samples=tile_samples(run, latent, make_generator(run.config.seed, "report", "samples")),
            reconstructions=tile_reconstructions(run, latent, predictions),
            confusion=make_confusion(latent, predictions, f"confusion-{index}"),
        )


def _accuracy_in_percent(row: MixedRow) -> float | None:
    return None if row.accuracy is None else 100 * row.accuracy


def _draw_accuracy(lines: Sequence[Line], title: str, mark: int | None = None) -> list[Curves]:
    """Draw accuracies, if there are any."""
    if all(math.isnan(value) for line in lines for value in line.y):
        return []
    note = "Of the arg max." if mark is None else "Of the arg max; not measured on the training images."
    return [draw_curves("accuracy", title, "epoch", "accuracy (%)", lines, mark=mark, note=note)]
