"""Contrastive losses, and the value of an image's code given the codes of its batch."""

from abc import ABC, abstractmethod
from typing import final

import torch
from jaxtyping import Bool, Float, Int64
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
    """Return the hinge loss of a query that is not nearer to its positive than to a negative by a margin.

    `max(0, margin + <q, d_negative> - <q, d_positive>)`, all three on the unit sphere: for unit vectors half the
    difference of squared distances. Without the margin, all vectors equal is a minimum; without the unit sphere, a
    longer query has a lower loss.

    Args:
        query: `[*B, D]`.
        positive: `[*B, D]`, a vector similar to the query.
        negative: `[*B, D]`, a dissimilar vector. The three may broadcast: several negatives for one query.
        margin: how much nearer the positive shall be, above 0; between unit vectors the difference is at most 2.

    Returns:
        `[*B]`, zero where the margin is satisfied.

    Raises:
        ShapeError: vectors of different sizes; `DtypeError`: integers; `ArgumentError`: a margin that is not positive.

    Example:
        >>> import torch
        >>> from hardmax.applications.hashing import triplet_loss
        >>> query, near = torch.tensor([1.0, 0.0]), torch.tensor([2.0, 0.0])
        >>> far = torch.tensor([[0.0, 3.0], [3.0, 3.0]])
        >>> triplet_loss(query, near, far, margin=0.5)
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
    """Return the cross-entropy of identifying the positive of each query among other vectors.

    `-log softmax(<q, d_j> / temperature)` at the positive, all on the unit sphere. `log(1 + number of negatives)` minus
    its mean is a lower bound of the mutual information between queries and positives, in nats, if negatives are
    drawn as positives are.

    Args:
        query: `[B, D]`.
        positive: `[B, D]`, the positive of each query.
        negatives: `[N, D]`, negatives of all queries; None uses the positives of the other queries.
        temperature: above 0; at a low one only the nearest negatives count.

    Returns:
        `[B]`, in nats; `log(1 + number of negatives)` for uninformative vectors.

    Raises:
        ShapeError: vectors of different sizes, or not one positive for each query; `DtypeError`: integers;
            `ArgumentError`: a temperature that is not positive.

    Example:
        >>> import torch
        >>> from hardmax.applications.hashing import info_nce
        >>> query = torch.eye(3)
        >>> info_nce(query, query, temperature=0.5)
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
    """Return vectors normalised to length one; zero vectors stay zero."""
    sizes = {name: vector.shape[-1:] for name, vector in vectors.items()}
    if len(set(sizes.values())) > 1:
        shapes = ", ".join(f"{name} {list(vector.shape)}" for name, vector in vectors.items())
        raise ShapeError(f"vectors must be of one size to be compared, got {shapes}")
    for name, vector in vectors.items():
        if not vector.is_floating_point():
            raise DtypeError(f"{name} must be floating point, got {vector.dtype}; a code of bits z is 2 * z - 1")
    return [normalize(vector, dim=-1) for vector in vectors.values()]


