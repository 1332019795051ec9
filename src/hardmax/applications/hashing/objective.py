"""Contrastive losses of vectors, and the same losses as objectives of the binary codes of a batch."""

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
    r"""Return the triplet loss, which is zero if a query is nearer to its positive than to a negative by a margin.

    $$ \max(0, \, \mathrm{margin} + \langle q, d_\mathrm{negative} \rangle - \langle q, d_\mathrm{positive} \rangle) $$

    All three are normalised to length one. For unit vectors, the difference of the products is half the difference of
    the squared distances. Without the margin, equal vectors are a minimum; without the normalisation, a longer query
    has a lower loss.

    Args:
        query: `[*B, D]`.
        positive: `[*B, D]`, a vector similar to the query.
        negative: `[*B, D]`, a dissimilar vector. The three broadcast, for several negatives of one query.
        margin: how much nearer the positive must be, above 0; for unit vectors the difference is at most 2.

    Returns:
        `[*B]`, zero where the margin is satisfied.

    Raises:
        ShapeError: the vectors have different sizes.
        DtypeError: the vectors are integers.
        ArgumentError: the margin is not positive.

    Example:
        >>> import torch
        >>> from hardmax.applications.hashing import triplet_loss
        >>> query, near = torch.tensor([1.0, 0.0]), torch.tensor([2.0, 0.0])
        >>> far = torch.tensor([[0.0, 3.0], [3.0, 3.0]])
        >>> triplet_loss(query, near, far, margin=0.5)
        tensor([0.0000, 0.2071])

    References:
        Schroff, Kalenichenko & Philbin, "FaceNet: a unified embedding for face recognition and clustering", 2015,
        eq. 3. Lecture notes print only the difference of the two products, which is a score to be maximised.
    """
    check_positive("margin", margin)
    query, positive, negative = _normalise(query=query, positive=positive, negative=negative)
    return (margin + (query * negative).sum(-1) - (query * positive).sum(-1)).clamp_min(0)


