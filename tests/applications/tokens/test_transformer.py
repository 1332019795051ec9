"""A transformer that looks back alone."""

import pytest
import torch

from hardmax.applications.tokens.prior_model import CausalTransformer
from hardmax.errors import ArgumentError


def network():
    torch.manual_seed(0)
    return CausalTransformer(tokens=5, length=6, width=16, layers=2, heads=2).double()


def test_scores_know_nothing_of_what_comes():
    model, tokens = network(), torch.randint(5, (3, 6))
    before = model(tokens)
    for place in range(6):
        changed = tokens.clone()
        changed[:, place] = (changed[:, place] + 1) % 5
        apart = (model(changed) - before).abs().amax((0, 2))
        assert (apart[: place + 1] < 1e-12).all()
        assert (apart[place + 1 :] > 1e-6).all()  # and all of what was


def test_a_beginning_gets_the_scores_of_what_comes_next():
    model, tokens = network(), torch.randint(5, (3, 6))
    whole = model(tokens)
    for length in range(6):
        found = model(tokens[:, :length])
        assert found.shape == (3, length + 1, 5)
        torch.testing.assert_close(found, whole[:, : length + 1])


@pytest.mark.parametrize("wrong", [{"width": 15}, {"layers": 0}, {"tokens": 0}])
def test_numbers_that_make_no_transformer(wrong):
    with pytest.raises(ArgumentError, match="multiple of heads, got"):
        CausalTransformer(**{"tokens": 5, "length": 6, "width": 16, "layers": 1, "heads": 2, **wrong})
