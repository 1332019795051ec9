"""How good is a mixed VAE on a set of pictures?"""

from collections.abc import Callable

import torch
from torch import Tensor

from hardmax.models import MixedVAE
from hardmax.random import stream
from hardmax.spaces import Categorical
from hardmax.training.group import ALONE, Group
from hardmax.training.mixed.pictures import Seen, known

_COLUMNS = ("elbo", "log_likelihood", "reconstruction", "kl")


@torch.no_grad()
def evaluate(
    model: MixedVAE,
    pictures: Seen,
    *,
    samples: int = 1,
    seed: int = 0,
    batch_size: int = 500,
    on_batch: Callable[[int], None] | None = None,
    group: Group = ALONE,
) -> dict[str, float | None]:
    """Return the means over pictures: elbo, nll, kl, reconstruction in nats, and accuracies.

    The bound is exact in the discrete latent, the Gaussians are drawn `samples` times; `nll` is -log p(x), at most,
    from as many importance weights. `accuracy` is the share of variables whose arg max is the label, `accuracy_sampled`
    that of a z drawn from the encoder, which the paper's code counts. Without labels they are None.

    Each process of a group takes its part; the draws of a batch do not depend on who makes them.
    """
    totals = torch.zeros(len(_COLUMNS) + 3, dtype=torch.float64)
    batches = list(enumerate(pictures.split(batch_size)))
    for number, batch in batches[group.part(len(batches))]:
        generator = stream(seed, "evaluate", number, device=batch.x.device)
        encoded = model.encode(batch.shown)
        bounds = model.bounds(batch.x, encoded=encoded, samples=samples, generator=generator)
        sums = [getattr(bounds, name).double().sum().cpu() for name in _COLUMNS]
        totals += torch.stack([*sums, *_hits(model, encoded.scores, batch.labels, generator)])
        if on_batch is not None:
            on_batch(len(batch))
    group.add_up(totals)
    means = dict(zip(_COLUMNS, (totals[:4] / max(len(pictures), 1)).tolist(), strict=True))
    best, drawn, labelled = totals[4:].tolist()
    return {
        "elbo": means["elbo"],
        "nll": -means["log_likelihood"],
        "kl": means["kl"],
        "reconstruction": means["reconstruction"],
        "accuracy": best / labelled if labelled else None,
        "accuracy_sampled": drawn / labelled if labelled else None,
    }


def _hits(model: MixedVAE, scores: Tensor, labels: Tensor | None, generator: torch.Generator) -> list[Tensor]:
    """Return how many variables the arg max and a sample have right, and how many are labelled."""
    if labels is None:
        return [torch.zeros(())] * 3
    space = model.space
    counted = known(labels)
    drawn = space.sample(scores, 1, generator=generator)[0]
    found = [space.argmax(scores), drawn]
    if isinstance(space, Categorical):
        found = [z.argmax(-1, keepdim=True) for z in found]
    right = [(z.long() == labels.reshape(counted.shape)) & counted for z in found]
    return [mask.sum().double().cpu() for mask in (*right, counted)]
