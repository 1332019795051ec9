"""An experiment as a grid: a line for every column of cells, a column for every way to train, after the last epoch."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hardmax.experiments.declaration import Cell, Experiment
from hardmax.experiments.entries import METRICS, SECONDS, marked, plain, what_means_are
from hardmax.experiments.page import Block, Column, Entry, Paragraph, Table
from hardmax.experiments.published import Published, read_published
from hardmax.experiments.summary import Mean, Summary

_BEATS = "†"


@dataclass(frozen=True)
class _Line:
    """Cells of one column, in the order of the ways to train; None where there is no such cell, or it has not run."""

    column: str
    cells: list[Cell | None]
    found: list[Summary | None]

    @property
    def metric(self) -> list[Mean | None]:
        return [None if summary is None else summary.metric[-1] for summary in self.found]

    @property
    def nll(self) -> list[Mean | None]:
        return [None if summary is None else summary.nll for summary in self.found]

    @property
    def seconds(self) -> list[float | None]:
        return [None if summary is None else summary.seconds_per_epoch for summary in self.found]


def tables(experiment: Experiment, found: Mapping[str, Summary], *, quick: bool) -> list[Block]:
    """Return what the numbers are, and grids: of the metric beside what was published, of −log p(x), of seconds.

    The quick form has other data and is compared with nothing.

    Args:
        experiment: what was made.
        found: what its cells came to, by name; those that have not run leave a dash.
        quick: whether this is the quick form.
    """
    lines = _lines(experiment, found)
    groups = {cell.row: cell.group for cell in experiment.cells}
    columns = [Column("", number=False), *(Column(row, note=group) for row, group in groups.items())]
    text = (
        "In nats after the last epoch, lower is better; the best of a line is bold, a dash stands for what has not run."
        f"{what_means_are(experiment, quick=quick)} {SECONDS}"
    )
    caption = f"Test {METRICS[experiment.metric]}"
    blocks: list[Block] = [Paragraph(text)]
    if quick or experiment.published is None:
        blocks.append(_grid(caption, columns, lines, [marked(line.metric) for line in lines]))
    else:
        published = read_published(experiment.published)
        blocks += [Paragraph(_explained(published)), _compared(caption, columns, lines, published)]
    return [
        *blocks,
        _grid("Test −log p(x)", columns, lines, [marked(line.nll) for line in lines]),
        _grid("Seconds per epoch", columns, lines, [list(map(plain, line.seconds)) for line in lines]),
    ]


def _lines(experiment: Experiment, found: Mapping[str, Summary]) -> list[_Line]:
    known = {(cell.column, cell.row): cell for cell in experiment.cells}
    rows = dict.fromkeys(cell.row for cell in experiment.cells)
    lines = []
    for column in dict.fromkeys(cell.column for cell in experiment.cells):
        cells = [known.get((column, row)) for row in rows]
        lines.append(_Line(column, cells, [None if cell is None else found.get(cell.name) for cell in cells]))
    return lines


def _grid(caption: str, columns: list[Column], lines: Sequence[_Line], entries: Sequence[Sequence[Entry]]) -> Table:
    own = [[Entry(line.column), *others] for line, others in zip(lines, entries, strict=True)]
    return Table(columns, own, caption)


def _compared(caption: str, columns: list[Column], lines: Sequence[_Line], published: Published) -> Table:
    """Return a grid with the paper's numbers beneath ours, and at the end what our best is up against."""
    best = [published.best(cell.name for cell in line.cells if cell is not None) for line in lines]
    entries = [
        [*_beside(line, published, lowest), _against(line, lowest)] for line, lowest in zip(lines, best, strict=True)
    ]
    columns = [*columns, Column("best published", note="our best less it")]
    if published.floor is not None:
        columns.append(Column(published.floor.name, note="our best less it"))
        for line, own in zip(lines, entries, strict=True):
            own.append(_against(line, published.floor.values.get(line.column)))
    return _grid(caption, columns, lines, entries)


def _beside(line: _Line, published: Published, best: float | None) -> list[Entry]:
    """Return our numbers with the paper's beneath them, and a mark where they are below the best of the paper's."""
    entries = []
    for cell, mean, entry in zip(line.cells, line.metric, marked(line.metric), strict=True):
        theirs = None if cell is None else published.values.get(cell.name)
        if theirs is not None:
            less = "" if mean is None or not math.isfinite(mean.value) else f" ({_less(mean, theirs)})"
            entry = replace(entry, note=f"paper {theirs:.2f}{less}")
        below = mean is not None and best is not None and round(mean.value, 2) < best  # as printed
        if below and line.column not in published.other_data:
            entry = replace(entry, text=f"{entry.text} {_BEATS}")
        entries.append(entry)
    return entries


def _against(line: _Line, theirs: float | None) -> Entry:
    """Return a number of others, with our best of the line less that beneath it."""
    if theirs is None:
        return Entry("–")
    known = [mean for mean in line.metric if mean is not None and math.isfinite(mean.value)]
    ours = min(known, key=lambda mean: mean.value, default=None)
    return Entry(f"{theirs:.2f}", note="" if ours is None else _less(ours, theirs))


def _less(ours: Mean, theirs: float) -> str:
    return f"{round(ours.value - theirs, 2) + 0.0:+.2f}".replace("-", "−")  # and not −0.00


def _explained(published: Published) -> str:
    sentences = [
        "Beneath a number: the paper's, and ours less the paper's.",
        f"{_BEATS} marks ours where it is below the best that was published for the line.",
        f"Published: {published.source}: {published.what}.",
    ]
    if published.floor is not None:
        sentences.append(f"{published.floor.name}: {published.floor.what}.")
    return " ".join([*sentences, *dict.fromkeys(published.other_data.values())])
