"""The report of a discrete VAE: what its codes mean, reconstructions, samples, and how the codes are used."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from markupsafe import Markup
from torch import Tensor

from hardmax.applications.discrete_vae.config import DiscreteConfig
from hardmax.applications.discrete_vae.report_codes import (
    Couplings,
    DiscreteRow,
    DiscreteRun,
    Usage,
    draw_couplings,
    has_bits,
    is_unconstrained,
    measure_usage,
    tile_meanings,
)
from hardmax.applications.discrete_vae.report_codes import draw_usage as draw_usage
from hardmax.applications.discrete_vae.task import prepare_evaluation_images
from hardmax.data import Images
from hardmax.random import make_generator
from hardmax.report.curves import Curves, draw_bound, draw_bounds_by_epoch, draw_bounds_by_time, draw_curves, make_lines
from hardmax.report.sections import AbstractReport, Tiles, describe_data, make_tile, spread_indices
from hardmax.report.tables import BOUND, Fact, Quantity
from hardmax.spaces.registry import SPACES
from hardmax.training.estimators import explain_estimator

_RECONSTRUCTIONS, _SAMPLES = 12, 64


def tile_reconstructions(run: DiscreteRun, usage: Usage) -> Tiles:
    """Return test images, evenly spread over the test set, above the decodings of their best codes."""
    index = spread_indices(len(run.test_examples), _RECONSTRUCTIONS)
    pairs = torch.stack([run.test_examples[index], run.model.decode(usage.codes[index])], 1)
    tiles = [make_tile(pair, f"test image {i} above its reconstruction") for i, pair in zip(index, pairs, strict=True)]
    return Tiles("Above, a test image; below, its reconstruction from its best code.", [("", tiles)])


def tile_samples(run: DiscreteRun, generator: torch.Generator) -> Tiles:
    """Return one tile: the mean images of codes drawn from the prior."""
    images = run.model.sample(_SAMPLES, generator=generator)[0]
    prior = "uniform" if run.model.prior is None else "learned"
    note = f"Codes are drawn from the {prior} prior; each image is the mean of p(x | z)."
    return Tiles(note, [("", [make_tile(images, f"{_SAMPLES} images drawn from the model", columns=8)])])


def describe_subject(run: DiscreteRun) -> str:
    """Describe the model and its data."""
    return (
        f"Discrete variational auto-encoder with {SPACES[run.config.space].describe(run.config)}, {describe_data(run)}."
    )


def describe_estimator(run: DiscreteRun) -> str:
    """Describe how the encoder's gradient was estimated."""
    return explain_estimator(run.config, run.model.space, run.model.decoder)


def describe_measurement(run: DiscreteRun) -> str:
    """Describe what the numbers are means over, and whether they are exact."""
    if run.model.is_enumerable:
        how = "−log p(x) is exact: all codes were enumerated."
    elif run.model.space.offers("draw"):
        how = "−log p(x) is an upper bound, from importance-weighted samples; the gap is therefore a lower bound."
    else:
        how = (
            "The numbers are those of perturb-and-MAP: a code is the arg max of perturbed scores, since there are too "
            "many interacting bits to sum over all codes. The probability of a code has no formula, but the "
            "pseudo-likelihood is above it. With the pseudo-likelihood, KL is an upper bound of the KL of the encoder, "
            "and −ELBO and the row −log p(x) are upper bounds of −log p(x)."
        )
    return f"Means over {len(run.test_examples):,} test images, in nats per image. {how}"


def describe_active(run: DiscreteRun) -> tuple[str, int]:
    """Return the name of what `active` counts, and its total number."""
    space = run.model.space
    if space.categories is not None:
        return "categories", space.categories
    return f"{SPACES[run.config.space].variable}s", space.event_shape[0]


def describe_chart(run: DiscreteRun, measured: Usage) -> str:
    """Describe how to read the chart of usage."""
    space, record = run.model.space, measured.record
    prior = "the uniform prior" if run.model.prior is None else "the learned prior"
    if space.categories is not None:
        limit = " Only the 100 most used are shown." if space.size > 100 else ""
        return f"Bars: mean of q(z | x). Dots: share of images whose best category it is. Line: {prior}.{limit}"
    q = "q" if measured.is_exact else "best code"
    if has_bits(space):
        bars = (
            f"mean of the probability q({record.variable} = 1 | x). Line: {prior}"
            if measured.is_exact
            else f"share of images in whose best code the {record.variable} is 1"
        )
        return f"Bars: {bars}. If it is always 0 or always 1, the {record.variable} carries no information."
    if is_unconstrained(space):
        return (
            f"Bars: the perplexity of each {record.variable}'s average {q}, from 1 (always the same {record.value}) to "
            f"the number of {record.value}s (all equally often)."
        )
    uniform_note = " Under the uniform prior all are equal." if run.model.prior is None else ""
    return f"How often each {record.variable} has each {record.value}: the average {q}.{uniform_note}"


