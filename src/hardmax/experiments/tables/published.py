"""Published numbers, from the JSON files next to the declarations, with their sources. No torch here."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

from hardmax.experiments.tables.declaration import make_slug


@dataclass(frozen=True)
class Floor:
    """A reference value, which no method of this kind can get far below.

    Attributes:
        name: its name on pages.
        what: its explanation, for the reader.
        values: values by the problem of the cells.
    """

    name: str
    what: str
    values: Mapping[str, float]


@dataclass(frozen=True)
class Published:
    """Published numbers of one metric in one table, by cell.

    Attributes:
        source: document and table.
        what: explanation of the numbers, for the reader.
        values: numbers by the name of the cell, in the metric's unit.
        other_data: problems for which the published data differ from ours, with an explanation for the reader.
        floor: reference value below all of them, if it is known.
    """

    source: str
    what: str
    values: Mapping[str, float]
    other_data: Mapping[str, str]
    floor: Floor | None

    def list_values(self, problem: str) -> list[float]:
        """Return all numbers of a problem, including those of methods that have no cell."""
        return [value for name, value in self.values.items() if name.startswith(f"{make_slug(problem)}-")]


def read_published(file: str) -> dict[str, Published]:
    """Return the numbers in a file next to the declarations, by the key of their metric."""
    path = resources.files("hardmax.experiments.tables").joinpath(file)
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    source = f"{content['document']}, {content['table']}"
    return {key: _parse_metric(source, metric) for key, metric in content["metrics"].items()}


def _parse_metric(source: str, content: Mapping[str, Any]) -> Published:
    other = content.get("other_data", {"problems": [], "why": ""})
    return Published(
        source=source,
        what=content["what"],
        values={cell: number["value"] for cell, number in content["values"].items()},
        other_data={problem: str(other["why"]) for problem in other["problems"]},
        floor=Floor(**content["floor"]) if "floor" in content else None,
    )
