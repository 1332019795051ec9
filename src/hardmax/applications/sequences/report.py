"""The report of a sequence GAN."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import final

import torch
from markupsafe import Markup
from torch import Tensor

from hardmax.applications.sequences.config import SequenceGANConfig
from hardmax.applications.sequences.evaluation import DRAWS_PER_SENTENCE, NGRAM
from hardmax.applications.sequences.model import SequenceGAN
from hardmax.data import Sequences
from hardmax.drawing.svg import COLOURS, draw_svg
from hardmax.random import stream
from hardmax.report.curves import Curves, Line, draw_curves, make_lines, make_lines_of_runs
from hardmax.report.run import Bounded, Run
from hardmax.report.sections import AbstractReport
from hardmax.report.tables import Fact, Quantity, format_number, format_percent


@dataclass(frozen=True)
class SequenceGANMeasured(Bounded):
    """A row of a sequence GAN; rewards and losses are measured for train only, all else for the other splits."""

    validity: float | None
    coverage: float | None
    entropy: float | None
    divergence: float | None
    distinct: float | None
    reward: float | None
    discriminator_loss: float | None


# The test sequences are `[N, T]`.
SequenceGANRun = Run[SequenceGANConfig, SequenceGAN, SequenceGANMeasured, Tensor]


@dataclass(frozen=True)
class Written:
    """A generated sequence.

    Attributes:
        text: of the sequence.
        right: whether it is a sentence of the language; None if that is unknown.
    """

    text: str
    right: bool | None


def write_samples(model: SequenceGAN, data: Sequences, count: int, generator: torch.Generator) -> list[Written]:
    """Draw `count` sequences, and look up each in the language."""
    texts, tokens = model.sample(count, generator=generator)
    known: Collection[tuple[int, ...]] | None = None
    if data.language is not None:
        known = {tuple(sentence) for sentence in data.language.tolist()}
    rights = (None if known is None else tuple(sequence) in known for sequence in tokens.tolist())
    return [Written(text, right) for text, right in zip(texts, rights, strict=True)]


_FLOOR = 1e-3  # of the uniform share; lower values are drawn here
_NAMED = 6


@dataclass(frozen=True)
class Language:
    """All sentences by probability, the most probable first.

    Attributes:
        note: how to read the figure.
        figure: the probabilities divided by the uniform share.
        most: the most frequent sentences, with that ratio.
        least: the least frequent ones.
    """

    note: str
    figure: Markup
    most: list[tuple[str, str]]
    least: list[tuple[str, str]]


@torch.no_grad()
def draw_language(run: SequenceGANRun, name: str) -> Language | None:
    """Draw the probability of each sentence; None if the sentences are unknown."""
    data = run.images
    if data.language is None:
        return None
    count = len(data.language)
    shares = run.model.generator.log_prob(data.one_hot(data.language)).double().exp() * count
    shares, order = shares.sort(descending=True)
    seldom = int((shares < 0.1).sum())
    with draw_svg(
        name, f"{count} sentences by how often they are written; {seldom} less than a tenth as often as fair"
    ) as figure:
        axes = figure.axes
        axes.axhline(1, color=COLOURS[-1], linestyle=":", linewidth=1.2)
        axes.plot(range(1, count + 1), shares.clamp_min(_FLOOR).tolist(), color=COLOURS[0])
        axes.set(xlabel="sentences, the most frequent first", ylabel="probability / fair share", yscale="log")
        axes.set_ylim(bottom=_FLOOR)
    note = (
        f"Each of the {count:,} sentences should be written equally often, as the dotted line has it: a generator that "
        f"leaves some out falls off at the right. {seldom} of them are written less than a tenth as often."
    )
    texts = [(data.text(data.language[i]), f"{float(share):.2g} ×") for i, share in zip(order, shares, strict=True)]
    return Language(note, figure.svg, texts[:_NAMED], texts[: -_NAMED - 1 : -1])


_LOSSES = {"log-ratio": "log D / (1 − D)", "non-saturating": "log D", "saturating": "−log(1 − D)"}


def describe_subject(run: SequenceGANRun) -> str:
    """Return a sentence on the model and its training data."""
    data = run.images
    language = "" if data.language is None else f", of a language of {len(data.language):,} sentences"
    return (
        f"Generative adversarial network whose LSTM writes {data.shape[0]} tokens of {len(data.symbols)} kinds, "
        f"trained on {data.name} ({len(data.train):,} sequences{language})."
    )


def describe_method(run: SequenceGANRun) -> str:
    """Return a sentence on pretraining, the loss and the estimator."""
    config = run.config
    first = f"{config.pretrain_epochs} epochs of likelihood first, then the game. " if config.pretrain_epochs else ""
    return f"{first}The generator is paid {_LOSSES[config.loss]}, through the arg max by {config.estimator}."


def describe_measurement(run: SequenceGANRun) -> str:
    """Return a sentence on which numbers are exact."""
    draws = f"entropy, divergence of {NGRAM}-grams and distinct are from {run.config.evaluate_draws:,} draws."
    if run.images.language is None:
        return f"−log q is the mean over {len(run.pictures):,} test sequences, exact; {draws}"
    return (
        f"−log q is the mean over {len(run.pictures):,} test sequences. It, validity and coverage are exact, from the "
        f"generator's probabilities: coverage is the share of all sentences that {DRAWS_PER_SENTENCE} draws for each "
        f"are expected to hold. {draws[0].upper()}{draws[1:]}"
    )


_SAMPLES = 24


@dataclass(frozen=True)
class Content:
    """Sampled sequences, and the probability of each sentence."""

    samples: list[Written]
    language: Language | None


def _format_share(share: float | None) -> str:
    return format_number(None) if share is None else format_percent(share)


def _count_used(row: SequenceGANMeasured) -> float | None:
    return None if row.entropy is None else math.exp(row.entropy)


@final
class SequenceGANReport(AbstractReport[SequenceGANRun]):
    """The report of a sequence GAN: samples, their validity, and the coverage of the language."""

    kept_by = "highest log q"
    row = SequenceGANMeasured
    quantities = (
        Quantity("−log q", "of real sequences, in nats", lambda row: row.nll, "lower"),
        Quantity("Validity", "probability of writing a sentence", lambda row: row.validity, "higher", _format_share),
        Quantity("Coverage", "sentences that it writes", lambda row: row.coverage, "higher", _format_share),
        Quantity("Divergence", "of 3-grams from real ones, nats", lambda row: row.divergence, "lower"),
        Quantity("Sequences used", "exp of the entropy", _count_used),
        Quantity("Distinct", "draws that are left, each counted once", lambda row: row.distinct, shown=_format_share),
    )
    sections = {"samples": "Samples", "language": "Language"}  # noqa: RUF012
    template = "report.html.j2"
    styles = ("report.css",)

    def pictures(self, config: SequenceGANConfig, images: Sequences) -> Tensor:
        """Return the test sequences."""
        return images.test

    def subject(self, run: SequenceGANRun) -> str:
        """Return a sentence on the model and its training data."""
        return describe_subject(run)

    def method(self, run: SequenceGANRun) -> str:
        """Return a sentence on pretraining, the loss and the estimator."""
        return describe_method(run)

    def measurement(self, run: SequenceGANRun) -> str:
        """Return a sentence on which numbers are exact."""
        return describe_measurement(run)

    def facts(self, run: SequenceGANRun) -> list[Fact]:
        """Return no facts."""
        return []

    def curves_of_run(self, run: SequenceGANRun) -> list[Curves]:
        """Draw validity, coverage, divergence and the discriminator's loss by epoch."""
        return [
            *_draw_shares(make_lines(run, lambda row: row.validity), "validity", "Validity by epoch", run.best_epoch),
            *_draw_shares(make_lines(run, lambda row: row.coverage), "coverage", "Coverage by epoch", run.best_epoch),
            _draw_nats(make_lines(run, lambda row: row.divergence), "divergence", "Divergence of 3-grams by epoch"),
            draw_curves(
                "game",
                "The discriminator's loss by epoch",
                "epoch",
                "loss (nats)",
                make_lines(run, lambda row: row.discriminator_loss),
                note="2 log 2 = 1.39 is a discriminator that cannot tell; 0 is one that always can.",
            ),
        ]

    def curves_of_runs(self, runs: Sequence[SequenceGANRun], names: Sequence[str]) -> list[Curves]:
        """Draw validity, coverage and divergence of several runs by epoch."""
        return [
            *_draw_shares(make_lines_of_runs(runs, names, lambda row: row.validity), "validity", "Validity by epoch"),
            *_draw_shares(make_lines_of_runs(runs, names, lambda row: row.coverage), "coverage", "Coverage by epoch"),
            _draw_nats(
                make_lines_of_runs(runs, names, lambda row: row.divergence),
                "divergence",
                "Divergence of 3-grams by epoch",
            ),
        ]

    def build_content(self, run: SequenceGANRun, index: int) -> Content:
        """Return samples, and the probability of each sentence."""
        return Content(
            write_samples(run.model, run.images, _SAMPLES, stream(run.config.seed, "report", "samples")),
            draw_language(run, f"language-{index}"),
        )


def _draw_shares(lines: Sequence[Line], name: str, title: str, mark: int | None = None) -> list[Curves]:
    """Draw shares in percent, if there are any."""
    percentages = [Line(line.name, line.x, [100 * value for value in line.y]) for line in lines]
    if all(math.isnan(value) for line in percentages for value in line.y):
        return []
    return [draw_curves(name, title, "epoch", f"{name} (%)", percentages, mark=mark)]


def _draw_nats(lines: Sequence[Line], name: str, title: str) -> Curves:
    return draw_curves(name, title, "epoch", f"{name} (nats)", lines)
