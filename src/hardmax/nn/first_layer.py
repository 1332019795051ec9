"""The linear layer that z enters a decoder by: a change of one variable of z adds a vector to its output."""

from dataclasses import dataclass
from math import prod
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from hardmax.nn.linear import Linear, apply_linear
from hardmax.nn.mlp import MLPDecoder

# For fewer rows, the backward pass of a matrix product with a transposed input is slower, up to ten times, than a copy.
_FEW_ROWS = 64

# Modules that treat every row of a batch separately, so that rows may be evaluated in any grouping.
_ROW_BY_ROW = frozenset(
    (
        nn.Conv2d,
        nn.ConvTranspose2d,
        nn.ELU,
        nn.Flatten,
        nn.GELU,
        nn.Identity,
        nn.LayerNorm,
        nn.LeakyReLU,
        Linear,
        nn.Linear,
        nn.ReLU,
        nn.SiLU,
        nn.Sigmoid,
        nn.Softplus,
        nn.Tanh,
        nn.Unflatten,
    )
)


@final
@dataclass(frozen=True)
class FirstLayer:
    r"""A decoder as a linear layer of z and the rest: $\mathrm{decoder}(z) = \mathrm{rest}(b + \sum_e z_e w_e)$.

    The sum is over the E entries of z, flattened. For one-hot z, it adds one vector for each variable, and needs no
    matrix product.

    Args:
        linear: the layer.
        rest: all later layers, possibly none.
        takes_both: whether the layer's input is `[1 - z, z]` instead of z.
        flattens: whether z is flattened first; otherwise z has one dimension.
    """

    linear: nn.Linear
    rest: tuple[nn.Module, ...]
    takes_both: bool
    flattens: bool

    @property
    def entries(self) -> int:
        """E, the number of entries of z."""
        return self.linear.in_features // (2 if self.takes_both else 1)

    def fits(self, event_shape: tuple[int, ...]) -> bool:
        """Return whether the layer combines all entries of a z of this shape."""
        return prod(event_shape) == self.entries and (self.flattens or len(event_shape) == 1)

    def offset(self) -> Float[Tensor, " H"] | None:
        """Return b, the output for z = 0, or None if it is zero."""
        bias = self.linear.bias
        if not self.takes_both:
            return bias
        at_zero = self.linear.weight[:, : self.entries].sum(1)
        return at_zero if bias is None else at_zero + bias

    def vectors(self) -> Float[Tensor, "E H"]:
        """Return w, the vector that each entry of z adds."""
        weight = self.linear.weight
        if self.takes_both:
            weight = weight[:, self.entries :] - weight[:, : self.entries]
        return weight.mT

    def output(self, z: Float[Tensor, "R E"]) -> Float[Tensor, "R H"]:
        """Return the output of the layer."""
        return apply_linear(z, self.vectors().mT, self.offset())

    def look_up(self, category: Int[Tensor, " R"] | None = None) -> Float[Tensor, "R H"]:
        """Return the output for one-hot z of one variable, given by the index of its one, or for all indices."""
        weight = self.linear.weight if category is None else self.linear.weight.index_select(1, category)
        vectors = weight.mT
        if vectors.shape[0] <= _FEW_ROWS and torch.is_grad_enabled():
            vectors = vectors.contiguous()
        return vectors if self.linear.bias is None else vectors + self.linear.bias

    def finish(self, hidden: Float[Tensor, "R H"]) -> Float[Tensor, "R ..."]:
        """Apply the rest of the decoder."""
        for layer in self.rest:
            hidden = layer(hidden)
        return hidden

    @property
    def last_linear(self) -> nn.Linear | None:
        """The layer after the ReLU, if the rest is a ReLU and a linear layer; else None."""
        if len(self.rest) == 2 and isinstance(self.rest[0], nn.ReLU) and isinstance(self.rest[1], nn.Linear):
            return self.rest[1]
        return None


def split_first_layer(decoder: nn.Module) -> FirstLayer | None:
    """Split a decoder after the linear layer that z enters it by.

    Args:
        decoder: a linear layer, an `nn.Sequential` that begins with one (after `nn.Flatten`), or an `MLPDecoder`.

    Returns:
        The parts; None if the decoder is of another kind, has hooks, or has layers that mix the rows of a batch.

    Example:
        >>> import torch
        >>> decoder = nn.Sequential(nn.Linear(10, 3), nn.ReLU(), nn.Linear(3, 4))
        >>> first = split_first_layer(decoder)
        >>> torch.equal(first.finish(first.look_up(torch.tensor([2]))), decoder(torch.eye(10)[2:3]))
        True
    """
    is_mlp = isinstance(decoder, MLPDecoder)
    layers = tuple(decoder.layers) if is_mlp else tuple(decoder) if type(decoder) is nn.Sequential else (decoder,)
    flattens = bool(layers) and type(layers[0]) is nn.Flatten and (layers[0].start_dim, layers[0].end_dim) == (1, -1)
    layers = layers[1:] if flattens else layers
    if _has_hooks(decoder) or any(type(layer) not in _ROW_BY_ROW or _has_hooks(layer) for layer in layers):
        return None
    if not layers or not isinstance(layers[0], nn.Linear):
        return None
    return FirstLayer(layers[0], layers[1:], is_mlp and decoder.takes_both, is_mlp or flattens)


def _has_hooks(module: nn.Module) -> bool:
    return bool(
        module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks
    )
