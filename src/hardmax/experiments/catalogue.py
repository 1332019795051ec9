"""Which tables and figures there are, and their cells by name. No torch here."""

from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module

from hardmax.errors import ArgumentError
from hardmax.experiments.declaration import Cell, Experiment

NAMES = ("figure3",)  # each a module beside this one, with its EXPERIMENT


def find_experiment(name: str) -> Experiment:
    """Return a declaration by its name.

    Raises:
        ArgumentError: there is none of this name.
    """
    if name not in NAMES:
        near = get_close_matches(name.lower(), NAMES)
        hint = f"did you mean {' or '.join(near)}?" if near else f"there are: {', '.join(NAMES)}"
        raise ArgumentError(f"no table or figure {name!r}; {hint}")
    return import_module(f"hardmax.experiments.{name}").EXPERIMENT


def choose_cells(experiment: Experiment, names: Sequence[str] = ()) -> list[Cell]:
    """Return the cells of these names in the order of the table; without names, all.

    Raises:
        ArgumentError: a name is no cell's.
    """
    known = {cell.name: cell for cell in experiment.cells}
    for name in names:
        if name not in known:
            near = get_close_matches(name.lower(), known, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise ArgumentError(f"{experiment.name} has no cell {name!r}; {hint}its cells are: {', '.join(known)}")
    return [cell for name, cell in known.items() if not names or name in names]
