"""Layers that select: `HardAttention` reads k keys for each query, `SelectK` keeps k features."""

from math import sqrt

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from hardmax.errors import ArgumentError, ShapeError
from hardmax.estimators import AbstractSampler
from hardmax.functional import Choice, argmax, topk


class HardAttention(nn.Module):
    r"""Attention that reads exactly k values for each query, instead of a mixture of all.

    $$ \mathrm{output} = \frac{1}{k} \, z V, \qquad z \in \{0, 1\}^{Q \times T} \text{ with k ones in each row}, \qquad
       \mathrm{scores} = \frac{Q K^T}{\sqrt{d}} $$

    In training z is a sample, for k = 1 of the softmax of the scores, else of the distribution over sets of k that
    `hm.topk` documents. After `eval()` the k keys with the largest scores are read. The layer has no parameters:
    projections are yours.

    Bias and variance of the gradient for queries and keys: those of the estimator. The default has no bias for losses
    of degree two in z with k = 1 (`ReinMax`), and for linear ones beyond (`StraightThrough`). The gradient for the
    values is exact.

    Args:
        k: number of keys that each query reads, at least 1.
        estimator: a sample-style estimator; by default that of `hm.argmax` for k = 1, and that of `hm.topk` beyond.

    Raises:
        ArgumentError: k below 1.

    Example:
        >>> import torch, hardmax as hm
        >>> attention = hm.nn.HardAttention(k=2)
        >>> query, key, value = torch.randn(8, 5, 16), torch.randn(8, 12, 16), torch.randn(8, 12, 4)
        >>> output, z = attention(query, key, value)
        >>> output.shape, z.shape, z.sum(-1).unique().tolist()
        (torch.Size([8, 5, 4]), torch.Size([8, 5, 12]), [2.0])

    References:
        Xu et al., "Show, attend and tell: neural image caption generation with visual attention", 2015, section 4.1
        (hard attention, by the score function).
    """

    def __init__(self, k: int = 1, *, estimator: AbstractSampler | None = None) -> None:
        super().__init__()
        if k < 1:
            raise ArgumentError(f"k must be at least 1, got {k}")
        self.k, self.estimator = k, estimator

    def forward(
        self,
        query: Float[Tensor, "*#B Q d"],
        key: Float[Tensor, "*#B T d"],
        value: Float[Tensor, "*#B T v"],
        *,
        mask: Bool[Tensor, "..."] | None = None,
        generator: torch.Generator | None = None,
    ) -> tuple[Float[Tensor, "*_ Q v"], Float[Tensor, "*_ Q T"]]:
        """Read k values for each query.

        Args:
            query: `[*B, Q, d]`.
            key: `[*B, T, d]`.
            value: `[*B, T, v]`.
            mask: `[*B, Q, T]` or a shape that broadcasts to it: True where a key may be read.
            generator: source of the noise; None is torch's global generator.

        Returns:
            The mean of the values that each query reads, `[*B, Q, v]`, and z, `[*B, Q, T]`.

        Raises:
            ArgumentError: scores that are NaN, or a query that may read fewer than k keys.
            ShapeError: queries and keys of different size, or another number of keys than of values.
        """
        if query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]:
            raise ShapeError(
                f"expected query [*B, Q, d], key [*B, T, d] and value [*B, T, v], got {list(query.shape)}, "
                f"{list(key.shape)} and {list(value.shape)}"
            )
        scores = query @ key.mT / sqrt(query.shape[-1])
        z, _ = _choose(scores, self.k, self.estimator, mask, self.training, generator)
        return z @ value / self.k, z

    def extra_repr(self) -> str:
        """Return the arguments, for `repr`."""
        return f"k={self.k}, estimator={self.estimator}"


class SelectK(nn.Module):
    r"""Keeps exactly k of n features, the same for all examples after training, and sets the others to zero.

    $$ y = x \odot z, \qquad z \in \{0, 1\}^n \text{ with k ones}, \qquad q(z) \propto \exp(\langle \mathrm{scores}, z
       \rangle) $$

    The scores of the features are the parameters. In training each example has a z of its own, so that a batch compares
    many subsets; after `eval()` the k features with the largest scores are kept. Put it in front of a network, and
    train both; `hardmax.sklearn.SelectKFeatures` does it for you.

    Bias and variance of the gradient for the scores: those of the estimator. The default, `StraightThrough` with exact
    marginals, has no bias for losses that are linear in z. Scores want a learning rate about ten times that of the
    network.

    Args:
        n: number of features.
        k: number of features to keep, 1 to n.
        estimator: a sample-style estimator for `Subset`; by default that of `hm.topk`.

    Raises:
        ArgumentError: k outside 1 ... n.

    Example:
        >>> import torch, hardmax as hm
        >>> select = hm.nn.SelectK(20, 3)
        >>> network = torch.nn.Sequential(select, torch.nn.Linear(20, 2))
        >>> network(torch.randn(8, 20)).shape, select.indices.shape
        (torch.Size([8, 2]), torch.Size([3]))

    References:
        Balin, Abid & Zou, "Concrete autoencoders: differentiable feature selection and reconstruction", 2019, with k
        independent choices that may coincide; here they are different by construction.
    """

    def __init__(self, n: int, k: int, *, estimator: AbstractSampler | None = None) -> None:
        super().__init__()
        if not 1 <= k <= n:
            raise ArgumentError(f"k must be between 1 and the number of features, {n}; got {k}")
        self.n, self.k, self.estimator = n, k, estimator
        self.scores = nn.Parameter(torch.zeros(n))

    @property
    def indices(self) -> Tensor:
        """The k features with the largest scores, in ascending order."""
        return self.scores.detach().topk(self.k).indices.sort().values

    def forward(self, x: Float[Tensor, "*B n"], *, generator: torch.Generator | None = None) -> Float[Tensor, "*B n"]:
        """Return x with all but k features set to zero; `generator` is the source of the noise in training.

        Raises:
            ShapeError: x has another number of features.
        """
        if x.shape[-1] != self.n:
            raise ShapeError(f"expected x [*B, {self.n}], got {list(x.shape)}")
        # After eval(), one z serves all examples.
        scores = self.scores.expand(x.shape) if self.training else self.scores
        return x * _choose(scores, self.k, self.estimator, None, self.training, generator).z.to(x.dtype)

    def extra_repr(self) -> str:
        """Return the arguments, for `repr`."""
        return f"{self.n}, {self.k}, estimator={self.estimator}"


def _choose(
    scores: Tensor,
    k: int,
    estimator: AbstractSampler | None,
    mask: Tensor | None,
    training: bool,
    generator: torch.Generator | None,
) -> Choice:
    """Choose k values along the last dimension; for k = 1 by the faster space of the same distribution."""
    if k == 1:
        return argmax(scores, estimator=estimator, mask=mask, training=training, generator=generator)
    return topk(scores, k, estimator=estimator, mask=mask, training=training, generator=generator)
