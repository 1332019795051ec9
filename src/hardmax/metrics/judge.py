"""Training of judges: small convolutional networks that learn from real pictures what generated ones are asked for."""

import copy
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from hardmax.nn import conv_trunk
from hardmax.random import stream

_HIDDEN, _WIDTH, _DROPOUT = 128, 16, 0.5
_LR = 1e-3


def train_judge(
    pictures: Float[Tensor, "N channels H W"],
    outputs: int,
    loss: Callable[[Tensor, Tensor], Tensor],
    quality: Callable[[nn.Module], float],
    *,
    name: str,
    mirror: bool,
    batch_size: int,
    epochs: int,
    seed: int,
) -> nn.Module:
    """Train a judge; return it as it was after its best epoch. Torch's global generator is kept.

    Args:
        pictures: real ones.
        outputs: logits for each picture.
        loss: from logits `[B, outputs]` and which pictures they are of, `[B]`, to the loss.
        quality: of a judge, on others; higher is better.
        name: of its stream of randomness.
        mirror: whether pictures are mirrored by chance.
        batch_size: pictures in a step.
        epochs: how often the pictures are gone through.
        seed: of all randomness.

    Returns:
        A trunk, dropout and a linear layer: its features are what the trunk gives, its logits what comes last.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream(seed, name).initial_seed())
        network = nn.Sequential(
            conv_trunk(tuple(pictures.shape[1:]), _HIDDEN, _WIDTH), nn.Dropout(_DROPOUT), nn.Linear(_HIDDEN, outputs)
        )
        optimizer = torch.optim.Adam(network.parameters(), lr=_LR)
        best, kept = -1.0, network.state_dict()
        for _ in range(epochs):
            network.train()
            for index in torch.randperm(len(pictures)).split(batch_size):
                x = pictures[index]
                if mirror:
                    x = torch.where(torch.rand(len(x), 1, 1, 1) < 0.5, x.flip(-1), x)
                optimizer.zero_grad()
                loss(network(x), index).backward()
                optimizer.step()
            if (found := quality(network)) > best:
                best, kept = found, copy.deepcopy(network.state_dict())
    network.load_state_dict(kept)
    return network.eval()


@torch.no_grad()
def judged(network: nn.Module, pictures: Float[Tensor, "N channels H W"]) -> Float[Tensor, "N outputs"]:
    """Return the logits of a judge, batch by batch."""
    network.eval()
    return torch.cat([network(some) for some in pictures.split(500)])
