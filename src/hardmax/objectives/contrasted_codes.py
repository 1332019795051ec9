"""What is a picture's code worth, given the codes of the others of its batch?"""

from abc import ABC, abstractmethod
from typing import final

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from hardmax.errors import ShapeError
from hardmax.validation import check_positive


class AbstractContrastedCodes(ABC):
    r"""`f_i(z) = -L(codes with the i-th replaced by z)`: a loss of all codes of a batch as an objective of each.

    A code is bits, as a vector $u = (2 z - 1) / \sqrt{n}$ of length one, and `<u, v> = 1 - 2 (bits that differ) / n`.
    Every code i has one partner, and i is the partner's partner; other codes are its negatives, or play no part.

    $$\nabla_{\text{scores}_i} \mathbb{E}[L] =
    \mathbb{E}_{z_{j \ne i}} \nabla_{\text{scores}_i} \mathbb{E}_{z_i} [L(z_1, \ldots, z_M)]$$

    So f_i looks at the whole of what a change of code i does: as a query, as its partner's partner, and as a negative
    of others. `hardmax.expectation(f, scores, space, estimator).value.sum()` then has the gradient of `-E[L]`, with the
    bias and variance of the estimator. Noise that is shared with the codes adds no bias: f_i does not see code i.

    Args:
        codes: `[M, n]`, bits drawn from the scores, detached.
        partner: `[M]`, the partner of each.
        negative: `[M, M]`, which codes are negatives of which; symmetric, none its own or its partner's.

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
        """Return L for each row, with what it is similar to in place of the code of this index."""

    @staticmethod
    def _vector(z: Tensor) -> Tensor:
        return (2 * z - 1) / z.shape[-1] ** 0.5


@final
class InfoNCECodes(AbstractContrastedCodes):
    """`hardmax.info_nce` of every code, its partner the positive.

    Args:
        codes: `[M, n]`, bits drawn from the scores, detached.
        partner: `[M]`, the partner of each, whose partner it is.
        negative: `[M, M]`, which codes are negatives of which; symmetric, none its own or its partner's.
        temperature: above 0. One of 0.2 makes a bit of 64 worth 0.16 nats.

    Raises:
        ShapeError: sizes that do not fit.
        ArgumentError: a temperature that is not positive.

    Example:
        >>> import torch, hardmax as hm
        >>> scores = torch.zeros(4, 8, requires_grad=True)
        >>> space, noise = hm.Binary(8), hm.Binary(8).noise((1, 4))
        >>> partner, same = torch.tensor([2, 3, 0, 1]), torch.eye(2, dtype=torch.bool).repeat(2, 2)
        >>> f = hm.InfoNCECodes(space.argmax(scores + noise[0]), partner, ~same)
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
        own = logits.masked_fill(~compared, -torch.inf).logsumexp(-1)
        # As a key of others: compared is symmetric, so these are the queries that compare it.
        others = torch.logaddexp(self._without.T[index], logits) - self._normaliser
        total = own - right + torch.where(compared, others, 0.0).sum(-1) - (right - self._right[partner])
        before = self.losses()
        return (before.sum() - before[index] + total) / len(before)


@final
class TripletCodes(AbstractContrastedCodes):
    """`hardmax.triplet_loss` of every code, its partner the positive, averaged over its negatives.

    Args:
        codes: `[M, n]`, bits drawn from the scores, detached.
        partner: `[M]`, the partner of each, whose partner it is.
        negative: `[M, M]`, which codes are negatives of which; symmetric, none its own or its partner's.
        margin: above 0. One of 0.5 asks for a quarter of the bits.

    Raises:
        ShapeError: sizes that do not fit.
        ArgumentError: a margin that is not positive.

    Example:
        >>> import torch, hardmax as hm
        >>> codes = torch.tensor([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 1.0]])
        >>> partner, same = torch.tensor([2, 3, 0, 1]), torch.eye(2, dtype=torch.bool).repeat(2, 2)
        >>> hm.TripletCodes(codes, partner, ~same, margin=0.5).losses()
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
        own = (self._weight[index] * self._short(similarity, right)).sum(-1)
        partners = (self._weight[partner] * self._short(self.similarity[partner], right)).sum(-1)
        changes = self._short(similarity, self._right) - self._short(self.similarity[index], self._right)
        total = own + partners - before[partner] + (self._weight.T[index] * changes).sum(-1)
        return (before.sum() - before[index] + total) / len(before)

    def _short(self, wrong: Tensor, right: Tensor) -> Tensor:
        """Return by how much the right one is not nearer than the wrong one by the margin."""
        return (self.margin + wrong - right).clamp_min(0)
