"""Numbers that others published, from the JSON files beside the declarations, with where they stand. No torch here."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

from hardmax.experiments.tables.declaration import make_slug


@dataclass(frozen=True)
class Floor:
    """What nothing of this kind gets far below.

    Attributes:
        name: what a reader sees.
        what: it is, for the reader.
        values: by the problem of the cells.
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
        other_data: problems whose numbers are of other pictures than ours, and why, for the reader.
        floor: under all of them, where it is known.
    """

    source: str
    what: str
    values: Mapping[str, float]
    other_data: Mapping[str, str]
    floor: Floor | None

    def of_problem(self, problem: str) -> list[float]:
        """Return all numbers of a problem, also of cells that are not ours."""
        return [value for name, value in self.values.items() if name.startswith(f"{make_slug(problem)}-")]


def read_published(file: str) -> dict[str, Published]:
    """Return the numbers in a file beside the declarations, by the key of their metric."""
    path = resources.files("hardmax.experiments.tables").joinpath(file)
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    source = f"{content['document']}, {content['table']}"
    return {key: _published(source, own) for key, own in content["metrics"].items()}


def _published(source: str, content: Mapping[str, Any]) -> Published:
    other = content.get("other_data", {"problems": [], "why": ""})
    return Published(
        source=source,
        what=content["what"],
        values={cell: number["value"] for cell, number in content["values"].items()},
        other_data={problem: str(other["why"]) for problem in other["problems"]},
        floor=Floor(**content["floor"]) if "floor" in content else None,
    )
