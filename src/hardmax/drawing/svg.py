"""Figures as SVG inside a page: text and axes have the colour and font of the page."""

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from markupsafe import Markup, escape
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hardmax.drawing.style import use_plot_style
from hardmax.names import escape_control_characters

# Mid-tones: visible on white and on black.
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
DASHES = ("", "5 2.5", "1.5 2")  # of the first ten lines, of the next ten, of all further ones
WIDTH, HEIGHT = 480, 300  # pixels; small, so that letters stay readable on a phone

_INK = "#010203"  # placeholder for the colour of the page's text
# Changes of the plot style inside a page: letters are text, and everything except curves has the page's text colour.
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
    """A figure that is being drawn, and later its SVG.

    Attributes:
        axes: the axes to draw on.
        svg: the figure, available after the block of `draw_svg`.
    """

    def __init__(self, axes: Axes) -> None:
        self.axes = axes
        self.svg = Markup("")


@contextmanager
def draw_svg(name: str, alt: str, height: int = HEIGHT) -> Iterator[Drawing]:
    """Draw a figure within the block; the user's own matplotlib settings are ignored.

    Args:
        name: seed of the ids inside the SVG, unique on a page.
        alt: what the figure shows, for readers who do not see it.
        height: height in pixels.
    """
    with use_plot_style(name, _PAGE_STYLE):
        figure = Figure(figsize=(WIDTH / 72, height / 72), layout="constrained")  # 72: a point is a pixel of the SVG
        drawing = Drawing(figure.add_subplot())
        yield drawing
        buffer = io.StringIO()
        no_metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(buffer, format="svg", transparent=True, metadata=no_metadata)
    drawing.svg = inline_svg(buffer.getvalue(), alt)


# Colours of everything except curves, each replaced by a colour of the page, which follows the light or dark theme.
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
    """Return a figure to embed in a page: no prologue, no group names, no style that affects the rest of the page.

    Args:
        svg: the text of a file written by matplotlib.
        alt: what it shows, for readers who do not see it.
        prefix: prefix of all ids inside. Needed where letters are paths, since their ids are the same in every figure.
    """
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<style.*?</style>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<g id=\"[^\"]*\"", "<g", svg)
    svg = re.sub(r"font-family:[^;\"]*;? ?", "", svg)
    svg = re.sub(r"\bid=\"|href=\"#|url\(#", lambda match: f"{match[0]}{escape(prefix)}", svg)
    svg = re.sub(r"#[0-9a-f]{6}\b", lambda colour: _COLOURS.get(colour[0], colour[0]), svg)
    box = re.search(r"viewBox=\"[^\"]*\"", svg)
    head = f'<svg {box[0] if box else ""} role="img" aria-label="{escape(escape_control_characters(alt))}">'
    return Markup(re.sub(r"<svg [^>]*>", lambda _: head, svg, count=1))
