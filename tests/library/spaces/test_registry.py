"""The spaces of the command line: their sizes are known, and checked, before they are created."""

from dataclasses import replace
from math import prod

import pytest

from hardmax.applications.discrete_vae.config import DiscreteConfig
from hardmax.errors import ArgumentError
from hardmax.spaces.registry import SPACES, make_space

OPTIONS = [DiscreteConfig(space=name, variables=5, categories=3, chosen=2) for name in SPACES]
OPTIONS += [replace(OPTIONS[0], variables=1), DiscreteConfig(space="pairwise", variables=5, graph="chain")]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: f"{options.space} {options.variables} {options.graph}")
def test_the_number_of_scores(options):
    assert SPACES[options.space].count_scores(options) == prod(make_space(options).score_shape)


@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("variables", [10**8, 2**63])
def test_spaces_that_fit_into_no_memory_are_refused_at_once(name, variables):
    """Also those of the configuration of a run that someone else made."""
    with pytest.raises(ArgumentError, match=rf"of the space {name} make .* scores for one z, and at most 10,000,000"):
        DiscreteConfig(space=name, variables=variables)
