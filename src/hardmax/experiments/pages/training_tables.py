"""Tables of trainings: by epochs, as a grid next to the published numbers, or by methods."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from hardmax.experiments.pages.blocks import Block, Column, Entry, Paragraph, Table
from hardmax.experiments.pages.summary import Summary
from hardmax.experiments.tables.declaration import Cell, Experiment
from hardmax.experiments.tables.metrics import Mean, Metric, describe_units
from hardmax.experiments.tables.published import Published, read_published

SECONDS = "Seconds include only training, on one thread."


def mark_best(means: Sequence[Mean | None], metric: Metric) -> list[Entry]:
    """Return entries of numbers, the best in bold if there are several, with dashes for missing values."""
    known = [mean.value for mean in means if mean is not None and math.isfinite(mean.value)]
    best = metric.best(known) if len(known) > 1 else None
    bold = None if best is None else metric.format(best)
    return [
        Entry("–") if mean is None else Entry(metric.format_mean(mean), best=metric.format(mean.value) == bold)
        for mean in means
    ]


def format_uncompared(value: float | None) -> Entry:
    """Return the entry of a number that is not compared; a dash for None."""
    return Entry("–" if value is None else f"{value:.1f}")


def explain_means(experiment: Experiment, *, quick: bool) -> str:
    """Return a sentence on the number of seeds; empty for one seed."""
    count = len(experiment.quick.seeds if quick else experiment.seeds)
    if count == 1:
        return ""
    return f" Means over the seeds that have run, at most {count}, with the standard error where there are several."


_CELL = [Column("", number=False), Column("group", number=False), Column("lr", number=False)]


def build_epoch_tables(experiment: Experiment, summaries: Mapping[str, Summary], *, quick: bool) -> list[Block]:
    """Return an explanation of the numbers, and a table of them.

    Args:
        experiment: the table or figure.
        summaries: results of its cells, by name; cells that have not run have a dash.
        quick: whether this is the quick form.
    """
    sets = [experiment.make_config(cell, seed=0).data for cell in experiment.cells]
    best = "the best of a column" if len(set(sets)) == 1 else "the best of a column and data set"
    first, *other_metrics = experiment.metrics
    text = (
        f"{first.caption} in {first.unit} after these epochs, {first.direction} is better; {best} is bold."
        f"{explain_means(experiment, quick=quick)} {SECONDS} Evaluations are those of {experiment.evaluated}."
    )
    by_cell = [summaries.get(cell.name) for cell in experiment.cells]
    last = max((len(summary.curve) for summary in summaries.values()), default=0)
    epochs = [epoch for epoch in experiment.epochs if epoch < last] + ([last] if last else [])
    numbers = {
        **{
            f"epoch {epoch}": _mark_by_data([_get_value_at(summary, epoch) for summary in by_cell], first, sets)
            for epoch in epochs
        },
        **{
            metric.name: _mark_by_data([summary and summary.last.get(metric.key) for summary in by_cell], metric, sets)
            for metric in other_metrics
        },
        "evaluations": [format_uncompared(None if summary is None else summary.evaluations) for summary in by_cell],
        "s per epoch": [
            format_uncompared(None if summary is None else summary.seconds_per_epoch) for summary in by_cell
        ],
    }
    words = {
        "seeds": _format_seeds,
        **({} if experiment.verdict is None else {"verdict": partial(_format_verdict, experiment.verdict)}),
    }
    lines = [
        [
            Entry(cell.label),
            Entry(cell.group),
            Entry(f"{cell.lr:g}"),
            *entries,
            *(describe(summary) for describe in words.values()),
        ]
        for cell, summary, *entries in zip(experiment.cells, by_cell, *numbers.values(), strict=True)
    ]
    return [
        Paragraph(text),
        Table([*_CELL, *map(Column, numbers), *(Column(word, number=False) for word in words)], lines),
    ]


def _mark_by_data(means: Sequence[Mean | None], metric: Metric, sets: Sequence[str]) -> list[Entry]:
    """Return the entries of a column; the best is marked for each data set."""
    entries: dict[int, Entry] = {}
    for data in dict.fromkeys(sets):
        places = [i for i, other in enumerate(sets) if other == data]
        entries |= zip(places, mark_best([means[i] for i in places], metric), strict=True)
    return [entries[i] for i in range(len(means))]


def _get_value_at(summary: Summary | None, epoch: int) -> Mean | None:
    return summary.curve[epoch - 1] if summary is not None and len(summary.curve) >= epoch else None


def _format_verdict(verdict: Callable[[Sequence[Mapping[str, float]]], str], summary: Summary | None) -> Entry:
    return Entry("–" if summary is None else verdict(summary.ends))


def _format_seeds(summary: Summary | None) -> Entry:
    return Entry("not run" if summary is None else f"{summary.seeds[0]} of {summary.seeds[1]}")


_BEATS = "†"


@dataclass(frozen=True)
class _Line:
    """Cells of one problem, in the order of the methods; None if there is no such cell, or it has not run."""

    problem: str
    cells: list[Cell | None]
    summaries: list[Summary | None]

    def means(self, metric: Metric) -> list[Mean | None]:
        return [None if summary is None else summary.last.get(metric.key) for summary in self.summaries]

    def best(self, metric: Metric) -> float | None:
        known = [mean.value for mean in self.means(metric) if mean is not None]
        return metric.best(value for value in known if math.isfinite(value))

    @property
    def seconds(self) -> list[float | None]:
        return [None if summary is None else summary.seconds_per_epoch for summary in self.summaries]


def build_grid_tables(experiment: Experiment, summaries: Mapping[str, Summary], *, quick: bool) -> list[Block]:
    """Return an explanation of the numbers, and a grid for each metric, with the published numbers, and for seconds.

    The quick form has different data and is not compared with published numbers.

    Args:
        experiment: the table or figure.
        summaries: results of its cells, by name; cells that have not run have a dash.
        quick: whether this is the quick form.
    """
    lines = _list_lines(experiment, summaries)
    groups = {cell.method: cell.group for cell in experiment.cells}
    columns = [Column("", number=False), *(Column(method, note=group) for method, group in groups.items())]
    known = {} if quick or experiment.published is None else read_published(experiment.published)
    text = (
        f"{describe_units(experiment.metrics)}; the best of a line is bold, a dash marks a cell that has not run."
        f"{explain_means(experiment, quick=quick)} {SECONDS}"
    )
    blocks: list[Block] = [Paragraph(text)]
    for metric in experiment.metrics:
        caption = metric.caption
        if (published := known.get(metric.key)) is not None:
            blocks += [
                Paragraph(_explain_comparison(published, metric)),
                _compare_grid(caption, columns, lines, published, metric),
            ]
        else:
            blocks.append(_grid(caption, columns, lines, [mark_best(line.means(metric), metric) for line in lines]))
    return [
        *blocks,
        _grid("Seconds per epoch", columns, lines, [list(map(format_uncompared, line.seconds)) for line in lines]),
    ]


def build_method_tables(experiment: Experiment, summaries: Mapping[str, Summary], *, quick: bool) -> list[Block]:
    """Return an explanation of the numbers, and a table for each metric, and for seconds, with a line for each method.

    Args:
        experiment: the table or figure.
        summaries: results of its cells, by name; cells that have not run have a dash.
        quick: whether this is the quick form.
    """
    problems = _list_lines(experiment, summaries)
    groups = {cell.method: cell.group for cell in experiment.cells}
    columns = [
        Column("", number=False),
        Column("group", number=False),
        *(Column(problem.problem) for problem in problems),
    ]
    text = (
        f"{describe_units(experiment.metrics)}; the best of a column is bold, a dash marks a cell that has not run."
        f"{explain_means(experiment, quick=quick)} {SECONDS}"
    )

    def build_table(caption: str, entries: Sequence[Sequence[Entry]]) -> Table:
        rows = zip(groups.items(), *entries, strict=True)
        return Table(columns, [[Entry(method), Entry(group), *row] for (method, group), *row in rows], caption)

    seconds = [[_format_seconds(value) for value in problem.seconds] for problem in problems]
    return [
        Paragraph(text),
        *(
            build_table(metric.caption, [mark_best(problem.means(metric), metric) for problem in problems])
            for metric in experiment.metrics
        ),
        build_table("Seconds per epoch", seconds),
    ]


def _format_seconds(value: float | None) -> Entry:
    """Return the entry of a time of any size; a dash for None."""
    return format_uncompared(value) if value is None or value >= 10 else Entry(f"{value:.2g}")


def _list_lines(experiment: Experiment, summaries: Mapping[str, Summary]) -> list[_Line]:
    known = {(cell.problem, cell.method): cell for cell in experiment.cells}
    methods = dict.fromkeys(cell.method for cell in experiment.cells)
    lines = []
    for problem in dict.fromkeys(cell.problem for cell in experiment.cells):
        cells = [known.get((problem, method)) for method in methods]
        lines.append(_Line(problem, cells, [None if cell is None else summaries.get(cell.name) for cell in cells]))
    return lines


def _grid(caption: str, columns: list[Column], lines: Sequence[_Line], entries: Sequence[Sequence[Entry]]) -> Table:
    rows = [[Entry(line.problem), *line_entries] for line, line_entries in zip(lines, entries, strict=True)]
    return Table(columns, rows, caption)


def _compare_grid(
    caption: str, columns: list[Column], lines: Sequence[_Line], published: Published, metric: Metric
) -> Table:
    """Return a grid with the paper's numbers below ours, and columns of the best published number and the floor."""
    entries = []
    for line in lines:
        best = metric.best(published.list_values(line.problem))
        entries.append([*_compare_line(line, published, best, metric), _compare_best(line, best, metric)])
    columns = [*columns, Column("best published", note="our best minus it")]
    if published.floor is not None:
        columns.append(Column(published.floor.name, note="our best minus it"))
        for line, row in zip(lines, entries, strict=True):
            row.append(_compare_best(line, published.floor.values.get(line.problem), metric))
    return _grid(caption, columns, lines, entries)


