"""Tables of the cost to reach a level: how much of the reference method's evaluations and time each method needs."""

from collections.abc import Callable, Mapping, Sequence

from hardmax.experiments.pages.blocks import Block, Column, Entry, Paragraph, Table
from hardmax.experiments.pages.summary import Summary
from hardmax.experiments.tables.declaration import Experiment
from hardmax.experiments.tables.metrics import Metric

_Cost = Callable[[Summary, int], float | None]  # of the first epochs of a run, by their number


def build_level_tables(experiment: Experiment, summaries: Mapping[str, Summary]) -> list[Block]:
    """Return an explanation and two tables, of evaluations and seconds, with a line for each problem.

    A method reaches the level of a problem after the first epoch in which its curve, the mean over seeds, is as good as
    the last value of the reference method.

    Args:
        experiment: the table; its `reference` is the reference method.
        summaries: results of its cells, by name; cells that have not run have a dash.
    """
    reference = experiment.reference
    if reference is None:
        return []
    by_problem: dict[str, dict[str, Summary]] = {}
    for cell in experiment.cells:
        if cell.name in summaries:
            by_problem.setdefault(cell.problem, {})[cell.method] = summaries[cell.name]
    lines = {problem: methods for problem, methods in by_problem.items() if reference in methods}
    if not lines:
        return []
    methods = [method for method in dict.fromkeys(cell.method for cell in experiment.cells) if method != reference]
    columns = [Column("", number=False), *map(Column, methods)]
    metric = experiment.metrics[0]
    text = (
        f"Cost to reach the last {metric.caption[0].lower()}{metric.caption[1:]} of {reference}, in percent of what "
        f"{reference} needed for all of its epochs; “no” marks methods that did not reach it."
    )
    tables = []
    for caption, cost in _COSTS.items():
        entries = [
            [Entry(problem), *_compare_costs(known, methods, reference, metric, cost)]
            for problem, known in lines.items()
        ]
        tables.append(Table(columns, entries, caption))
    return [Paragraph(text), *tables]


def _compare_costs(
    summaries: Mapping[str, Summary], methods: Sequence[str], reference: str, metric: Metric, cost: _Cost
) -> list[Entry]:
    """Return the share of the reference's cost for each method, in percent."""
    level = summaries[reference]
    total, entries = cost(level, len(level.curve)), []
    for method in methods:
        summary = summaries.get(method)
        if summary is None or total is None:
            entries.append(Entry("–"))
            continue
        epochs = count_epochs_to_level(summary, level.curve[-1].value, metric)
        spent = None if epochs is None else cost(summary, epochs)
        entries.append(Entry("no" if spent is None else f"{100 * spent / total:.0f}"))
    return entries


def count_epochs_to_level(summary: Summary, level: float, metric: Metric) -> int | None:
    """Return the number of epochs after which the curve is as good as the level for the first time; None if never."""
    values = enumerate((mean.value for mean in summary.curve), start=1)
    return next((epoch for epoch, value in values if (value >= level if metric.higher else value <= level)), None)


def _count_evaluations(summary: Summary, epochs: int) -> float | None:
    return None if summary.evaluations is None else epochs * summary.evaluations


def _sum_seconds(summary: Summary, epochs: int) -> float:
    return summary.seconds[epochs - 1]


_COSTS: Mapping[str, _Cost] = {"Evaluations": _count_evaluations, "Seconds of training": _sum_seconds}
