"""Numbers that others published, from the JSON files beside the declarations, with where they stand. No torch here."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

from hardmax.experiments.tables.declaration import slug


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
    """What was published of one metric in one table, cell by cell.

    Attributes:
        source: document and table.
        what: the numbers are, for the reader.
        values: by the name of the cell, in the metric's unit.
        other_data: columns whose numbers are of other pictures than ours, and why, for the reader.
        floor: under all of them, where it is known.
    """

    source: str
    what: str
    values: Mapping[str, float]
    other_data: Mapping[str, str]
    floor: Floor | None

    def of_problem(self, column: str) -> list[float]:
        """Return all numbers of a column of cells, also of cells that are not ours."""
        return [value for name, value in self.values.items() if name.startswith(f"{slug(column)}-")]


def read_published(file: str) -> dict[str, Published]:
    """Return the numbers in a file beside the declarations, by the key of their metric."""
    path = resources.files("hardmax.experiments.tables").joinpath(file)
    said: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    source = f"{said['document']}, {said['table']}"
    return {key: _published(source, own) for key, own in said["metrics"].items()}


def _published(source: str, said: Mapping[str, Any]) -> Published:
    other = said.get("other_data", {"columns": [], "why": ""})
    return Published(
        source=source,
        what=said["what"],
        values={cell: number["value"] for cell, number in said["values"].items()},
        other_data={column: str(other["why"]) for column in other["columns"]},
        floor=Floor(**said["floor"]) if "floor" in said else None,
    )
