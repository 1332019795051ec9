"""The causal transformer: the scores of a token depend only on the tokens before it."""

import pytest
import torch

from hardmax.applications.tokens.prior_model import CausalTransformer
from hardmax.errors import ArgumentError


def network():
    torch.manual_seed(0)
    return CausalTransformer(tokens=5, length=6, width=16, layers=2, heads=2).double()


def test_scores_do_not_depend_on_later_tokens():
    model, tokens = network(), torch.randint(5, (3, 6))
    before = model(tokens)
    for place in range(6):
        changed = tokens.clone()
        changed[:, place] = (changed[:, place] + 1) % 5
        difference = (model(changed) - before).abs().amax((0, 2))
        assert (difference[: place + 1] < 1e-12).all()
        assert (difference[place + 1 :] > 1e-6).all()  # but on all earlier ones


def test_a_prefix_gets_the_scores_of_the_next_token():
    model, tokens = network(), torch.randint(5, (3, 6))
    scores = model(tokens)
    for length in range(6):
        prefix_scores = model(tokens[:, :length])
        assert prefix_scores.shape == (3, length + 1, 5)
        torch.testing.assert_close(prefix_scores, scores[:, : length + 1])


@pytest.mark.parametrize("wrong", [{"width": 15}, {"layers": 0}, {"tokens": 0}])
def test_numbers_that_make_no_transformer(wrong):
    with pytest.raises(ArgumentError, match="multiple of heads, got"):
        CausalTransformer(**{"tokens": 5, "length": 6, "width": 16, "layers": 1, "heads": 2, **wrong})
