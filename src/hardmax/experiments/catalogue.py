"""Which tables and figures there are, and what they are made of by name. No torch here."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import TypeVar

from hardmax.errors import ArgumentError
from hardmax.experiments.declaration import AbstractTrainings, Cell
from hardmax.experiments.measurement import Measurement, Part

# Each a module beside this one, with its EXPERIMENT.
NAMES = (
    "figure1",
    "table1",
    "figure2",
    "figure6",
    "figure3",
    "table2",
    "table2-ablation",
    "table2-grey",
    "figure4",
    "figure5",
    "dvae",
    "hashing",
    "completion",
    "gradient-quality",
    "epsilon",
    "bits-200",
    "categories-10x30",
    "sequences",
    "sequences-text",
)

_Item = TypeVar("_Item", Cell, Part)


def find_experiment(name: str) -> AbstractTrainings | Measurement:
    """Return a declaration by its name.

    Raises:
        ArgumentError: there is none of this name.
    """
    if name not in NAMES:
        near = get_close_matches(name.lower(), NAMES, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(NAMES)}"
        raise ArgumentError(f"no table or figure {name!r}; {hint}")
    return import_module(f"hardmax.experiments.{name.replace('-', '_')}").EXPERIMENT


def choose_cells(experiment: AbstractTrainings, names: Sequence[str] = ()) -> list[Cell]:
    """Return the cells of these names in the order of the table; without names, all.

    Raises:
        ArgumentError: a name is no cell's.
    """
    return _choose(experiment.name, "cell", experiment.cells, names)


def choose_parts(measurement: Measurement, names: Sequence[str] = ()) -> list[Part]:
    """Return the parts of these names in their order; without names, all.

    Raises:
        ArgumentError: a name is no part's.
    """
    return _choose(measurement.name, "part", measurement.parts, names)


def _choose(whose: str, what: str, items: Iterable[_Item], names: Sequence[str]) -> list[_Item]:
    known = {item.name: item for item in items}
    for name in names:
        if name not in known:
            near = get_close_matches(name.lower(), known, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise ArgumentError(f"{whose} has no {what} {name!r}; {hint}its {what}s are: {', '.join(known)}")
    return [item for name, item in known.items() if not names or name in names]
