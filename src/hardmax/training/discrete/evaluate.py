"""How good is a model on a set of pictures?"""

from collections.abc import Callable

import torch
from torch import Tensor

from hardmax.models import DiscreteVAE
from hardmax.random import stream
from hardmax.training.group import ALONE, Group

RARE = 1e-3  # what is the best of fewer pictures than this share is not in use
_COLUMNS = ("elbo", "log_likelihood", "reconstruction", "kl")


@torch.no_grad()
def evaluate(
    model: DiscreteVAE,
    pictures: Tensor,
    *,
    samples: int = 100,
    seed: int = 0,
    batch_size: int = 500,
    on_batch: Callable[[int], None] | None = None,
    group: Group = ALONE,
) -> dict[str, float | int]:
    """Return the means over pictures `[N, *shape]`: elbo, nll, kl, reconstruction in nats, and active.

    `nll` is -log p(x), exact where z can be enumerated and an upper bound from `samples` importance weights where not.
    `active`, for one categorical: categories that are the best of at least one picture in a thousand; for several
    variables: variables whose best value is not the same in all but one picture in a thousand.

    Each process of a group takes its part of the pictures; where bounds come from samples the first one takes all,
    since the samples of a picture depend on the pictures before it.
    """
    generator = stream(seed, "evaluate", device=pictures.device)
    totals = torch.zeros(len(_COLUMNS), dtype=torch.float64)
    usage = torch.zeros(model.space.event_shape, dtype=torch.float64)
    part = group.part(len(pictures)) if model.enumerable else slice(None if group.first else 0)
    for batch in pictures[part].split(batch_size):
        bounds = model.bounds(batch, samples=samples, generator=generator)
        totals += torch.stack([getattr(bounds, name).double().sum().cpu() for name in _COLUMNS])
        usage += model.space.argmax(model.encoder(batch)).double().sum(0).cpu()
        if on_batch is not None:
            on_batch(len(batch))
    group.add_up(totals)
    group.add_up(usage)
    count = max(len(pictures), 1)
    elbo, log_likelihood, reconstruction, kl = (totals / count).tolist()
    return {
        "elbo": elbo,
        "nll": -log_likelihood,
        "kl": kl,
        "reconstruction": reconstruction,
        "active": _active(model, usage / count),
    }


@torch.no_grad()
def refined(model: DiscreteVAE, pictures: Tensor, *, batch_size: int = 500) -> float:
    """Return the mean of `-log p(x, z)`, z the encoder's best code after greedy changes."""
    return -float(torch.cat([model.refined(batch) for batch in pictures.split(batch_size)]).double().mean())


@torch.no_grad()
def perturbed(model: DiscreteVAE, pictures: Tensor, *, samples: int, seed: int = 0, batch_size: int = 500) -> float:
    """Return the mean -bound of the encoder as perturb-and-MAP, from the pseudo-likelihood."""
    generator = stream(seed, "perturbed", device=pictures.device)
    found = [
        model.perturb_and_map_bounds(batch, samples=samples, generator=generator).elbo
        for batch in pictures.split(batch_size)
    ]
    return -float(torch.cat(found).double().mean())


def _active(model: DiscreteVAE, usage: Tensor) -> int:
    used = usage >= RARE
    if model.space.categories is not None:
        return int(used.sum())
    if usage.dim() == 2:  # a row for each variable, item or place
        return int((used.sum(-1) > 1).sum())
    return int((used & (usage <= 1 - RARE)).sum())
