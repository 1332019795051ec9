"""An experiment by epochs: a line for every cell, a column for every chosen epoch."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from hardmax.experiments.declaration import Experiment
from hardmax.experiments.entries import SECONDS, marked, plain, what_means_are
from hardmax.experiments.metrics import Mean, Metric
from hardmax.experiments.page import Block, Column, Entry, Paragraph, Table
from hardmax.experiments.summary import Summary

_CELL = [Column("", number=False), Column("whose", number=False), Column("lr", number=False)]


def tables(experiment: Experiment, found: Mapping[str, Summary], *, quick: bool) -> list[Block]:
    """Return what the numbers are, and a table of them.

    Args:
        experiment: what was made.
        found: what its cells came to, by name; those that have not run leave a dash.
        quick: whether this is the quick form.
    """
    sets = [experiment.config(cell, seed=0).data for cell in experiment.cells]
    best = "the best of a column" if len(set(sets)) == 1 else "the best of a column and data set"
    first, *others = experiment.metrics
    text = (
        f"Test {first.name} in {first.unit} after epochs, {first.direction} is better; {best} is bold."
        f"{what_means_are(experiment, quick=quick)} {SECONDS} Evaluations are of {experiment.evaluated}."
    )
    summaries = [found.get(cell.name) for cell in experiment.cells]
    last = max((len(summary.curve) for summary in found.values()), default=0)
    epochs = [epoch for epoch in experiment.epochs if epoch < last] + ([last] if last else [])
    numbers = {
        **{f"epoch {epoch}": _marked([_at(summary, epoch) for summary in summaries], first, sets) for epoch in epochs},
        **{
            metric.name: _marked([summary and summary.last.get(metric.key) for summary in summaries], metric, sets)
            for metric in others
        },
        "evaluations": [plain(None if summary is None else summary.evaluations) for summary in summaries],
        "s per epoch": [plain(None if summary is None else summary.seconds_per_epoch) for summary in summaries],
    }
    words = {
        "seeds": _seeds,
        **({} if experiment.verdict is None else {"verdict": partial(_verdict, experiment.verdict)}),
    }
    lines = [
        [Entry(cell.label), Entry(cell.group), Entry(f"{cell.lr:g}"), *own, *(say(summary) for say in words.values())]
        for cell, summary, *own in zip(experiment.cells, summaries, *numbers.values(), strict=True)
    ]
    return [
        Paragraph(text),
        Table([*_CELL, *map(Column, numbers), *(Column(word, number=False) for word in words)], lines),
    ]


def _marked(means: Sequence[Mean | None], metric: Metric, sets: Sequence[str]) -> list[Entry]:
    """Return the numbers of a column; those of different data sets do not compare."""
    entries: dict[int, Entry] = {}
    for data in dict.fromkeys(sets):
        places = [i for i, own in enumerate(sets) if own == data]
        entries |= zip(places, marked([means[i] for i in places], metric), strict=True)
    return [entries[i] for i in range(len(means))]


def _at(summary: Summary | None, epoch: int) -> Mean | None:
    return summary.curve[epoch - 1] if summary is not None and len(summary.curve) >= epoch else None


def _verdict(of: Callable[[Sequence[Mapping[str, float]]], str], summary: Summary | None) -> Entry:
    return Entry("–" if summary is None else of(summary.ends))


def _seeds(summary: Summary | None) -> Entry:
    return Entry("not run" if summary is None else f"{summary.seeds[0]} of {summary.seeds[1]}")
