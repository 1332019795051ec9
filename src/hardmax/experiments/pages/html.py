"""A page as HTML: one self-contained file that needs no network."""

from collections.abc import Mapping
from pathlib import Path

from hardmax.drawing.svg import inline_svg
from hardmax.experiments.pages.blocks import Page, spans
from hardmax.report.templates import load_template, read_style

_FEW = 3  # number of commands that are shown unfolded
_TEMPLATE = Path(__file__).with_name("page.html.j2")


def as_html(page: Page, drawings: Mapping[str, str]) -> str:
    """Return the text of an HTML file.

    Args:
        page: the page to write.
        drawings: the SVG of its images, by name.
    """
    html = load_template(_TEMPLATE).render(
        title="".join(piece for _, piece in spans(page.title)),
        style=read_style(),
        page=page,
        blocks=[(type(block).__name__, block) for block in page.blocks],
        spans=spans,
        draw=lambda image: inline_svg(drawings[image.name], image.caption, f"{image.name}-"),
        few=_FEW,
    )
    return f"{html}\n"