def _compare_line(line: _Line, published: Published, best: float | None, metric: Metric) -> list[Entry]:
    """Return our numbers with the paper's below them, and a mark if they are better than all of the paper's."""
    means, entries = line.means(metric), []
    for cell, mean, entry in zip(line.cells, means, mark_best(means, metric), strict=True):
        ours = mean.value if mean is not None and math.isfinite(mean.value) else None
        theirs = None if cell is None else published.values.get(cell.name)
        if theirs is not None:
            difference = "" if ours is None else f" ({metric.format_difference(ours, theirs)})"
            entry = replace(entry, note=f"paper {metric.format(theirs)}{difference}")
        better = ours is not None and best is not None and metric.is_better(ours, best)
        if better and line.problem not in published.other_data:
            entry = replace(entry, text=f"{entry.text} {_BEATS}")
        entries.append(entry)
    return entries


def _compare_best(line: _Line, theirs: float | None, metric: Metric) -> Entry:
    """Return a published number; below it, our best of the line minus this number."""
    if theirs is None:
        return Entry("–")
    ours = line.best(metric)
    return Entry(metric.format(theirs), note="" if ours is None else metric.format_difference(ours, theirs))


def _explain_comparison(published: Published, metric: Metric) -> str:
    sentences = [
        "Below a number: the paper's number, and in parentheses ours minus the paper's.",
        f"{_BEATS} marks our numbers that are {'above' if metric.higher else 'below'} the best published number of the "
        "line.",
        f"Published: {published.source}: {published.what}.",
    ]
    if published.floor is not None:
        sentences.append(f"{published.floor.name}: {published.floor.what}.")
    return " ".join([*sentences, *dict.fromkeys(published.other_data.values())])
