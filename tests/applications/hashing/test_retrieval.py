"""Precision against brute force over all orders of codes at the same distance."""

from itertools import pairwise, permutations

import numpy as np
import pytest
import torch

from hardmax.applications.hashing.retrieval import (
    measure_code_precision,
    measure_vector_average_precision,
    measure_vector_precision,
    rank_codes,
)
from hardmax.applications.hashing.search import pack
from hardmax.errors import ArgumentError


def by_all_orders(query, wanted, bits, labels, k):
    """Return the precision, averaged over every order of the codes that keeps nearer ones first."""
    distances, precisions = (bits != query).sum(1), []
    for order in permutations(range(len(bits))):
        if all(distances[a] <= distances[b] for a, b in pairwise(order)):
            precisions.append(np.mean([labels[i] == wanted for i in order[:k]]))
    return np.mean(precisions)


def test_codes_with_ties():
    random = np.random.default_rng(0)
    bits, labels = random.random((7, 3)) < 0.5, random.integers(0, 3, 7)
    queries, wanted = random.random((4, 3)) < 0.5, np.array([0, 1, 2, 3])  # no code is of the last class
    precisions = measure_code_precision(pack(queries), wanted, pack(bits), labels, (1, 2, 5, 7))
    for k, value in zip((1, 2, 5, 7), precisions, strict=True):
        expected = [by_all_orders(*pair, bits, labels, k) for pair in zip(queries, wanted, strict=True)]
        assert value == pytest.approx(np.mean(expected))
    # Taking the first of the tied codes would give another number.
    first = [np.argsort((bits != query).sum(1), kind="stable")[:2] for query in queries]
    assert precisions[1] != pytest.approx(
        np.mean([(labels[i] == label).mean() for i, label in zip(first, wanted, strict=True)])
    )


def test_many_queries_and_long_codes():
    random = np.random.default_rng(1)
    bits, labels = random.random((900, 100)) < 0.5, random.integers(0, 4, 900)
    precisions = measure_code_precision(pack(bits[:450]), labels[:450], pack(bits), labels, (1, 900))
    assert precisions[0] == 1  # every query finds itself
    assert precisions[1] == pytest.approx(np.mean([(labels == label).mean() for label in labels[:450]]))


def test_unknown_labels_are_ignored_and_match_nothing():
    codes, labels = pack(np.eye(4, dtype=bool)), np.array([0, -1, 1, 0])
    assert measure_code_precision(codes[:2], labels[:2], codes, labels, (1, 4)) == [1, 0.5]


def test_vectors():
    vectors, labels = torch.tensor([[0.0, 0], [0, 1], [0, 3], [9, 9]]), torch.tensor([0, 1, 0, 1])
    precisions = measure_vector_precision(vectors[[0, 3]], labels[[0, 3]], vectors, labels, (1, 2, 3))
    assert precisions == pytest.approx([1, 1 / 2, 2 / 3])


def test_average_precision_of_codes_and_vectors():
    """Bits as vectors have the same distances; with noise that breaks ties, the mean over many noises is the same."""
    random = np.random.default_rng(2)
    bits, labels = random.random((60, 4)) < 0.5, random.integers(0, 3, 60)
    rankings = rank_codes(pack(bits[:9]), labels[:9], pack(bits), labels)
    values = []
    for _ in range(300):
        # A coordinate that is far from that of the queries adds to all distances, up to a small part that breaks ties.
        extra = torch.from_numpy(20 + 1e-3 * random.random(60)).float()
        vectors = torch.cat([torch.from_numpy(bits).float(), extra[:, None]], 1)
        queries = torch.cat([vectors[:9, :4], torch.zeros(9, 1)], 1)
        arguments = queries, torch.from_numpy(labels[:9]), vectors, torch.from_numpy(labels)
        values.append(measure_vector_average_precision(*arguments))
    assert rankings.average_precision().mean() == pytest.approx(np.mean(values), abs=0.004)
    assert np.std(values) > 0.004  # orders of ties matter


def test_bad_input():
    codes, labels = pack(np.eye(4, dtype=bool)), np.array([0, 1, 1, 0])
    with pytest.raises(ArgumentError, match="k must be from 1 to 4"):
        measure_code_precision(codes, labels, codes, labels, (5,))
    with pytest.raises(ArgumentError, match="queries that have labels, got none"):
        measure_code_precision(codes, np.full(4, -1), codes, labels, (1,))
