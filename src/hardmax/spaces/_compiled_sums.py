"""Derivatives of compiled sums over structures: compiled too, where a kernel exists, else those of equal torch code."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Tensors = tuple[Tensor, ...]


class CompiledFunction(torch.autograd.Function):
    """A function of scores by compiled code; `apply(scores, run, run_in_torch, differentiate)`.

    Attributes:
        run: the compiled function, from scores to a tuple of tensors.
        run_in_torch: the same function in torch, which gives derivatives of any order.
        differentiate: `(scores, values, gradients) -> [scores]`, the product of the Jacobian and gradients, compiled;
            it returns None where it is not accurate. Gradients that are not needed are None. None if there is none.
    """

    @staticmethod
    def forward(
        ctx: Any,
        scores: Tensor,
        run: Callable[[Tensor], Tensors],
        run_in_torch: Callable[[Tensor], Tensors],
        differentiate: Callable[[Tensor, Tensors, tuple[Tensor | None, ...]], Tensor | None] | None,
    ) -> Tensors:
        """Return `run(scores)`."""
        values = run(scores.detach())
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(scores, *values)
        ctx.run_in_torch, ctx.differentiate = run_in_torch, differentiate
        return values

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        """Return the gradient for scores."""
        if all(gradient is None for gradient in gradients):
            return None, None, None, None
        scores, *values = ctx.saved_tensors
        wants_graph = torch.is_grad_enabled()
        if ctx.differentiate is not None and not wants_graph:
            gradient = ctx.differentiate(scores, tuple(values), gradients)
            if gradient is not None:
                return gradient, None, None, None
        with torch.enable_grad():
            leaf = scores if wants_graph else scores.detach().requires_grad_()
            pairs = [pair for pair in zip(ctx.run_in_torch(leaf), gradients, strict=True) if pair[1] is not None]
        values, gradients = zip(*pairs, strict=True)
        return torch.autograd.grad(values, leaf, gradients, create_graph=wants_graph)[0], None, None, None
