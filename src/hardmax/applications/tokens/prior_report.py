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
from hardmax.random import stream
from hardmax.report.curves import Curves, draw_bounds_by_epoch, draw_curves, make_lines
from hardmax.report.run import MeasuredVAE, Run
from hardmax.report.sections import AbstractReport, Tiles, describe_data, make_tile
from hardmax.report.tables import BOUND, Fact, Quantity
from hardmax.training.task import prepare_split


@dataclass(frozen=True)
class TokenPriorMeasured(MeasuredVAE):
    """A row of a prior over tokens; for train only `kl` is measured."""

    bits: float | None


# The test images are `[N, channels, H, W]`.
TokenPriorRun = Run[TokenPriorConfig, TokenPrior, TokenPriorMeasured, Tensor]


_SAMPLES, _COMPARED = 64, 12


@dataclass(frozen=True)
class Content:
    """Generated images, and their nearest training images."""

    samples: Tiles
    nearest: Tiles


@final
class TokenPriorReport(AbstractReport[TokenPriorRun]):
    """The report of a prior over tokens: generated images, and whether they are copies of training images."""

    row = TokenPriorMeasured
    quantities = (
        BOUND,
        Quantity("Reconstruction", "−log p(x | tokens)", lambda row: row.error),
        Quantity("Tokens", "−log p(tokens), what the prior is trained for", lambda row: row.kl, "lower"),
        Quantity("Bits", "of a token", lambda row: row.bits, "lower"),
    )
    sections = {"samples": "Samples", "nearest": "Nearest pictures"}  # noqa: RUF012
    template = "prior_report.html.j2"

    def pictures(self, config: TokenPriorConfig, images: Images) -> Tensor:
        """Return the test images that were evaluated after each epoch, `[N, channels, H, W]`."""
        return prepare_split(load_tokenizer(config).config, images, "test")[: config.evaluate_images]

    def subject(self, run: TokenPriorRun) -> str:
        """Return a sentence with the tokens and the training data."""
        space = run.model.tokenizer.space
        source = f"of the dVAE {run.config.tokenizer}"
        return f"Prior over {space.variables} tokens of {space.k} codes, {source}, {describe_data(run)}."

    def method(self, run: TokenPriorRun) -> str:
        """Return a sentence on the network."""
        config = run.config
        return (
            f"A transformer of {config.layers} layers, {config.width} wide, predicts each token from those before it, "
            "row by row."
        )

    def measurement(self, run: TokenPriorRun) -> str:
        """Return a sentence on what the numbers are averaged over."""
        most = run.model.tokenizer.space.log_size
        return (
            f"Means over {len(run.pictures):,} test pictures, in nats for each. −ELBO is that of a picture with its "
            f"best tokens, an upper bound of −log p(x); tokens without a prior would take {most:.2f}."
        )

    def facts(self, run: TokenPriorRun) -> list[Fact]:
        """Return no facts."""
        return []

    def curves_of_run(self, run: TokenPriorRun) -> list[Curves]:
        """Draw -log p(tokens) by epoch, which shows when training starts to memorise."""
        lines = make_lines(run, lambda row: row.kl)
        title = "−log p(tokens) by epoch"
        return [draw_curves("tokens", title, "epoch", "−log p(tokens) (nats)", lines, clip=True, mark=run.best_epoch)]

    def curves_of_runs(self, runs: Sequence[TokenPriorRun], names: Sequence[str]) -> list[Curves]:
        """Draw the test bound of several runs by epoch."""
        return [draw_bounds_by_epoch(runs, names)]

    def build_content(self, run: TokenPriorRun, index: int) -> Content:
        """Generate images, and find the nearest training images of some of them."""
        images, _ = run.model.sample(_SAMPLES, generator=stream(run.config.seed, "report", "samples"))
        samples = make_tile(images, f"{_SAMPLES} generated pictures", columns=8)
        train = prepare_split(load_tokenizer(run.config).config, run.images, "train")
        compared = images[:_COMPARED]
        nearest = train[torch.cdist(compared.flatten(1), train.flatten(1)).argmin(1)]
        pairs = torch.stack([compared, nearest], 1)
        tiles = [make_tile(pair, f"generated picture {i} above the nearest one") for i, pair in enumerate(pairs)]
        return Content(
            Tiles("Generated token by token; each picture is the mean of p(x | tokens).", [("", [samples])]),
            Tiles("Above, a generated picture; below, the training picture whose pixels are nearest.", [("", tiles)]),
        )
