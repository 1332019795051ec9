"""What is taken for what: a table of classes, or the accuracy of each attribute."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from hardmax.report.heat import heat_map
from hardmax.report.mixed.meaning import Meaning
from hardmax.report.mixed.predictions import Predictions
from hardmax.report.numbers import percent

_MOST_CLASSES = 20  # in a table; more are drawn


@dataclass(frozen=True)
class Shaded:
    """A text in a table, and how dark its ground is, from 0 to 1."""

    text: str
    shade: float = 0.0


@dataclass(frozen=True)
class Confusion:
    """A table or a figure, and how to read it.

    Attributes:
        note: how to read it.
        headings: of the columns, that of the names first; empty where there is a figure instead.
        rows: a name, and cells.
        figure: what is drawn where a table would be too large.
    """

    note: str
    headings: Sequence[str] = ()
    rows: Sequence[tuple[str, Sequence[Shaded]]] = ()
    figure: Markup | None = None


def confusion(meaning: Meaning, predictions: Predictions, name: str) -> Confusion | None:
    """Return what is taken for what; None where no picture has a label.

    Args:
        meaning: of the discrete latent.
        predictions: of the test pictures.
        name: of the figure, unlike any other on the page.
    """
    if not predictions.counted.any():
        return None
    return _attributes(meaning, predictions) if meaning.attributes else _classes(meaning, predictions, name)


def _classes(meaning: Meaning, predictions: Predictions, name: str) -> Confusion:
    counts = predictions.confusion(meaning.values)
    shares = counts / counts.sum(1, keepdim=True).clamp_min(1)
    what = meaning.names[0]
    if len(counts) > _MOST_CLASSES:
        note = f"How much of each class, by row, is taken for each {what}, by column."
        figure = heat_map(name, note, shares, rows="class", columns=what, scale="share of the class")
        return Confusion(note, figure=figure)
    rows = [
        (
            meaning.value_name(label),
            [Shaded(f"{count:,}" if count else "", share) for count, share in zip(row, part, strict=True)],
        )
        for label, (row, part) in enumerate(zip(counts.tolist(), shares.tolist(), strict=True))
    ]
    note = f"Test pictures of each class, by row, that are taken for each {what}, by column."
    return Confusion(note, ["class", *map(meaning.value_name, range(meaning.values))], rows)


def _attributes(meaning: Meaning, predictions: Predictions) -> Confusion:
    rows = []
    for variable, name in enumerate(meaning.names):
        counted = predictions.counted[:, variable]
        if not counted.any():
            rows.append((name, [Shaded("no labels"), Shaded(""), Shaded(""), Shaded("")]))
            continue
        labels, found = (values[counted, variable].double() for values in (predictions.labels, predictions.found))
        parts = (predictions.accuracy(variable), predictions.accuracy_sampled(variable), labels.mean(), found.mean())
        rows.append((name, [Shaded(percent(float(part or 0))) for part in parts]))
    note = "How often each attribute of the test pictures is predicted, how often it is on, and how often taken to be."
    return Confusion(note, ["attribute", "right, arg max", "right, sample", "on", "taken to be on"], rows)
