"""Contrastive losses and codes: invalid input raises errors of hardmax; losses work with compile and vmap."""

import numpy as np
import pytest
import torch

import hardmax as hm
from hardmax.applications.hashing import HashEncoder, InfoNCECodes, TripletCodes, info_nce, triplet_loss
from hardmax.applications.hashing.search import hamming_distance, pack

pytestmark = pytest.mark.plain  # without shape checks

VECTORS = torch.eye(3)
PARTNER, NEGATIVE = torch.tensor([1, 0, 2]), ~torch.eye(3, dtype=torch.bool)


def test_vectors_of_different_sizes():
    with pytest.raises(hm.ShapeError, match=r"must have the same size, got query \[3, 3\], positive \[3, 2\]"):
        triplet_loss(VECTORS, VECTORS[:, :2], VECTORS)
    with pytest.raises(hm.ShapeError, match="negatives"):
        info_nce(VECTORS, VECTORS, VECTORS[:, :2])


def test_a_positive_for_each_query():
    with pytest.raises(hm.ShapeError, match="a positive for each query"):
        info_nce(VECTORS, VECTORS[:2])
    with pytest.raises(hm.ShapeError, match="the same for all queries"):
        info_nce(VECTORS, VECTORS, VECTORS[None])


def test_bits_are_not_vectors():
    with pytest.raises(hm.DtypeError, match="pass bits z as 2"):
        triplet_loss(VECTORS.long(), VECTORS.long(), VECTORS.long())


@pytest.mark.parametrize("kind", [InfoNCECodes, TripletCodes])
def test_codes(kind):
    with pytest.raises(hm.ShapeError, match=r"got \[3, 3\], \[3\] and \[3, 2\]"):
        kind(VECTORS, PARTNER, NEGATIVE[:, :2])
    with pytest.raises(hm.ArgumentError, match="must be a positive number, got -1"):
        kind(VECTORS, PARTNER, NEGATIVE, -1.0)


def test_packed_codes_of_another_length():
    with pytest.raises(hm.ShapeError, match="codes of 1 words cannot be compared with queries of 2"):
        hamming_distance(pack(np.ones((1, 70), dtype=bool)), pack(np.ones((1, 64), dtype=bool)))


def test_losses_compile_and_map():
    query, positive, negative = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(0))
    compiled = torch.compile(triplet_loss, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(query, positive, negative), triplet_loss(query, positive, negative))
    mapped = torch.func.vmap(triplet_loss)(query, positive, negative)
    torch.testing.assert_close(mapped, triplet_loss(query, positive, negative))
    gradient = torch.func.grad(lambda q: info_nce(q, positive).sum())(query)
    leaf = query.clone().requires_grad_()
    info_nce(leaf, positive).sum().backward()
    torch.testing.assert_close(gradient, leaf.grad)


def test_hash_encoders():
    with pytest.raises(hm.ArgumentError, match="architecture must be 'mlp' or 'conv', got 'deep'"):
        HashEncoder.build(8, (1, 4, 4), architecture="deep")
    with pytest.raises(hm.ArgumentError, match="gain must be positive"):
        HashEncoder.build(8, (1, 4, 4), gain=0.0)
    with pytest.raises(hm.ShapeError, match="must be pairs"):
        HashEncoder.build(8, (1, 4, 4))(torch.zeros(3, 1, 4, 4), torch.zeros(2, 1, 4, 4))
    with pytest.raises(hm.ArgumentError, match="shape of the images is unknown"):
        HashEncoder(torch.nn.Linear(3, 4), hm.Binary(4)).shape  # noqa: B018
