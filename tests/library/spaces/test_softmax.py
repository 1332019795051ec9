"""The softmax of short rows is torch's, with its gradients, its NaN and its transforms."""

import math

import pytest
import torch

from hardmax.spaces._softmax import log_softmax, softmax

SHAPES = [(3000, 2), (1, 100, 30, 10), (400, 15), (300, 16), (5, 3), (4000, 1), (0, 4)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("ours", "theirs"), [(softmax, torch.softmax), (log_softmax, torch.log_softmax)])
def test_values_and_gradients_are_those_of_torch(ours, theirs, shape):
    scores = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).mul(20)
    weight = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    scores.requires_grad_()
    result, expected = ours(scores), theirs(scores, -1)
    torch.testing.assert_close(result, expected, rtol=1e-12, atol=1e-14)
    assert result.is_contiguous()
    slope, expected_slope = (torch.autograd.grad((z * weight).sum(), scores)[0] for z in (result, expected))
    torch.testing.assert_close(slope, expected_slope, rtol=1e-10, atol=1e-13)


def test_masked_values_have_probability_zero_and_rows_without_values_are_nan():
    scores = torch.zeros(2000, 3)
    scores[:, 2] = -math.inf
    scores[0] = -math.inf
    assert softmax(scores)[0].isnan().all()
    assert log_softmax(scores)[0].isnan().all()
    assert softmax(scores)[1:].eq(torch.tensor([0.5, 0.5, 0.0])).all()


def test_vmap_is_the_same_as_a_batch():
    scores = torch.randn(4, 2000, 5)
    assert torch.vmap(softmax)(scores).allclose(softmax(scores))
