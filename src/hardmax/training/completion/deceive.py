"""A network that tells completed pictures from real ones, and the gradient that deceives it."""

import torch
from torch import Tensor, nn

from hardmax.nn import conv_trunk
from hardmax.objectives import discriminator_loss

_HIDDEN, _WIDTH = 64, 16


def make_critic(shape: tuple[int, ...]) -> nn.Module:
    """Return a small convolutional network from pictures `[B, *shape]` to logits of being real, `[B, 1]`."""
    return nn.Sequential(conv_trunk(shape, _HIDDEN, _WIDTH), nn.Linear(_HIDDEN, 1))


def adversarial_loss(critic: nn.Module, real: Tensor, completed: Tensor, weight: float) -> Tensor:
    """Return `-log D(real) - log(1 - D(completed))`, `[B]`, whose gradient is turned round for what drew the pictures.

    One backward pass trains both sides: the critic descends the loss, the completions climb it, times a weight.

    Args:
        critic: D, as logits.
        real: `[B, *shape]`.
        completed: `[B, *shape]`, with their gradient.
        weight: of the completions' side.

    References:
        Goodfellow et al., "Generative adversarial nets", 2014; Ganin & Lempitsky, "Unsupervised domain adaptation by
        backpropagation", 2015 (the turned gradient).
    """
    turned = _Turned.apply(completed, weight)
    of_real, of_completed = discriminator_loss(critic(real).squeeze(-1), critic(turned).squeeze(-1))
    return of_real + of_completed


class _Turned(torch.autograd.Function):
    """The identity, with minus the gradient times a weight."""

    @staticmethod
    def forward(ctx, x: Tensor, weight: float) -> Tensor:
        ctx.weight = weight
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return -ctx.weight * gradient, None
