"""Draw a grid of cells: values as colours, one pixel for each cell, and decisions as SVG in units of cells.

The image is enlarged by the page, without smoothing; the SVG is laid over it with the view box
`0 0 width height`.
"""

from collections.abc import Sequence

import matplotlib
import numpy as np
from jaxtyping import Bool, Float, UInt8
from markupsafe import Markup
from PIL import Image

from hardmax.drawing.svg import COLOURS

_POSITIVE, _NEGATIVE = COLOURS[1], COLOURS[0]  # orange and blue, which colour-blind people can tell apart
_CASING = "#141414"


def colour_values(values: Float[np.ndarray, "H W"], low: float, high: float) -> Image.Image:
    """Return values as colours from dark blue (low) over green to yellow (high), one pixel for each cell.

    Example:
        >>> import numpy as np
        >>> image = colour_values(np.array([[0.0, 1.0]]), 0, 1)
        >>> image.size, image.getpixel((0, 0)), image.getpixel((1, 0))
        ((2, 1), (68, 1, 84), (253, 231, 36))
    """
    share = np.clip((values - low) / max(high - low, 1e-12), 0, 1)
    return Image.fromarray(np.ascontiguousarray(matplotlib.colormaps["viridis"](share, bytes=True)[..., :3]))


def colour_signs(values: Float[np.ndarray, "H W"], limit: float) -> Image.Image:
    """Return values as colours: orange above zero, blue below, transparent at zero, opaque at `limit` and beyond.

    Zero has the colour of the page, in its light and in its dark theme.

    Example:
        >>> import numpy as np
        >>> image = colour_signs(np.array([[-1.0, 0.0, 0.5]]), 1)
        >>> [image.getpixel((column, 0))[3] for column in range(3)]
        [255, 0, 128]
    """
    colours = np.where((values >= 0)[..., None], parse_colour(_POSITIVE), parse_colour(_NEGATIVE))
    alpha = np.clip(np.abs(values) / max(limit, 1e-12), 0, 1)
    return Image.fromarray(np.concatenate([colours, np.round(255 * alpha)[..., None]], -1).astype(np.uint8))


def parse_colour(colour: str) -> UInt8[np.ndarray, "3"]:
    """Return red, green and blue of a colour such as "#3b82c4"."""
    return np.frombuffer(bytes.fromhex(colour.removeprefix("#")), dtype=np.uint8)


def draw_path(cells: Sequence[tuple[int, int]], colour: str, *, width: float, opacity: float = 1.0) -> Markup:
    """Draw a path through the centres of cells, given as rows and columns, in units of cells.

    A path that is opaque has a dark border, visible on any colour.
    """
    points = " ".join(f"{column + 0.5:g},{row + 0.5:g}" for row, column in cells)
    line = (
        '<polyline points="{}" fill="none" stroke="{}" stroke-width="{:g}" stroke-opacity="{:g}" '
        'stroke-linecap="round" stroke-linejoin="round"/>'
    )
    border = Markup(line).format(points, _CASING, width + 0.14, 1.0) if opacity == 1 else Markup()
    return border + Markup(line).format(points, colour, width, opacity)


def draw_outline(mask: Bool[np.ndarray, "H W"], colour: str, *, width: float, opacity: float = 1.0) -> Markup:
    """Draw the outline of the cells of a mask, also where they meet the border of the grid, in units of cells.

    An outline that is opaque has a dark border, visible on any colour.
    """
    moves = "".join(
        f"M{x} {y}{direction}{end}" if direction == "H" else f"M{y} {x}{direction}{end}"
        for direction, edges in (("H", _find_edges(mask)), ("V", _find_edges(mask.T)))
        for y, x, end in edges
    )
    line = '<path d="{}" fill="none" stroke="{}" stroke-width="{:g}" stroke-opacity="{:g}" stroke-linecap="square"/>'
    border = Markup(line).format(moves, _CASING, 2 * width, 1.0) if opacity == 1 else Markup()
    return border + Markup(line).format(moves, colour, width, opacity)


def draw_shares(shares: Float[np.ndarray, "H W"], colour: str, *, opacity: float = 1.0) -> Markup:
    """Draw a disc in each cell whose area is a share of the cell's largest disc: how often a cell is chosen."""
    disc = Markup(
        '<circle cx="{:g}" cy="{:g}" r="{:.3g}" fill="{}" fill-opacity="{:g}" stroke="{}" stroke-width=".04"/>'
    )
    return Markup().join(
        disc.format(column + 0.5, row + 0.5, 0.34 * shares[row, column] ** 0.5, colour, opacity, _CASING)
        for row, column in np.argwhere(shares > 0)
    )


def _find_edges(mask: Bool[np.ndarray, "H W"]) -> list[tuple[int, int, int]]:
    """Return the horizontal edges of a mask, as row, first and last column; edges that touch are one.

    Example:
        >>> import numpy as np
        >>> _find_edges(np.array([[False, True, True]]))
        [(0, 1, 3), (1, 1, 3)]
    """
    changes = np.diff(np.pad(mask, ((1, 1), (0, 0))).astype(np.int8), axis=0) != 0
    ends = np.diff(np.pad(changes, ((0, 0), (1, 1))).astype(np.int8), axis=1)
    begins, lasts = np.argwhere(ends == 1), np.argwhere(ends == -1)
    return [(int(y), int(x), int(end)) for (y, x), (_, end) in zip(begins, lasts, strict=True)]
