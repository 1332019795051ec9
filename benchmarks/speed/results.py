"""The saved results of the benchmarks of speed, and the page that shows them."""

import json
from dataclasses import asdict
from pathlib import Path

from benchmarks.speed.comparison import Result
from hardmax.files import write_text

RESULTS = Path(__file__).parents[2] / "docs" / "results"
HEAD = """# Speed

This page compares the processor time of hardmax with that of the leanest hand-written PyTorch (or Numba) code for the
same computation. It is for anyone who wants to know what the generality of hardmax costs, and for those who work on it.

    make speed BENCH_ARGS=--save

Each number is a ratio of processor times, ours over hand-written: 1.00 is equal, less is faster. Both are called
alternately in one process on one thread, and the ratio is that of the medians. For growth, the number is the slope on
logarithmic axes: 1 is linear, 2 quadratic. The hand-written code is in `benchmarks/speed/`. Missed goals are marked.
"""


def read_results() -> dict[tuple[str, str], Result]:
    """Return the results that were saved last, by group and name."""
    path = RESULTS / "speed.jsonl"
    if not path.exists():
        return {}
    rows = [Result(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
    return {(row.group, row.name): row for row in rows}


def save_results(results: dict[tuple[str, str], Result]) -> None:
    """Write the results and the page."""
    rows = list(results.values())
    write_text(RESULTS / "speed.jsonl", "".join(json.dumps(asdict(row)) + "\n" for row in rows))
    write_text(RESULTS / "speed.md", HEAD + "".join(_format_group(group, rows) for group in _list_groups(rows)))


def _list_groups(rows: list[Result]) -> list[str]:
    return list(dict.fromkeys(row.group for row in rows))


def _format_group(group: str, rows: list[Result]) -> str:
    lines = [f"\n## {group}\n", "| computation | ratio or slope | goal | measured |", "|---|---:|---:|---|"]
    for row in rows:
        if row.group == group:
            missed = "" if row.meets_goal else " **(missed)**"
            lines.append(f"| {row.name} | {row.value:.2f}{missed} | {row.goal:.2f} | {row.details} |")
    return "\n".join(lines) + "\n"
