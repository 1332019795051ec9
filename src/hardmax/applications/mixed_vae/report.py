"""The report of a mixed VAE."""

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
    Meaning,
    Predictions,
    arrange_columns,
    count_confusion,
    predict,
    read_meaning,
)
from hardmax.applications.mixed_vae.supervision import Seen, prepare_labelled_split
from hardmax.data import Images
from hardmax.random import stream
from hardmax.report.curves import (
    Curves,
    Line,
    draw_bound,
    draw_bounds_by_epoch,
    draw_curves,
    make_lines,
    make_lines_of_runs,
)
from hardmax.report.run import MeasuredVAE, Run
from hardmax.report.sections import AbstractReport, Tiles, describe_data, make_tile, spread_indices
from hardmax.report.tables import BOUND, Fact, Quantity, format_number


@dataclass(frozen=True)
class MixedMeasured(MeasuredVAE):
    """A row of a mixed VAE; `nll` and accuracies are not measured for train, nor is the bound in its first epochs."""

    accuracy: float | None
    accuracy_sampled: float | None


MixedRun = Run[MixedConfig, MixedVAE, MixedMeasured, Seen]


_MOST_ROW_ATTRIBUTES = 3  # attributes that are named next to a row


@dataclass(frozen=True, eq=False)
class Samples:
    """Pictures drawn from the model.

    Attributes:
        pictures: `[rows, columns, channels, H, W]`, means given the latents.
        rows: the values that each row draws of the attributes that no column sets; empty where there are none or many.
    """

    pictures: Float[Tensor, "R C channels H W"]
    rows: list[str]


@torch.no_grad()
def draw_samples(
    model: MixedVAE, meaning: Meaning, columns: Columns, count: int, generator: torch.Generator
) -> Samples:
    """Draw the latents of `count` rows from the prior, and decode them with the setting of each column."""
    _, z_d, z_c = model.sample(count, generator=generator)
    pictures = [model.decode(meaning.put(z_d, setting), z_c) for setting in columns.settings]
    free = [variable for variable in range(len(meaning.names)) if variable not in columns.variables]
    named = free if len(free) <= _MOST_ROW_ATTRIBUTES else []
    values = meaning.values_of(z_d)[:, named].tolist()
    rows = [meaning.format_setting(dict(zip(named, row, strict=True))) for row in values]
    return Samples(torch.stack(pictures, 1), rows)


_TEACHERS = {
    "argmax": "through the arg max",
    "cross-entropy": "by cross-entropy",
    "hamming": "by the expected number of wrong variables",
}


def describe_subject(run: MixedRun, meaning: Meaning) -> str:
    """Describe the model and its data."""
    c = run.model.join.c
    if meaning.attributes:
        bits = f"a bit for each of {len(meaning.names)} attributes" if len(meaning.names) > 1 else "one bit"
        latents = f"{bits} ({', '.join(meaning.names)}) and {c} continuous dimensions beside"
    else:
        latents = f"one of {meaning.values} categories, and {c} continuous dimensions for each"
    return f"Variational auto-encoder with {latents}, {describe_data(run)}."


def describe_method(run: MixedRun) -> str:
    """Describe what the model learned from."""
    config = run.config
    if not config.labels:
        return "Without labels: the categories found meanings of their own."
    text = f"{config.labels:,} labels taught it {_TEACHERS[config.supervision]}"
    if config.consistency:
        text += ", and what it was sure of taught it distorted copies of other pictures"
    return text + ("." if config.elbo else "; the bound did not take part.")


def describe_measurement(run: MixedRun) -> str:
    """Describe what the numbers are means over, and which parts are exact."""
    discrete = "enumerated" if run.model.enumerable else "sampled"
    return (
        f"Means over {len(run.pictures):,} test pictures, in nats for each. The discrete latent is {discrete}, the "
        "continuous one is sampled once for each picture: hardmax evaluate takes more samples, with which −log p(x) "
        "falls."
    )


_RECONSTRUCTIONS, _ROWS = 12, 6
_MOST_NAMED = 3  # attributes below a picture


def tile_reconstructions(run: MixedRun, meaning: Meaning, predictions: Predictions) -> Tiles:
    """Return test pictures, from all over the test set, above the decodings of their latents."""
    index = spread_indices(len(run.pictures), _RECONSTRUCTIONS)
    some = run.pictures[torch.tensor(index)]
    pairs = torch.stack([some.x, run.model.edit(some.shown, run.model.predict(some.shown))], 1)
    wrong = (predictions.counted & ~predictions.right).any(1) & bool(run.config.labels)
    tiles = [
        make_tile(
            pair,
            f"test picture {i} above its reconstruction",
            *_caption(meaning, predictions, i),
            mark="wrong" if wrong[i] else "",
        )
        for i, pair in zip(index, pairs, strict=True)
    ]
    latents = "best bits and the mean of the Gaussian" if meaning.attributes else "best category and its mean Gaussian"
    label_note = "; then its label" if predictions.counted.any() else ""
    note = (
        f"Above, a test picture; below, what the decoder makes of its {latents}. Beneath: what the encoder takes it "
        f"for{label_note}."
    )
    return Tiles(note, [("", tiles)])


