"""Summary of the runs of each cell: means over seeds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import mean, median

from hardmax.experiments.rows import Row, find_row
from hardmax.experiments.tables.declaration import Cell, Experiment, PlannedRun
from hardmax.experiments.tables.metrics import Mean, Metric


@dataclass(frozen=True)
class Summary:
    """Results of a cell that has run with at least one seed.

    Attributes:
        cell: the cell.
        seeds: number of seeds that have run, and number of planned seeds.
        curve: the experiment's first metric after each epoch, from the first.
        seconds: seconds of training up to the end of each epoch, mean over seeds; includes the time for trying starts.
        last: metrics after the last epoch, by key, if the rows contain them.
        seconds_per_epoch: median over the epochs of a run, mean over seeds.
        command: command of its first seed.
        evaluations: evaluations of f per image and step, mean over epochs and seeds; None if rows do not contain it.
        ends: test metrics of the last epoch, for every seed.
    """

    cell: Cell
    seeds: tuple[int, int]
    curve: list[Mean]
    seconds: list[float]
    last: Mapping[str, Mean]
    seconds_per_epoch: float
    command: str
    evaluations: float | None = None
    ends: Sequence[Mapping[str, float]] = ()


def summarize(experiment: Experiment, runs: Sequence[PlannedRun], rows: list[Row]) -> dict[str, Summary]:
    """Return a summary of every cell that has a row, by its name."""
    summaries = {}
    by_cell = {cell.name: [row for row in rows if row["cell"] == cell.name] for cell in experiment.cells}
    for cell in experiment.cells:
        cell_runs = [planned for planned in runs if planned.cell == cell]
        finished = [row for row in (find_row(by_cell[cell.name], planned) for planned in cell_runs) if row is not None]
        if finished:
            ends = [row["test"][-1] for row in finished]
            summaries[cell.name] = Summary(
                cell=cell,
                seeds=(len(finished), len(cell_runs)),
                curve=_average_by_epoch(finished, experiment.metrics[0]),
                seconds=[mean(values) for values in zip(*map(_elapsed_seconds, finished), strict=False)],
                last={
                    metric.key: metric.mean([row[metric.split][-1][metric.key] for row in finished])
                    for metric in experiment.metrics
                    if all(metric.key in row[metric.split][-1] for row in finished)
                },
                seconds_per_epoch=mean(median(_training_seconds(row)[1]) for row in finished),
                command=finished[0]["command"],
                evaluations=_average_known([row.get("evaluations") for row in finished]),
                ends=ends,
            )
    return summaries


def _elapsed_seconds(row: Row) -> list[float]:
    """Return the seconds up to the end of each epoch."""
    tried, each = _training_seconds(row)
    return list(accumulate(each, initial=tried))[1:]


def _training_seconds(row: Row) -> tuple[float, list[float]]:
    """Return the seconds for trying starts, and those of each epoch.

    Processor time if it is known: a run has one thread, so this is the time on an idle machine, without the effect of
    other work.
    """
    starts, worked = row.get("starts", []), row.get("processor_seconds", [])
    if worked and None not in worked and row["config"].get("device", "cpu") == "cpu":
        return sum(start["processor"] for start in starts), worked
    return sum(start["seconds"] for start in starts), row["seconds"]


def _average_known(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return mean(known) if known else None


def _average_by_epoch(rows: Sequence[Row], metric: Metric) -> list[Mean]:
    """Return the means over seeds after each epoch, up to the last epoch that all have finished."""
    curves = [[epoch[metric.key] for epoch in row[metric.split] if metric.key in epoch] for row in rows]
    return [metric.mean(values) for values in zip(*curves, strict=False)]