def info_nce(
    query: Float[Tensor, "B D"],
    positive: Float[Tensor, "B D"],
    negatives: Float[Tensor, "N D"] | None = None,
    *,
    temperature: float = 0.1,
) -> Float[Tensor, "B"]:
    r"""Return the InfoNCE loss: the cross-entropy of identifying the positive of each query among its negatives.

    $$ -\log \operatorname{softmax}_j(\langle q, d_j \rangle / \mathrm{temperature}) \quad \text{at the positive } j $$

    All vectors are normalised to length one. If negatives have the same distribution as positives,
    $\log(1 + \text{number of negatives})$ minus the mean loss is a lower bound of the mutual information between
    queries and positives, in nats.

    Args:
        query: `[B, D]`.
        positive: `[B, D]`, the positive of each query.
        negatives: `[N, D]`, negatives of all queries; None uses the positives of the other queries.
        temperature: above 0; at a low temperature only the nearest negatives count.

    Returns:
        `[B]`, in nats; $\log(1 + \text{number of negatives})$ for vectors without information.

    Raises:
        ShapeError: the vectors have different sizes, or there is not one positive for each query.
        DtypeError: the vectors are integers.
        ArgumentError: the temperature is not positive.

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
        query, positive = _normalise(query=query, positive=positive)
        scores = query @ positive.T / temperature
        return scores.logsumexp(-1) - scores.diagonal()
    if negatives.dim() != 2:
        raise ShapeError(f"negatives must be [N, D], the same for all queries; got {list(negatives.shape)}")
    query, positive, negatives = _normalise(query=query, positive=positive, negatives=negatives)
    positive_scores = (query * positive).sum(-1, keepdim=True) / temperature
    negative_scores = query @ negatives.T / temperature
    return softplus(negative_scores.logsumexp(-1, keepdim=True) - positive_scores).squeeze(-1)


def _normalise(**vectors: Tensor) -> list[Tensor]:
    """Return vectors normalised to length one; zero vectors stay zero."""
    sizes = {name: vector.shape[-1:] for name, vector in vectors.items()}
    if len(set(sizes.values())) > 1:
        shapes = ", ".join(f"{name} {list(vector.shape)}" for name, vector in vectors.items())
        raise ShapeError(f"vectors must have the same size, got {shapes}")
    for name, vector in vectors.items():
        if not vector.is_floating_point():
            raise DtypeError(f"{name} must be floating point, got {vector.dtype}; pass bits z as 2 * z - 1")
    return [normalize(vector, dim=-1) for vector in vectors.values()]


class AbstractContrastedCodes(ABC):
    r"""The objective f of each code of a batch, from a contrastive loss L of all its codes.

    $$ f_i(z) = -L(\text{codes with the } i\text{-th replaced by } z) $$

    A code of n bits z is the vector $u = (2 z - 1) / \sqrt{n}$ of length one, and
    $\langle u, v \rangle = 1 - 2 \, (\text{number of bits that differ}) / n$. Every code i has one partner, whose
    partner is i; other codes are its negatives, or are ignored.

    $$\nabla_{\text{scores}_i} \mathbb{E}[L] =
    \mathbb{E}_{z_{j \ne i}} \nabla_{\text{scores}_i} \mathbb{E}_{z_i} [L(z_1, \ldots, z_M)]$$

    So $f_i$ includes every effect of a change of code i: as a query, as its partner's partner, and as a negative of
    other codes. The gradient of `hardmax.expectation(f, scores, space, estimator).value.sum()` is then that of
    $-\mathbb{E}[L]$, with the bias and variance of the estimator. The codes may be drawn with the noise that is passed
    to the estimator: this adds no bias, because $f_i$ does not depend on code i.

    Args:
        codes: `[M, n]`, bits drawn from the scores, detached.
        partner: `[M]`, the index of each code's partner.
        negative: `[M, M]`, symmetric mask of negatives; no code is a negative of itself or of its partner.

    Raises:
        ShapeError: the shapes do not match.
    """

    def __init__(self, codes: Float[Tensor, "M n"], partner: Int64[Tensor, "M"], negative: Bool[Tensor, "M M"]) -> None:
        count = len(codes)
        if codes.dim() != 2 or partner.shape != (count,) or negative.shape != (count, count):
            raise ShapeError(
                f"expected codes [M, n], partner [M] and negative [M, M], got {list(codes.shape)}, "
                f"{list(partner.shape)} and {list(negative.shape)}"
            )
        self.partner, self.negative = partner, negative
        self._vectors = self._to_unit_vector(codes.detach())
        self.similarity = self._vectors @ self._vectors.T

    def __call__(self, z: Float[Tensor, "C M n"]) -> Float[Tensor, "C M"]:
        """Return `-L` with one code replaced at a time."""
        index = torch.arange(z.shape[1], device=z.device).repeat(len(z))
        return self.rows(z.flatten(0, 1), index).view(z.shape[:2])

    def rows(self, z: Float[Tensor, "R n"], index: Int64[Tensor, "R"]) -> Float[Tensor, "R"]:
        """Return `-L` for each row, with the code at its index replaced by the row."""
        return -self._loss(self._to_unit_vector(z) @ self._vectors.T, index)

    @abstractmethod
    def losses(self) -> Float[Tensor, "M"]:
        """Return the loss of each code as a query; L is their mean."""

    @abstractmethod
    def _loss(self, similarity: Float[Tensor, "R M"], index: Int64[Tensor, "R"]) -> Float[Tensor, "R"]:
        """Return L for each row, whose similarities replace those of the code at its index."""

    @staticmethod
    def _to_unit_vector(z: Tensor) -> Tensor:
        return (2 * z - 1) / z.shape[-1] ** 0.5


@final
class InfoNCECodes(AbstractContrastedCodes):
    """The objective of codes from `info_nce`: every code is a query, and its partner is the positive.

    Args:
        codes: `[M, n]`, bits drawn from the scores, detached.
        partner: `[M]`, the index of each code's partner, whose partner it is.
        negative: `[M, M]`, symmetric mask of negatives; no code is a negative of itself or of its partner.
        temperature: above 0. At 0.2, one bit of 64 changes a logit by 0.16 nats.

    Raises:
        ShapeError: the shapes do not match.
        ArgumentError: the temperature is not positive.

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
        Chen, Kornblith, Norouzi & Hinton, 2020, eq. 1, here for codes of bits.
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
        every = torch.arange(len(codes), device=codes.device)
        compared = negative.clone()
        compared[every, partner] = True
        logits = (self.similarity / temperature).masked_fill(~compared, -torch.inf)
        self._normaliser = logits.logsumexp(-1)
        self._positive = self.similarity[every, partner] / temperature
        # log of the sum over all keys of query j except key i. The subtraction loses digits if key i dominates the sum.
        share = (logits.double() - self._normaliser[:, None]).exp().clamp_max(1 - 1e-12)
        self._normaliser_without = (self._normaliser[:, None] + (-share).log1p()).to(logits.dtype)
        self._compared = compared

    def losses(self) -> Float[Tensor, "M"]:
        """Return the loss of each code as a query; L is their mean."""
        return self._normaliser - self._positive

    def _loss(self, similarity: Float[Tensor, "R M"], index: Int64[Tensor, "R"]) -> Float[Tensor, "R"]:
        logits, partner, compared = similarity / self.temperature, self.partner[index], self._compared[index]
        positive = logits.gather(1, partner[:, None]).squeeze(1)
        normaliser = logits.masked_fill(~compared, -torch.inf).logsumexp(-1)
        # The code is also a key of other queries: compared is symmetric, so these are the queries that use it.
        as_key = torch.logaddexp(self._normaliser_without.T[index], logits) - self._normaliser
        partner_change = positive - self._positive[partner]
        total = normaliser - positive + torch.where(compared, as_key, 0.0).sum(-1) - partner_change
        before = self.losses()
        return (before.sum() - before[index] + total) / len(before)


