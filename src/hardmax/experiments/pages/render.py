"""Render the page of a table, figure or measurement: Markdown, LaTeX, HTML and figures."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from hardmax.experiments.pages import measurement_ladders, measurement_points
from hardmax.experiments.pages.blocks import (
    Block,
    Code,
    Draw,
    FigureBlock,
    Heading,
    Page,
    Paragraph,
    as_html,
    as_markdown,
)
from hardmax.experiments.pages.gallery_page import arrange_panels, build_gallery_tables, draw_gallery, find_panels
from hardmax.experiments.pages.latex import as_latex
from hardmax.experiments.pages.level_tables import build_level_tables
from hardmax.experiments.pages.summary import summarize
from hardmax.experiments.pages.training_curves import draw_curves
from hardmax.experiments.pages.training_tables import build_epoch_tables, build_grid_tables, build_method_tables
from hardmax.experiments.rows import AbstractPlannedRow, Row, find_row
from hardmax.experiments.tables.declaration import AbstractExperiment, Experiment, Gallery, PlannedRun
from hardmax.experiments.tables.measurement import Measurement, PlannedMeasurement
from hardmax.files import replace_atomically, write_text

_TABLES = {"epochs": build_epoch_tables, "grid": build_grid_tables, "methods": build_method_tables}
_MEASUREMENT_VIEWS = {"ladders": measurement_ladders, "points": measurement_points}


def render(
    experiment: AbstractExperiment, planned: Sequence[AbstractPlannedRow], rows: list[Row], out: Path, *, quick: bool
) -> None:
    """Write the page with tables and figures of all finished rows.

    Args:
        experiment: the table, figure or measurement.
        planned: all of its runs or measurements.
        rows: rows of those that are finished.
        out: output folder.
        quick: whether this is the quick form.
    """
    write_page(_PAGES[type(experiment)](experiment, planned, rows, quick=quick), out)


def write_page(page: Page, out: Path) -> None:
    """Write `results.md`, `.tex` and `.html`, and figures by name as SVG and PNG; each file is replaced atomically."""
    for name, draw in page.figures.items():
        with replace_atomically(out / f"{name}.svg") as svg, replace_atomically(out / f"{name}.png") as png:
            draw({"svg": svg, "png": png})
    drawings = {name: (out / f"{name}.svg").read_text(encoding="utf-8") for name in page.figures}
    write_text(out / "results.md", as_markdown(page))
    write_text(out / "results.tex", as_latex(page))
    write_text(out / "results.html", as_html(page, drawings))


def build_training_page(experiment: Experiment, planned: Sequence[PlannedRun], rows: list[Row], *, quick: bool) -> Page:
    """Return the page of a table, or a figure of curves."""
    summaries = summarize(experiment, planned, rows)
    figures = {experiment.name + figure.name: figure for figure in experiment.figures}
    content = [
        *_TABLES[experiment.view](experiment, summaries, quick=quick),
        *build_level_tables(experiment, summaries),
        *(FigureBlock(name, experiment.title + figure.title) for name, figure in figures.items()),
    ]
    draw = {name: partial(draw_curves, experiment, figure, summaries, quick=quick) for name, figure in figures.items()}
    commands = _list_commands([summary.command for summary in summaries.values()])
    return _compose(experiment, content, commands, draw, quick=quick)


def build_gallery_page(gallery: Gallery, planned: Sequence[PlannedRun], rows: list[Row], *, quick: bool) -> Page:
    """Return the page of a gallery."""
    panels = find_panels(planned, rows)
    draw = {name: partial(draw_gallery, gallery, panels, name, quick=quick) for name in arrange_panels(gallery)}
    content = [*(FigureBlock(name, gallery.title) for name in draw), *build_gallery_tables(gallery, panels)]
    return _compose(gallery, content, _list_commands([panel.row["command"] for panel in panels]), draw, quick=quick)


def build_measurement_page(
    measurement: Measurement, planned: Sequence[PlannedMeasurement], rows: list[Row], *, quick: bool
) -> Page:
    """Return the page of a measurement."""
    form, view = measurement.choose_form(quick=quick), _MEASUREMENT_VIEWS[measurement.view]
    pairs = [(measurement_plan, find_row(rows, measurement_plan)) for measurement_plan in planned]
    figures = view.list_figures(form, pairs)
    content = [
        Paragraph(view.EXPLANATION.format(draws=f"{form.draws:,}", batch=form.training.batch_size)),
        *view.build_tables(form, pairs),
        *(FigureBlock(name, f"{form.title}: {title}") for name, title in figures.items()),
    ]
    commands = [
        Heading("Command"),
        Paragraph("The training run of these measurements:"),
        Code(list(dict.fromkeys(row["command"] for _, row in pairs if row is not None))),
    ]
    draw = {name: partial(view.draw_figure, form, pairs, name, quick=quick) for name in figures}
    return _compose(form, content, commands, draw, quick=quick)


_PAGES: Mapping[type[AbstractExperiment], Callable[..., Page]] = {
    Experiment: build_training_page,
    Gallery: build_gallery_page,
    Measurement: build_measurement_page,
}


def _compose(
    experiment: AbstractExperiment,
    content: Sequence[Block],
    commands: Sequence[Block],
    draw: Mapping[str, Draw],
    *,
    quick: bool,
) -> Page:
    """Return a page: claim and setting, content, notes, and commands."""
    opening = [experiment.claim, experiment.setting]
    if quick:
        opening.append(f"**This is the quick form** ({experiment.quick.note}). It only shows that the code works.")
    blocks = [*map(Paragraph, opening), *content, *map(Paragraph, experiment.notes), *commands]
    return Page(experiment.title, blocks, draw)


def _list_commands(lines: Sequence[str]) -> list[Block]:
    return [Heading("Commands"), Paragraph("One for each cell, for its first seed:"), Code(lines)]
