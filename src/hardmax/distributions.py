"""Conversion from and to `torch.distributions`."""

from torch import Tensor
from torch import distributions as td

from hardmax.errors import ArgumentError
from hardmax.spaces import AbstractSpace, Binary, Categorical


def from_distribution(distribution: td.Distribution) -> tuple[AbstractSpace, Tensor]:
    r"""Return the space and the scores of a torch distribution: $q(z \mid \mathrm{scores})$ is that distribution.

    Args:
        distribution: `OneHotCategorical` or `Categorical` (z is one-hot here), `Bernoulli` (each element of its batch
            is a `Binary(1)`), or `Independent(..., 1)` of these, whose last batch dimension becomes the variables of z.

    Returns:
        The space, and the scores `[*B, *score]`, which carry the gradient to the distribution's parameters.

    Raises:
        ArgumentError: another distribution.

    Example:
        >>> import torch, hardmax as hm
        >>> d = torch.distributions
        >>> space, scores = hm.from_distribution(d.Independent(d.Bernoulli(logits=torch.zeros(8, 5)), 1))
        >>> space, scores.shape
        (Binary(n=5), torch.Size([8, 5]))
    """
    base, variables = distribution, 0
    if isinstance(distribution, td.Independent):
        base, variables = distribution.base_dist, distribution.reinterpreted_batch_ndims
    if variables <= 1:
        if isinstance(base, td.Bernoulli):
            scores = base.logits if variables else base.logits[..., None]
            return Binary(scores.shape[-1]), scores
        if isinstance(base, td.OneHotCategorical | td.Categorical):
            scores = base.logits
            return Categorical(scores.shape[-1], scores.shape[-2] if variables else None), scores
    raise ArgumentError(
        f"cannot turn {distribution} into a space: expected OneHotCategorical, Categorical, Bernoulli, or "
        f"Independent(..., 1) of one of them"
    )


def to_distribution(scores: Tensor, space: AbstractSpace) -> td.Distribution:
    r"""Return $q(z \mid \mathrm{scores})$ as a torch distribution over the same z.

    Args:
        scores: `[*B, *score]`.
        space: `Categorical` or `Binary`.

    Returns:
        `OneHotCategorical`, or `Independent` of it or of `Bernoulli`: batch shape `*B`, event shape as the space's.

    Raises:
        ArgumentError: a space that torch has no distribution for.

    Example:
        >>> import torch, hardmax as hm
        >>> hm.to_distribution(torch.zeros(8, 4, 3), hm.Categorical(3, 4)).event_shape
        torch.Size([4, 3])
    """
    space.batch_shape(scores)
    if isinstance(space, Binary):
        return td.Independent(td.Bernoulli(logits=scores), 1)
    if isinstance(space, Categorical):
        one_hot = td.OneHotCategorical(logits=scores)
        return one_hot if space.n is None else td.Independent(one_hot, 1)
    raise ArgumentError(f"torch.distributions has no counterpart of {space}")
