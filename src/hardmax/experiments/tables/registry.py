"""The tables and figures by name, and the cells and parts they consist of. No torch here."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from fnmatch import filter as matching
from importlib import import_module
from typing import TypeVar

from hardmax.errors import ArgumentError
from hardmax.experiments.tables.declaration import AbstractTrainings, Cell
from hardmax.experiments.tables.measurement import Measurement, Part

# name: module beside this one, which declares it under its name in capitals
_MODULES = {
    "figure1": "figure1",
    "table1": "table1",
    "figure2": "table1",
    "figure6": "table1",
    "figure3": "figure3",
    "table2": "table2",
    "table2-ablation": "table2",
    "table2-grey": "table2",
    "figure4": "figure4",
    "figure5": "figure5",
    "dvae": "dvae",
    "hashing": "hashing",
    "completion": "completion",
    "gradient-quality": "gradient_quality",
    "epsilon": "epsilon",
    "bits-200": "few_evaluations",
    "categories-10x30": "few_evaluations",
    "sequences": "sequences",
    "sequences-text": "sequences",
}
NAMES = tuple(_MODULES)

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
    return getattr(import_module(f"hardmax.experiments.tables.{_MODULES[name]}"), name.replace("-", "_").upper())


def choose_cells(experiment: AbstractTrainings, names: Sequence[str] = ()) -> list[Cell]:
    """Return the cells of these names in the order of the table; without names, all.

    A name may be a pattern of a shell: `mnist-*-direct` is all of that method on MNIST.

    Raises:
        ArgumentError: a name is no cell's.
    """
    return _choose(experiment.name, "cell", experiment.cells, names)


def choose_seeds(experiment: AbstractTrainings, seeds: Sequence[int] = (), *, quick: bool = False) -> list[int]:
    """Return these seeds in the order of the table, or of its quick form; without seeds, all.

    Raises:
        ArgumentError: the table is not made with one of them.
    """
    known = experiment.quick.seeds if quick else experiment.seeds
    for seed in seeds:
        if seed not in known:
            form = f"the quick form of {experiment.name}" if quick else experiment.name
            raise ArgumentError(f"{form} has no seed {seed}; its seeds are: {', '.join(map(str, known))}")
    return [seed for seed in known if not seeds or seed in seeds]


def choose_parts(measurement: Measurement, names: Sequence[str] = ()) -> list[Part]:
    """Return the parts of these names, or patterns, in their order; without names, all.

    Raises:
        ArgumentError: a name is no part's.
    """
    return _choose(measurement.name, "part", measurement.parts, names)


def _choose(whose: str, what: str, items: Iterable[_Item], names: Sequence[str]) -> list[_Item]:
    known = {item.name: item for item in items}
    chosen: set[str] = set()
    for name in names:
        found = matching(known, name)
        if not found:
            near = get_close_matches(name.lower(), known, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise ArgumentError(f"{whose} has no {what} {name!r}; {hint}its {what}s are: {', '.join(known)}")
        chosen.update(found)
    return [item for name, item in known.items() if not names or name in chosen]
