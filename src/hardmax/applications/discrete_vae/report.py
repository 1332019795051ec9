"""The report of a discrete VAE."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from markupsafe import Markup
from torch import Tensor

from hardmax.applications.discrete_vae.config import DiscreteConfig
from hardmax.applications.discrete_vae.report_codes import (
    Couplings,
    DiscreteMeasured,
    DiscreteRun,
    Usage,
    draw_couplings,
    has_bits,
    is_free,
    measure_usage,
    tile_meanings,
)
from hardmax.applications.discrete_vae.report_codes import draw_usage as draw_usage
from hardmax.applications.discrete_vae.task import prepare_evaluated
from hardmax.data import Images
from hardmax.random import stream
from hardmax.report.curves import Curves, draw_bound, draw_bounds_by_epoch, draw_bounds_by_time, draw_curves, make_lines
from hardmax.report.sections import AbstractReport, Tiles, describe_data, make_tile, spread_indices
from hardmax.report.tables import BOUND, Fact, Quantity
from hardmax.spaces.registry import SPACES
from hardmax.training.estimators import explain_estimator

_RECONSTRUCTIONS, _SAMPLES = 12, 64


def tile_reconstructions(run: DiscreteRun, usage: Usage) -> Tiles:
    """Return test pictures, from all over the test set, above the decodings of their best codes."""
    index = spread_indices(len(run.pictures), _RECONSTRUCTIONS)
    pairs = torch.stack([run.pictures[index], run.model.decode(usage.codes[index])], 1)
    tiles = [
        make_tile(pair, f"test picture {i} above its reconstruction") for i, pair in zip(index, pairs, strict=True)
    ]
    return Tiles("Above, a test picture; below, what the decoder makes of its best code.", [("", tiles)])


def tile_samples(run: DiscreteRun, generator: torch.Generator) -> Tiles:
    """Return one tile: the mean pictures of codes drawn from the prior."""
    pictures = run.model.sample(_SAMPLES, generator=generator)[0]
    prior = "uniform" if run.model.prior is None else "learned"
    note = f"Codes drawn from the {prior} prior; each picture is the mean of p(x | z)."
    return Tiles(note, [("", [make_tile(pictures, f"{_SAMPLES} pictures drawn from the model", columns=8)])])


def describe_subject(run: DiscreteRun) -> str:
    """Describe the model and its data."""
    return (
        f"Discrete variational auto-encoder with {SPACES[run.config.space].describe(run.config)}, {describe_data(run)}."
    )


def describe_estimator(run: DiscreteRun) -> str:
    """Describe how the encoder's gradient was estimated."""
    return explain_estimator(run.config, run.model.space)


def describe_measurement(run: DiscreteRun) -> str:
    """Describe what the numbers are means over, and whether they are exact."""
    if run.model.enumerable:
        how = "−log p(x) is exact: all codes were enumerated."
    elif run.model.space.offers("draw"):
        how = "−log p(x) is an upper bound, from importance-weighted samples; the gap is then a lower bound."
    else:
        how = (
            "These are numbers of perturb-and-MAP: a code is the arg max of perturbed scores, since so many "
            "interacting bits cannot be summed over. Its probability has no formula, but the pseudo-likelihood is "
            "above it; with that, KL is an upper bound of the encoder's, and −ELBO and the row −log p(x) are upper "
            "bounds of −log p(x)."
        )
    return f"Means over {len(run.pictures):,} test pictures, in nats for each. {how}"


def describe_active(run: DiscreteRun) -> tuple[str, int]:
    """Return what `active` counts, and how many of them there are."""
    space = run.model.space
    if space.categories is not None:
        return "categories", space.categories
    return f"{SPACES[run.config.space].variable}s", space.event_shape[0]


def describe_chart(run: DiscreteRun, measured: Usage) -> str:
    """Describe how to read the chart of usage."""
    space, words = run.model.space, measured.words
    prior = "the uniform prior" if run.model.prior is None else "the learned prior"
    if space.categories is not None:
        most = " Shown are the 100 most used." if space.size > 100 else ""
        return f"Bars: q(z | x), averaged. Dots: for how many pictures it is the best category. Line: {prior}.{most}"
    q = "q" if measured.exact else "best code"
    if has_bits(space):
        bars = (
            f"the probability q({words.variable} = 1 | x), averaged. Line: {prior}"
            if measured.exact
            else f"for how many pictures the {words.variable} is 1 in the best code"
        )
        return f"Bars: {bars}. One that is always 0 or always 1 tells nothing."
    if is_free(space):
        return (
            f"Bars: the perplexity of each {words.variable}'s average {q}, from 1 (always the same {words.value}) to "
            f"all {words.value}s alike."
        )
    uniform_note = " Under the uniform prior all are alike." if run.model.prior is None else ""
    return f"How often each {words.variable} has each {words.value}: the average {q}.{uniform_note}"


