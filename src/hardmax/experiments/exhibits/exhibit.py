"""What a gallery shows of one model. No torch here."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Exhibit:
    """A grid of pictures, and numbers beneath it.

    Attributes:
        picture: all of the grid as one PNG, inside its own address.
        heads: what stands above each column of the grid.
        rows: how many the grid has.
        numbers: lines of numbers by the keys of metrics; `of` says what a line is about, where there are several.
    """

    picture: str
    heads: Sequence[str]
    rows: int
    numbers: Sequence[Mapping[str, Any]]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, for JSON."""
        return asdict(self)
