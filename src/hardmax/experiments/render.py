"""Writes what a reader looks at: a table in Markdown, and a figure."""

from collections.abc import Sequence
from pathlib import Path

from hardmax.experiments.chart import draw
from hardmax.experiments.declaration import Experiment
from hardmax.experiments.plan import Planned
from hardmax.experiments.results import Row
from hardmax.experiments.summary import summarise
from hardmax.experiments.table import table
from hardmax.training.checkpoint import write_atomically


def render(experiment: Experiment, runs: Sequence[Planned], rows: list[Row], out: Path, *, quick: bool) -> None:
    """Write `results.md`, and the figure as SVG and PNG, of the runs that have a row; each file is replaced at once."""
    found = summarise(experiment, runs, rows)
    temporary = {kind: out / f"{experiment.name}.{kind}.tmp" for kind in ("svg", "png")}
    draw(experiment, found, temporary, quick=quick)
    for path in temporary.values():
        path.replace(path.with_suffix(""))
    write_atomically(out / "results.md", table(experiment, found, quick=quick))