def tile_samples(run: MixedRun, meaning: Meaning, generator: torch.Generator) -> Tiles:
    """Return a tile for every class, or for every setting of attributes: the same continuous latents in each."""
    columns = arrange_columns(meaning)
    samples = draw_samples(run.model, meaning, columns, _ROWS, generator)
    tiles = []
    for column, head in enumerate(columns.heads):
        words = [f"{meaning.names[variable]} {value}" for variable, value in zip(columns.variables, head, strict=True)]
        alt = f"{_ROWS} pictures drawn with {', '.join(words)}"
        tiles.append(make_tile(samples.pictures[:, column], alt, *(words if meaning.attributes else head)))
    what = "setting of the attributes" if meaning.attributes else meaning.names[0]
    note = f"Drawn from the model: a column is a {what}, a row has one continuous latent, drawn from the prior."
    return Tiles(
        f"{note} {columns.note[:1].upper()}{columns.note[1:]}{'.' * bool(columns.note)}".strip(), [("", tiles)]
    )


def _caption(meaning: Meaning, predictions: Predictions, index: int) -> list[str]:
    """Return what a picture is classified as, and its label."""
    predicted, labels = predictions.predicted[index].tolist(), predictions.labels[index].tolist()
    known = bool(predictions.counted[index].any())
    if not meaning.attributes:
        label = [f"label {meaning.value_name(labels[0])}"] if known else []
        return [meaning.value_name(predicted[0]), *label]
    if len(meaning.names) > _MOST_NAMED:
        counted, right = predictions.counted[index], predictions.right[index]
        return [f"{int(right.sum())} of {int(counted.sum())} right"] if known else []
    return [_on(meaning, predicted), *([f"label: {_on(meaning, labels)}"] if known else [])]


def _on(meaning: Meaning, values: list[int]) -> str:
    """Return the names of the attributes that are on."""
    return ", ".join(name for name, value in zip(meaning.names, values, strict=True) if value == 1) or "none"


@dataclass(frozen=True)
class Content:
    """The run's pictures, and its confusion table."""

    samples: Tiles
    reconstructions: Tiles
    confusion: Confusion | None


def _percent(share: float | None) -> str:
    return format_number(share) if share is None or math.isnan(share) else f"{100 * share:.2f} %"


@final
class MixedReport(AbstractReport[MixedRun]):
    """Report of a mixed VAE: samples for each label, reconstructions, and how well it predicts labels."""

    row = MixedMeasured
    quantities = (
        BOUND,
        Quantity("−log p(x)", "at most; what −ELBO is an upper bound of", lambda row: row.nll, "lower"),
        Quantity("Reconstruction", "−log p(x | z), averaged over q(z | x)", lambda row: row.error),
        Quantity("KL", "from q(z | x) to the prior, of both latents", lambda row: row.kl),
        Quantity("Accuracy", "labels that the arg max has right", lambda row: row.accuracy, "higher", _percent),
        Quantity(
            "Accuracy, sampled",
            "labels that a drawn z has right",
            lambda row: row.accuracy_sampled,
            "higher",
            _percent,
        ),
    )
    sections = {  # noqa: RUF012
        "samples": "Samples",
        "reconstructions": "Reconstructions",
        "predictions": "Predictions",
    }
    template = "report.html.j2"
    styles = ("report.css",)

    def pictures(self, config: MixedConfig, images: Images) -> Seen:
        """Return the test pictures that were evaluated after each epoch, with their labels."""
        return prepare_labelled_split(config, images, "test")[: config.evaluate_images]

    def subject(self, run: MixedRun) -> str:
        """Describe the latents and the training data."""
        return describe_subject(run, read_meaning(run.config, run.model.space, run.facts))

    def method(self, run: MixedRun) -> str:
        """Describe what the model learned from."""
        return describe_method(run)

    def measurement(self, run: MixedRun) -> str:
        """Describe what the numbers are means over, and which parts are exact."""
        return describe_measurement(run)

    def facts(self, run: MixedRun) -> list[Fact]:
        """Return how many labels were used."""
        used = f"{run.config.labels:,} of {len(run.images.train):,}"
        return [Fact("Labels", "Labels", "training pictures whose label was used", used, used)]

    def curves_of_run(self, run: MixedRun) -> list[Curves]:
        """Draw the bound and the accuracy by epoch."""
        return [draw_bound(run), *_accuracy(make_lines(run, _of), "Accuracy by epoch", run.best_epoch)]

    def curves_of_runs(self, runs: Sequence[MixedRun], names: Sequence[str]) -> list[Curves]:
        """Draw the test bound and the test accuracy of several runs by epoch."""
        return [
            draw_bounds_by_epoch(runs, names),
            *_accuracy(make_lines_of_runs(runs, names, _of), "Test accuracy by epoch"),
        ]

    def build_content(self, run: MixedRun, index: int) -> Content:
        """Return the run's pictures, and its confusion table."""
        meaning = read_meaning(run.config, run.model.space, run.facts)
        predictions = predict(run.model, meaning, run.pictures)
        return Content(
            samples=tile_samples(run, meaning, stream(run.config.seed, "report", "samples")),
            reconstructions=tile_reconstructions(run, meaning, predictions),
            confusion=count_confusion(meaning, predictions, f"confusion-{index}"),
        )


def _of(row: MixedMeasured) -> float | None:
    return None if row.accuracy is None else 100 * row.accuracy


def _accuracy(lines: Sequence[Line], title: str, mark: int | None = None) -> list[Curves]:
    """Draw accuracies, where there are any."""
    if all(math.isnan(value) for line in lines for value in line.y):
        return []
    note = "Of the arg max." if mark is None else "Of the arg max; not measured on the training pictures."
    return [draw_curves("accuracy", title, "epoch", "accuracy (%)", lines, mark=mark, note=note)]
