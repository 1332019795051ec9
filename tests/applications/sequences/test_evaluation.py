"""Metrics of sequence generators, compared with draws and with scipy."""

from itertools import product

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon

from hardmax.applications.sequences.evaluation import (
    measure_coverage,
    measure_distinct,
    measure_divergence,
    measure_validity,
)


def test_validity_and_coverage_against_draws():
    generator = torch.Generator().manual_seed(0)
    q = torch.rand(20, generator=generator, dtype=torch.float64) ** 4
    q = q / q.sum()
    log_prob, draws, repeats = q[:15].log(), 12, 20_000  # the last five are not sentences
    drawn = torch.multinomial(q, draws * repeats, replacement=True, generator=generator).view(repeats, draws)
    assert measure_validity(log_prob) == pytest.approx(float(q[:15].sum()), abs=1e-12)
    shares = torch.stack([(drawn == i).any(1) for i in range(15)]).double().mean(0)
    z = (shares.mean() - measure_coverage(log_prob, draws)) / (shares.std() / repeats**0.5)
    assert abs(z) < 5
    assert abs(shares.mean() - measure_coverage(log_prob, draws - 1)) / (shares.std() / repeats**0.5) > 5


def test_coverage_at_the_ends():
    assert measure_coverage(torch.tensor([0.0, -torch.inf]), 1) == 0.5
    assert measure_coverage(torch.full((300,), -200.0), 3000) < 1e-60
    assert measure_coverage(torch.full((300,), 300.0).log().neg(), 3000) == pytest.approx(1 - np.exp(-10), abs=1e-5)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_divergence_against_scipy(n):
    generator = torch.Generator().manual_seed(n)
    first = torch.randint(3, (40, 6), generator=generator)
    second = torch.randint(1, 3, (30, 6), generator=generator)
    shares = []
    for sequences in (first, second):
        grams = [tuple(row[i : i + n]) for row in sequences.tolist() for i in range(6 - n + 1)]
        shares.append([grams.count(gram) / len(grams) for gram in product(range(3), repeat=n)])
    assert measure_divergence(first, second, n, 3) == pytest.approx(jensenshannon(*shares) ** 2, abs=1e-12)
    assert measure_divergence(second, first, n, 3) == pytest.approx(jensenshannon(*shares) ** 2, abs=1e-12)


def test_distinct():
    assert measure_distinct(torch.zeros(10, 4, dtype=torch.int64)) == 0.1
    assert measure_distinct(torch.arange(12).view(4, 3)) == 1
