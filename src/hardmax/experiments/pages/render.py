"""Render the page of a table, figure or measurement: Markdown, LaTeX, HTML and figures."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from hardmax.experiments.pages import gallery_page, measurement_ladders, measurement_points
from hardmax.experiments.pages.blocks import Block, Code, Heading, Image, Page, Paragraph, as_markdown
from hardmax.experiments.pages.html import as_html
from hardmax.experiments.pages.latex import as_latex
from hardmax.experiments.pages.summary import summarise
from hardmax.experiments.pages.training_curves import draw
from hardmax.experiments.pages.training_tables import epoch_tables, grid_tables
from hardmax.experiments.runner.plan import Planned
from hardmax.experiments.runner.readings import Reading, find_reading
from hardmax.experiments.runner.rows import Row
from hardmax.experiments.tables.declaration import AbstractTrainings, Experiment, Gallery
from hardmax.experiments.tables.measurement import Measurement
from hardmax.files import write_text

# Draws to files by their format: svg, png.
Draw = Callable[[Mapping[str, Path]], None]

_TABLES = {"epochs": epoch_tables, "grid": grid_tables}


def publish(out: Path, page: Page, pictures: Mapping[str, Draw]) -> None:
    """Write `results.md`, `.tex` and `.html`, and pictures by name as SVG and PNG; each file is replaced at once."""
    for name, draw_to in pictures.items():
        temporary = {kind: out / f"{name}.{kind}.tmp" for kind in ("svg", "png")}
        draw_to(temporary)
        for path in temporary.values():
            path.replace(path.with_suffix(""))
    drawings = {name: (out / f"{name}.svg").read_text(encoding="utf-8") for name in pictures}
    write_text(out / "results.md", as_markdown(page))
    write_text(out / "results.tex", as_latex(page))
    write_text(out / "results.html", as_html(page, drawings))


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
            *_TABLES[experiment.view](experiment, found, quick=quick),
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
    found = gallery_page.find(runs, rows)
    pictures: dict[str, Draw] = {
        name: lambda files, name=name: gallery_page.draw(gallery, found, files, quick=quick, wall=name)
        for name in gallery_page.walls(gallery)
    }
    page = Page(
        gallery.title,
        [
            *opening(gallery.claim, gallery.setting, gallery.quick.note if quick else None),
            *(Image(name, gallery.title) for name in pictures),
            *gallery_page.tables(gallery, found),
            *map(Paragraph, gallery.notes),
            *_commands([hung.row["command"] for hung in found]),
        ],
    )
    publish(out, page, pictures)


def _commands(lines: Sequence[str]) -> list[Block]:
    return [Heading("Commands"), Paragraph("One for each cell, with its first seed:"), Code(lines)]


_MEASUREMENT_VIEWS = {"ladders": measurement_ladders, "points": measurement_points}


def show(form: Measurement, wanted: Sequence[Reading], rows: Sequence[Row], out: Path, *, quick: bool) -> None:
    """Write the tables and the pictures of all that has a row.

    Args:
        form: what was measured.
        wanted: all that is to be.
        rows: of what has been.
        out: the folder.
        quick: whether this is the quick form.
    """
    found = [(reading, find_reading(rows, reading)) for reading in wanted]
    view = _MEASUREMENT_VIEWS[form.view]
    pictures = view.pictures(form, found)
    explanation = view.EXPLANATION.format(draws=f"{form.draws:,}", batch=form.training.batch_size)
    page = Page(
        form.title,
        [
            *opening(form.claim, form.setting, form.quick.note if quick else None),
            Paragraph(explanation),
            *view.tables(form, found),
            *(Image(name, f"{form.title}: {title}") for name, title in pictures.items()),
            *map(Paragraph, form.notes),
            Heading("Command"),
            Paragraph("The training behind it:"),
            Code(list(dict.fromkeys(row["command"] for _, row in found if row is not None))),
        ],
    )
    drawn: dict[str, Draw] = {
        name: lambda files, name=name: view.draw(form, found, name, files, quick=quick) for name in pictures
    }
    publish(out, page, drawn)
