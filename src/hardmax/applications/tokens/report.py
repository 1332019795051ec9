"""The report of a dVAE."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float, Int64
from markupsafe import Markup
from torch import Tensor
from torch.nn.functional import interpolate, unfold

from hardmax.applications.tokens.config import DvaeConfig, resolve_estimator
from hardmax.applications.tokens.model import TokenVAE
from hardmax.data import Images
from hardmax.drawing.svg import COLOURS, draw_svg
from hardmax.metrics.codes import measure_alive, perplexity
from hardmax.report.curves import Curves, draw_bound, draw_bounds_by_epoch, draw_bounds_by_time, draw_curves, make_lines
from hardmax.report.run import Run, VAERow
from hardmax.report.sections import AbstractReport, Tiles, describe_data, make_tile, spread_indices
from hardmax.report.tables import BOUND, Fact, Quantity, format_number, format_percent
from hardmax.training.task import prepare_split


@dataclass(frozen=True)
class DvaeRow(VAERow):
    """A row of `metrics.jsonl` of a dVAE; on the training set `nll` and the metrics of tokens are not measured."""

    mse: float | None
    perplexity: float | None
    alive: float | None


# The test images are `[N, channels, H, W]`.
DvaeRun = Run[DvaeConfig, TokenVAE, DvaeRow, Tensor]


@dataclass(frozen=True, eq=False)
class Usage:
    """The tokens of images, and how often each code is used.

    Attributes:
        tokens: `[N, h, w]`.
        share: `[K]`, share of each code in all tokens.
    """

    tokens: Int64[Tensor, "N h w"]
    share: Float[Tensor, " K"]

    @property
    def ranking(self) -> Int64[Tensor, " K"]:
        """The codes, from the most used to the least."""
        return self.share.argsort(descending=True, stable=True)

    def describe(self) -> str:
        """Return a sentence on how evenly the codes are used."""
        return (
            f"Perplexity {float(perplexity(self.share)):.1f} of {len(self.share)} codes; "
            f"{measure_alive(self.share):.1%} are alive: used at least a tenth as often as with uniform usage; "
            f"{int((self.share == 0).sum())} are never used."
        )


def measure_usage(run: DvaeRun, batch_size: int = 500) -> Usage:
    """Tokenize the test images of a run, and count the codes."""
    tokens = torch.cat([run.model.tokenize(batch) for batch in run.test_examples.split(batch_size)])
    counts = tokens.flatten().bincount(minlength=run.model.space.k).double()
    return Usage(tokens, counts / counts.sum())


def draw_usage(usage: Usage, name: str) -> Markup:
    """Draw the share of each code, from the most used to the least, with a line at the uniform share."""
    share, even = 100 * usage.share[usage.ranking], 100 / len(usage.share)
    alt = f"Share of the tokens of each of {len(share)} codes: between {share.min():.2f} and {share.max():.2f} percent"
    with draw_svg(name, alt, height=240) as figure:
        axes = figure.axes
        axes.bar(range(len(share)), share.tolist(), color=COLOURS[0], width=1.0)
        axes.axhline(even, color=COLOURS[-1], linewidth=1.2)
        axes.set(xlabel="codes, most used first", ylabel="share of the tokens (%)", xlim=(-0.6, len(share) - 0.4))
    return figure.svg


_RECONSTRUCTIONS, _PATCH_IMAGES = 10, 500  # images


def tile_reconstructions(run: DvaeRun, usage: Usage) -> Tiles:
    """Return images from all over the test set, each above its reconstruction and its tokens, drawn as colours."""
    index = spread_indices(len(run.test_examples), _RECONSTRUCTIONS)
    images, tokens = run.test_examples[index], usage.tokens[index]
    reconstructions = run.model.detokenize(tokens)
    colours = interpolate(colour_codes(run)[tokens].movedim(-1, 1), size=images.shape[2:], mode="nearest")
    triples = torch.stack([images.expand_as(colours), reconstructions.expand_as(colours), colours], 1)
    tiles = [
        make_tile(triple, f"test image {i}, its reconstruction from tokens, and the tokens as colours")
        for i, triple in zip(index, triples, strict=True)
    ]
    note = (
        "From top to bottom: a test image, its reconstruction from tokens, and the tokens. Similar colours are codes "
        "that are close to each other."
    )
    return Tiles(note, [("", tiles)])


def average_patches(run: DvaeRun, usage: Usage) -> Float[Tensor, "K channels side side"]:
    """Return the mean image patch around the tokens of each code; zeros for a code that is not used."""
    tokens = usage.tokens[:_PATCH_IMAGES]
    patches, cell = _extract_patches(run.test_examples[:_PATCH_IMAGES], run.model.grid)
    sums = torch.zeros(run.model.space.k, patches.shape[-1])
    sums.index_add_(0, tokens.flatten(), patches.flatten(0, 1))
    counts = tokens.flatten().bincount(minlength=len(sums))
    channels = run.test_examples.shape[1]
    return (sums / counts.clamp_min(1)[:, None]).unflatten(1, (channels, 3 * cell, 3 * cell))


def tile_codes(run: DvaeRun, usage: Usage) -> Tiles:
    """Return one tile with the mean image patch of each code, the most used code first."""
    images = average_patches(run, usage)[usage.ranking]
    note = (
        "For each code, the mean image patch around its tokens, from the most used code to the least. A patch is the "
        "part of the image that a token stands for, and one such part on each side. Black: a code that the first 500 "
        "test images do not use."
    )
    columns = math.ceil(math.sqrt(2 * len(images)))
    return Tiles(note, [("", [make_tile(images, f"{len(images)} codes, each as a mean patch", columns=columns)])])


def colour_codes(run: DvaeRun) -> Float[Tensor, "K 3"]:
    """Return a colour for each code: the ranks of its first three principal components, scaled from 0 to 1."""
    vectors = run.model.codebook.compute_codes().detach().double()
    _, _, axes = torch.linalg.svd(vectors - vectors.mean(0), full_matrices=False)
    axes = axes[:3] * axes[:3].sum(1, keepdim=True).sign()  # the sign would otherwise depend on the library
    ranks = ((vectors - vectors.mean(0)) @ axes.mT).argsort(0).argsort(0)
    colours = ranks.float() / max(len(vectors) - 1, 1)
    return torch.nn.functional.pad(colours, (0, 3 - colours.shape[1]))  # codes of fewer than three dimensions


def _extract_patches(images: Tensor, grid: tuple[int, int]) -> tuple[Float[Tensor, "N n D"], int]:
    """Return the patch of three by three cells around each grid position, and the side of a cell in pixels."""
    cell = max(-(-side // count) for side, count in zip(images.shape[2:], grid, strict=True))
    fitted = interpolate(images, size=[cell * count for count in grid], mode="nearest")
    return unfold(fitted, 3 * cell, padding=cell, stride=cell).mT, cell


@dataclass(frozen=True)
class Content:
    """The model-specific sections of the report: reconstructions, and the usage of the codes."""

    reconstructions: Tiles
    codes: Tiles
    usage: str
    usage_chart: Markup


def _format_error(value: float | None) -> str:
    return format_number(value) if value is None else f"{value:.5f}"


def _format_share(value: float | None) -> str:
    return format_number(value) if value is None else format_percent(value)


_QUANTIZATIONS = {
    "nearest": "Vector quantization: tokens are the nearest codes, and the gradient bypasses this choice.",
    "rotate": "Vector quantization: tokens are the nearest codes, and the gradient is rotated past this choice.",
    "average": "Vector quantization: codes are running means of their vectors, and the gradient bypasses the choice.",
    "linear": "Vector quantization: codes are a learned linear map of fixed vectors; the gradient bypasses the choice.",
    "finite": "Finite scalar quantization: each entry of a vector is rounded, and the gradient bypasses the rounding.",
}


@final
class DvaeReport(AbstractReport[DvaeRun]):
    """The report of a dVAE: reconstructions from tokens, the codes as patches, and their usage."""

    row = DvaeRow
    quantities = (
        BOUND,
        Quantity("Reconstruction", "−log p(x | z), averaged over q(z | x)", lambda row: row.error),
        Quantity("KL", "from q(z | x) to the uniform prior", lambda row: row.kl),
        Quantity("Error", "mean squared error of a reconstructed pixel", lambda row: row.mse, "lower", _format_error),
        Quantity("Perplexity", "of all tokens; at most the number of codes", lambda row: row.perplexity, "higher"),
        Quantity(
            "Alive", "codes used at least a tenth as often as the mean", lambda row: row.alive, "higher", _format_share
        ),
    )
    sections = {  # noqa: RUF012
        "reconstructions": "Reconstructions",
        "codes": "Codes",
        "usage": "Usage",
    }
    template = "report.html.j2"

    def prepare_test_examples(self, config: DvaeConfig, images: Images) -> Tensor:
        """Return the test images that were evaluated after each epoch, `[N, channels, H, W]`."""
        return prepare_split(config, images, "test")[: config.evaluate_images]

    def describe_model(self, run: DvaeRun) -> str:
        """Return a sentence with the token grid and the training data."""
        height, width = run.model.grid
        return f"dVAE of {height} × {width} tokens, each one of {run.config.codes} codes, {describe_data(run)}."

    def describe_training(self, run: DvaeRun) -> str:
        """Return a sentence on how the encoder is trained."""
        config = run.config
        if config.quantize != "draw":
            return _QUANTIZATIONS[config.quantize]
        estimator = resolve_estimator(config, 1).estimator
        return f"Tokens are sampled. Estimator {estimator}; the KL has weight {config.kl_weight:g}."

    def describe_measurement(self, run: DvaeRun) -> str:
        """Return sentences on what the numbers are averaged over, and which of them are exact."""
        if run.config.quantize != "draw":
            how = "The encoder's distribution is a single point, and its KL to the uniform prior is n log K."
        else:
            how = "Tokens are sampled once per image. The KL is exact and has weight 1."
        return f"Means over {len(run.test_examples):,} test images, in nats per image. {how}"

    def list_facts(self, run: DvaeRun) -> list[Fact]:
        """Return the number of bits of the tokens of an image."""
        bits = f"{run.model.space.log_size / 0.6931471805599453:.0f}"
        return [Fact("Bits", "Bits", "of the tokens of an image, at most", bits, bits)]

    def draw_run_curves(self, run: DvaeRun) -> list[Curves]:
        """Draw the bound and the perplexity by epoch."""
        lines = make_lines(run, lambda row: row.perplexity)
        note = f"At most {run.config.codes}, the number of codes; not measured on the training images."
        by_epoch = draw_curves(
            "perplexity", "Perplexity by epoch", "epoch", "perplexity", lines, mark=run.best_epoch, note=note
        )
        return [draw_bound(run), by_epoch]

    def draw_comparison_curves(self, runs: Sequence[DvaeRun], names: Sequence[str]) -> list[Curves]:
        """Draw the test bound of several runs by epoch and by seconds of training."""
        return [draw_bounds_by_epoch(runs, names), draw_bounds_by_time(runs, names)]

    def build_content(self, run: DvaeRun, index: int) -> Content:
        """Return the reconstructions, and the usage of the codes."""
        usage = measure_usage(run)
        return Content(
            tile_reconstructions(run, usage),
            tile_codes(run, usage),
            usage.describe(),
            draw_usage(usage, f"usage-{index}"),
        )
