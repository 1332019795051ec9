"""Small pictures with captions, of which a page shows rows."""

from collections.abc import Sequence
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from hardmax.report.pictures import data_uri, grid, shrink


@dataclass(frozen=True)
class Tile:
    """A picture with a caption.

    Attributes:
        source: the picture, inside its own address.
        width: its pixels.
        height: its pixels.
        alt: what it shows.
        caption: lines beneath it.
        mark: what to mark it as, if anything: unused, wrong.
    """

    source: str
    width: int
    height: int
    alt: str
    caption: tuple[str, ...] = ()
    mark: str = ""


@dataclass(frozen=True)
class Tiles:
    """Rows of tiles of one size.

    Attributes:
        note: how to read them.
        rows: a heading or nothing, and tiles.
    """

    note: str
    rows: Sequence[tuple[str, Sequence[Tile]]]

    @property
    def width(self) -> int:
        """Pixels of a tile."""
        return self.rows[0][1][0].width


def tile(
    pictures: Float[Tensor, "N channels H W"],
    alt: str,
    *caption: str,
    mark: str = "",
    columns: int = 1,
) -> Tile:
    """Make a tile of one picture, or of several in a column (or in several), with lines between but not around."""
    framed = grid(shrink(pictures), columns=columns, padding=1)
    drawn = framed.crop((1, 1, framed.width - 1, framed.height - 1))
    return Tile(data_uri(drawn), drawn.width, drawn.height, alt, caption, mark)


def spread(count: int, wanted: int) -> list[int]:
    """Return indices from all over a range, at most as many as wanted."""
    wanted = min(count, wanted)
    return [i * count // wanted for i in range(wanted)]
