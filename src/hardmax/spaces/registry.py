"""Registry of spaces by name, for the command line and saved models. Does not import torch."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hardmax.errors import ArgumentError

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
        count_scores: function from the options to the number of its scores; computes nothing else.
        variable: noun for one of its variables.
        value: noun for a value of a variable.
    """

    name: str
    kind: str
    options: tuple[str, ...]
    make: "Callable[[Any, SpaceOptions], AbstractSpace]"
    describe: Callable[[SpaceOptions], str]
    count_scores: Callable[[SpaceOptions], int]
    variable: str
    value: str = "value"


def _describe_bits(options: SpaceOptions) -> str:
    return f"{options.variables} bits" if options.variables > 1 else "one bit"


def _describe_categorical(options: SpaceOptions) -> str:
    variables = "one categorical variable" if options.variables == 1 else f"{options.variables} categorical variables"
    return f"{variables} of {options.categories} values"


def _describe_pairwise(options: SpaceOptions) -> str:
    pairs = "in pairs" if options.graph == "complete" else "in a chain"
    return f"{_describe_bits(options)} that interact {pairs}{', with non-negative couplings' * options.supermodular}"


def _count_pairs(n: int) -> int:
    return n * (n - 1) // 2


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
        _describe_categorical,
        lambda o: o.variables * o.categories,
        "variable",
    ),
    SpaceRecord(
        "binary", "Binary", (), lambda kind, o: kind(o.variables), _describe_bits, lambda o: o.variables, "bit"
    ),
    SpaceRecord(
        "pairwise",
        "PairwiseBinary",
        ("supermodular", "graph", "solver"),
        _make_pairwise,
        _describe_pairwise,
        lambda o: o.variables + (_count_pairs(o.variables) if o.graph == "complete" else o.variables - 1),
        "bit",
    ),
    SpaceRecord(
        "subset",
        "Subset",
        ("chosen",),
        lambda kind, o: kind(o.variables, o.chosen),
        lambda o: f"subsets of {o.chosen} out of {o.variables} items",
        lambda o: o.variables,
        "item",
    ),
    SpaceRecord(
        "chain",
        "Chain",
        ("categories",),
        lambda kind, o: kind(o.variables, o.categories),
        lambda o: f"chains of {o.variables} places with {o.categories} states",
        lambda o: (o.variables - 1) * o.categories**2,
        "place",
        "state",
    ),
    SpaceRecord(
        "permutation",
        "Permutation",
        (),
        lambda kind, o: kind(o.variables),
        lambda o: f"permutations of {o.variables} items",
        lambda o: o.variables**2,
        "item",
        "place",
    ),
    SpaceRecord(
        "spanning-tree",
        "SpanningTree",
        (),
        lambda kind, o: kind(o.variables),
        lambda o: f"spanning trees of {o.variables} nodes",
        lambda o: _count_pairs(o.variables),
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


_MAX_SCORES = 10_000_000  # of one z; the last layer of an encoder with this number has gigabytes of weights


def check_space_options(options: SpaceOptions) -> None:
    """Check that a space is not far too large, before anything is computed for it.

    Raises:
        ArgumentError: it has more than ten million scores, or is unknown.
    """
    if options.space not in SPACES:
        raise ArgumentError(f"there is no space {str(options.space)[:80]!r}; there are: {', '.join(SPACES)}")
    count = SPACES[options.space].count_scores(options)
    if count > _MAX_SCORES:
        raise ArgumentError(
            f"variables={options.variables} and categories={options.categories} of the space {options.space} make "
            f"{count:,} scores for one z, and at most {_MAX_SCORES:,} are possible; give fewer"
        )


def make_space(options: SpaceOptions) -> "AbstractSpace":
    """Create the space that the options describe."""
    return SPACES[options.space].make(load_space_class(options.space), options)


def find_unused_options(name: str) -> set[str]:
    """Return the options of other spaces that this space does not use."""
    return {option for record in _RECORDS for option in record.options} - set(SPACES[name].options)
