"""How good is a dVAE on a set of pictures?"""

from collections.abc import Callable

import torch
from torch import Tensor

from hardmax.metrics.codes import alive, perplexity
from hardmax.models import TokenVAE
from hardmax.random import stream
from hardmax.training.dvae.config import DvaeConfig
from hardmax.training.group import ALONE, Group

_COLUMNS = ("elbo", "log_likelihood", "reconstruction", "kl")


@torch.no_grad()
def evaluate(
    model: TokenVAE,
    pictures: Tensor,
    config: DvaeConfig,
    *,
    samples: int = 1,
    batch_size: int = 500,
    on_batch: Callable[[int], None] | None = None,
    group: Group = ALONE,
) -> dict[str, float]:
    """Return the means over pictures `[N, *shape]`.

    `elbo`, `nll`, `kl` and `reconstruction` are in nats for a picture, with the KL's weight 1, whatever it was trained
    with. Tokens that are drawn are drawn `samples` times; where they are the nearest codes, q is a point and its KL is
    n log K. `mse` is the mean squared error of a pixel that is drawn again from the tokens; `perplexity` is that of all
    tokens together, at most K, and `alive` the share of the codebook that they use.

    Each process of a group takes its part; the draws of a batch do not depend on who makes them.
    """
    totals = torch.zeros(len(_COLUMNS) + 1, dtype=torch.float64)
    counts = torch.zeros(model.space.k, dtype=torch.float64)
    batches = list(enumerate(pictures.split(batch_size)))
    for number, batch in batches[group.part(len(batches))]:
        if config.quantize == "nearest":
            bounds = model.token_bounds(batch)
        else:
            generator = stream(config.seed, "evaluate", number, device=batch.device)
            bounds = model.bounds(batch, samples=samples, generator=generator)
        tokens = model.tokenize(batch)
        error = (model.detokenize(tokens) - batch).square().flatten(1).mean(1)
        sums = [getattr(bounds, name).double().sum().cpu() for name in _COLUMNS]
        totals += torch.stack([*sums, error.double().sum().cpu()])
        counts += tokens.flatten().bincount(minlength=model.space.k).cpu()
        if on_batch is not None:
            on_batch(len(batch))
    group.add_up(totals)
    group.add_up(counts)
    elbo, log_likelihood, reconstruction, kl, mse = (totals / max(len(pictures), 1)).tolist()
    return {
        "elbo": elbo,
        "nll": -log_likelihood,
        "kl": kl,
        "reconstruction": reconstruction,
        "mse": mse,
        "perplexity": float(perplexity(counts / counts.sum().clamp_min(1))),
        "alive": alive(counts),
    }