class AbstractContrastedCodes(ABC):
    r"""`f_i(z) = -L(codes with the i-th replaced by z)`: a loss of all codes of a batch as an objective of each.

    A code is bits, as a vector $u = (2 z - 1) / \sqrt{n}$ of length one, and `<u, v> = 1 - 2 (bits that differ) / n`.
    Every code i has one partner, and i is the partner's partner; other codes are its negatives, or are ignored.

    $$\nabla_{\text{scores}_i} \mathbb{E}[L] =
    \mathbb{E}_{z_{j \ne i}} \nabla_{\text{scores}_i} \mathbb{E}_{z_i} [L(z_1, \ldots, z_M)]$$

    So f_i includes every effect of a change of code i: as a query, as its partner's partner, and as a negative
    of others. `hardmax.expectation(f, scores, space, estimator).value.sum()` then has the gradient of `-E[L]`, with the
    bias and variance of the estimator. Noise that is shared with the codes adds no bias: f_i does not depend on code i.

    Args:
        codes: `[M, n]`, bits drawn from the scores, detached.
        partner: `[M]`, the partner of each.
        negative: `[M, M]`, symmetric mask; no code is a negative of itself or of its partner.

    Raises:
        ShapeError: sizes that do not fit.
    """

    def __init__(self, codes: Float[Tensor, "M n"], partner: Int64[Tensor, "M"], negative: Bool[Tensor, "M M"]) -> None:
        count = len(codes)
        if codes.dim() != 2 or partner.shape != (count,) or negative.shape != (count, count):
            raise ShapeError(
                f"expected codes [M, n], partner [M] and negative [M, M], got {list(codes.shape)}, "
                f"{list(partner.shape)} and {list(negative.shape)}"
            )
        self.partner, self.negative = partner, negative
        self._vectors = self._vector(codes.detach())
        self.similarity = self._vectors @ self._vectors.T

    def __call__(self, z: Float[Tensor, "C M n"]) -> Float[Tensor, "C M"]:
        """Return `-L` with each code replaced in turn."""
        index = torch.arange(z.shape[1], device=z.device).repeat(len(z))
        return self.rows(z.flatten(0, 1), index).view(z.shape[:2])

    def rows(self, z: Float[Tensor, "R n"], index: Int64[Tensor, "R"]) -> Float[Tensor, "R"]:
        """Return `-L` with chosen codes replaced, one for each row."""
        return -self._loss(self._vector(z) @ self._vectors.T, index)

    @abstractmethod
    def losses(self) -> Float[Tensor, "M"]:
        """Return the loss of each code as a query; L is their mean."""

    @abstractmethod
    def _loss(self, similarity: Float[Tensor, "R M"], index: Int64[Tensor, "R"]) -> Float[Tensor, "R"]:
        """Return L for each row, whose similarities replace those of the code at its index."""

    @staticmethod
    def _vector(z: Tensor) -> Tensor:
        return (2 * z - 1) / z.shape[-1] ** 0.5


@final
class InfoNCECodes(AbstractContrastedCodes):
    """`info_nce` of every code, its partner the positive.

    Args:
        codes: `[M, n]`, bits drawn from the scores, detached.
        partner: `[M]`, the partner of each, whose partner it is.
        negative: `[M, M]`, symmetric mask; no code is a negative of itself or of its partner.
        temperature: above 0. At 0.2 one bit of 64 is worth 0.16 nats.

    Raises:
        ShapeError: sizes that do not fit.
        ArgumentError: a temperature that is not positive.

    Example:
        >>> import torch, hardmax as hm
        >>> from hardmax.applications.hashing import InfoNCECodes
        >>> scores = torch.zeros(4, 8, requires_grad=True)
        >>> space, noise = hm.Binary(8), hm.Binary(8).noise((1, 4))
        >>> partner, same = torch.tensor([2, 3, 0, 1]), torch.eye(2, dtype=torch.bool).repeat(2, 2)
        >>> f = InfoNCECodes(space.argmax(scores + noise[0]), partner, ~same)
        >>> out = hm.expectation(f, scores, space, hm.ReinMax(), noise=noise)
        >>> (-out.value.sum()).backward()
        >>> torch.allclose(out.value, -f.losses().mean()), scores.grad.shape
        (True, torch.Size([4, 8]))

    References:
        Chen, Kornblith, Norouzi & Hinton, 2020, eq. 1, of bits.
    """

    def __init__(
        self,
        codes: Float[Tensor, "M n"],
        partner: Int64[Tensor, "M"],
        negative: Bool[Tensor, "M M"],
        temperature: float = 0.2,
    ) -> None:
        super().__init__(codes, partner, negative)
        check_positive("temperature", temperature)
        self.temperature = temperature
        one = torch.arange(len(codes), device=codes.device)
        compared = negative.clone()
        compared[one, partner] = True
        logits = (self.similarity / temperature).masked_fill(~compared, -torch.inf)
        self._normaliser = logits.logsumexp(-1)
        self._right = self.similarity[one, partner] / temperature
        # log of the sum over all keys of query j but key i. The difference cancels where i is nearly all of the sum.
        share = (logits.double() - self._normaliser[:, None]).exp().clamp_max(1 - 1e-12)
        self._without = (self._normaliser[:, None] + (-share).log1p()).to(logits.dtype)
        self._compared = compared

    def losses(self) -> Float[Tensor, "M"]:
        """Return the loss of each code as a query; L is their mean."""
        return self._normaliser - self._right

    def _loss(self, similarity: Float[Tensor, "R M"], index: Int64[Tensor, "R"]) -> Float[Tensor, "R"]:
        logits, partner, compared = similarity / self.temperature, self.partner[index], self._compared[index]
        right = logits.gather(1, partner[:, None]).squeeze(1)
        normaliser = logits.masked_fill(~compared, -torch.inf).logsumexp(-1)
        # As a key of others: compared is symmetric, so these are the queries that compare it.
        others = torch.logaddexp(self._without.T[index], logits) - self._normaliser
        total = normaliser - right + torch.where(compared, others, 0.0).sum(-1) - (right - self._right[partner])
        before = self.losses()
        return (before.sum() - before[index] + total) / len(before)


