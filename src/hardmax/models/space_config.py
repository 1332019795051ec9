"""A space as JSON, and back."""

from dataclasses import fields, is_dataclass
from typing import Any

from hardmax.errors import ArgumentError
from hardmax.spaces import (
    AbstractSpace,
    Binary,
    Categorical,
    Chain,
    PairwiseBinary,
    Permutation,
    SpanningTree,
    Subset,
)

_SPACES = {
    "categorical": Categorical,
    "binary": Binary,
    "pairwise": PairwiseBinary,
    "subset": Subset,
    "chain": Chain,
    "permutation": Permutation,
    "spanning-tree": SpanningTree,
}


def space_to_config(space: AbstractSpace) -> dict[str, Any]:
    """Return a space's name and what it was made with; `vars` would also give what it has computed since.

    Raises:
        ArgumentError: a space that is not ours.
    """
    names = [name for name, kind in _SPACES.items() if isinstance(space, kind)]
    if not names or not is_dataclass(space):
        raise ArgumentError(f"no network of ours serves {space}; make the model with your own networks, not by build")
    return {"name": names[0], **{field.name: getattr(space, field.name) for field in fields(space)}}


def space_from_config(config: dict[str, Any]) -> AbstractSpace:
    """Return the space that `space_to_config` told of; KeyError or TypeError if there is none such."""
    arguments = dict(config)
    return _SPACES[arguments.pop("name")](**arguments)
