"""Figures as SVG inside a page: text and axes in the page's colour and font, the same bytes every time."""

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib
from markupsafe import Markup, escape
from matplotlib.axes import Axes
from matplotlib.figure import Figure

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
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.size": 12,
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": _INK,
    "grid.alpha": 0.15,
    "text.color": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "path.simplify": False,
}


class Drawing:
    """A figure while it is drawn, and then its SVG.

    Attributes:
        axes: to draw on.
        svg: the figure, once the block of `drawing` has ended.
    """

    def __init__(self, axes: Axes) -> None:
        self.axes = axes
        self.svg = Markup("")


@contextmanager
def drawing(name: str, alt: str, height: int = HEIGHT) -> Iterator[Drawing]:
    """Draw a figure within the block; whatever the user has set up for matplotlib plays no part.

    Args:
        name: makes the ids inside the SVG, of which a page must have no two alike.
        alt: what the figure shows, for those who do not see it.
        height: pixels.
    """
    with matplotlib.rc_context():
        matplotlib.rcParams.update(matplotlib.rcParamsDefault)
        matplotlib.rcParams.update(_STYLE)
        matplotlib.rcParams["svg.hashsalt"] = name
        figure = Figure(figsize=(WIDTH / 72, height / 72), layout="constrained")  # 72: a point is a pixel of the SVG
        drawn = Drawing(figure.add_subplot())
        yield drawn
        buffer = io.StringIO()
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(buffer, format="svg", transparent=True, metadata=nothing)
    drawn.svg = _for_a_page(buffer.getvalue(), alt)


def _for_a_page(svg: str, alt: str) -> Markup:
    """Keep what a page needs: no prologue, no names of groups, no style that would reach beyond the figure."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(
        r"<svg [^>]*?(viewBox=\"[^\"]*\")[^>]*>", rf'<svg \1 role="img" aria-label="{escape(alt)}">', svg, count=1
    )
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<style.*?</style>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<g id=\"[^\"]*\"", "<g", svg)
    svg = re.sub(r"font-family:[^;\"]*;? ?", "", svg)
    return Markup(svg.replace(_INK, "currentColor"))


# What `hardmax.drawing.style` and its users draw all but curves with, and what a page has for it, by day and by night.
_COLOURS = {
    "#ffffff": "var(--paper)",
    "#000000": "currentColor",
    "#444444": "currentColor",
    "#777777": "var(--muted)",
    "#888888": "var(--muted)",
    "#999999": "var(--muted)",
    "#e4e4e4": "var(--line)",
}


def inlined(svg: str, name: str, alt: str) -> Markup:
    """Return a drawing that can stand in a page.

    Args:
        svg: text of a file that matplotlib wrote.
        name: of the drawing, which all ids inside begin with.
        alt: what it shows, for those who do not see it.
    """
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<style.*?</style>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<g id=\"[^\"]*\"", "<g", svg)
    svg = re.sub(r"(\bid=\"|href=\"#|url\(#)", rf"\g<1>{name}-", svg)
    svg = re.sub(r"#[0-9a-f]{6}\b", lambda found: _COLOURS.get(found[0], found[0]), svg)
    box = re.search(r"viewBox=\"[^\"]*\"", svg)
    head = f'<svg {box[0] if box else ""} role="img" aria-label="{escape(alt)}">'
    return Markup(re.sub(r"<svg [^>]*>", lambda _: head, svg, count=1))
