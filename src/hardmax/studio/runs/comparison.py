"""Several runs side by side: curves of a quantity, the options in which they differ, and the command of each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import isfinite
from typing import Any, Literal, get_args

from markupsafe import Markup

from hardmax.errors import DataError
from hardmax.report.curves import Curves, Key, Line, draw_curves, make_legend
from hardmax.report.run import check_rows
from hardmax.report.tables import Quantity, find_differing_options, format_option, format_value
from hardmax.studio.runs.run_list import WatchedRun
from hardmax.training.run_folder import METRICS

Split = Literal["train", "validation", "test"]
SPLIT_NAMES = get_args(Split)
_MOST_POINTS = 2000  # of a curve: more are not visible


def list_quantities(runs: Sequence[WatchedRun]) -> dict[str, Quantity]:
    """Return the quantities that all runs measure, by name, in the order of the first run's report."""
    by_run = [
        {quantity.name: quantity for quantity in run.application.load_report().quantities}
        for run in runs
        if run.application is not None and run.application.report
    ]
    if not by_run:
        return {}
    first, *others = by_run
    return {name: quantity for name, quantity in first.items() if all(name in other for other in others)}


@dataclass(frozen=True)
class Comparison:
    """Curves of several runs.

    Attributes:
        keys: the legend.
        figures: curves by epoch, and by seconds of training where these are known.
        problems: sentences about runs that cannot be drawn.
    """

    keys: Sequence[Key]
    figures: Sequence[Curves]
    problems: Sequence[str]


def draw_comparison(runs: Sequence[WatchedRun], names: Sequence[str], quantity: str, split: Split) -> Comparison:
    """Draw a quantity of several runs, or all splits of one run, by epoch and by seconds of training.

    Args:
        runs: the runs; those that have no such quantity are left out.
        names: their names in the legend.
        quantity: name of the quantity, as in `list_quantities`.
        split: the examples of the curves of several runs.
    """
    by_epoch, by_seconds, problems = [], [], []
    splits = SPLIT_NAMES if len(runs) == 1 else (split,)
    for run, name in zip(runs, names, strict=True):
        for part in splits:
            try:
                values = _list_values(run, quantity, part)
            except DataError as error:
                problems.append(str(error))
                break
            label = part if len(runs) == 1 else name
            if len(runs) > 1 or any(isfinite(value) for _, value in values):
                by_epoch.append(_make_line(label, values))
                seconds = _sum_seconds(run)
                timed = [(seconds[epoch], value) for epoch, value in values if epoch in seconds]
                by_seconds.append(_make_line(label, timed))
    figures = []
    what = quantity if len(runs) == 1 else f"{split} {quantity}"
    if any(line.x for line in by_epoch):
        figures.append(draw_curves("epochs", f"{quantity} by epoch", "epoch", what, by_epoch, clip=True))
    if any(line.x for line in by_seconds):
        figures.append(
            draw_curves("seconds", f"{quantity} by time", "seconds of training", what, by_seconds, clip=True)
        )
    return Comparison(make_legend([line.name for line in by_epoch]), figures, problems)


def _list_values(run: WatchedRun, quantity: str, split: str) -> list[tuple[int, float]]:
    """Return epoch and value of a quantity in the rows of a split; none if the run does not measure it."""
    if run.application is None or not run.application.report:
        return []
    report = run.application.load_report()
    record = next((candidate for candidate in report.quantities if candidate.name == quantity), None)
    if record is None:
        return []
    rows = check_rows(run.rows, report.row, run.folder / METRICS)
    values = [(row.epoch, record.get_value(row)) for row in rows if row.split == split]
    step = max(1, -(-len(values) // _MOST_POINTS))
    kept = [*values[:-1:step], *values[-1:]]
    return [(epoch, float("nan") if value is None else value) for epoch, value in kept]


def _make_line(name: str, points: Sequence[tuple[float, float]]) -> Line:
    return Line(name, [x for x, _ in points], [y if abs(y) < 1e100 else float("nan") for _, y in points])


def _sum_seconds(run: WatchedRun) -> Mapping[int, float]:
    """Return the seconds of training up to the end of each epoch; nothing if they were not recorded."""
    rows = [
        row for row in run.timing if isinstance(row.get("epoch"), int) and isinstance(row.get("train"), int | float)
    ]
    return dict(zip((row["epoch"] for row in rows), accumulate(row["train"] for row in rows), strict=True))


def list_differing_options(runs: Sequence[WatchedRun]) -> list[tuple[str, list[str]]]:
    """Return each option in which runs differ, with its value in each run; "–" where a run does not have it."""
    configs: list[Any] = [run.config for run in runs if run.config is not None]
    if len(configs) < 2:
        return []
    return [
        (
            format_option(name),
            [
                "–" if run.config is None or not hasattr(run.config, name) else format_value(getattr(run.config, name))
                for run in runs
            ],
        )
        for name in find_differing_options(configs)
    ]


def join_figures(figures: Sequence[Curves]) -> Markup:
    """Return figures with their titles and notes, next to each other where there is room."""
    parts = [
        Markup("<figure><figcaption>{}</figcaption>{}<p class='studio-note'>{}</p></figure>").format(
            figure.title, figure.svg, figure.note
        )
        for figure in figures
    ]
    return Markup("<div class='studio-columns'>{}</div>").format(Markup("").join(parts))
