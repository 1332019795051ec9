"""The report of a completion model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from hardmax.applications.completion.config import MASKS, CompletionConfig
from hardmax.applications.completion.masks import Holed, prepare_masked_split
from hardmax.applications.completion.model import CompletionModel
from hardmax.data import Images
from hardmax.random import stream
from hardmax.report.curves import Curves, draw_bound, draw_bounds_by_epoch, draw_curves, make_lines, make_lines_of_runs
from hardmax.report.run import MeasuredVAE, Run
from hardmax.report.sections import AbstractReport, Tile, Tiles, describe_data, make_tile, spread_indices
from hardmax.report.tables import BOUND, Fact, Quantity, format_percent


@dataclass(frozen=True)
class CompletionMeasured(MeasuredVAE):
    """A row of a completion model; `nll`, `psnr` and `components` are not measured for train."""

    psnr: float | None
    components: float | None


CompletionRun = Run[CompletionConfig, CompletionModel, CompletionMeasured, Holed]


_CHOICES = {
    "mixture": "all components learn from a picture, by the exact likelihood of the mixture",
    "responsibility": "the component that is most responsible for a picture learns from it",
    "distance": "the component whose mean is nearest learns from a picture",
    "encoder": "an encoder chooses the component that learns, trained through the arg max",
}


def describe_subject(run: CompletionRun) -> str:
    """Describe the model and its data."""
    config = run.config
    if not config.latent:
        model = "Deterministic network"
    elif not config.components:
        model = f"Conditional variational auto-encoder with {config.latent} dimensions and a standard normal prior"
    else:
        many = f"a mixture of {config.components} Gaussians" if config.components > 1 else "one Gaussian"
        model = f"Completion model with {many} over {config.latent} dimensions, given the visible part"
    hidden = MASKS.get(config.mask, f"what {config.mask} is white at")
    return f"{model}, {describe_data(run)}; hidden: {hidden}."


def describe_method(run: CompletionRun) -> str:
    """Describe the loss, and which components learn from a picture."""
    config = run.config
    if not config.components:
        return "Minus the bound of the hidden pixels was minimised."
    warm = config.warm_up_epochs
    first = f"for the first {warm} epochs a near component that was seldom chosen learns; then " if warm else ""
    how = f"{first}{_CHOICES[config.choice]}"
    if config.loss == "bound":
        return f"Minus the bound of the hidden pixels was minimised: {how}."
    form = "corrected" if config.loss == "corrected" else "with its published formula, which has no minimum"
    return f"The loss of the notes on pluralistic completion, {form}: {how}."


def describe_measurement(run: CompletionRun) -> str:
    """Describe what the numbers are means over."""
    return (
        f"Means over {len(run.pictures):,} test pictures, in nats for the hidden pixels of each, with one sample of "
        "the latent; PSNR is of one completion. hardmax evaluate takes more samples, with which −log p falls."
    )


_PICTURES, _COMPLETIONS, _MOST_COMPONENTS = 8, 8, 12


def tile_completions(run: CompletionRun, generator: torch.Generator) -> Tiles:
    """Return rows of a test picture with its hole, itself, and completions of it."""
    index = spread_indices(len(run.pictures), _PICTURES)
    some = run.pictures[torch.tensor(index)]
    completed = run.model.complete(some.x, some.hidden, count=_COMPLETIONS, generator=generator)
    rows = []
    for row in range(len(index)):
        numbers, weights = completed.component[:, row].tolist(), completed.weight[:, row].tolist()
        tiles = [
            _tile(picture, f"completion of test picture {index[row]}", _component(run, number), format_percent(weight))
            for picture, number, weight in zip(completed.pictures[:, row], numbers, weights, strict=True)
        ]
        rows.append(("", [*_before(some, row, index[row]), *tiles]))
    return Tiles(
        "A test picture with its hole, the picture itself, and completions. Beneath a completion: the component that "
        "it was drawn from, and the weight of that component.",
        rows,
    )


def tile_components(run: CompletionRun, generator: torch.Generator) -> Tiles | None:
    """Return rows of a test picture and one completion from each component; None where there is only one."""
    if run.config.components < 2:
        return None
    index = spread_indices(len(run.pictures), _PICTURES // 2)
    some = run.pictures[torch.tensor(index)]
    numbers = range(min(run.config.components, _MOST_COMPONENTS))
    completed = [run.model.complete(some.x, some.hidden, count=1, component=j, generator=generator) for j in numbers]
    rows = []
    for row in range(len(index)):
        tiles = [
            _tile(one.pictures[0, row], f"component {j}", _component(run, j), format_percent(float(one.weight[0, row])))
            for j, one in zip(numbers, completed, strict=True)
        ]
        rows.append(("", [*_before(some, row, index[row]), *tiles]))
    return Tiles("One completion from each component, with its weight for this picture.", rows)


def _before(some: Holed, row: int, index: int) -> list[Tile]:
    """Return the picture with its hole, and without."""
    holed = some.x[row].where(~some.hidden[row], 0.5)
    return [
        _tile(holed, f"test picture {index} with its hole", "hole"),
        _tile(some.x[row], f"test picture {index}", "truth"),
    ]


def _tile(picture: Tensor, alt: str, *caption: str) -> Tile:
    return make_tile(picture[None], alt, *caption)


def _component(run: CompletionRun, number: int) -> str:
    return f"{number} " if run.config.components else ""


@dataclass(frozen=True)
class Content:
    """The run's completions, and those of each component."""

    completions: Tiles
    components: Tiles | None


