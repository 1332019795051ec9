"""What the runs of one cell came to: means over seeds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import mean, median, stdev

from hardmax.experiments.declaration import Cell, Experiment
from hardmax.experiments.plan import Planned
from hardmax.experiments.results import Row, find_row


@dataclass(frozen=True)
class Mean:
    """A mean and its standard error over seeds, which one seed does not give."""

    value: float
    error: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> "Mean":
        """Return the mean of one or more values."""
        error = stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
        return cls(mean(values), error)

    def __str__(self) -> str:
        if not math.isfinite(self.value):
            return "not finite"
        return f"{self.value:.2f}" if self.error is None else f"{self.value:.2f} ± {self.error:.2f}"


@dataclass(frozen=True)
class Summary:
    """A cell that has run with at least one seed.

    Attributes:
        cell: which.
        seeds: how many it has run with, and how many it is to run with.
        metric: after each epoch, from the first.
        seconds: of training alone, up to the end of each epoch, mean over seeds; with those that starts were tried for.
        nll: after the last epoch.
        seconds_per_epoch: median of a run, mean over seeds.
        command: of its first seed.
        evaluations: of f for each picture and step, mean over epochs and seeds; None where rows do not tell.
    """

    cell: Cell
    seeds: tuple[int, int]
    metric: list[Mean]
    seconds: list[float]
    nll: Mean
    seconds_per_epoch: float
    command: str
    evaluations: float | None = None


def summarise(experiment: Experiment, runs: Sequence[Planned], rows: list[Row]) -> dict[str, Summary]:
    """Return a summary of every cell that has a row, by its name."""
    found = {}
    by_cell = {cell.name: [row for row in rows if row["cell"] == cell.name] for cell in experiment.cells}
    for cell in experiment.cells:
        own = [planned for planned in runs if planned.cell == cell]
        finished = [row for row in (find_row(by_cell[cell.name], planned) for planned in own) if row is not None]
        if finished:
            found[cell.name] = Summary(
                cell=cell,
                seeds=(len(finished), len(own)),
                metric=[Mean.of(values) for values in _by_epoch(finished, experiment.metric)],
                seconds=[mean(values) for values in zip(*map(_clock, finished), strict=False)],
                nll=Mean.of([row["test"][-1]["nll"] for row in finished]),
                seconds_per_epoch=mean(median(_seconds(row)[1]) for row in finished),
                command=finished[0]["command"],
                evaluations=_mean_of([row.get("evaluations") for row in finished]),
            )
    return found


def _clock(row: Row) -> list[float]:
    """Return the seconds up to the end of each epoch."""
    tried, each = _seconds(row)
    return list(accumulate(each, initial=tried))[1:]


def _seconds(row: Row) -> tuple[float, list[float]]:
    """Return the seconds that starts were tried for, and those of each epoch.

    Those of the processor where they are known: a run has one thread, so that they are what an idle machine would
    take, and other work on it does not count.
    """
    starts, worked = row.get("starts", []), row.get("processor_seconds", [])
    if worked and None not in worked and row["config"].get("device", "cpu") == "cpu":
        return sum(start["processor"] for start in starts), worked
    return sum(start["seconds"] for start in starts), row["seconds"]


def _mean_of(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return mean(known) if known else None


def _by_epoch(rows: Sequence[Row], metric: str) -> list[tuple[float, ...]]:
    """Return the values of all seeds after each epoch, as far as all have come."""
    return list(zip(*([epoch[metric] for epoch in row["test"]] for row in rows), strict=False))