@final
class TripletCodes(AbstractContrastedCodes):
    """The objective of codes from `triplet_loss`: every code is a query, and its partner is the positive.

    The loss of a query is the mean over its negatives.

    Args:
        codes: `[M, n]`, bits drawn from the scores, detached.
        partner: `[M]`, the index of each code's partner, whose partner it is.
        negative: `[M, M]`, symmetric mask of negatives; no code is a negative of itself or of its partner.
        margin: above 0. A margin of 0.5 is a quarter of the bits.

    Raises:
        ShapeError: the shapes do not match.
        ArgumentError: the margin is not positive.

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
        every = torch.arange(len(codes), device=codes.device)
        self._positive = self.similarity[every, partner]
        self._weight = negative / negative.sum(-1, keepdim=True).clamp_min(1)

    def losses(self) -> Float[Tensor, "M"]:
        """Return the loss of each code as a query; L is their mean."""
        return (self._weight * self._compute_shortfall(self.similarity, self._positive[:, None])).sum(-1)

    def _loss(self, similarity: Float[Tensor, "R M"], index: Int64[Tensor, "R"]) -> Float[Tensor, "R"]:
        partner, before = self.partner[index], self.losses()
        positive = similarity.gather(1, partner[:, None])
        query_losses = (self._weight[index] * self._compute_shortfall(similarity, positive)).sum(-1)
        partner_losses = (self._weight[partner] * self._compute_shortfall(self.similarity[partner], positive)).sum(-1)
        changes = self._compute_shortfall(similarity, self._positive) - self._compute_shortfall(
            self.similarity[index], self._positive
        )
        total = query_losses + partner_losses - before[partner] + (self._weight.T[index] * changes).sum(-1)
        return (before.sum() - before[index] + total) / len(before)

    def _compute_shortfall(self, negative: Tensor, positive: Tensor) -> Tensor:
        """Return by how much similarities miss the margin: `max(0, margin + negative - positive)`."""
        return (self.margin + negative - positive).clamp_min(0)
