"""The errors of hardmax: one line of visible characters."""

import pickle

import pytest

from hardmax import errors
from hardmax.errors import DataError, HardmaxError

ALL = [error for error in vars(errors).values() if isinstance(error, type) and issubclass(error, HardmaxError)]


@pytest.mark.parametrize("error", ALL)
def test_a_message_is_one_line(error):
    r"""Also if it quotes a name from a file; a path that is not UTF-8 can be printed."""
    caught = error("the file 'a\n\x1b[31mb\udcff' is broken")
    assert str(caught) == r"the file 'a\n\x1b[31mb\udcff' is broken"
    str(caught).encode()
    assert str(error(f"again: {caught}")) == f"again: {caught}"
    assert str(pickle.loads(pickle.dumps(caught))) == str(caught)


def test_an_ordinary_message_is_unchanged():
    assert str(DataError("ü ≤ 3; give another one")) == "ü ≤ 3; give another one"
