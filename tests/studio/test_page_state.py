"""The state of a page in its address."""

from dataclasses import dataclass
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardmax.errors import ArgumentError
from hardmax.studio.gradients.state import FUNCTIONS, SIZES, LabState
from hardmax.studio.page_state import make_address_script, read_state, write_state

numbers = st.floats(-4, 4).map(lambda value: float(f"{value:.6g}"))


@st.composite
def fields(draw):
    space = draw(st.sampled_from(sorted(SIZES)))
    least, _, most = SIZES[space]
    size = draw(st.integers(least, most))
    return {
        "space": space,
        "size": size,
        "f": draw(st.sampled_from([f for f in FUNCTIONS[space] if f != "table" or size <= 4])),
        "seed": draw(st.integers(0, 99)),
        "samples": draw(st.integers(0, 16)),
        "scores": tuple(draw(st.lists(numbers, max_size=9))),
        "worth": tuple(draw(st.lists(numbers, max_size=9))),
        "estimators": tuple(draw(st.lists(st.sampled_from(["exact", "direct:0.25", "reinforce"]), max_size=3))),
    }


@given(fields())
def test_a_link_restores_the_state(values):
    state = LabState(**values)
    assert read_state(LabState, dict(parse_qsl(write_state(state), keep_blank_values=True))) == state


@pytest.mark.parametrize("space", SIZES)
def test_the_example_of_a_space_needs_no_more_than_its_name(space):
    assert write_state(LabState(space=space)) == ("" if space == "categorical" else f"space={space}")


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"scores": "1,x"}, "--scores must be a number, got 'x'"),
        ({"space": "moon"}, "--space must be one of"),
        ({"draws": "--help"}, "--draws must be a whole number"),
        ({"estimators": "exact,--seed"}, "--seed"),
    ],
)
def test_invalid_addresses_are_one_sentence(query, message):
    with pytest.raises(ArgumentError, match=message):
        read_state(LabState, query)


def test_unknown_names_are_ignored():
    assert read_state(LabState, {"utm_source": "x", "token": "y"}) == LabState()


def test_booleans_are_true_or_false():
    @dataclass(frozen=True)
    class State:
        """One switch."""

        on: bool = True
        """A switch."""

    assert write_state(State(on=False)) == "on=false"
    assert read_state(State, {"on": "false"}) == State(on=False)
    with pytest.raises(ArgumentError, match="true or false"):
        read_state(State, {"on": "maybe"})


def test_the_script_quotes_the_query():
    assert "'+alert" not in make_address_script("a='+alert(1)+'").replace("\"?a='+alert(1)+'\"", "")
