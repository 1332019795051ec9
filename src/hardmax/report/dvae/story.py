"""What a page tells of a dVAE."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from markupsafe import Markup
from torch import Tensor

from hardmax.data import Images
from hardmax.report.curves import Curves, bound_of_run, bounds_by_epoch, bounds_by_time, draw, lines_of_run
from hardmax.report.describe import trained_on
from hardmax.report.dvae.run import DvaeMeasured, DvaeRun
from hardmax.report.dvae.tiles import codes, reconstructions
from hardmax.report.dvae.usage import draw as draw_usage
from hardmax.report.dvae.usage import measure
from hardmax.report.numbers import BOUND, Fact, Quantity, number, percent
from hardmax.report.story import AbstractStory
from hardmax.report.tiles import Tiles
from hardmax.training.dvae.config import DvaeConfig
from hardmax.training.dvae.schedule import estimated
from hardmax.training.held_out import held_out


@dataclass(frozen=True)
class Told:
    """Its pictures, and how its codes are used."""

    reconstructions: Tiles
    codes: Tiles
    usage: str
    usage_chart: Markup


def _small(value: float | None) -> str:
    return number(value) if value is None else f"{value:.5f}"


def _share(value: float | None) -> str:
    return number(value) if value is None else percent(value)


@final
class DvaeStory(AbstractStory[DvaeRun]):
    """What is drawn again from tokens, what the codes look like, how they are used."""

    row = DvaeMeasured
    quantities = (
        BOUND,
        Quantity("Reconstruction", "−log p(x | z), averaged over q(z | x)", lambda row: row.error),
        Quantity("KL", "from q(z | x) to the uniform prior", lambda row: row.kl),
        Quantity("Error", "mean square, of a pixel drawn again from tokens", lambda row: row.mse, "lower", _small),
        Quantity("Perplexity", "of all tokens, at most the number of codes", lambda row: row.perplexity, "higher"),
        Quantity("Alive", "codes used a tenth as often as if all were alike", lambda row: row.alive, "higher", _share),
    )
    sections = {  # noqa: RUF012
        "reconstructions": "Reconstructions",
        "codes": "Codes",
        "usage": "Usage",
    }
    template = "dvae/sections.html.j2"

    def pictures(self, config: DvaeConfig, images: Images) -> Tensor:
        """Return the test pictures that were evaluated after each epoch, `[N, channels, H, W]`."""
        return held_out(config, images, "test")[: config.evaluate_images]

    def subject(self, run: DvaeRun) -> str:
        """Say what tokens there are, and what was trained on."""
        height, width = run.model.grid
        return f"dVAE of {height} × {width} tokens, each one of {run.config.codes} codes, {trained_on(run)}."

    def method(self, run: DvaeRun) -> str:
        """Say how the encoder learned."""
        config = run.config
        if config.quantize == "nearest":
            return "Vector quantization: tokens are the nearest codes, and the gradient goes past them."
        return f"Tokens are drawn; estimator {estimated(config, 1).estimator}, weight {config.kl_weight:g} of the KL."

    def measurement(self, run: DvaeRun) -> str:
        """Say what the numbers are means over, and what is exact in them."""
        if run.config.quantize == "nearest":
            how = "The encoder's distribution is a point, and its KL to the uniform prior is n log K."
        else:
            how = "Tokens are drawn once for each picture; the KL is exact, with the weight 1."
        return f"Means over {len(run.pictures):,} test pictures, in nats for each. {how}"

    def facts(self, run: DvaeRun) -> list[Fact]:
        """Return the bits that a picture's tokens take."""
        bits = f"{run.model.space.log_size / 0.6931471805599453:.0f}"
        return [Fact("Bits", "Bits", "of a picture's tokens, at most", bits, bits)]

    def curves_of_run(self, run: DvaeRun) -> list[Curves]:
        """Draw the bound and the perplexity by epoch."""
        lines = lines_of_run(run, lambda row: row.perplexity)
        note = f"Of {run.config.codes} codes; not measured on the training pictures."
        by_epoch = draw(
            "perplexity", "Perplexity by epoch", "epoch", "perplexity", lines, mark=run.best_epoch, note=note
        )
        return [bound_of_run(run), by_epoch]

    def curves_of_runs(self, runs: Sequence[DvaeRun], names: Sequence[str]) -> list[Curves]:
        """Draw the test bound of several runs by epoch and by seconds of training."""
        return [bounds_by_epoch(runs, names), bounds_by_time(runs, names)]

    def told(self, run: DvaeRun, index: int) -> Told:
        """Return its pictures, and how its codes are used."""
        usage = measure(run)
        return Told(reconstructions(run, usage), codes(run, usage), usage.told(), draw_usage(usage, f"usage-{index}"))