@final
class TripletCodes(AbstractContrastedCodes):
    """`triplet_loss` of every code, its partner the positive, averaged over its negatives.

    Args:
        codes: `[M, n]`, bits drawn from the scores, detached.
        partner: `[M]`, the partner of each, whose partner it is.
        negative: `[M, M]`, symmetric mask; no code is a negative of itself or of its partner.
        margin: above 0. At 0.5 it is a quarter of the bits.

    Raises:
        ShapeError: sizes that do not fit.
        ArgumentError: a margin that is not positive.

    Example:
        >>> import torch
        >>> from hardmax.applications.hashing import TripletCodes
        >>> codes = torch.tensor([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 1.0]])
        >>> partner, same = torch.tensor([2, 3, 0, 1]), torch.eye(2, dtype=torch.bool).repeat(2, 2)
        >>> TripletCodes(codes, partner, ~same, margin=0.5).losses()
        tensor([0.0000, 0.0000, 0.5000, 0.0000])

    References:
        Norouzi, Fleet & Salakhutdinov, "Hamming distance metric learning", 2012, section 2.
    """

    def __init__(
        self,
        codes: Float[Tensor, "M n"],
        partner: Int64[Tensor, "M"],
        negative: Bool[Tensor, "M M"],
        margin: float = 0.5,
    ) -> None:
        super().__init__(codes, partner, negative)
        check_positive("margin", margin)
        self.margin = margin
        one = torch.arange(len(codes), device=codes.device)
        self._right = self.similarity[one, partner]
        self._weight = negative / negative.sum(-1, keepdim=True).clamp_min(1)

    def losses(self) -> Float[Tensor, "M"]:
        """Return the loss of each code as a query; L is their mean."""
        return (self._weight * self._short(self.similarity, self._right[:, None])).sum(-1)

    def _loss(self, similarity: Float[Tensor, "R M"], index: Int64[Tensor, "R"]) -> Float[Tensor, "R"]:
        partner, before = self.partner[index], self.losses()
        right = similarity.gather(1, partner[:, None])
        query_losses = (self._weight[index] * self._short(similarity, right)).sum(-1)
        partners = (self._weight[partner] * self._short(self.similarity[partner], right)).sum(-1)
        changes = self._short(similarity, self._right) - self._short(self.similarity[index], self._right)
        total = query_losses + partners - before[partner] + (self._weight.T[index] * changes).sum(-1)
        return (before.sum() - before[index] + total) / len(before)

    def _short(self, wrong: Tensor, right: Tensor) -> Tensor:
        """Return the shortfall of the margin: `max(0, margin + wrong - right)`."""
        return (self.margin + wrong - right).clamp_min(0)
