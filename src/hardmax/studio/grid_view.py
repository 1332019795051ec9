"""The element `<grid-view>`: an image of cells or pixels on which one paints or points, with layers over it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal, final

from markupsafe import Markup
from nicegui import events
from PIL import Image

from hardmax.drawing.images import encode_data_uri
from hardmax.studio.frame import Widget

_MOST_CELLS = 10_000  # of one event


@dataclass(frozen=True)
class CellStroke:
    """Cells that the user painted, or the one that was clicked.

    Attributes:
        cells: rows and columns, in order.
        done: whether the pointer was released, so that the next cells begin another stroke.
    """

    cells: tuple[tuple[int, int], ...]
    done: bool


@final
class GridView:
    """An image of cells on the page, which loads the script "grid_view.js".

    Keys: arrows move the cursor; with "paint", space paints its cell and Shift paints while it moves; with "point",
    every move is a click, and PageUp and PageDown scroll, as the wheel does.

    Args:
        label: what it shows, for readers who do not see it.
        on_cells: gets what is painted, several times for each stroke.
        on_scroll: gets the number of steps; only with "point".
        mode: "paint", or "point" if only the last cell matters.
    """

    def __init__(
        self,
        label: str,
        on_cells: Callable[[CellStroke], Awaitable[None] | None],
        *,
        on_scroll: Callable[[int], Awaitable[None] | None] | None = None,
        mode: Literal["paint", "point"] = "paint",
    ) -> None:
        self._view: dict[str, Any] = {
            "rows": 1, "columns": 1, "aspect": 1.0, "image": "", "layer": "", "drawing": "", "letters": "",
            "label": label, "brush": "#d97b29", "radius": 0.5, "mode": mode, "cursor": None, "sharp": True,
        }  # fmt: skip

        self.element = Widget("grid-view", self._view)

        async def receive_cells(event: events.GenericEventArguments) -> None:
            detail = event.args["detail"]
            stroke = CellStroke(self._check_cells(detail["cells"]), bool(detail["done"]))
            if (result := on_cells(stroke)) is not None:
                await result

        async def receive_scroll(event: events.GenericEventArguments) -> None:
            assert on_scroll is not None
            if (result := on_scroll(max(-1000, min(int(event.args["detail"]["steps"]), 1000)))) is not None:
                await result

        self.element.on("cells", receive_cells, args=[["detail"]])
        if on_scroll is not None:
            self.element.on("scroll", receive_scroll, args=[["detail"]])

    def show(self, **changes: Any) -> None:
        """Change what is shown.

        Args:
            **changes: `rows` and `columns`, the number of cells; `aspect`, width divided by height; `image` and
                `layer`, images, their data URIs, or None (the CSS variable `--layer-opacity` is that of the layer);
                `drawing`, SVG in units of cells; `letters` at the left, right, bottom and top; `brush`, a colour, and
                `radius`, of what is painted; `cursor`, row and column of the keyboard; `sharp`, whether pixels are
                enlarged as squares; `label`.
        """
        for name, value in changes.items():
            assert name in self._view
            if name in ("image", "layer"):
                value = encode_data_uri(value) if isinstance(value, Image.Image) else value or ""
            self._view[name] = str(value) if isinstance(value, Markup) else value
        self.element.show(dict(self._view))

    def _check_cells(self, cells: Any) -> tuple[tuple[int, int], ...]:
        """Return the cells of an event that are on the grid: the grid may have changed since the event."""
        pairs = [(int(row), int(column)) for row, column in cells[:_MOST_CELLS]]
        rows, columns = self._view["rows"], self._view["columns"]
        return tuple((row, column) for row, column in pairs if 0 <= row < rows and 0 <= column < columns)
