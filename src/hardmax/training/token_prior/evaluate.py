"""How good is a prior over tokens on a set of pictures?"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from hardmax.models import TokenPrior
from hardmax.training.group import ALONE, Group


@torch.no_grad()
def evaluate(
    model: TokenPrior,
    pictures: Tensor,
    *,
    batch_size: int = 500,
    on_batch: Callable[[int], None] | None = None,
    group: Group = ALONE,
) -> dict[str, float]:
    """Return the means over pictures `[N, *shape]`, in nats for a picture; `bits` are of a token.

    `kl` is -log p(z) of their tokens z, and `elbo` is `log p(x | z) + log p(z)`, which is below log p(x).
    """
    totals = torch.zeros(2, dtype=torch.float64)
    for batch in pictures[group.part(len(pictures))].split(batch_size):
        bounds = model.bounds(batch)
        totals += torch.stack([bounds.reconstruction.double().sum().cpu(), bounds.kl.double().sum().cpu()])
        if on_batch is not None:
            on_batch(len(batch))
    group.add_up(totals)
    reconstruction, kl = (totals / max(len(pictures), 1)).tolist()
    return {
        "elbo": reconstruction - kl,
        "nll": kl - reconstruction,
        "kl": kl,
        "reconstruction": reconstruction,
        "bits": kl / (model.tokenizer.space.variables * math.log(2)),
    }
