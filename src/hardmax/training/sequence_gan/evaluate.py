"""How well does a generator know a language?"""

import torch
from torch import Tensor

from hardmax.data import Sequences
from hardmax.metrics.sequences import coverage, distinct, ngram_divergence, validity
from hardmax.models import SequenceGAN
from hardmax.random import stream

NGRAM = 3
"""Tokens in the n-grams whose divergence is measured."""
DRAWS_PER_SENTENCE = 10
"""Of so many draws for each sentence of the language, coverage is the share of sentences that are among them."""


@torch.no_grad()
def evaluate(
    model: SequenceGAN, data: Sequences, tokens: Tensor, *, draws: int = 1000, seed: int = 0
) -> dict[str, float | None]:
    """Return how likely real sequences are, and what generated ones are like.

    Exact, from the generator's probabilities: `nll`, the mean of -log q of the real sequences, which is also the bound
    (there is no latent, `elbo` is its negative); and where all sentences are known `validity`, the probability of
    writing one, and `coverage`, the share of them that ten draws for each are expected to hold. From draws: `entropy`
    of q in nats, whose exp is the number of sequences that it uses; `divergence` of its 3-grams from those of the real
    sequences, in nats; `distinct`, the share of draws that are left when each is counted once.

    Args:
        model: whose generator is judged.
        data: what it was trained on.
        tokens: `[N, T]`, real sequences.
        draws: how many sequences are drawn.
        seed: of the draws; they are the same for every set of real sequences.
    """
    generator = model.generator
    device = next(generator.parameters()).device
    nll = -_mean_log_prob(model, data.one_hot(tokens.to(device)))
    z = generator.draw(draws, generator=stream(seed, "evaluate", device=device))
    drawn = z.argmax(-1).cpu()
    found: dict[str, float | None] = {
        "elbo": -nll,
        "nll": nll,
        "validity": None,
        "coverage": None,
        "entropy": -_mean_log_prob(model, z),
        "divergence": ngram_divergence(drawn, tokens.cpu(), min(NGRAM, drawn.shape[1]), len(data.symbols)),
        "distinct": distinct(drawn),
    }
    if data.language is not None:
        log_prob = generator.log_prob(data.one_hot(data.language.to(device)))
        found["validity"] = validity(log_prob)
        found["coverage"] = coverage(log_prob, DRAWS_PER_SENTENCE * len(log_prob))
    return found


def _mean_log_prob(model: SequenceGAN, z: Tensor) -> float:
    return float(model.generator.log_prob(z).double().mean())
