"""What a figure shows where: its panels, and the cells that share one. No torch here."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Panel:
    """The metric of some cells against epochs or seconds.

    Attributes:
        by: what is on the horizontal axis; seconds are those of training alone.
        column: cells of this column are drawn; without it, all are. Panels of one column share their vertical axis.
    """

    by: Literal["epoch", "seconds"]
    column: str | None = None


@dataclass(frozen=True)
class Picture:
    """A picture of a table or figure.

    Attributes:
        rows: of panels, from the top.
        name: what its file's name ends in, where the table or figure has several pictures.
        title: what it adds to the title of the table or figure.
    """

    rows: tuple[tuple[Panel, ...], ...] = ((Panel("epoch"), Panel("seconds")),)
    name: str = ""
    title: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        """Those that have panels of their own; none where all cells share the panels."""
        return tuple(dict.fromkeys(panel.column for row in self.rows for panel in row if panel.column is not None))
