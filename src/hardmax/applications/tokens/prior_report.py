"""The report of a prior over tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from hardmax.applications.tokens.config import TokenPriorConfig
from hardmax.applications.tokens.prior_model import TokenPrior
from hardmax.applications.tokens.prior_task import load_tokenizer
from hardmax.data import Images
from hardmax.random import make_generator
from hardmax.report.curves import Curves, draw_bounds_by_epoch, draw_curves, make_lines
from hardmax.report.run import Run, VAERow
from hardmax.report.sections import AbstractReport, Tiles, describe_data, make_tile
from hardmax.report.tables import BOUND, Fact, Quantity
from hardmax.training.task import prepare_split


@dataclass(frozen=True)
class TokenPriorRow(VAERow):
    """A row of `metrics.jsonl` of a prior over tokens; on the training set only `kl` is measured."""

    bits: float | None


# The test images are `[N, channels, H, W]`.
TokenPriorRun = Run[TokenPriorConfig, TokenPrior, TokenPriorRow, Tensor]


_SAMPLES, _COMPARED = 64, 12  # generated images, and how many of them are compared with training images


@dataclass(frozen=True)
class Content:
    """The model-specific sections of the report: generated images, and their nearest training images."""

    samples: Tiles
    nearest: Tiles


@final
class TokenPriorReport(AbstractReport[TokenPriorRun]):
    """The report of a prior over tokens: generated images, and whether they are copies of training images."""

    row = TokenPriorRow
    quantities = (
        BOUND,
        Quantity("Reconstruction", "−log p(x | tokens)", lambda row: row.error),
        Quantity("Tokens", "−log p(tokens), which training minimises", lambda row: row.kl, "lower"),
        Quantity("Bits", "per token", lambda row: row.bits, "lower"),
    )
    sections = {"samples": "Samples", "nearest": "Nearest images"}  # noqa: RUF012
    template = "prior_report.html.j2"

    def prepare_test_examples(self, config: TokenPriorConfig, images: Images) -> Tensor:
        """Return the test images that were evaluated after each epoch, `[N, channels, H, W]`."""
        return prepare_split(load_tokenizer(config).config, images, "test")[: config.evaluate_images]

    def describe_model(self, run: TokenPriorRun) -> str:
        """Return a sentence with the tokens and the training data."""
        space = run.model.tokenizer.space
        source = f"of the dVAE {run.config.tokenizer}"
        return f"Prior over {space.variables} tokens of {space.k} codes, {source}, {describe_data(run)}."

    def describe_training(self, run: TokenPriorRun) -> str:
        """Return a sentence on the network."""
        config = run.config
        return (
            f"A transformer with {config.layers} layers of width {config.width} predicts each token from the tokens "
            "before it, row by row."
        )

    def describe_measurement(self, run: TokenPriorRun) -> str:
        """Return a sentence on what the numbers are averaged over."""
        uniform = run.model.tokenizer.space.log_size
        return (
            f"Means over {len(run.test_examples):,} test images, in nats per image. −ELBO is computed with the best "
            f"tokens of an image, and is an upper bound of −log p(x). Without a prior, −log p(tokens) is {uniform:.2f}."
        )

    def list_facts(self, run: TokenPriorRun) -> list[Fact]:
        """Return no facts."""
        return []

    def draw_run_curves(self, run: TokenPriorRun) -> list[Curves]:
        """Draw -log p(tokens) by epoch, which shows when the model starts to overfit."""
        lines = make_lines(run, lambda row: row.kl)
        title = "−log p(tokens) by epoch"
        return [draw_curves("tokens", title, "epoch", "−log p(tokens) (nats)", lines, clip=True, mark=run.best_epoch)]

    def draw_comparison_curves(self, runs: Sequence[TokenPriorRun], names: Sequence[str]) -> list[Curves]:
        """Draw the test bound of several runs by epoch."""
        return [draw_bounds_by_epoch(runs, names)]

    def build_content(self, run: TokenPriorRun, index: int) -> Content:
        """Generate images, and find the nearest training image of some of them."""
        images, _ = run.model.sample(_SAMPLES, generator=make_generator(run.config.seed, "report", "samples"))
        samples = make_tile(images, f"{_SAMPLES} generated images", columns=8)
        train = prepare_split(load_tokenizer(run.config).config, run.images, "train")
        compared = images[:_COMPARED]
        nearest = train[torch.cdist(compared.flatten(1), train.flatten(1)).argmin(1)]
        pairs = torch.stack([compared, nearest], 1)
        tiles = [
            make_tile(pair, f"generated image {i} above the nearest training image") for i, pair in enumerate(pairs)
        ]
        return Content(
            Tiles(
                "Images that the model generates token by token; each one is the mean of p(x | tokens).",
                [("", [samples])],
            ),
            Tiles(
                "Top: a generated image. Bottom: the training image with the nearest pixels; is it a copy?",
                [("", tiles)],
            ),
        )
