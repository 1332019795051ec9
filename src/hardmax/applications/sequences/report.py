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
from hardmax.drawing.style import label_log_axis
from hardmax.drawing.svg import COLOURS, draw_svg
from hardmax.random import make_generator
from hardmax.report.curves import Curves, Line, draw_curves, make_lines, make_lines_of_runs
from hardmax.report.run import BoundRow, Run
from hardmax.report.sections import AbstractReport
from hardmax.report.tables import Fact, Quantity, format_number, format_percent


@dataclass(frozen=True)
class SequenceGANRow(BoundRow):
    """A row of `metrics.jsonl` of a sequence GAN.

    Rewards and losses are measured on the training set only, all other metrics on the other splits only.
    """

    validity: float | None
    coverage: float | None
    entropy: float | None
    divergence: float | None
    distinct: float | None
    reward: float | None
    discriminator_loss: float | None


# The test sequences are `[N, T]`.
SequenceGANRun = Run[SequenceGANConfig, SequenceGAN, SequenceGANRow, Tensor]


@dataclass(frozen=True)
class Sample:
    """A generated sequence.

    Attributes:
        text: its text.
        is_valid: whether it is a sentence of the language; None if that is unknown.
    """

    text: str
    is_valid: bool | None


def draw_samples(model: SequenceGAN, data: Sequences, count: int, generator: torch.Generator) -> list[Sample]:
    """Draw `count` sequences, and check whether each is a sentence of the language."""
    texts, tokens = model.sample(count, generator=generator)
    sentences: Collection[tuple[int, ...]] | None = None
    if data.language is not None:
        sentences = {tuple(sentence) for sentence in data.language.tolist()}
    validities = (None if sentences is None else tuple(sequence) in sentences for sequence in tokens.tolist())
    return [Sample(text, is_valid) for text, is_valid in zip(texts, validities, strict=True)]


_FLOOR = 1e-3  # of the uniform probability; lower values are drawn here
_LISTED = 6  # sentences in each table


@dataclass(frozen=True)
class Language:
    """The section about the probabilities of all sentences of the language.

    Attributes:
        note: how to read the figure.
        figure: the probability of each sentence, divided by the uniform probability, the most probable first.
        most: the most probable sentences, with that ratio.
        least: the least probable sentences, with that ratio.
    """

    note: str
    figure: Markup
    most: list[tuple[str, str]]
    least: list[tuple[str, str]]


@torch.no_grad()
def draw_language(run: SequenceGANRun, name: str) -> Language | None:
    """Draw the probability of each sentence; return None if the sentences are unknown."""
    data = run.images
    if data.language is None:
        return None
    count = len(data.language)
    shares = run.model.generator.log_prob(data.one_hot(data.language)).double().exp() * count
    shares, order = shares.sort(descending=True)
    rare = int((shares < 0.1).sum())
    with draw_svg(
        name, f"Probability of {count} sentences; that of {rare} is less than a tenth of the uniform probability"
    ) as figure:
        axes = figure.axes
        axes.axhline(1, color=COLOURS[-1], linestyle=":", linewidth=1.2)
        axes.plot(range(1, count + 1), shares.clamp_min(_FLOOR).tolist(), color=COLOURS[0])
        axes.set(xlabel="sentences, most probable first", ylabel="probability / uniform", yscale="log")
        axes.set_ylim(bottom=_FLOOR)
        label_log_axis(axes.yaxis, (1,))
    note = (
        f"The curve is the probability of each of the {count:,} sentences, divided by the uniform probability. The "
        f"dotted line is the ideal: all sentences are equally probable. The curve drops at the right if the generator "
        f"leaves sentences out. {rare} sentences have less than a tenth of the uniform probability."
    )
    texts = [(data.to_text(data.language[i]), f"{float(share):.2g} ×") for i, share in zip(order, shares, strict=True)]
    return Language(note, figure.svg, texts[:_LISTED], texts[: -_LISTED - 1 : -1])


