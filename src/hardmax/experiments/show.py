"""Writes what a reader of a measurement looks at: tables and pictures."""

from collections.abc import Sequence
from pathlib import Path

from hardmax.experiments import ladders, points
from hardmax.experiments.measurement import Measurement
from hardmax.experiments.page import Code, Heading, Image, Page, Paragraph
from hardmax.experiments.readings import Reading, find_reading
from hardmax.experiments.render import Draw, opening, publish
from hardmax.experiments.results import Row

_VIEWS = {"ladders": ladders, "points": points}


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
    view = _VIEWS[form.view]
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
