"""A linear layer whose matrix products take half the time on many processors."""

from functools import cache
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import linear

from hardmax.tracing import is_eager

_MANY_MULTIPLICATIONS = 2**20  # below, a call of oneDNN takes longer than it saves


@final
class Linear(nn.Linear):
    """`nn.Linear`, by oneDNN instead of MKL where that is faster: large float32 products on CPUs with AVX-512.

    MKL, which torch uses for matrix products, uses no AVX-512 on processors that are not Intel's. There a product of
    100 x 784 by 784 x 512 takes 770 us, and with oneDNN, which is also a part of torch, 350 us. Results differ by
    rounding. Weights and state dict are those of `nn.Linear`.

    Example:
        >>> import torch
        >>> layer, x = Linear(784, 512), torch.rand(100, 784)
        >>> torch.allclose(layer(x), nn.functional.linear(x, layer.weight, layer.bias), atol=1e-4)
        True
    """

    def forward(self, input: Float[Tensor, "*B K"]) -> Float[Tensor, "*B N"]:
        """Return the output."""
        return apply_linear(input, self.weight, self.bias)


def apply_linear(
    x: Float[Tensor, "*B K"], weight: Float[Tensor, "N K"], bias: Float[Tensor, " N"] | None = None
) -> Float[Tensor, "*B N"]:
    """Return $x w^T + b$, by oneDNN where that is faster; can be differentiated any number of times."""
    if _is_onednn_faster(x, weight):
        return _OneDNNLinear.apply(x, weight, bias)
    return linear(x, weight, bias)


def _is_onednn_faster(x: Tensor, weight: Tensor) -> bool:
    return (
        is_eager(x)  # first: torch.compile cannot trace the other conditions
        and is_eager(weight)
        and x.numel() * len(weight) >= _MANY_MULTIPLICATIONS
        and x.dtype == weight.dtype == torch.float32
        and x.is_cpu
        and weight.is_cpu
        and _has_fast_kernels()
        and not torch.is_autocast_enabled("cpu")
    )


@cache
def _has_fast_kernels() -> bool:
    """Return whether oneDNN has kernels for AVX-512 here, and torch the private function that calls them."""
    return (
        torch.backends.cpu.get_cpu_capability() == "AVX512"
        and torch.backends.mkldnn.is_available()
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    )


class _OneDNNLinear(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor | None], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[:2])

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, ...]:
        (gradient,), (x, weight) = gradients, ctx.saved_tensors
        rows = gradient.flatten(0, -2)
        return (
            apply_linear(gradient, weight.mT) if ctx.needs_input_grad[0] else None,
            apply_linear(rows.mT, x.flatten(0, -2).mT) if ctx.needs_input_grad[1] else None,
            rows.sum(0) if ctx.needs_input_grad[2] else None,
        )
