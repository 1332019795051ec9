"""Log-likelihoods log p(x | z) of a decoder, as objectives with fast methods for shared z and single changes of z."""

import math
from abc import ABC, abstractmethod
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import softplus

from hardmax.errors import ArgumentError, DtypeError, ShapeError
from hardmax.nn.first_layer import split_first_layer
from hardmax.objectives.changes import BernoulliChanges, DecoderChanges
from hardmax.spaces import AbstractSpace
from hardmax.types import Changes


def pixel_log_prob(
    parameters: Float[Tensor, "..."], x: Float[Tensor, "..."], log_variance: Tensor | None
) -> Float[Tensor, "..."]:
    """Return log p of every pixel: Bernoulli with these logits, or Gaussian around these means.

    Args:
        parameters: `[..., *shape]`, a decoder's output.
        x: `[..., *shape]`, in [0, 1] for Bernoulli pixels.
        log_variance: `[]`, the log-variance of Gaussian pixels; None for Bernoulli pixels.

    Example:
        >>> import torch
        >>> pixel_log_prob(torch.zeros(3), torch.tensor([0.0, 1.0, 0.5]), None)
        tensor([-0.6931, -0.6931, -0.6931])
    """
    if log_variance is None:
        return parameters * x - softplus(parameters)
    return -((x - parameters).square() * (-log_variance).exp() + log_variance + math.log(2 * math.pi)) / 2


class AbstractLikelihood(ABC):
    r"""An objective $f(z) = \log p(x \mid z)$, from a decoder that maps z to the parameters of x.

    The decoder depends on z only, so a z that many examples share is decoded only once: `pairs` costs M rows of the
    decoder for the entire batch and one matrix product, while f itself costs one row for every candidate of every
    example.

    If z enters the decoder by a linear layer (`hardmax.nn.split_first_layer`), then `rows` and `pairs` also take the
    categories of a single categorical variable, int64 `[R]`, instead of one-hot z: a look-up instead of a matrix
    product. And `changes(z)` evaluates the single changes of z, without a dense z for each (`hardmax.types.Changes`).

    Args:
        decoder: maps `[R, *event]` to `[R, *pixels]` (or any shape with the same number of elements).
        x: `[*B, *pixels]`.
        batch_dims: number of leading dimensions of x that are `*B`.

    Attributes:
        takes_categories: whether `rows` and `pairs` take categories.
    """

    def __init__(self, decoder: nn.Module, x: Tensor, *, batch_dims: int = 1) -> None:
        if not x.is_floating_point():
            raise DtypeError(f"x must be floating point, got {x.dtype}; pass x.float() / 255, or hardmax.data.binarize")
        self.decoder = decoder
        self.batch_shape = tuple(x.shape[:batch_dims])
        self.x = x.reshape(math.prod(self.batch_shape), math.prod(x.shape[batch_dims:]))
        self._first = split_first_layer(decoder)
        self.takes_categories = self._first is not None and not self._first.takes_both

    def __call__(self, z: Float[Tensor, "C ..."]) -> Float[Tensor, "C *B"]:
        r"""Return $\log p(x \mid z)$ of every candidate and example: `[C, *B, *event] -> [C, *B]`."""
        lead = z.shape[: 1 + len(self.batch_shape)]
        if tuple(lead[1:]) != self.batch_shape:
            raise ShapeError(
                f"z has batch shape {list(lead[1:])}, but x has {list(self.batch_shape)}; "
                f"scores and x must be of the same examples"
            )
        parameters = self._decode(z.flatten(0, len(lead) - 1)).view(lead[0], *self.x.shape)
        return self._log_prob(parameters, self.x).view(lead)

    def rows(self, z: Float[Tensor, "R ..."] | Int[Tensor, " R"], index: Int[Tensor, " R"]) -> Float[Tensor, " R"]:
        r"""Return $\log p(x \mid z)$ for chosen examples: z `[R, *event]`, or categories, and index `[R]` to `[R]`."""
        return self._log_prob(self._decode(z), self.x.index_select(0, index))

    def pairs(self, z: Float[Tensor, "M ..."] | Int[Tensor, " M"]) -> Float[Tensor, "..."]:
        r"""Return $\log p(x \mid z)$ of the same z for every example: `[M, *event]`, or categories, to `[*B, M]`."""
        return self._pairs(self._decode(z)).view(*self.batch_shape, len(z))

    def changes(self, z: Float[Tensor, "S ..."]) -> Changes | None:
        """Return the gains of the single changes of z `[S, *B, *event]`, bits or categories; None if not supported."""
        batch_dims = len(self.batch_shape)
        if self._first is None or not self._first.fits(tuple(z.shape[1 + batch_dims :])):
            return None
        return self._changes_class()(self._first, self._log_prob, self.x, z, batch_dims)

    def evaluates_changes(self, space: AbstractSpace) -> bool:
        """Return whether `changes` supports the z of a space."""
        return self._first is not None and self._first.fits(space.event_shape)

    def table(self) -> Float[Tensor, "..."]:
        r"""Return $\log p(x \mid z)$ of every category of a single categorical, `[*B, K]`.

        K is the width of the decoder's first linear layer.
        """
        if self._first is not None and self.takes_categories:
            size = self._first.entries
            parameters = self._first.finish(self._first.look_up()).reshape(size, self.x.shape[-1])
            return self._pairs(parameters).view(*self.batch_shape, size)
        first = next((layer for layer in self.decoder.modules() if isinstance(layer, nn.Linear)), None)
        if first is None:
            raise ArgumentError(
                f"cannot infer the number of categories from {type(self.decoder).__name__}, which has no linear layer; "
                f"call pairs(torch.eye(k)) instead"
            )
        return self.pairs(torch.eye(first.in_features, dtype=first.weight.dtype, device=first.weight.device))

    def _decode(self, z: Tensor) -> Tensor:
        """Return the decoder's output `[R, D]` for z `[R, *event]`, or for categories `[R]`."""
        if z.is_floating_point():
            return self.decoder(z).reshape(len(z), self.x.shape[-1])
        if self._first is None or not self.takes_categories:
            raise DtypeError(
                f"z must be floating point, got {z.dtype}; {type(self.decoder).__name__} does not begin with a linear "
                "layer of z, so that it cannot look up categories"
            )
        return self._first.finish(self._first.look_up(z)).reshape(len(z), self.x.shape[-1])

    def _changes_class(self) -> type[DecoderChanges]:
        return DecoderChanges

    @abstractmethod
    def _log_prob(self, parameters: Tensor, x: Tensor) -> Tensor:
        """Return log p of matching rows: `[..., D]` twice `-> [...]`."""

    @abstractmethod
    def _pairs(self, parameters: Tensor) -> Tensor:
        """Return log p of all pairs: `[M, D] -> [prod(B), M]`."""


