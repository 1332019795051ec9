"""Packed codes against unpacked ones."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardmax.applications.hashing import search as module
from hardmax.applications.hashing.search import find_nearest, hamming_distance, pack, unpack


def bits_of(count, n, seed=0):
    return np.random.default_rng(seed).random((count, n)) < 0.5


@given(st.integers(0, 5), st.integers(1, 200), st.integers(0, 100))
def test_packing_and_back(count, n, seed):
    bits = bits_of(count, n, seed)
    packed = pack(bits)
    assert packed.shape == (count, -(-n // 64))
    assert (unpack(packed, n) == bits).all()


def test_the_first_bit_is_the_lowest():
    bits = np.zeros((1, 65), dtype=bool)
    bits[0, [1, 64]] = True
    assert pack(bits).tolist() == [[2, 1]]


@pytest.mark.parametrize("version", ["numpy 2", "numpy 1"])
@pytest.mark.parametrize("n", [1, 7, 64, 130])
def test_distances(n, version, monkeypatch):
    if version == "numpy 1":
        monkeypatch.delattr(np, "bitwise_count")
    monkeypatch.setattr(module, "_CHUNK", 40)  # several chunks
    queries, codes = bits_of(9, n), bits_of(15, n, seed=1)
    expected = (queries[:, None] != codes).sum(-1)
    distances = hamming_distance(pack(queries), pack(codes))
    assert (distances == expected).all()
    assert distances.max() == expected.max()


@given(st.integers(1, 30), st.integers(1, 12), st.integers(1, 40), st.integers(0, 50))
def test_nearest_is_a_stable_sort(count, n, wanted, seed):
    query, codes = bits_of(1, n, seed), bits_of(count, n, seed + 1000)
    distances = (query != codes).sum(1)
    expected = np.argsort(distances, kind="stable")[:wanted]
    index, nearest = find_nearest(pack(query)[0], pack(codes), wanted)
    assert (index == expected).all()
    assert (nearest == distances[expected]).all()


def test_nearest_of_none():
    index, distances = find_nearest(pack(bits_of(1, 8))[0], pack(bits_of(0, 8)), 3)
    assert len(index) == len(distances) == 0
