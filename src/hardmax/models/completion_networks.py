"""The networks of a completion model: two trunks, heads on them, a decoder."""

from dataclasses import dataclass
from math import prod

from torch import nn

from hardmax.errors import ArgumentError
from hardmax.models.vae import Architecture
from hardmax.nn import ComponentHead, ConvBeside, MLPBeside, ScoreHead, conv_trunk, mlp
from hardmax.spaces import Categorical


@dataclass(frozen=True)
class CompletionNetworks:
    """What a `CompletionModel` is made of.

    Attributes:
        visible: maps pictures `[B, *shape]`, without their hidden part, to features `[B, H]`, z_m of the document.
        decoder: maps features `[R, H]`, z `[R, c]` and the visible part `[R, *shape]` to pixels `[R, *shape]`.
        whole: maps whole pictures `[B, *shape]` to features `[B, H]`; None where there is no latent.
        posterior: maps both features `[B, 2 H]` to mean and log-variance of z, `[B, 2 c]`; None where there is none.
        weights: maps features `[B, H]` to scores of components `[B, k]`; None where the prior is a standard normal.
        components: maps features `[B, H]` to their means and log-variances `[B, k, c]`; None as `weights`.
        chooser: maps both features `[B, 2 H]` to the encoder's own scores of components `[B, k]`; None as `weights`.
    """

    visible: nn.Module
    decoder: nn.Module
    whole: nn.Module | None = None
    posterior: nn.Module | None = None
    weights: nn.Module | None = None
    components: nn.Module | None = None
    chooser: nn.Module | None = None


def completion_networks(
    architecture: Architecture, shape: tuple[int, ...], components: int, latent: int, hidden: int
) -> CompletionNetworks:
    """Return networks of our own for pictures of this shape (channels, H, W).

    "mlp" has two hidden layers in each trunk and in the decoder; "conv" has convolutions there.

    Raises:
        ArgumentError: an unknown architecture, or a mixture over no latent.
    """
    if components < 0 or latent < 0 or (components and not latent):
        raise ArgumentError(
            f"components and latent must not be negative, and components need a latent to be of, got {components} and "
            f"{latent}; for a network without a latent set both to 0"
        )
    if architecture == "mlp":
        decoder = MLPBeside(hidden, latent, shape, hidden)
    elif architecture == "conv":
        decoder = ConvBeside(hidden, latent, shape, hidden)
    else:
        raise ArgumentError(f"architecture must be 'mlp' or 'conv', got {architecture!r}")
    visible = _trunk(architecture, shape, hidden)
    if not latent:
        return CompletionNetworks(visible, decoder)
    width = max(100, 2 * latent)
    whole, posterior = _trunk(architecture, shape, hidden), nn.Linear(2 * hidden, 2 * latent)
    if not components:
        return CompletionNetworks(visible, decoder, whole, posterior)
    space = Categorical(components)
    return CompletionNetworks(
        visible,
        decoder,
        whole,
        posterior,
        weights=ScoreHead(hidden, space),
        components=ComponentHead(hidden, components, latent, width),
        chooser=ScoreHead(2 * hidden, space),
    )


def _trunk(architecture: Architecture, shape: tuple[int, ...], hidden: int) -> nn.Module:
    if architecture == "conv":
        return conv_trunk(shape, hidden)
    return nn.Sequential(nn.Flatten(), *mlp([prod(shape), hidden, hidden]), nn.ReLU())
