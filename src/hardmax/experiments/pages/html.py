"""A page as HTML: one file that needs no other and no network."""

from collections.abc import Mapping
from importlib import resources
from pathlib import Path

import jinja2
from markupsafe import Markup

from hardmax.drawing.svg import inline_svg
from hardmax.experiments.pages.blocks import Page, spans

_FEW = 3  # so many commands are shown; more are folded away
_TEMPLATE = "page.html.j2"


def as_html(page: Page, drawings: Mapping[str, str]) -> str:
    """Return the text of a file.

    Args:
        page: what to write.
        drawings: the SVG of its pictures, by name.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    style = resources.files("hardmax.report").joinpath("style.css").read_text(encoding="utf-8")
    return environment.get_template(_TEMPLATE).render(
        title="".join(piece for _, piece in spans(page.title)),
        style=Markup(style),
        page=page,
        blocks=[(type(block).__name__, block) for block in page.blocks],
        spans=spans,
        draw=lambda image: inline_svg(drawings[image.name], image.caption, f"{image.name}-"),
        few=_FEW,
    )