def describe_usage(run: DiscreteRun, measured: Usage) -> str:
    """Describe how evenly the codes are used."""
    perplexity = measured.perplexity
    what = "the average q" if measured.exact else "the best codes' average"
    if run.model.space.categories is not None:
        return f"Perplexity of {what}: {perplexity.item():.2f} ({measured.most:.4g} if all were used alike)."
    return (
        f"Perplexity of {what}: {perplexity.log().mean().exp():.2f}, geometric mean over {measured.words.variable}s "
        f"({measured.most:.4g} if all codes were used alike). The best codes of {len(measured.codes):,} test pictures "
        f"are {measured.distinct:,} different ones, of perplexity {measured.distinct_perplexity:,.1f}."
    )


@dataclass(frozen=True)
class Content:
    """The run's pictures, and how its codes are used."""

    codes: Tiles
    reconstructions: Tiles
    samples: Tiles
    usage_chart: Markup
    usage: str
    usage_note: str
    couplings: Couplings | None


@final
class DiscreteReport(AbstractReport[DiscreteRun]):
    """Report of a discrete VAE: meaning and usage of its codes, reconstructions and samples."""

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
    template = "report.html.j2"

    def pictures(self, config: DiscreteConfig, images: Images) -> Tensor:
        """Return the test pictures that were evaluated after each epoch, `[N, channels, H, W]`."""
        return prepare_evaluated(config, images, "test")

    def subject(self, run: DiscreteRun) -> str:
        """Describe z and the training data."""
        return describe_subject(run)

    def method(self, run: DiscreteRun) -> str:
        """Describe how the gradient was estimated."""
        return f"Estimator {describe_estimator(run)}."

    def measurement(self, run: DiscreteRun) -> str:
        """Describe what the numbers are means over, and whether they are exact."""
        return describe_measurement(run)

    def facts(self, run: DiscreteRun) -> list[Fact]:
        """Return how many categories or variables are in use."""
        what, count = describe_active(run)
        best, last = (f"{row.active} of {count}" for row in (run.best, run.last))
        rare = "the best of at least one picture in a thousand"
        return [
            Fact(f"Active {what}", "Active", rare if what == "categories" else "not almost always the same", best, last)
        ]

    def curves_of_run(self, run: DiscreteRun) -> list[Curves]:
        """Draw bound and KL of the three splits by epoch."""
        kl = make_lines(run, lambda row: row.kl)
        return [
            draw_bound(run),
            draw_curves("kl", "KL(q ‖ p) by epoch", "epoch", "KL (nats)", kl, mark=run.best_epoch, note=_most_kl(run)),
        ]

    def curves_of_runs(self, runs: Sequence[DiscreteRun], names: Sequence[str]) -> list[Curves]:
        """Draw the test bound of several runs by epoch and by seconds of training."""
        return [draw_bounds_by_epoch(runs, names), draw_bounds_by_time(runs, names)]

    def build_content(self, run: DiscreteRun, index: int) -> Content:
        """Return the run's pictures, and how its codes are used."""
        usage = measure_usage(run)
        return Content(
            codes=tile_meanings(run, usage),
            reconstructions=tile_reconstructions(run, usage),
            samples=tile_samples(run, stream(run.config.seed, "report", "samples")),
            usage_chart=draw_usage(usage, run.model.prior, f"usage-{index}"),
            usage=describe_usage(run, usage),
            usage_note=describe_chart(run, usage),
            couplings=draw_couplings(usage, f"couplings-{index}"),
        )


def _most_kl(run: DiscreteRun) -> str:
    """Return a sentence with the largest possible KL, where the prior is uniform."""
    if run.model.prior is not None:
        return ""
    return f"At most {run.model.space.log_size:.2f}, the logarithm of the number of codes."
