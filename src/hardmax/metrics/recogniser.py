"""A judge of generated pictures: a network that has learnt from real ones which attributes a picture has."""

import copy

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from hardmax.nn import conv_trunk
from hardmax.random import stream

_HIDDEN, _WIDTH, _DROPOUT = 128, 16, 0.5
_BATCH, _LR = 50, 1e-3


def train_recogniser(
    pictures: Float[Tensor, "N channels H W"],
    attributes: Int64[Tensor, "N A"],
    validation: tuple[Float[Tensor, "M channels H W"], Int64[Tensor, "M A"]],
    *,
    epochs: int = 20,
    seed: int = 0,
) -> nn.Module:
    """Train a small convolutional network to name attributes; return it as it was after its best epoch.

    Pictures are mirrored by chance: attributes that tell left from right cannot be learnt. Torch's global generator is
    kept.

    Args:
        pictures: `[N, channels, H, W]`, real ones.
        attributes: `[N, A]`, their bits; a -1 teaches nothing.
        validation: others, by which the best epoch is chosen.
        epochs: how often the pictures are gone through.
        seed: of all randomness.

    Returns:
        A module from pictures `[B, channels, H, W]` to logits `[B, A]`.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream(seed, "recogniser").initial_seed())
        network = nn.Sequential(
            conv_trunk(tuple(pictures.shape[1:]), _HIDDEN, _WIDTH),
            nn.Dropout(_DROPOUT),
            nn.Linear(_HIDDEN, attributes.shape[1]),
        )
        optimizer = torch.optim.Adam(network.parameters(), lr=_LR)
        best, kept = -1.0, network.state_dict()
        for _ in range(epochs):
            network.train()
            for index in torch.randperm(len(pictures)).split(_BATCH):
                x, bits = pictures[index], attributes[index]
                mirrored = torch.rand(len(x), 1, 1, 1) < 0.5
                logits = network(torch.where(mirrored, x.flip(-1), x))
                losses = binary_cross_entropy_with_logits(logits, bits.clamp_min(0).float(), reduction="none")
                optimizer.zero_grad()
                (losses * (bits >= 0)).sum().div(len(x)).backward()
                optimizer.step()
            right = float(shares_right(recognise(network, validation[0]), validation[1]).mean())
            if right > best:
                best, kept = right, copy.deepcopy(network.state_dict())
    network.load_state_dict(kept)
    return network.eval()


@torch.no_grad()
def recognise(network: nn.Module, pictures: Float[Tensor, "N channels H W"]) -> Int64[Tensor, "N A"]:
    """Return the bits that a network sees in pictures."""
    network.eval()
    return torch.cat([(network(some) > 0).long() for some in pictures.split(500)])


def shares_right(found: Int64[Tensor, "N A"], attributes: Int64[Tensor, "N A"]) -> Float[Tensor, "A"]:
    """Return how often each attribute is what it should be, of where that is known."""
    known = attributes >= 0
    return ((found == attributes) & known).sum(0) / known.sum(0).clamp_min(1)
