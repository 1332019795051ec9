"""What a page tells of a discrete VAE."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from markupsafe import Markup
from torch import Tensor

from hardmax.data import Images
from hardmax.random import stream
from hardmax.report.curves import Curves, bound_of_run, bounds_by_epoch, bounds_by_time, draw, lines_of_run
from hardmax.report.discrete import describe
from hardmax.report.discrete.codes import meanings
from hardmax.report.discrete.couplings import Couplings, couplings
from hardmax.report.discrete.decodings import reconstructions, samples
from hardmax.report.discrete.run import DiscreteMeasured, DiscreteRun
from hardmax.report.discrete.usage import draw as draw_usage
from hardmax.report.discrete.usage import measure
from hardmax.report.numbers import BOUND, Fact, Quantity
from hardmax.report.story import AbstractStory
from hardmax.report.tiles import Tiles
from hardmax.training.discrete.config import DiscreteConfig
from hardmax.training.discrete.pictures import evaluated


@dataclass(frozen=True)
class Told:
    """Its pictures, and how its codes are used."""

    codes: Tiles
    reconstructions: Tiles
    samples: Tiles
    usage_chart: Markup
    usage: str
    usage_note: str
    couplings: Couplings | None


@final
class DiscreteStory(AbstractStory[DiscreteRun]):
    """What codes mean, how they are used, what is made of them."""

    row = DiscreteMeasured
    quantities = (
        BOUND,
        Quantity("−log p(x)", "what −ELBO is an upper bound of", lambda row: row.nll, "lower"),
        Quantity("Gap", "the difference: what the encoder loses", lambda row: row.gap, "lower"),
        Quantity("Reconstruction", "−log p(x | z), averaged over q(z | x)", lambda row: row.error),
        Quantity("KL", "from q(z | x) to the prior", lambda row: row.kl),
    )
    sections = {  # noqa: RUF012
        "codes": "Codes",
        "reconstructions": "Reconstructions",
        "samples": "Samples",
        "usage": "Usage",
    }
    template = "discrete/sections.html.j2"

    def pictures(self, config: DiscreteConfig, images: Images) -> Tensor:
        """Return the test pictures that were evaluated after each epoch, `[N, channels, H, W]`."""
        return evaluated(config, images, "test")

    def subject(self, run: DiscreteRun) -> str:
        """Say what z is, and what was trained on."""
        return describe.subject(run)

    def method(self, run: DiscreteRun) -> str:
        """Say how the gradient was estimated."""
        return f"Estimator {describe.estimator(run)}."

    def measurement(self, run: DiscreteRun) -> str:
        """Say what the numbers are means over, and whether they are exact."""
        return describe.measurement(run)

    def facts(self, run: DiscreteRun) -> list[Fact]:
        """Return how many categories or variables are in use."""
        what, count = describe.active_of(run)
        best, last = (f"{row.active} of {count}" for row in (run.best, run.last))
        rare = "the best of at least one picture in a thousand"
        return [
            Fact(f"Active {what}", "Active", rare if what == "categories" else "not almost always the same", best, last)
        ]

    def curves_of_run(self, run: DiscreteRun) -> list[Curves]:
        """Draw bound and KL of the three splits by epoch."""
        kl = lines_of_run(run, lambda row: row.kl)
        return [
            bound_of_run(run),
            draw("kl", "KL(q ‖ p) by epoch", "epoch", "KL (nats)", kl, mark=run.best_epoch, note=_most_kl(run)),
        ]

    def curves_of_runs(self, runs: Sequence[DiscreteRun], names: Sequence[str]) -> list[Curves]:
        """Draw the test bound of several runs by epoch and by seconds of training."""
        return [bounds_by_epoch(runs, names), bounds_by_time(runs, names)]

    def told(self, run: DiscreteRun, index: int) -> Told:
        """Return its pictures, and how its codes are used."""
        usage = measure(run)
        return Told(
            codes=meanings(run, usage),
            reconstructions=reconstructions(run, usage),
            samples=samples(run, stream(run.config.seed, "report", "samples")),
            usage_chart=draw_usage(usage, run.model.prior, f"usage-{index}"),
            usage=describe.usage(run, usage),
            usage_note=describe.chart(run, usage),
            couplings=couplings(usage, f"couplings-{index}"),
        )


def _most_kl(run: DiscreteRun) -> str:
    """Say what the KL could be at most, where the prior is uniform."""
    if run.model.prior is not None:
        return ""
    return f"At most {run.model.space.log_size:.2f}, the logarithm of the number of codes."