@final
class BernoulliLikelihood(AbstractLikelihood):
    r"""Independent Bernoulli pixels, whose logits $l$ the decoder returns.

    $$ \log p(x \mid z) = \sum_j \big[x_j l_j - \operatorname{softplus}(l_j)\big], \qquad l = \mathrm{decoder}(z) $$

    x may have grey values in [0, 1]: then this is the cross-entropy, which most code calls a likelihood.

    Args:
        decoder: maps `[R, *event]` to logits `[R, *pixels]`.
        x: `[*B, *pixels]` in [0, 1].
        batch_dims: number of leading dimensions of x that are `*B`.

    Example:
        >>> import torch, hardmax as hm
        >>> decoder, x = torch.nn.Linear(10, 784), torch.rand(8, 784).round()
        >>> likelihood = hm.BernoulliLikelihood(decoder, x)
        >>> likelihood.table().shape
        torch.Size([8, 10])
        >>> hm.expectation(likelihood, torch.zeros(8, 10), hm.Categorical(10)).value.shape
        torch.Size([8])
    """

    def _log_prob(self, parameters: Tensor, x: Tensor) -> Tensor:
        return torch.linalg.vecdot(parameters, x) - softplus(parameters).sum(-1)

    def _pairs(self, parameters: Tensor) -> Tensor:
        return torch.addmm(softplus(parameters).sum(-1), self.x, parameters.mT, beta=-1)

    def _changes_class(self) -> type[DecoderChanges]:
        is_linear = self._first is not None and (not self._first.rest or self._first.last_linear is not None)
        return BernoulliChanges if is_linear else DecoderChanges


@final
class GaussianLikelihood(AbstractLikelihood):
    r"""Independent Gaussian pixels around the decoder's output.

    $$ \log p(x \mid z) = \sum_j \log \mathcal{N}(x_j; \mathrm{mean}_j, \mathrm{variance}) $$

    Args:
        decoder: maps `[R, *event]` to means `[R, *pixels]`.
        x: `[*B, *pixels]`.
        log_variance: log-variance of every pixel, a number or a (learned) tensor `[]` or `[D]`.
        batch_dims: number of leading dimensions of x that are `*B`.

    Example:
        >>> import torch, hardmax as hm
        >>> likelihood = hm.GaussianLikelihood(torch.nn.Linear(10, 4), torch.zeros(8, 4), log_variance=-2.0)
        >>> likelihood(torch.eye(10)[:, None].expand(-1, 8, -1)).shape
        torch.Size([10, 8])
    """

    def __init__(
        self, decoder: nn.Module, x: Tensor, log_variance: float | Tensor = 0.0, *, batch_dims: int = 1
    ) -> None:
        super().__init__(decoder, x, batch_dims=batch_dims)
        self.log_variance = torch.as_tensor(log_variance, dtype=x.dtype, device=x.device)

    def _log_prob(self, parameters: Tensor, x: Tensor) -> Tensor:
        return self._constant() - (self._precision() * (x - parameters).square()).sum(-1) / 2

    def _pairs(self, parameters: Tensor) -> Tensor:
        # (x - m)^2 = x^2 - 2 x m + m^2 loses digits if x and m are much larger than their distance: centre both.
        centre = self.x.mean(0) if len(self.x) else 0.0
        x, means = self.x - centre, parameters - centre
        scaled_means = self._precision() * means
        squares = (self._precision() * x.square()).sum(-1, keepdim=True) + (scaled_means * means).sum(-1)
        return self._constant() - squares / 2 + x @ scaled_means.mT

    def _precision(self) -> Tensor:
        return (-self.log_variance).exp().expand(self.x.shape[-1])

    def _constant(self) -> Tensor:
        return -(self.log_variance + math.log(2 * math.pi)).expand(self.x.shape[-1]).sum() / 2
