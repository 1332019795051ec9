"""log p(x | z) of a decoder, with the shortcuts that a shared decoder allows."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import softplus

from hardmax.errors import ArgumentError, DtypeError, ShapeError
from hardmax.nn import MLPDecoder
from hardmax.objectives.flips import BernoulliFlips
from hardmax.types import Flips


class AbstractLikelihood(ABC):
    """An objective f(z) = log p(x | z), from a decoder that maps z to the parameters of x.

    The decoder sees z alone, so a z that many examples share is decoded once: `pairs` costs M rows of the decoder
    for the whole batch and one matmul, where f itself costs one row for every candidate of every example.

    Args:
        decoder: maps `[R, *event]` to `[R, *pixels]` (or any shape with as many elements).
        x: `[*B, *pixels]`.
        batch_dims: how many leading dimensions of x are `*B`.
    """

    def __init__(self, decoder: nn.Module, x: Tensor, *, batch_dims: int = 1) -> None:
        if not x.is_floating_point():
            raise DtypeError(f"x must be floating point, got {x.dtype}; pass x.float() / 255, or hardmax.data.binarize")
        self.decoder = decoder
        self.batch_shape = tuple(x.shape[:batch_dims])
        self.x = x.reshape(math.prod(self.batch_shape), math.prod(x.shape[batch_dims:]))

    def __call__(self, z: Float[Tensor, "C ..."]) -> Float[Tensor, "C *B"]:
        """Return log p(x | z) of every candidate and example: `[C, *B, *event] -> [C, *B]`."""
        lead = z.shape[: 1 + len(self.batch_shape)]
        if tuple(lead[1:]) != self.batch_shape:
            raise ShapeError(
                f"z has batch shape {list(lead[1:])}, but x has {list(self.batch_shape)}; "
                f"scores and x must be of the same examples"
            )
        parameters = self._decode(z.flatten(0, len(lead) - 1)).view(lead[0], *self.x.shape)
        return self._log_prob(parameters, self.x).view(lead)

    def rows(self, z: Float[Tensor, "R ..."], index: Int[Tensor, " R"]) -> Float[Tensor, " R"]:
        """Return log p(x | z) for chosen examples."""
        return self._log_prob(self._decode(z), self.x.index_select(0, index))

    def pairs(self, z: Float[Tensor, "M ..."]) -> Float[Tensor, "..."]:
        """Return log p(x | z) of the same z for every example: `[M, *event] -> [*B, M]`."""
        return self._pairs(self._decode(z)).view(*self.batch_shape, len(z))

    def table(self) -> Float[Tensor, "..."]:
        """Return log p(x | z) of every category of a single categorical, `[*B, K]`.

        K is the width of the decoder's first linear layer.
        """
        first = next((layer for layer in self.decoder.modules() if isinstance(layer, nn.Linear)), None)
        if first is None:
            raise ArgumentError(
                f"cannot tell the number of categories from {type(self.decoder).__name__}, which has no linear layer; "
                f"call pairs(torch.eye(k)) instead"
            )
        return self.pairs(torch.eye(first.in_features, dtype=first.weight.dtype, device=first.weight.device))

    def _decode(self, z: Tensor) -> Tensor:
        return self.decoder(z).reshape(len(z), self.x.shape[-1])

    @abstractmethod
    def _log_prob(self, parameters: Tensor, x: Tensor) -> Tensor:
        """Return log p of matching rows: `[..., D]` twice `-> [...]`."""

    @abstractmethod
    def _pairs(self, parameters: Tensor) -> Tensor:
        """Return log p of all pairs: `[M, D] -> [prod(B), M]`."""


@final
class BernoulliLikelihood(AbstractLikelihood):
    """Independent Bernoulli pixels, `log p(x | z) = sum_j x_j l_j - softplus(l_j)`, `l = decoder(z)` the logits.

    x may be grey, in [0, 1]: then this is the cross-entropy that most code calls a likelihood.

    Args:
        decoder: maps `[R, *event]` to logits `[R, *pixels]`.
        x: `[*B, *pixels]` in [0, 1].
        batch_dims: how many leading dimensions of x are `*B`.

    Example:
        >>> import torch, hardmax as hm
        >>> decoder, x = torch.nn.Linear(10, 784), torch.rand(8, 784).round()
        >>> likelihood = hm.BernoulliLikelihood(decoder, x)
        >>> likelihood.table().shape
        torch.Size([8, 10])
        >>> hm.expectation(likelihood, torch.zeros(8, 10), hm.Categorical(10)).value.shape
        torch.Size([8])
    """

    def __init__(self, decoder: nn.Module, x: Tensor, *, batch_dims: int = 1) -> None:
        super().__init__(decoder, x, batch_dims=batch_dims)
        layers = decoder.two_layers() if isinstance(decoder, MLPDecoder) else None
        if layers is not None:  # an estimator asks with hasattr
            self.flips: Callable[[Tensor], Flips] = lambda z: BernoulliFlips(*layers, self.x, z)

    def _log_prob(self, parameters: Tensor, x: Tensor) -> Tensor:
        return torch.linalg.vecdot(parameters, x) - softplus(parameters).sum(-1)

    def _pairs(self, parameters: Tensor) -> Tensor:
        return torch.addmm(softplus(parameters).sum(-1), self.x, parameters.mT, beta=-1)


@final
class GaussianLikelihood(AbstractLikelihood):
    """Independent Gaussian pixels around the decoder's output, `log p(x | z) = sum_j log N(x_j; mean_j, variance)`.

    Args:
        decoder: maps `[R, *event]` to means `[R, *pixels]`.
        x: `[*B, *pixels]`.
        log_variance: of every pixel, a number or a (learned) tensor `[]` or `[D]`.
        batch_dims: how many leading dimensions of x are `*B`.

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
        # (x - m)^2 = x^2 - 2 x m + m^2 cancels where x and m are large against their distance: measure from the middle.
        middle = self.x.mean(0) if len(self.x) else 0.0
        x, means = self.x - middle, parameters - middle
        precise = self._precision() * means
        squares = (self._precision() * x.square()).sum(-1, keepdim=True) + (precise * means).sum(-1)
        return self._constant() - squares / 2 + x @ precise.mT

    def _precision(self) -> Tensor:
        return (-self.log_variance).exp().expand(self.x.shape[-1])

    def _constant(self) -> Tensor:
        return -(self.log_variance + math.log(2 * math.pi)).expand(self.x.shape[-1]).sum() / 2
