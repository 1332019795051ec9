"""Writes what a reader of a measurement looks at: tables in Markdown, and pictures."""

from collections.abc import Sequence
from pathlib import Path

from hardmax.experiments import ladders, points
from hardmax.experiments.declaration import Measurement
from hardmax.experiments.readings import Reading, find_reading
from hardmax.experiments.render import publish
from hardmax.experiments.results import Row

_VIEWS = {"ladders": ladders, "points": points}


def show(form: Measurement, wanted: Sequence[Reading], rows: Sequence[Row], out: Path, *, quick: bool) -> None:
    """Write `results.md` and the pictures of all that has a row.

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
    commands = dict.fromkeys(row["command"] for _, row in found if row is not None)
    blocks = [
        f"# {form.title}",
        form.claim,
        form.setting,
        *([f"**This is the quick form** ({form.quick.note}). It shows that all works, and no more."] if quick else []),
        view.EXPLANATION.format(draws=f"{form.draws:,}", batch=form.training.batch_size),
        *view.tables(form, found),
        *(f"![{form.title}: {title}]({name}.svg)" for name, title in pictures.items()),
        *form.notes,
        "## Command",
        "The training behind it:",
        "\n".join(["```", *commands, "```"]),
    ]
    drawn = {name: lambda files, name=name: view.draw(form, found, name, files, quick=quick) for name in pictures}
    publish(out, "\n\n".join(blocks) + "\n", drawn)