def describe_usage(run: DiscreteRun, measured: Usage) -> str:
    """Describe how evenly the codes are used."""
    perplexity = measured.perplexity
    what = "the average q" if measured.is_exact else "the average of the best codes"
    if run.model.space.categories is not None:
        return (
            f"Perplexity of {what}: {perplexity.item():.2f} ({measured.max_perplexity:.4g} if all were used equally)."
        )
    return (
        f"Perplexity of {what}: {perplexity.log().mean().exp():.2f}, geometric mean over {measured.record.variable}s "
        f"({measured.max_perplexity:.4g} if all codes were used equally). {len(measured.codes):,} test images have "
        f"{measured.distinct:,} different best codes, with perplexity {measured.distinct_perplexity:,.1f}."
    )


@dataclass(frozen=True)
class Content:
    """The contents of the sections of one run."""

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

    row = DiscreteRow
    quantities = (
        BOUND,
        Quantity("−log p(x)", "−ELBO is an upper bound of it", lambda row: row.nll, "lower"),
        Quantity("Gap", "−ELBO minus −log p(x): the loss due to the encoder", lambda row: row.gap, "lower"),
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

    def prepare_test_examples(self, config: DiscreteConfig, images: Images) -> Tensor:
        """Return the test images that were evaluated after each epoch, `[N, channels, H, W]`."""
        return prepare_evaluation_images(config, images, "test")

    def describe_model(self, run: DiscreteRun) -> str:
        """Describe z and the training data."""
        return describe_subject(run)

    def describe_training(self, run: DiscreteRun) -> str:
        """Describe how the gradient was estimated."""
        return f"Estimator {describe_estimator(run)}."

    def describe_measurement(self, run: DiscreteRun) -> str:
        """Describe what the numbers are means over, and whether they are exact."""
        return describe_measurement(run)

    def list_facts(self, run: DiscreteRun) -> list[Fact]:
        """Return the number of categories or variables in use."""
        what, count = describe_active(run)
        best, last = (f"{row.active} of {count}" for row in (run.best, run.last))
        rare = "the best one for at least one image in a thousand"
        return [
            Fact(
                f"Active {what}",
                "Active",
                rare if what == "categories" else "the value is not almost always the same",
                best,
                last,
            )
        ]

    def draw_run_curves(self, run: DiscreteRun) -> list[Curves]:
        """Draw bound and KL of the three splits by epoch."""
        kl = make_lines(run, lambda row: row.kl)
        return [
            draw_bound(run),
            draw_curves(
                "kl", "KL(q ‖ p) by epoch", "epoch", "KL (nats)", kl, mark=run.best_epoch, note=_describe_max_kl(run)
            ),
        ]

    def draw_comparison_curves(self, runs: Sequence[DiscreteRun], names: Sequence[str]) -> list[Curves]:
        """Draw the test bound of several runs by epoch and by seconds of training."""
        return [draw_bounds_by_epoch(runs, names), draw_bounds_by_time(runs, names)]

    def build_content(self, run: DiscreteRun, index: int) -> Content:
        """Return the contents of the sections of one run."""
        usage = measure_usage(run)
        return Content(
            codes=tile_meanings(run, usage),
            reconstructions=tile_reconstructions(run, usage),
            samples=tile_samples(run, make_generator(run.config.seed, "report", "samples")),
            usage_chart=draw_usage(usage, run.model.prior, f"usage-{index}"),
            usage=describe_usage(run, usage),
            usage_note=describe_chart(run, usage),
            couplings=draw_couplings(usage, f"couplings-{index}"),
        )


def _describe_max_kl(run: DiscreteRun) -> str:
    """Return a sentence with the largest possible KL, where the prior is uniform."""
    if run.model.prior is not None:
        return ""
    return f"At most {run.model.space.log_size:.2f}, the logarithm of the number of codes."