@final
class CompletionReport(AbstractReport[CompletionRun]):
    """Report of a completion model: likelihood of the hidden pixels, distance to the truth, and completions."""

    row = CompletionMeasured
    quantities = (
        BOUND,
        Quantity("−log p(hidden | visible)", "at most", lambda row: row.nll, "lower"),
        Quantity("Reconstruction", "−log p(hidden | z, visible), averaged over q(z)", lambda row: row.error),
        Quantity("KL", "from q(z) to the mixture", lambda row: row.kl),
        Quantity("PSNR", "of one completion, in decibels", lambda row: row.psnr, "higher"),
        Quantity("Components in use", "perplexity of the weights", lambda row: row.components),
    )
    sections = {"completions": "Completions", "components": "Components"}  # noqa: RUF012
    template = "report.html.j2"

    def pictures(self, config: CompletionConfig, images: Images) -> Holed:
        """Return the test pictures that were evaluated after each epoch, with their holes."""
        return prepare_masked_split(config, images, "test")[: config.evaluate_images]

    def subject(self, run: CompletionRun) -> str:
        """Describe the model and its data."""
        return describe_subject(run)

    def method(self, run: CompletionRun) -> str:
        """Describe the loss."""
        return describe_method(run)

    def measurement(self, run: CompletionRun) -> str:
        """Describe what the numbers are means over."""
        return describe_measurement(run)

    def facts(self, run: CompletionRun) -> list[Fact]:
        """Return the mask."""
        return [Fact("Mask", "Mask", "what is hidden", run.config.mask, run.config.mask)]

    def curves_of_run(self, run: CompletionRun) -> list[Curves]:
        """Draw the bound and PSNR by epoch."""
        lines = make_lines(run, lambda row: row.psnr)
        return [
            draw_bound(run),
            draw_curves(
                "psnr", "PSNR by epoch", "epoch", "PSNR (dB)", lines, mark=run.best_epoch, note="Of one completion."
            ),
        ]

    def curves_of_runs(self, runs: Sequence[CompletionRun], names: Sequence[str]) -> list[Curves]:
        """Draw the test bound and PSNR of several runs by epoch."""
        lines = make_lines_of_runs(runs, names, lambda row: row.psnr)
        return [
            draw_bounds_by_epoch(runs, names),
            draw_curves("psnr", "Test PSNR by epoch", "epoch", "PSNR (dB)", lines),
        ]

    def build_content(self, run: CompletionRun, index: int) -> Content:
        """Return the run's completions, and those of each component."""
        return Content(
            tile_completions(run, stream(run.config.seed, "report", "completions")),
            tile_components(run, stream(run.config.seed, "report", "components")),
        )
