"""Invalid tokens raise errors of hardmax."""

import pytest
import torch

import hardmax as hm
from hardmax.applications.tokens import TokenVAE

pytestmark = pytest.mark.plain  # without shape checks


@pytest.mark.parametrize(
    ("tokens", "error", "message"),
    [
        (torch.zeros(2, 3, 3, dtype=torch.long), hm.ShapeError, r"\[2, 3, 3\], expected \[B, 2, 2\]"),
        (torch.zeros(2, 2, 2), hm.DtypeError, "whole numbers, got torch.float32"),
        (torch.full((2, 2, 2), 3), hm.ArgumentError, "from 0 to 2, got 3 to 3; do they belong to another model"),
        (torch.full((2, 2, 2), -1), hm.ArgumentError, "from 0 to 2, got -1 to -1"),
    ],
)
def test_invalid_tokens(tokens, error, message):
    with pytest.raises(error, match=message):
        TokenVAE.build((1, 4, 4), 3, longest=2).detokenize(tokens)


def test_an_empty_batch():
    model = TokenVAE.build((1, 4, 4), 3, longest=2)
    empty = torch.zeros(0, 1, 4, 4)
    assert model.tokenize(empty).shape == (0, 2, 2)
    assert model.detokenize(model.tokenize(empty)).shape == (0, 1, 4, 4)
    assert model(empty).value.shape == (0,)


@pytest.mark.parametrize("weight", [-1.0, float("nan"), float("inf")])
def test_an_invalid_weight_of_the_kl(weight):
    with pytest.raises(hm.ArgumentError, match="kl_weight must be a number that is not negative"):
        TokenVAE.build((1, 4, 4), 3, longest=2)(torch.zeros(1, 1, 4, 4), kl_weight=weight)
