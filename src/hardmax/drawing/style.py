"""The plot style of all figures; a figure has the same bytes on every machine and in every run."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
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
    "text.parse_math": False,  # $ is a character of names
}


_DRAWS = RLock()  # the settings of matplotlib are those of all threads


@contextmanager
def use_plot_style(name: str, changes: Mapping[Any, Any] | None = None) -> Iterator[None]:
    """Use the plot style of hardmax within the block; the user's own matplotlib settings are ignored.

    One thread draws at a time; others wait.

    Args:
        name: seed of the ids inside an SVG.
        changes: matplotlib settings that override the style.
    """
    with _DRAWS, matplotlib.rc_context():
        matplotlib.rcParams.update(matplotlib.rcParamsDefault)
        matplotlib.rcParams.update(_STYLE)
        matplotlib.rcParams.update(changes or {})
        matplotlib.rcParams["svg.hashsalt"] = name
        yield


def save_figure(figure: Figure, files: Mapping[str, Path]) -> None:
    """Write a figure to files; the keys are formats, svg or png."""
    for kind, path in files.items():
        figure.savefig(path, format=kind, dpi=200, metadata={"Date": None} if kind == "svg" else None)


def label_log_axis(axis: Axis, subs: tuple[float, ...] = (1, 2, 5)) -> None:
    """Label a logarithmic axis with plain numbers instead of powers of ten."""
    axis.set_major_locator(LogLocator(subs=subs))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())