_REWARDS = {"log-ratio": "log D / (1 − D)", "non-saturating": "log D", "saturating": "−log(1 − D)"}
_SAMPLES = 24


@dataclass(frozen=True)
class Content:
    """The model-specific sections of the report: samples, and the probability of each sentence."""

    samples: list[Sample]
    language: Language | None


def _format_share(share: float | None) -> str:
    return format_number(None) if share is None else format_percent(share)


def _count_effective(row: SequenceGANRow) -> float | None:
    return None if row.entropy is None else math.exp(row.entropy)


@final
class SequenceGANReport(AbstractReport[SequenceGANRun]):
    """The report of a sequence GAN: samples, their validity, and the coverage of the language."""

    criterion = "highest log q"
    row = SequenceGANRow
    quantities = (
        Quantity("−log q", "of real sequences, in nats", lambda row: row.nll, "lower"),
        Quantity("Validity", "probability of generating a sentence", lambda row: row.validity, "higher", _format_share),
        Quantity(
            "Coverage", "expected share of sentences among samples", lambda row: row.coverage, "higher", _format_share
        ),
        Quantity("Divergence", "of generated and real 3-grams, in nats", lambda row: row.divergence, "lower"),
        Quantity("Effective number", "of sequences, exp of the entropy", _count_effective),
        Quantity(
            "Distinct",
            "number of different samples / number of samples",
            lambda row: row.distinct,
            to_text=_format_share,
        ),
    )
    sections = {"samples": "Samples", "language": "Language"}  # noqa: RUF012
    template = "report.html.j2"
    styles = ("report.css",)

    def prepare_test_examples(self, config: SequenceGANConfig, images: Sequences) -> Tensor:
        """Return the test sequences."""
        return images.test

    def describe_model(self, run: SequenceGANRun) -> str:
        """Return a sentence on the model and its training data."""
        data = run.images
        language = "" if data.language is None else f" from a language of {len(data.language):,} sentences"
        return (
            f"Generative adversarial network: an LSTM generates {data.shape[0]} tokens of {len(data.symbols)} kinds, "
            f"trained on {data.name} ({len(data.train):,} sequences{language})."
        )

    def describe_training(self, run: SequenceGANRun) -> str:
        """Return a sentence on pretraining, the loss and the estimator."""
        config = run.config
        epochs = config.pretrain_epochs
        first = f"{epochs} epochs of maximum likelihood, then adversarial training. " if epochs else ""
        reward = f"The reward of the generator is {_REWARDS[config.loss]}"
        return f"{first}{reward}; its gradient is estimated by {config.estimator}."

    def describe_measurement(self, run: SequenceGANRun) -> str:
        """Return sentences on which numbers are exact."""
        sampled = f"entropy, divergence of {NGRAM}-grams and distinct are from {run.config.evaluate_draws:,} samples."
        if run.images.language is None:
            return f"−log q is the exact mean over {len(run.test_examples):,} test sequences; {sampled}"
        return (
            f"−log q is the mean over {len(run.test_examples):,} test sequences. −log q, validity and coverage are "
            f"exact, from the generator's probabilities. Coverage is the expected share of all sentences among "
            f"{DRAWS_PER_SENTENCE} samples per sentence. {sampled[0].upper()}{sampled[1:]}"
        )

    def list_facts(self, run: SequenceGANRun) -> list[Fact]:
        """Return no facts."""
        return []

    def draw_run_curves(self, run: SequenceGANRun) -> list[Curves]:
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
                note="2 log 2 = 1.39: it cannot distinguish real from generated sequences; 0: it always can.",
            ),
        ]

    def draw_comparison_curves(self, runs: Sequence[SequenceGANRun], names: Sequence[str]) -> list[Curves]:
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
            draw_samples(run.model, run.images, _SAMPLES, make_generator(run.config.seed, "report", "samples")),
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
