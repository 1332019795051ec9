"""Contrastive losses: vectors of what belongs together are near, those of all else are far."""

from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import normalize, softplus

from hardmax.errors import DtypeError, ShapeError
from hardmax.validation import check_positive


def triplet_loss(
    query: Float[Tensor, "*#B D"],
    positive: Float[Tensor, "*#B D"],
    negative: Float[Tensor, "*#B D"],
    *,
    margin: float = 0.2,
) -> Float[Tensor, "*B"]:
    """Return by how much a query is not nearer to its positive than to a negative, by a margin.

    `max(0, margin + <q, d_negative> - <q, d_positive>)`, all three on the unit sphere: for unit vectors half the
    difference of squared distances. Without the margin all vectors equal is a minimum; without the unit sphere a
    longer query is a better one.

    Args:
        query: `[*B, D]`.
        positive: `[*B, D]`, what belongs to it.
        negative: `[*B, D]`, what does not. The three may broadcast: several negatives for one query.
        margin: how much nearer the positive shall be, above 0; between unit vectors the difference is at most 2.

    Returns:
        `[*B]`, zero where the margin is kept.

    Raises:
        ShapeError: vectors of different sizes; `DtypeError`: integers; `ArgumentError`: a margin that is not positive.

    Example:
        >>> import torch, hardmax as hm
        >>> query, near = torch.tensor([1.0, 0.0]), torch.tensor([2.0, 0.0])
        >>> far = torch.tensor([[0.0, 3.0], [3.0, 3.0]])
        >>> hm.triplet_loss(query, near, far, margin=0.5)
        tensor([0.0000, 0.2071])

    References:
        Schroff, Kalenichenko & Philbin, "FaceNet: a unified embedding for face recognition and clustering", 2015,
        eq. 3. Lecture notes print the difference of the two products alone: that is a score to be maximised.
    """
    check_positive("margin", margin)
    query, positive, negative = _unit(query=query, positive=positive, negative=negative)
    return (margin + (query * negative).sum(-1) - (query * positive).sum(-1)).clamp_min(0)


def info_nce(
    query: Float[Tensor, "B D"],
    positive: Float[Tensor, "B D"],
    negatives: Float[Tensor, "N D"] | None = None,
    *,
    temperature: float = 0.1,
) -> Float[Tensor, "B"]:
    """Return how badly each query tells its positive from other vectors: the cross-entropy of that choice.

    `-log softmax(<q, d_j> / temperature)` at the positive, all on the unit sphere. `log(1 + number of negatives)` less
    the mean of it is a lower bound of the mutual information between queries and positives, in nats, if negatives are
    drawn as positives are.

    Args:
        query: `[B, D]`.
        positive: `[B, D]`, what belongs to each query.
        negatives: `[N, D]`, what belongs to none; None takes the positives of the other queries.
        temperature: above 0; at a low one the nearest negatives alone count.

    Returns:
        `[B]`, in nats; `log(1 + number of negatives)` for vectors that say nothing.

    Raises:
        ShapeError: vectors of different sizes, or not one positive for each query; `DtypeError`: integers;
            `ArgumentError`: a temperature that is not positive.

    Example:
        >>> import torch, hardmax as hm
        >>> query = torch.eye(3)
        >>> hm.info_nce(query, query, temperature=0.5)
        tensor([0.2395, 0.2395, 0.2395])

    References:
        van den Oord, Li & Vinyals, "Representation learning with contrastive predictive coding", 2018, eq. 4;
        Chen, Kornblith, Norouzi & Hinton, "A simple framework for contrastive learning of visual representations",
        2020, eq. 1.
    """
    check_positive("temperature", temperature)
    if query.dim() != 2 or query.shape != positive.shape:
        raise ShapeError(
            f"query and positive must both be [B, D], a positive for each query; got {list(query.shape)} and "
            f"{list(positive.shape)}"
        )
    if negatives is None:
        query, positive = _unit(query=query, positive=positive)
        scores = query @ positive.T / temperature
        return scores.logsumexp(-1) - scores.diagonal()
    if negatives.dim() != 2:
        raise ShapeError(f"negatives must be [N, D], the same for all queries; got {list(negatives.shape)}")
    query, positive, negatives = _unit(query=query, positive=positive, negatives=negatives)
    right = (query * positive).sum(-1, keepdim=True) / temperature
    wrong = query @ negatives.T / temperature
    return softplus(wrong.logsumexp(-1, keepdim=True) - right).squeeze(-1)


def _unit(**vectors: Tensor) -> list[Tensor]:
    """Return vectors of length one; those that are zero stay so."""
    sizes = {name: vector.shape[-1:] for name, vector in vectors.items()}
    if len(set(sizes.values())) > 1:
        told = ", ".join(f"{name} {list(vector.shape)}" for name, vector in vectors.items())
        raise ShapeError(f"vectors must be of one size to be compared, got {told}")
    for name, vector in vectors.items():
        if not vector.is_floating_point():
            raise DtypeError(f"{name} must be floating point, got {vector.dtype}; a code of bits z is 2 * z - 1")
    return [normalize(vector, dim=-1) for vector in vectors.values()]
