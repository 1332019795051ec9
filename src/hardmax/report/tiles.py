"""Small pictures with captions, of which a page shows rows: here, reconstructions and samples."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.report.pictures import data_uri, grid, shrink
from hardmax.report.run import Run
from hardmax.report.usage import Usage

_RECONSTRUCTIONS, _SAMPLES = 12, 64


@dataclass(frozen=True)
class Tile:
    """A picture with a caption.

    Attributes:
        source: the picture, inside its own address.
        width: its pixels.
        height: its pixels.
        alt: what it shows.
        caption: lines beneath it.
        dead: whether to mark it as unused.
    """

    source: str
    width: int
    height: int
    alt: str
    caption: tuple[str, ...] = ()
    dead: bool = False


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
    dead: bool = False,
    columns: int = 1,
) -> Tile:
    """Make a tile of one picture, or of several in a column (or in several), with lines between but not around."""
    framed = grid(shrink(pictures), columns=columns, padding=1)
    drawn = framed.crop((1, 1, framed.width - 1, framed.height - 1))
    return Tile(data_uri(drawn), drawn.width, drawn.height, alt, caption, dead)


def reconstructions(run: Run, usage: Usage) -> Tiles:
    """Return test pictures, from all over the test set, above the decodings of their best codes."""
    index = spread(len(run.pictures), _RECONSTRUCTIONS)
    pairs = torch.stack([run.pictures[index], run.model.decode(usage.codes[index])], 1)
    tiles = [tile(pair, f"test picture {i} above its reconstruction") for i, pair in zip(index, pairs, strict=True)]
    return Tiles("Above, a test picture; below, what the decoder makes of its best code.", [("", tiles)])


def samples(run: Run, generator: torch.Generator) -> Tiles:
    """Return one tile: the mean pictures of codes drawn from the prior."""
    pictures = run.model.sample(_SAMPLES, generator=generator)[0]
    prior = "uniform" if run.model.prior is None else "learned"
    note = f"Codes drawn from the {prior} prior; each picture is the mean of p(x | z)."
    return Tiles(note, [("", [tile(pictures, f"{_SAMPLES} pictures drawn from the model", columns=8)])])


def spread(count: int, wanted: int) -> list[int]:
    """Return indices from all over a range, at most as many as wanted."""
    wanted = min(count, wanted)
    return [i * count // wanted for i in range(wanted)]
