import math

import pytest
import torch

from hardmax.metrics.codes import measure_alive, perplexity


def test_perplexity_of_known_distributions():
    assert perplexity(torch.full((8,), 1 / 8)).item() == pytest.approx(8)
    assert perplexity(torch.tensor([0.5, 0.5, 0.0])).item() == pytest.approx(2)
    p = torch.tensor([0.9, 0.1])
    assert perplexity(p).item() == pytest.approx(math.exp(-0.9 * math.log(0.9) - 0.1 * math.log(0.1)))


def test_a_code_that_occurs_once_is_not_alive():
    assert measure_alive(torch.tensor([1000, 1000, 1])) == pytest.approx(2 / 3)
    assert measure_alive(torch.tensor([100, 100, 10])) == 1.0
    assert measure_alive(torch.zeros(4)) == 0.0
    assert measure_alive(torch.tensor([0.5, 0.5, 0.0, 0.0])) == 0.5  # shares, too
