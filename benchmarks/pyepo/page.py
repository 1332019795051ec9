"""The stored rows of the comparison with PyEPO, and the page that shows them."""

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, median, stdev

from benchmarks.pyepo.comparison import LOSSES, Row
from hardmax.files import write_text

RESULTS = Path(__file__).parents[2] / "docs" / "results"
ROWS = RESULTS / "decisions-pyepo.jsonl"
PAGE = RESULTS / "decisions-pyepo.md"
PROBLEMS = {"path": "Shortest paths, degree 4", "knapsack": "Knapsack, degree 4"}


def read_rows() -> list[Row]:
    """Return the stored rows."""
    if not ROWS.exists():
        return []
    return [json.loads(line) for line in ROWS.read_text(encoding="utf-8").splitlines()]


def append_rows(rows: Sequence[Row]) -> None:
    """Add rows to the stored ones."""
    before = ROWS.read_text(encoding="utf-8") if ROWS.exists() else ""
    write_text(ROWS, before + "".join(json.dumps(row) + "\n" for row in rows))


def save_page(rows: Sequence[Row]) -> None:
    """Write the tables of the page; the text above the first table is written by hand and stays."""
    page = PAGE.read_text(encoding="utf-8") if PAGE.exists() else "# Comparison with PyEPO\n\n"
    head = page.partition("\n## ")[0].rstrip("\n")
    parts = [head]
    for problem, title in PROBLEMS.items():
        own = [row for row in rows if row["problem"] == problem]
        if own:
            parts.append(f"## {title}\n\n{format_table(own)}")
    write_text(PAGE, "\n\n".join(parts) + "\n")


def format_table(rows: Sequence[Row]) -> str:
    """Return a table in Markdown with a line for each loss, lowest regret first, over all seeds of the rows."""
    lines = [
        "| loss | regret, % | PyEPO, % | difference | seconds per epoch | PyEPO | ratio |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    cells = [_format_line(name, [row for row in rows if row["loss"] == name]) for name in LOSSES]
    lines += [line for _, line in sorted(cell for cell in cells if cell is not None)]
    return "\n".join(lines)


def _format_line(name: str, rows: Sequence[Row]) -> tuple[float, str] | None:
    """Return the lower mean regret of the two, for sorting, and the line; None without rows."""
    if not rows:
        return None
    ours, theirs = (_collect(rows, prefix + "regret") for prefix in ("", "pyepo_"))
    differences = [a - b for a, b in zip(ours, theirs, strict=True)] if ours and theirs else []
    seconds, pyepo_seconds = (_collect(rows, prefix + "seconds") for prefix in ("", "pyepo_"))
    ratio = f"{median(pyepo_seconds) / median(seconds):.1f}x" if seconds and pyepo_seconds else "–"
    line = (
        f"| {name} | {_format_percent(ours)} | {_format_percent(theirs)} | {_format_percent(differences, '+')} | "
        f"{_format_median(seconds)} | {_format_median(pyepo_seconds)} | {ratio} |"
    )
    return min(mean(values) for values in (ours, theirs) if values), line


def _collect(rows: Sequence[Row], field: str) -> list[float]:
    return [row[field] for row in rows if row[field] is not None]


def _format_percent(values: Sequence[float], sign: str = "") -> str:
    if not values:
        return "–"
    error = f" ± {100 * stdev(values) / len(values) ** 0.5:.2f}" if len(values) > 1 else ""
    return f"{100 * mean(values):{sign}.2f}{error}"


def _format_median(values: Sequence[float]) -> str:
    return f"{median(values):.3f}" if values else "–"
