"""The one plot style: the same on every machine, and the same bytes every time."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

_STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.axisbelow": True,
    "axes.edgecolor": "#444444",
    "axes.linewidth": 0.8,
    "grid.color": "#e4e4e4",
    "lines.linewidth": 1.6,
    "legend.frameon": False,
    "path.simplify": False,
}


@contextmanager
def use_house_style(name: str, changes: Mapping[Any, Any] | None = None) -> Iterator[None]:
    """Draw within the block; whatever the user has set up for matplotlib plays no part.

    Args:
        name: makes the ids inside an SVG.
        changes: settings of matplotlib that differ from the style.
    """
    with matplotlib.rc_context():
        matplotlib.rcParams.update(matplotlib.rcParamsDefault)
        matplotlib.rcParams.update(_STYLE)
        matplotlib.rcParams.update(changes or {})
        matplotlib.rcParams["svg.hashsalt"] = name
        yield


def save_figure(figure: Figure, files: Mapping[str, Path]) -> None:
    """Write a figure, by format: svg, png."""
    for kind, path in files.items():
        figure.savefig(path, format=kind, dpi=200, metadata={"Date": None} if kind == "svg" else None)


def label_logarithms_plainly(axis: Axis, subs: tuple[float, ...] = (1, 2, 5)) -> None:
    """Label a logarithmic axis with numbers as one writes them."""
    axis.set_major_locator(LogLocator(subs=subs))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())
