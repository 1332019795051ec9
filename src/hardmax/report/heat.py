"""A matrix as a picture: colours instead of numbers, on a page that may be light or dark."""

from collections.abc import Sequence

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgba
from torch import Tensor

from hardmax.report.figure import COLOURS, drawing

_HEIGHT = 380
_LEVELS = 49
_NOTHING = (0.5, 0.5, 0.5, 0.3)  # where there is no value
# Zero is clear: it has the colour of the page.
_BLUE, _CLEAR_BLUE = to_rgba(COLOURS[0]), to_rgba(COLOURS[0], 0)
_ORANGE, _CLEAR_ORANGE = to_rgba(COLOURS[1]), to_rgba(COLOURS[1], 0)
_STOPS = [(0.0, _BLUE), (0.5, _CLEAR_BLUE), (0.5, _CLEAR_ORANGE), (1.0, _ORANGE)]
_SIGNED = LinearSegmentedColormap.from_list("signed", _STOPS, _LEVELS).with_extremes(bad=_NOTHING)
_RISING = LinearSegmentedColormap.from_list("rising", [_CLEAR_BLUE, _BLUE], _LEVELS).with_extremes(bad=_NOTHING)


def heat_map(
    name: str, alt: str, matrix: Tensor, *, rows: str, columns: str, scale: str, signed: bool = False
) -> Markup:
    """Draw a matrix `[n, m]`; what is NaN is grey.

    Args:
        name: of the figure, unlike any other on the page.
        alt: what it shows.
        matrix: the values.
        rows: what a row is.
        columns: what a column is.
        scale: what a value is.
        signed: let zero be the middle of the scale, blue below it and orange above.
    """
    most = matrix.abs().nan_to_num(0.0).amax().item() or 1.0
    with drawing(name, alt, height=_HEIGHT) as drawn:
        axes = drawn.axes
        axes.grid(visible=False)
        colours, low = (_SIGNED, -most) if signed else (_RISING, 0.0)
        mesh = axes.pcolormesh(matrix.numpy(), cmap=colours, vmin=low, vmax=most)
        axes.set_aspect("equal")
        axes.invert_yaxis()
        axes.set(xlabel=columns, ylabel=rows)
        _number(axes, *matrix.shape)
        bar = axes.figure.colorbar(mesh, ax=axes, shrink=0.8, aspect=25)
        bar.set_label(scale)
        bar.solids.set_rasterized(False)  # pyright: ignore[reportOptionalMemberAccess]  # a page has no pixels in figures
        bar.outline.set_visible(False)  # pyright: ignore[reportCallIssue]
    return drawn.svg


def _number(axes: Axes, rows: int, columns: int) -> None:
    """Number rows and columns in the middle of their cells, as many as there is room for."""

    def shown(count: int) -> Sequence[int]:
        return range(0, count, next(step for step in (1, 2, 5, 10, 20, 50, 10**9) if count <= 20 * step))

    axes.set_xticks([i + 0.5 for i in shown(columns)], [str(i) for i in shown(columns)])
    axes.set_yticks([i + 0.5 for i in shown(rows)], [str(i) for i in shown(rows)])
    axes.tick_params(length=0)
