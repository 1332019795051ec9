"""Write docs/results/how-good.md, our numbers next to the best published ones: `write_overview.py [--check]`.

Every number of ours is computed from rows in docs/results, each with its command and commit. With `--check`, nothing is
written, and the exit code is 1 if the page is not up to date.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from comparisons import COMPARISONS, Comparison, Published

from hardmax.experiments.tables.metrics import REGRET, Mean, Metric

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
PAGE = RESULTS / "how-good.md"

Row = dict[str, Any]


@dataclass(frozen=True)
class Ours:
    """Our best number of a comparison.

    Attributes:
        cell: name of its cell.
        mean: mean over seeds, in the unit of the metric.
        rows: its rows, one for each seed.
    """

    cell: str
    mean: Mean
    rows: Sequence[Row]


def read_rows(file: str) -> list[Row]:
    """Return the rows of a file in docs/results; none if there is no such file."""
    path = RESULTS / f"{file}.jsonl"
    return _read_lines(path) if path.exists() else []


@cache  # several comparisons share a file, and some files contain images
def _read_lines(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def find_ours(comparison: Comparison) -> Ours | None:
    """Return our best number; None if none of the cells has a row."""
    metric, candidates = comparison.metric, []
    rows = read_rows(comparison.page)
    for cell in comparison.ours:
        by_seed = {row["seed"]: row for row in rows if row["cell"] == cell}
        if by_seed:
            values = [_get_value(row, metric) for row in by_seed.values()]
            candidates.append(Ours(cell, metric.mean(values), list(by_seed.values())))
    best = metric.best([candidate.mean.value for candidate in candidates])
    return next((candidate for candidate in candidates if candidate.mean.value == best), None)


def _get_value(row: Row, metric: Metric) -> float:
    """Return a metric after the last epoch; the numbers of a model's figure are of more examples."""
    return {**row["test"][-1], **row.get("exhibit", {"numbers": [{}]})["numbers"][0]}[metric.key]


def find_pyepo_comparison(problem: str) -> tuple[Comparison, Ours]:
    """Return the comparison with PyEPO on a problem: the loss with the lowest mean regret of each library."""
    rows = [row for row in read_rows("decisions-pyepo") if row["problem"] == problem]
    means = {
        key: {
            loss: REGRET.mean([row[key] for row in rows if row["loss"] == loss])
            for loss in dict.fromkeys(row["loss"] for row in rows if row.get(key) is not None)
        }
        for key in ("pyepo_regret", "regret")
    }
    (theirs, published), (ours, best) = (min(each.items(), key=lambda item: item[1].value) for each in means.values())
    comparison = Comparison(
        f"predict, then optimize: {problem}",
        REGRET,
        Published(published.value, f"{theirs}, PyEPO 2.2.7, run here"),
        "decisions-pyepo",
        (),
    )
    command = "python -m benchmarks.pyepo --python PYTHON --seeds 10 --save"
    return comparison, Ours(ours, best, [{**row, "command": command} for row in rows if row["loss"] == ours])


INTRODUCTION = """\
# How good is it?

This page compares the best published number that we know for each task with ours, **also where ours is worse**. Every
number of ours links to the page that says how it was made, and the number of seeds links to the rows with their
configuration; [below](#where-the-numbers-come-from) are the method, the command and the commit of each.

↑: higher is better, ↓: lower is better. Bounds are in nats; accuracy, precision and regret in percent. Numbers after ±
are standard errors over seeds. The difference is ours minus the published number; it is bold where ours is better. A
star marks published numbers that are quoted from memory and were not compared with the publication. Ours is the best of
the methods that a page counts as ours; this choice favours us by about as much as the seeds differ.
"""
MISSING = """\
Other tasks have no published number that can be compared: [tokens](dvae.md) and [quantizers](tokenizers.md), whose data
differ from those of publications; [sequences](sequences.md), [denoising](decisions-denoising.md), [routers](routers.md)
and [feature selection](feature-selection.md), which compare methods that we ran ourselves; and
[segmentation](../explanation/segmentation.md#how-accurate-it-is), as no publication has the same structures of the same
scans; a second scan of a head by the same sequence changes its volumes by [1.6 % in the
mean](segmentation-repeatability.md).
"""


def write_page() -> str:
    """Return the page."""
    pairs = [(comparison, find_ours(comparison)) for comparison in COMPARISONS]
    pairs += [find_pyepo_comparison(problem) for problem in ("path", "knapsack")]
    head = "| task | measure | published | by | ours | difference | seeds |\n|---|---|---:|---|---:|---:|---:|"
    lines = [_format_line(comparison, ours) for comparison, ours in pairs]
    sources = [_format_source(comparison, ours) for comparison, ours in pairs if ours is not None]
    table = "\n".join([head, *lines])
    return f"{INTRODUCTION}\n{table}\n\n{MISSING}\n## Where the numbers come from\n\n" + "\n".join(sources) + "\n"


def _format_line(comparison: Comparison, ours: Ours | None) -> str:
    metric, published = comparison.metric, comparison.published
    name = f"{metric.caption[0].lower()}{metric.caption[1:]}"
    theirs = f"{metric.format(published.value)}{'' if published.is_checked else '*'}"
    start = f"| {comparison.task} | {name} {'↑' if metric.higher else '↓'} | {theirs} | {published.source} |"
    if ours is None:
        return f"{start} not run | | |"
    difference = metric.format_difference(ours.mean.value, published.value)
    if metric.is_better(ours.mean.value, published.value):
        difference = f"**{difference}**"
    return (
        f"{start} [{metric.format_mean(ours.mean)}]({comparison.page}.md) | {difference} | "
        f"[{len(ours.rows)}]({comparison.page}.jsonl) |"
    )


def _format_source(comparison: Comparison, ours: Ours) -> str:
    commits = dict.fromkeys(row["commit"] for row in ours.rows)
    known = ", ".join("not recorded" if commit is None else f"`{commit[:10]}`" for commit in commits)
    note = f" ({comparison.note})" if comparison.note else ""
    head = f"- {comparison.task}, {comparison.metric.name}: {ours.cell}{note}, commit {known}"
    return f"{head}\n\n        {ours.rows[0]['command']}\n"


def main(arguments: Sequence[str]) -> int:
    """Write the page, or check it; return the exit code."""
    page = write_page()
    if "--check" in arguments:
        return int(not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page)
    PAGE.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
