"""Figures as SVG inside a page: text and axes in the page's colour and font, the same bytes every time."""

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from markupsafe import Markup, escape
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hardmax.drawing.style import use_house_style

# Mid-tones: seen on white and on black.
COLOURS = (
    "#3b82c4",
    "#d97b29",
    "#3a9d6e",
    "#c2527e",
    "#8a6fd1",
    "#a8843c",
    "#3aa6b9",
    "#d0605e",
    "#7c9a3a",
    "#8b8f98",
)
DASHES = ("", "5 2.5", "1.5 2")  # of the first ten lines, of the next ten, of the others
WIDTH, HEIGHT = 480, 300  # pixels; small, so that letters stay readable on a phone

_INK = "#010203"  # stands for the colour of the page's text
# What differs from the plot style inside a page: letters are text, and all but curves has the page's colour.
_PAGE_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.size": 12,
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": _INK,
    "grid.alpha": 0.15,
    "text.color": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "lines.linewidth": 1.8,
}


class Drawing:
    """A figure while it is drawn, and then its SVG.

    Attributes:
        axes: to draw on.
        svg: the figure, once the block of `draw_svg` has ended.
    """

    def __init__(self, axes: Axes) -> None:
        self.axes = axes
        self.svg = Markup("")


@contextmanager
def draw_svg(name: str, alt: str, height: int = HEIGHT) -> Iterator[Drawing]:
    """Draw a figure within the block; whatever the user has set up for matplotlib plays no part.

    Args:
        name: makes the ids inside the SVG, of which a page must have no two alike.
        alt: what the figure shows, for those who do not see it.
        height: pixels.
    """
    with use_house_style(name, _PAGE_STYLE):
        figure = Figure(figsize=(WIDTH / 72, height / 72), layout="constrained")  # 72: a point is a pixel of the SVG
        drawn = Drawing(figure.add_subplot())
        yield drawn
        buffer = io.StringIO()
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(buffer, format="svg", transparent=True, metadata=nothing)
    drawn.svg = inline_svg(buffer.getvalue(), alt)


# What all but curves is drawn with, and what a page has for it, by day and by night.
_COLOURS = {
    _INK: "currentColor",
    "#ffffff": "var(--paper)",
    "#000000": "currentColor",
    "#444444": "currentColor",
    "#777777": "var(--muted)",
    "#888888": "var(--muted)",
    "#999999": "var(--muted)",
    "#e4e4e4": "var(--line)",
}


def inline_svg(svg: str, alt: str, prefix: str = "") -> Markup:
    """Return a figure that can stand in a page: no prologue, no group names, no style that reaches beyond the figure.

    Args:
        svg: text of a file that matplotlib wrote.
        alt: what it shows, for those who do not see it.
        prefix: what all ids inside begin with. Needed where letters are paths: the ids of these are the same in every
            figure.
    """
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<style.*?</style>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<g id=\"[^\"]*\"", "<g", svg)
    svg = re.sub(r"font-family:[^;\"]*;? ?", "", svg)
    svg = re.sub(r"(\bid=\"|href=\"#|url\(#)", rf"\g<1>{prefix}", svg)
    svg = re.sub(r"#[0-9a-f]{6}\b", lambda colour: _COLOURS.get(colour[0], colour[0]), svg)
    box = re.search(r"viewBox=\"[^\"]*\"", svg)
    head = f'<svg {box[0] if box else ""} role="img" aria-label="{escape(alt)}">'
    return Markup(re.sub(r"<svg [^>]*>", lambda _: head, svg, count=1))
