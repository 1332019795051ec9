"""Numbers that others published, from `paper/*.json`, with where they stand. No torch here."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any


@dataclass(frozen=True)
class Floor:
    """What nothing of this kind gets far below.

    Attributes:
        name: what a reader sees.
        what: it is, for the reader.
        values: by the column of the cells.
    """

    name: str
    what: str
    values: Mapping[str, float]


@dataclass(frozen=True)
class Published:
    """A published table, cell by cell.

    Attributes:
        source: document and table.
        what: the numbers are, for the reader.
        values: by the name of the cell.
        other_data: columns whose numbers are of other pictures than ours, and why, for the reader.
        floor: under all of them, where it is known.
    """

    source: str
    what: str
    values: Mapping[str, float]
    other_data: Mapping[str, str]
    floor: Floor | None

    def best(self, cells: Iterable[str]) -> float | None:
        """Return the lowest number of these cells, None where none has one."""
        return min((self.values[name] for name in cells if name in self.values), default=None)


def read_published(file: str) -> Published:
    """Return the numbers in a file of `paper/`."""
    path = resources.files("hardmax.experiments").joinpath("paper", file)
    said: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    other = said.get("other_data", {"columns": [], "why": ""})
    return Published(
        source=f"{said['document']}, {said['table']}",
        what=said["what"],
        values={cell: number["value"] for cell, number in said["values"].items()},
        other_data={column: str(other["why"]) for column in other["columns"]},
        floor=Floor(**said["floor"]) if "floor" in said else None,
    )
