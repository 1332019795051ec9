"""Log-likelihoods log p(x | z) of a decoder, as objectives with fast methods for shared z and flipped bits."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import softplus

from hardmax.errors import ArgumentError, DtypeError, ShapeError
from hardmax.nn import MLPDecoder
from hardmax.types import Flips


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


_ROWS = 128  # number of rows at a time, so that their logits stay in the cache


class BernoulliFlips:
    r"""Gains in $\log p(x \mid z)$ from flipping single bits of z, with logits `last(relu(first([1 - z, z])))`.

    A flip adds one vector to the output of the first layer ($\mathrm{hidden} + (1 - 2 z_i) \, \mathrm{step}_i$), so
    that layer needs no matrix product. With the activations c,

    $$ \log p = \langle c, x W \rangle + \langle x, b \rangle - \sum_j \operatorname{softplus}(c W^T + b)_j $$

    whose first term is a product in the hidden dimension. Since $\log p$ is concave in the logits, its tangent is an
    upper bound for every flip,

    $$ \mathrm{gain}_i \le \langle c_i - c, (x - \operatorname{sigmoid}(\mathrm{logits})) W \rangle $$

    which does not need the second layer: most flips can be ruled out without an evaluation.

    Args:
        first: the decoder's first layer, `[1 - z, z]` to hidden.
        last: its second layer, hidden to logits.
        x: `[prod(B), D]`, the examples.
        z: `[S, *B, N]`, zeros and ones.
    """

    @torch.no_grad()
    def __init__(self, first: nn.Linear, last: nn.Linear, x: Float[Tensor, "R D"], z: Float[Tensor, "S *B N"]) -> None:
        n = z.shape[-1]
        self._shape = z.shape
        z, x = z.reshape(-1, n), x.repeat(len(z), 1)
        self._last, self._x = last, x
        self._step = (first.weight[:, n:] - first.weight[:, :n]).mT  # [N, H]: a zero becomes a one
        self._sign = 1 - 2 * z
        at_zero = first.weight[:, :n].sum(1)  # the output of the first layer for z = 0
        at_zero = at_zero if first.bias is None else at_zero + first.bias
        self._hidden = torch.addmm(at_zero, z, self._step)
        self._active = self._hidden.relu()
        self._logits = last(self._active)

    @property
    @torch.no_grad()
    def bounds(self) -> Float[Tensor, "S *B N"]:
        """Upper bounds of the gains."""
        slope = (self._x - self._logits.sigmoid()) @ self._last.weight
        flipped = torch.addcmul(self._hidden[:, None], self._sign[:, :, None], self._step).relu_()
        tangent = torch.linalg.vecdot(flipped, slope[:, None]) - torch.linalg.vecdot(self._active, slope)[:, None]
        return tangent.view(self._shape)

    @torch.no_grad()
    def gains(self, wanted: Bool[Tensor, "S *B N"]) -> Float[Tensor, " K"]:
        """Return `log p(x | z with bit i flipped) - log p(x | z)` where `wanted` is True, as a flat tensor."""
        row, bit = wanted.reshape(-1, self._shape[-1]).nonzero(as_tuple=True)
        active = torch.addcmul(
            self._hidden.index_select(0, row), self._sign[row, bit, None], self._step.index_select(0, bit)
        ).relu_()
        weight, log_prob = self._products
        normaliser = torch.cat([softplus(self._last(rows)).sum(-1) for rows in active.split(_ROWS)])
        return torch.linalg.vecdot(active, weight.index_select(0, row)) - normaliser - log_prob[row]

    @cached_property
    def _products(self) -> tuple[Tensor, Tensor]:
        """The weight of each hidden unit per example, `x W`; and log p(x | z) up to terms that flips do not change."""
        weight = self._x @ self._last.weight
        return weight, torch.linalg.vecdot(self._active, weight) - softplus(self._logits).sum(-1)


class AbstractLikelihood(ABC):
    r"""An objective $f(z) = \log p(x \mid z)$, from a decoder that maps z to the parameters of x.

    The decoder depends on z only, so a z that many examples share is decoded only once: `pairs` costs M rows of the
    decoder for the entire batch and one matrix product, while f itself costs one row for every candidate of every
    example.

    Args:
        decoder: maps `[R, *event]` to `[R, *pixels]` (or any shape with the same number of elements).
        x: `[*B, *pixels]`.
        batch_dims: number of leading dimensions of x that are `*B`.
    """

    def __init__(self, decoder: nn.Module, x: Tensor, *, batch_dims: int = 1) -> None:
        if not x.is_floating_point():
            raise DtypeError(f"x must be floating point, got {x.dtype}; pass x.float() / 255, or hardmax.data.binarize")
        self.decoder = decoder
        self.batch_shape = tuple(x.shape[:batch_dims])
        self.x = x.reshape(math.prod(self.batch_shape), math.prod(x.shape[batch_dims:]))

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

    def rows(self, z: Float[Tensor, "R ..."], index: Int[Tensor, " R"]) -> Float[Tensor, " R"]:
        r"""Return $\log p(x \mid z)$ for chosen examples: z `[R, *event]` and index `[R]` to `[R]`."""
        return self._log_prob(self._decode(z), self.x.index_select(0, index))

    def pairs(self, z: Float[Tensor, "M ..."]) -> Float[Tensor, "..."]:
        r"""Return $\log p(x \mid z)$ of the same z for every example: `[M, *event] -> [*B, M]`."""
        return self._pairs(self._decode(z)).view(*self.batch_shape, len(z))

    def table(self) -> Float[Tensor, "..."]:
        r"""Return $\log p(x \mid z)$ of every category of a single categorical, `[*B, K]`.

        K is the width of the decoder's first linear layer.
        """
        first = next((layer for layer in self.decoder.modules() if isinstance(layer, nn.Linear)), None)
        if first is None:
            raise ArgumentError(
                f"cannot infer the number of categories from {type(self.decoder).__name__}, which has no linear layer; "
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

    def __init__(self, decoder: nn.Module, x: Tensor, *, batch_dims: int = 1) -> None:
        super().__init__(decoder, x, batch_dims=batch_dims)
        layers = decoder.two_layers() if isinstance(decoder, MLPDecoder) else None
        if layers is not None:  # estimators detect the method with hasattr
            self.flips: Callable[[Tensor], Flips] = lambda z: BernoulliFlips(*layers, self.x, z)

    def _log_prob(self, parameters: Tensor, x: Tensor) -> Tensor:
        return torch.linalg.vecdot(parameters, x) - softplus(parameters).sum(-1)

    def _pairs(self, parameters: Tensor) -> Tensor:
        return torch.addmm(softplus(parameters).sum(-1), self.x, parameters.mT, beta=-1)


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
