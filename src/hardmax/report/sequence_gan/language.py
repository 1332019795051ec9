"""How often each sentence of a language is written, beside how often it should be."""

from dataclasses import dataclass

import torch
from markupsafe import Markup

from hardmax.report.figure import COLOURS, drawing
from hardmax.report.sequence_gan.run import SequenceGANRun

_FLOOR = 1e-3  # of the fair share; what is written more seldom is drawn here
_NAMED = 6


@dataclass(frozen=True)
class Language:
    """All sentences, those first that are written most.

    Attributes:
        note: how to read it.
        figure: their probabilities, in that of a fair share.
        most: the sentences that are written too often, with that number.
        least: those that are written too seldom.
    """

    note: str
    figure: Markup
    most: list[tuple[str, str]]
    least: list[tuple[str, str]]


@torch.no_grad()
def language(run: SequenceGANRun, name: str) -> Language | None:
    """Draw how often each sentence is written; None where the sentences are not known."""
    data = run.images
    if data.language is None:
        return None
    count = len(data.language)
    shares = run.model.generator.log_prob(data.one_hot(data.language)).double().exp() * count
    shares, order = shares.sort(descending=True)
    seldom = int((shares < 0.1).sum())
    with drawing(
        name, f"{count} sentences by how often they are written; {seldom} less than a tenth as often as fair"
    ) as drawn:
        axes = drawn.axes
        axes.axhline(1, color=COLOURS[-1], linestyle=":", linewidth=1.2)
        axes.plot(range(1, count + 1), shares.clamp_min(_FLOOR).tolist(), color=COLOURS[0])
        axes.set(xlabel="sentences, the most frequent first", ylabel="probability / fair share", yscale="log")
        axes.set_ylim(bottom=_FLOOR)
    note = (
        f"Each of the {count:,} sentences should be written equally often, as the dotted line has it: a generator that "
        f"leaves some out falls off at the right. {seldom} of them are written less than a tenth as often."
    )
    texts = [(data.text(data.language[i]), f"{float(share):.2g} ×") for i, share in zip(order, shares, strict=True)]
    return Language(note, drawn.svg, texts[:_NAMED], texts[: -_NAMED - 1 : -1])
