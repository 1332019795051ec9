"""Grids and strokes in links."""

import base64
import contextlib
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardmax.errors import ArgumentError
from hardmax.studio.page_state import read_state, write_state
from hardmax.studio.solver.encoding import (
    decode_grid,
    decode_strokes,
    encode_grid,
    encode_strokes,
    round_values,
)
from hardmax.studio.solver.examples import make_example
from hardmax.studio.solver.image_cut import Stroke
from hardmax.studio.solver.problems import PROBLEMS, solve_problem
from hardmax.studio.solver.state import SolverState, make_setting, store_grids

_POINTS = st.lists(st.tuples(st.integers(0, 300), st.integers(0, 300)), min_size=1, max_size=9)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.sampled_from((-1, 0, 1)), st.sampled_from((0.5, 4.0, 16.0)), _POINTS), max_size=4))
def test_strokes_survive(parts):
    strokes = tuple(Stroke(kind, radius, tuple(points)) for kind, radius, points in parts)
    assert decode_strokes(encode_strokes(strokes)) == strokes


@given(st.lists(st.integers(-128, 240), min_size=4, max_size=4))
def test_grids_survive(numbers):
    values = np.array(numbers).reshape(2, 2) / 16
    assert (decode_grid(encode_grid(values), 2, 2) == values).all()
    assert (round_values(values + 0.01) == values).all()


@given(st.text(max_size=40))
def test_broken_words_are_refused(word):
    for decode in (lambda: decode_grid(word, 3, 3), lambda: decode_strokes(word)):
        with contextlib.suppress(ArgumentError):  # any other error fails
            decode()


def test_a_bomb_is_refused():
    bomb = base64.urlsafe_b64encode(zlib.compress(bytes(10**7), 9)).decode()
    for decode in (lambda: decode_grid(bomb, 3, 3), lambda: decode_strokes(bomb)):
        with pytest.raises(ArgumentError, match="holds too much"):
            decode()
    with pytest.raises(ArgumentError, match="another size than 3 x 3"):
        decode_grid(encode_grid(np.zeros((2, 2))), 3, 3)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_link_restores_what_was_painted(problem):
    state = SolverState(problem, noise=0.25)
    setting = make_setting(state)
    values = setting.values.clone()
    values[0, 1] = PROBLEMS[problem].most
    painted = store_grids(state, values, -setting.worth)
    query = dict(pair.split("=") for pair in write_state(painted).split("&"))
    restored = make_setting(read_state(SolverState, query))
    assert (restored.values == values).all()
    assert (restored.worth == -setting.worth).all()
    assert solve_problem(restored).value == solve_problem(make_setting(painted)).value


@pytest.mark.parametrize("problem", PROBLEMS)
def test_examples_are_within_what_can_be_painted(problem):
    for size in PROBLEMS[problem].sizes:
        values, worth = make_example(problem, size, 0)
        assert values.shape == worth.shape == (size, size)
        assert values.min() >= PROBLEMS[problem].least
        assert values.max() <= PROBLEMS[problem].most
        assert (round_values(values) == values).all()
        assert worth.any()
    assert (make_example(problem, 8, 0)[0] != make_example(problem, 8, 1)[0]).any()
