"""The report of a completion model: completions of test images, and completions from each component."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from hardmax.applications.completion.config import MASKS, CompletionConfig
from hardmax.applications.completion.masks import MaskedImages, prepare_masked_split
from hardmax.applications.completion.model import CompletionModel
from hardmax.data import Images
from hardmax.random import make_generator
from hardmax.report.curves import Curves, draw_bound, draw_bounds_by_epoch, draw_curves, make_lines, make_lines_of_runs
from hardmax.report.run import Run, VAERow
from hardmax.report.sections import AbstractReport, Tile, Tiles, describe_data, make_tile, spread_indices
from hardmax.report.tables import BOUND, Fact, Quantity, format_percent


@dataclass(frozen=True)
class CompletionRow(VAERow):
    """A row of a completion model; `nll`, `psnr` and `components` are not measured for train."""

    psnr: float | None
    components: float | None


CompletionRun = Run[CompletionConfig, CompletionModel, CompletionRow, MaskedImages]


_CHOICES = {
    "mixture": "all components learn from each image, by the exact likelihood of the mixture",
    "responsibility": "the component with the largest responsibility for an image learns from it",
    "distance": "the component with the nearest mean learns from an image",
    "encoder": "an encoder, trained through the arg max, chooses the component that learns",
}


def describe_subject(run: CompletionRun) -> str:
    """Describe the model and its data."""
    config = run.config
    if not config.latent:
        model = "Deterministic network"
    elif not config.components:
        model = f"Conditional variational auto-encoder with {config.latent} dimensions and a standard normal prior"
    else:
        prior = f"a mixture of {config.components} Gaussians" if config.components > 1 else "one Gaussian"
        model = f"Completion model with {prior} over {config.latent} dimensions, given the visible part"
    hidden = MASKS.get(config.mask, f"the white pixels of {config.mask}")
    return f"{model}, {describe_data(run)}; hidden: {hidden}."


def describe_method(run: CompletionRun) -> str:
    """Describe the loss, and which components learn from an image."""
    config = run.config
    if not config.components:
        return "Minus the bound of the hidden pixels was minimised."
    warm = config.warm_up_epochs
    first = f"in the first {warm} epochs, a near component that was rarely chosen learns; then " if warm else ""
    how = f"{first}{_CHOICES[config.choice]}"
    if config.loss == "bound":
        return f"Minus the bound of the hidden pixels was minimised: {how}."
    form = "corrected" if config.loss == "corrected" else "with its published formula, which has no minimum"
    return f"The loss of the notes on pluralistic completion, {form}: {how}."


def describe_measurement(run: CompletionRun) -> str:
    """Describe what the numbers are means over."""
    return (
        f"Means over {len(run.test_examples):,} test images, in nats for the hidden pixels of one image, with one "
        "sample of the latent; PSNR is of one completion. hardmax evaluate takes more samples, which lowers −log p."
    )


_IMAGES, _COMPLETIONS, _MAX_COMPONENTS = 8, 8, 12


def tile_completions(run: CompletionRun, generator: torch.Generator) -> Tiles:
    """Return rows of a test image with its hole, the original image, and completions."""
    index = spread_indices(len(run.test_examples), _IMAGES)
    images = run.test_examples[torch.tensor(index)]
    completed = run.model.complete(images.x, images.hidden, count=_COMPLETIONS, generator=generator)
    rows = []
    for row in range(len(index)):
        numbers, weights = completed.component[:, row].tolist(), completed.weight[:, row].tolist()
        tiles = [
            _tile(
                image, f"completion of test image {index[row]}", _format_component(run, number), format_percent(weight)
            )
            for image, number, weight in zip(completed.images[:, row], numbers, weights, strict=True)
        ]
        rows.append(("", [*_tile_original(images, row, index[row]), *tiles]))
    return Tiles(
        "A test image with its hole, the original image, and completions. Below a completion: the component that it "
        "was sampled from, and the weight of that component.",
        rows,
    )


def tile_components(run: CompletionRun, generator: torch.Generator) -> Tiles | None:
    """Return rows of a test image and one completion from each component; None if there are fewer than two."""
    if run.config.components < 2:
        return None
    index = spread_indices(len(run.test_examples), _IMAGES // 2)
    images = run.test_examples[torch.tensor(index)]
    numbers = range(min(run.config.components, _MAX_COMPONENTS))
    completed = [
        run.model.complete(images.x, images.hidden, count=1, component=j, generator=generator) for j in numbers
    ]
    rows = []
    for row in range(len(index)):
        tiles = [
            _tile(
                part.images[0, row],
                f"component {j}",
                _format_component(run, j),
                format_percent(float(part.weight[0, row])),
            )
            for j, part in zip(numbers, completed, strict=True)
        ]
        rows.append(("", [*_tile_original(images, row, index[row]), *tiles]))
    return Tiles("One completion from each component, with its weight for this image.", rows)


def _tile_original(images: MaskedImages, row: int, index: int) -> list[Tile]:
    """Return an image with its hole, and the original."""
    masked = images.x[row].where(~images.hidden[row], 0.5)
    return [
        _tile(masked, f"test image {index} with its hole", "hole"),
        _tile(images.x[row], f"test image {index}", "original"),
    ]


def _tile(image: Tensor, alt: str, *caption: str) -> Tile:
    return make_tile(image[None], alt, *caption)


def _format_component(run: CompletionRun, number: int) -> str:
    return f"{number} " if run.config.components else ""


@dataclass(frozen=True)
class Content:
    """The contents of the sections of one run."""

    completions: Tiles
    components: Tiles | None


@final
class CompletionReport(AbstractReport[CompletionRun]):
    """Report of a completion model: likelihood of the hidden pixels, distance to the truth, and completions."""

    row = CompletionRow
    quantities = (
        BOUND,
        Quantity("−log p(hidden | visible)", "an upper bound", lambda row: row.nll, "lower"),
        Quantity("Reconstruction", "−log p(hidden | z, visible), averaged over q(z)", lambda row: row.error),
        Quantity("KL", "from q(z) to the mixture", lambda row: row.kl),
        Quantity("PSNR", "of one completion, in decibels", lambda row: row.psnr, "higher"),
        Quantity("Components in use", "perplexity of the weights", lambda row: row.components),
    )
    sections = {"completions": "Completions", "components": "Components"}  # noqa: RUF012
    template = "report.html.j2"

    def prepare_test_examples(self, config: CompletionConfig, images: Images) -> MaskedImages:
        """Return the test images that were evaluated after each epoch, with their holes."""
        return prepare_masked_split(config, images, "test")[: config.evaluate_images]

    def describe_model(self, run: CompletionRun) -> str:
        """Describe the model and its data."""
        return describe_subject(run)

    def describe_training(self, run: CompletionRun) -> str:
        """Describe the loss."""
        return describe_method(run)

    def describe_measurement(self, run: CompletionRun) -> str:
        """Describe what the numbers are means over."""
        return describe_measurement(run)

    def list_facts(self, run: CompletionRun) -> list[Fact]:
        """Return the mask."""
        return [Fact("Mask", "Mask", "what is hidden", run.config.mask, run.config.mask)]

    def draw_run_curves(self, run: CompletionRun) -> list[Curves]:
        """Draw the bound and PSNR by epoch."""
        lines = make_lines(run, lambda row: row.psnr)
        return [
            draw_bound(run),
            draw_curves(
                "psnr", "PSNR by epoch", "epoch", "PSNR (dB)", lines, mark=run.best_epoch, note="Of one completion."
            ),
        ]

    def draw_comparison_curves(self, runs: Sequence[CompletionRun], names: Sequence[str]) -> list[Curves]:
        """Draw the test bound and PSNR of several runs by epoch."""
        lines = make_lines_of_runs(runs, names, lambda row: row.psnr)
        return [
            draw_bounds_by_epoch(runs, names),
            draw_curves("psnr", "Test PSNR by epoch", "epoch", "PSNR (dB)", lines),
        ]

    def build_content(self, run: CompletionRun, index: int) -> Content:
        """Return the contents of the sections of one run."""
        return Content(
            tile_completions(run, make_generator(run.config.seed, "report", "completions")),
            tile_components(run, make_generator(run.config.seed, "report", "components")),
        )
