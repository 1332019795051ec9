"""Registry of the spaces by their names on the command line and in saved models. Does not import torch."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hardmax.spaces import AbstractSpace


# Options of `hardmax train` that describe a space: an object with the fields space, variables, categories,
# chosen, supermodular, graph and solver.
SpaceOptions = Any


@dataclass(frozen=True)
class SpaceRecord:
    """An entry of the registry: a space on the command line.

    Attributes:
        name: its name for `--space` and in saved models.
        kind: name of its class in `hardmax.spaces`.
        options: the options that it uses, in addition to the number of variables.
        make: function from the class and the options to the space.
        describe: function from the options to a description of z.
        variable: noun for one of its variables.
        value: noun for a value of a variable.
    """

    name: str
    kind: str
    options: tuple[str, ...]
    make: "Callable[[Any, SpaceOptions], AbstractSpace]"
    describe: Callable[[SpaceOptions], str]
    variable: str
    value: str = "value"


def _bits(options: SpaceOptions) -> str:
    return f"{options.variables} bits" if options.variables > 1 else "one bit"


def _categorical(options: SpaceOptions) -> str:
    variables = "one categorical variable" if options.variables == 1 else f"{options.variables} categorical variables"
    return f"{variables} of {options.categories} values"


def _pairwise(options: SpaceOptions) -> str:
    pairs = "in pairs" if options.graph == "complete" else "each with the next"
    return f"{_bits(options)} that interact {pairs}{' and never repel' * options.supermodular}"


def _make_pairwise(kind: Any, options: SpaceOptions) -> "AbstractSpace":
    n = options.variables
    edges = [(i, i + 1) for i in range(n - 1)] if options.graph == "chain" else None
    return kind(n, edges, options.supermodular, options.solver)


_RECORDS = (
    SpaceRecord(
        "categorical",
        "Categorical",
        ("categories",),
        lambda kind, o: kind(o.categories, None if o.variables == 1 else o.variables),
        _categorical,
        "variable",
    ),
    SpaceRecord("binary", "Binary", (), lambda kind, o: kind(o.variables), _bits, "bit"),
    SpaceRecord("pairwise", "PairwiseBinary", ("supermodular", "graph", "solver"), _make_pairwise, _pairwise, "bit"),
    SpaceRecord(
        "subset",
        "Subset",
        ("chosen",),
        lambda kind, o: kind(o.variables, o.chosen),
        lambda o: f"subsets of {o.chosen} out of {o.variables} items",
        "item",
    ),
    SpaceRecord(
        "chain",
        "Chain",
        ("categories",),
        lambda kind, o: kind(o.variables, o.categories),
        lambda o: f"chains of {o.variables} places with {o.categories} states",
        "place",
        "state",
    ),
    SpaceRecord(
        "permutation",
        "Permutation",
        (),
        lambda kind, o: kind(o.variables),
        lambda o: f"permutations of {o.variables} items",
        "item",
        "place",
    ),
    SpaceRecord(
        "spanning-tree",
        "SpanningTree",
        (),
        lambda kind, o: kind(o.variables),
        lambda o: f"spanning trees of {o.variables} nodes",
        "edge",
    ),
)
SPACES = {record.name: record for record in _RECORDS}


def load_space_class(name: str) -> "type[AbstractSpace]":
    """Import the class of a space by name.

    Raises:
        KeyError: an unknown space.
    """
    import hardmax.spaces as spaces

    return getattr(spaces, SPACES[name].kind)


def make_space(options: SpaceOptions) -> "AbstractSpace":
    """Create the space that the options describe."""
    return SPACES[options.space].make(load_space_class(options.space), options)


def unused_options(name: str) -> set[str]:
    """Return the options of other spaces that this space does not use."""
    return {option for record in _RECORDS for option in record.options} - set(SPACES[name].options)
