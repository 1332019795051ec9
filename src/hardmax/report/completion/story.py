"""What a page tells of a completion model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from hardmax.data import Images
from hardmax.random import stream
from hardmax.report.completion import describe
from hardmax.report.completion.run import CompletionMeasured, CompletionRun
from hardmax.report.completion.tiles import completions, components
from hardmax.report.curves import Curves, bound_of_run, bounds_by_epoch, draw, lines_of_run, lines_of_runs
from hardmax.report.numbers import BOUND, Fact, Quantity
from hardmax.report.story import AbstractStory
from hardmax.report.tiles import Tiles
from hardmax.training.completion.config import CompletionConfig
from hardmax.training.completion.pictures import Holed, holed


@dataclass(frozen=True)
class Told:
    """Its completions, and those of each component."""

    completions: Tiles
    components: Tiles | None


@final
class CompletionStory(AbstractStory[CompletionRun]):
    """How likely hidden pixels are, how near completions come, and what they look like."""

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
    template = "completion/sections.html.j2"

    def pictures(self, config: CompletionConfig, images: Images) -> Holed:
        """Return the test pictures that were evaluated after each epoch, with their holes."""
        return holed(config, images, "test")[: config.evaluate_images]

    def subject(self, run: CompletionRun) -> str:
        """Say what was trained on what."""
        return describe.subject(run)

    def method(self, run: CompletionRun) -> str:
        """Say what was minimised."""
        return describe.method(run)

    def measurement(self, run: CompletionRun) -> str:
        """Say what the numbers are means over."""
        return describe.measurement(run)

    def facts(self, run: CompletionRun) -> list[Fact]:
        """Return what is hidden."""
        return [Fact("Mask", "Mask", "what is hidden", run.config.mask, run.config.mask)]

    def curves_of_run(self, run: CompletionRun) -> list[Curves]:
        """Draw the bound and PSNR by epoch."""
        lines = lines_of_run(run, lambda row: row.psnr)
        return [
            bound_of_run(run),
            draw("psnr", "PSNR by epoch", "epoch", "PSNR (dB)", lines, mark=run.best_epoch, note="Of one completion."),
        ]

    def curves_of_runs(self, runs: Sequence[CompletionRun], names: Sequence[str]) -> list[Curves]:
        """Draw the test bound and PSNR of several runs by epoch."""
        lines = lines_of_runs(runs, names, lambda row: row.psnr)
        return [bounds_by_epoch(runs, names), draw("psnr", "Test PSNR by epoch", "epoch", "PSNR (dB)", lines)]

    def told(self, run: CompletionRun, index: int) -> Told:
        """Return its completions, and those of each component."""
        return Told(
            completions(run, stream(run.config.seed, "report", "completions")),
            components(run, stream(run.config.seed, "report", "components")),
        )
