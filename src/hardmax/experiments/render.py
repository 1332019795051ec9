"""Writes what a reader looks at: a table in Markdown, and a figure."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from hardmax.experiments.chart import draw
from hardmax.experiments.declaration import Experiment
from hardmax.experiments.plan import Planned
from hardmax.experiments.results import Row
from hardmax.experiments.summary import summarise
from hardmax.experiments.table import table
from hardmax.training.checkpoint import write_atomically

# Draws to files by their format: svg, png.
Draw = Callable[[Mapping[str, Path]], None]


def publish(out: Path, page: str, pictures: Mapping[str, Draw]) -> None:
    """Write `results.md`, and pictures by name as SVG and PNG; each file is replaced at once."""
    for name, draw_to in pictures.items():
        temporary = {kind: out / f"{name}.{kind}.tmp" for kind in ("svg", "png")}
        draw_to(temporary)
        for path in temporary.values():
            path.replace(path.with_suffix(""))
    write_atomically(out / "results.md", page)


def render(experiment: Experiment, runs: Sequence[Planned], rows: list[Row], out: Path, *, quick: bool) -> None:
    """Write the table and the figure of the runs that have a row."""
    found = summarise(experiment, runs, rows)
    page = table(experiment, found, quick=quick)
    publish(out, page, {experiment.name: lambda files: draw(experiment, found, files, quick=quick)})
