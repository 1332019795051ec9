"""How likely are the hidden pixels of a set of pictures, and how near are completions to them?"""

from collections.abc import Callable

import torch

from hardmax.metrics.similarity import psnr
from hardmax.models import CompletionModel
from hardmax.random import stream
from hardmax.training.completion.pictures import Holed
from hardmax.training.group import ALONE, Group

_COLUMNS = ("elbo", "log_likelihood", "reconstruction", "kl")


@torch.no_grad()
def evaluate(
    model: CompletionModel,
    pictures: Holed,
    *,
    samples: int = 1,
    seed: int = 0,
    batch_size: int = 500,
    on_batch: Callable[[int], None] | None = None,
    group: Group = ALONE,
) -> dict[str, float]:
    """Return means over pictures: elbo, nll, kl, reconstruction of the hidden pixels in nats, psnr and components.

    `elbo` is of `samples` draws of z, `nll` is -log p(hidden | visible), at most, from as many importance weights.
    `psnr` is of one completion of each picture, in decibels. `components` is how many are in use: the perplexity of
    the weights, averaged over all pictures.

    Each process of a group takes its part; the draws of a batch do not depend on who makes them.
    """
    totals = torch.zeros(len(_COLUMNS) + 1, dtype=torch.float64)
    batches = list(enumerate(pictures.split(batch_size)))
    k = model.look(pictures.x[:1], pictures.hidden[:1]).mixture.scores.shape[-1]
    weights = torch.zeros(k, dtype=torch.float64)
    for number, batch in batches[group.part(len(batches))]:
        generator = stream(seed, "evaluate", number, device=batch.x.device)
        bounds = model.bounds(batch.x, batch.hidden, samples=samples, generator=generator)
        completed = model.complete(batch.x, batch.hidden, count=1, generator=generator)
        near = psnr(completed.pictures[0], batch.x, batch.hidden)
        sums = [getattr(bounds, name).double().sum() for name in _COLUMNS]
        totals += torch.stack([*sums, near.double().sum()]).cpu()
        weights += model.look(batch.x, batch.hidden).mixture.log_weights.exp().double().sum(0).cpu()
        if on_batch is not None:
            on_batch(len(batch))
    group.add_up(totals)
    group.add_up(weights)
    count = max(len(pictures), 1)
    elbo, log_likelihood, reconstruction, kl, near = (totals / count).tolist()
    share = weights / count
    return {
        "elbo": elbo,
        "nll": -log_likelihood,
        "kl": kl,
        "reconstruction": reconstruction,
        "psnr": near,
        "components": float(torch.special.entr(share).sum().exp()),
    }
