"""Metrics of a sequence generator: exact where they follow from its probabilities, otherwise from samples."""

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from hardmax.applications.sequences.model import SequenceGAN
from hardmax.data import Sequences
from hardmax.random import make_generator


def measure_validity(log_prob: Float[Tensor, "M"]) -> float:
    """Return the probability that a generated sequence is a sentence of the language.

    Args:
        log_prob: `[M]`, `log q` of all sentences.

    Example:
        >>> import torch
        >>> round(measure_validity(torch.tensor([0.5, 0.25]).log()), 4)
        0.75
    """
    return float(log_prob.double().exp().sum())


def measure_coverage(log_prob: Float[Tensor, "M"], draws: int) -> float:
    """Return the expected share of all sentences among `draws` generated sequences.

    `mean_x [1 - (1 - q(x))^draws]`, which is exact: no sequence is drawn.

    Args:
        log_prob: `[M]`, `log q` of all sentences.
        draws: the number of generated sequences.

    Example:
        >>> import torch
        >>> round(measure_coverage(torch.tensor([0.5, 1e-30]).log(), draws=10), 4)  # one of two is almost surely drawn
        0.4995
    """
    missed = torch.log1p(-log_prob.double().exp().clamp_max(1.0))  # log probability; -inf where q is 1
    return float((1 - (draws * missed).exp()).mean())


def measure_divergence(first: Int64[Tensor, "N T"], second: Int64[Tensor, "M T"], n: int, tokens: int) -> float:
    r"""Return the Jensen-Shannon divergence of the n-grams of two sets of sequences, in nats: 0 to log 2.

    $$ \mathrm{JS}(p, q) = \tfrac12 \mathrm{KL}(p \,\|\, m) + \tfrac12 \mathrm{KL}(q \,\|\, m), \qquad m = (p + q)/2 $$

    It is biased upwards for few sequences, since samples of the same language differ by chance.

    Args:
        first: `[N, T]` tokens.
        second: `[M, T]` tokens.
        n: number of tokens in an n-gram, at most T.
        tokens: number of different tokens.

    Example:
        >>> import torch
        >>> a, b = torch.tensor([[0, 1, 0, 1]]), torch.tensor([[2, 3, 2, 3]])
        >>> round(measure_divergence(a, b, 2, 4), 4), measure_divergence(a, a, 2, 4)
        (0.6931, 0.0)

    References:
        Lin, "Divergence measures based on the Shannon entropy", 1991.
    """
    codes = [_encode_ngrams(sequences, n, tokens) for sequences in (first, second)]
    kinds, index = torch.cat(codes).unique(return_inverse=True)
    shares = [
        torch.bincount(part, minlength=len(kinds)).double() / len(part) for part in index.split([*map(len, codes)])
    ]
    middle = (shares[0] + shares[1]) / 2
    return float(sum(torch.xlogy(share, share / middle).nansum() for share in shares) / 2)


def measure_distinct(sequences: Int64[Tensor, "N T"]) -> float:
    """Return the number of distinct sequences divided by the number of sequences.

    Example:
        >>> import torch
        >>> measure_distinct(torch.tensor([[0, 1], [0, 1], [1, 1], [0, 0]]))
        0.75
    """
    return len(sequences.unique(dim=0)) / len(sequences)


def _encode_ngrams(sequences: Tensor, n: int, tokens: int) -> Tensor:
    """Return every n-gram as one integer."""
    weights = tokens ** torch.arange(n, device=sequences.device)
    return (sequences.unfold(1, n, 1) * weights).sum(-1).flatten()


NGRAM = 3
"""Number of tokens in the n-grams of the metric `divergence`."""
DRAWS_PER_SENTENCE = 10
"""Number of draws per sentence of the language for the metric `coverage`."""


@torch.no_grad()
def evaluate(
    model: SequenceGAN, data: Sequences, tokens: Tensor, *, draws: int = 1000, seed: int = 0
) -> dict[str, float | None]:
    """Return the likelihood of real sequences, and statistics of generated ones.

    Exact metrics, from the generator's probabilities:

    - `nll`: the mean of -log q of the real sequences. It is also the bound, since there is no latent variable: `elbo`
      is its negative.
    - `validity`: the probability of generating a sentence, if all sentences of the language are known; else None.
    - `coverage`: the expected share of all sentences among ten draws per sentence; None as above.

    Metrics from draws:

    - `entropy` of q, in nats; its exp is the effective number of sequences.
    - `divergence` of the 3-grams of draws and of real sequences, in nats.
    - `distinct`: the number of distinct draws divided by the number of draws.

    Args:
        model: the model to evaluate.
        data: the data it was trained on.
        tokens: `[N, T]`, real sequences.
        draws: number of sequences to draw.
        seed: seed of the draws, which do not depend on the real sequences.
    """
    generator = model.generator
    device = next(generator.parameters()).device
    nll = -_mean_log_prob(model, data.one_hot(tokens.to(device)))
    z = generator.draw(draws, generator=make_generator(seed, "evaluate", device=device))
    samples = z.argmax(-1).cpu()
    numbers: dict[str, float | None] = {
        "elbo": -nll,
        "nll": nll,
        "validity": None,
        "coverage": None,
        "entropy": -_mean_log_prob(model, z),
        "divergence": measure_divergence(samples, tokens.cpu(), min(NGRAM, samples.shape[1]), len(data.symbols)),
        "distinct": measure_distinct(samples),
    }
    if data.language is not None:
        log_prob = generator.log_prob(data.one_hot(data.language.to(device)))
        numbers["validity"] = measure_validity(log_prob)
        numbers["coverage"] = measure_coverage(log_prob, DRAWS_PER_SENTENCE * len(log_prob))
    return numbers


def _mean_log_prob(model: SequenceGAN, z: Tensor) -> float:
    return float(model.generator.log_prob(z).double().mean())
