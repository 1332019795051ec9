"""Writes what a reader looks at: tables as Markdown, LaTeX and HTML, and pictures."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from hardmax.experiments import grid, hanging, table
from hardmax.experiments.chart import draw
from hardmax.experiments.declaration import AbstractTrainings, Experiment, Gallery
from hardmax.experiments.page import Block, Code, Heading, Image, Page, Paragraph
from hardmax.experiments.plan import Planned
from hardmax.experiments.results import Row
from hardmax.experiments.summary import summarise
from hardmax.experiments.writers.html import as_html
from hardmax.experiments.writers.latex import as_latex
from hardmax.experiments.writers.markdown import as_markdown
from hardmax.training.checkpoint import write_atomically

# Draws to files by their format: svg, png.
Draw = Callable[[Mapping[str, Path]], None]

_VIEWS = {"epochs": table, "grid": grid}


def publish(out: Path, page: Page, pictures: Mapping[str, Draw]) -> None:
    """Write `results.md`, `.tex` and `.html`, and pictures by name as SVG and PNG; each file is replaced at once."""
    for name, draw_to in pictures.items():
        temporary = {kind: out / f"{name}.{kind}.tmp" for kind in ("svg", "png")}
        draw_to(temporary)
        for path in temporary.values():
            path.replace(path.with_suffix(""))
    drawings = {name: (out / f"{name}.svg").read_text(encoding="utf-8") for name in pictures}
    write_atomically(out / "results.md", as_markdown(page))
    write_atomically(out / "results.tex", as_latex(page))
    write_atomically(out / "results.html", as_html(page, drawings))


def opening(claim: str, setting: str, note: str | None) -> list[Block]:
    """Return what a page begins with.

    Args:
        claim: what the table or figure is about.
        setting: what was trained.
        note: what is smaller in the quick form; None for the full one.
    """
    said = [claim, setting]
    if note is not None:
        said.append(f"**This is the quick form** ({note}). It shows that all works, and no more.")
    return [Paragraph(text) for text in said]


def render(experiment: AbstractTrainings, runs: Sequence[Planned], rows: list[Row], out: Path, *, quick: bool) -> None:
    """Write tables and pictures of the runs that have a row."""
    match experiment:
        case Experiment():
            _tabulate(experiment, runs, rows, out, quick=quick)
        case Gallery():
            _hang(experiment, runs, rows, out, quick=quick)
        case _:
            raise TypeError(f"there is no page for a {type(experiment).__name__}")


def _tabulate(experiment: Experiment, runs: Sequence[Planned], rows: list[Row], out: Path, *, quick: bool) -> None:
    found = summarise(experiment, runs, rows)
    pictures = {experiment.name + picture.name: picture for picture in experiment.pictures}
    page = Page(
        experiment.title,
        [
            *opening(experiment.claim, experiment.setting, experiment.quick.note if quick else None),
            *_VIEWS[experiment.view].tables(experiment, found, quick=quick),
            *(Image(name, experiment.title + picture.title) for name, picture in pictures.items()),
            *map(Paragraph, experiment.notes),
            *_commands([summary.command for summary in found.values()]),
        ],
    )
    drawn: dict[str, Draw] = {
        name: lambda files, picture=picture: draw(experiment, picture, found, files, quick=quick)
        for name, picture in pictures.items()
    }
    publish(out, page, drawn)


def _hang(gallery: Gallery, runs: Sequence[Planned], rows: list[Row], out: Path, *, quick: bool) -> None:
    found = hanging.find(runs, rows)
    pictures: dict[str, Draw] = {
        name: lambda files, name=name: hanging.draw(gallery, found, files, quick=quick, wall=name)
        for name in hanging.walls(gallery)
    }
    page = Page(
        gallery.title,
        [
            *opening(gallery.claim, gallery.setting, gallery.quick.note if quick else None),
            *(Image(name, gallery.title) for name in pictures),
            *hanging.tables(gallery, found),
            *map(Paragraph, gallery.notes),
            *_commands([hung.row["command"] for hung in found]),
        ],
    )
    publish(out, page, pictures)


def _commands(lines: Sequence[str]) -> list[Block]:
    return [Heading("Commands"), Paragraph("One for each cell, with its first seed:"), Code(lines)]
