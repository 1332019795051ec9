"""One training step of a discrete VAE, 784-300-k / k-300-784, through the public API, compared with two references.

- A lean Gumbel-softmax step: `F.gumbel_softmax`, the same networks, fused Adam, nothing else.
- The bare matrix products of our own step and the optimizer: a lower limit for every library.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, gumbel_softmax

import hardmax as hm
from benchmarks.timing import measure_medians

PIXELS, HIDDEN = 784, 300
LIMITS = {10: 0.85, 20: 0.85, 50: 0.95}  # of the lean Gumbel-softmax step, at batch size 100
BARE_LIMIT = 3.0  # of the bare products, at k = 10
images = torch.rand(10_000, PIXELS, generator=torch.Generator().manual_seed(0)).round()


def build_networks(k: int) -> tuple[nn.Module, nn.Module, torch.optim.Optimizer]:
    encoder = nn.Sequential(nn.Linear(PIXELS, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, k))
    decoder = nn.Sequential(nn.Linear(k, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, PIXELS))
    return encoder, decoder, torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-3, fused=True)


def draw_batch(size: int) -> Tensor:
    return images[torch.randint(0, len(images), (size,))]


def make_lean_step(k: int, size: int) -> Callable[[], None]:
    encoder, decoder, optimizer = build_networks(k)

    def step() -> None:
        x = draw_batch(size)
        scores = encoder(x)
        log_q = scores.log_softmax(-1)
        kl = (log_q.exp() * (log_q + math.log(k))).sum()
        loss = binary_cross_entropy_with_logits(decoder(gumbel_softmax(scores, 1.0)), x, reduction="sum") + kl
        optimizer.zero_grad()
        (loss / size).backward()
        optimizer.step()

    return step


def make_our_step(k: int, size: int, estimator: hm.AbstractEstimator) -> Callable[[], None]:
    encoder, decoder, optimizer = build_networks(k)
    space = hm.Categorical(k)

    def step() -> None:
        x = draw_batch(size)
        out = hm.elbo(hm.BernoulliLikelihood(decoder, x), encoder(x), space, estimator)
        optimizer.zero_grad()
        (-out.value.mean()).backward()
        optimizer.step()

    return step


def make_bare_step(k: int, size: int) -> Callable[[], None]:
    """Return a step with only the matrix products of our step and Adam; its results are meaningless."""
    encoder, decoder, optimizer = build_networks(k)
    optimizer.param_groups[0]["lr"] = 0.0  # otherwise the weights would diverge
    w1, w2, d1, d2 = (layer.weight for net in (encoder, decoder) for layer in (net[0], net[2]))
    for parameter in [*encoder.parameters(), *decoder.parameters()]:
        parameter.grad = torch.zeros_like(parameter)

    @torch.no_grad()
    def step() -> None:
        x = draw_batch(size)
        hidden = x @ w1.T  # encoder
        scores = hidden @ w2.T
        codes = d1.T @ d2.T  # decoder of all k one-hot codes
        values = x @ codes.T
        torch.mm(values.T, hidden, out=w2.grad)
        torch.mm((values @ w2).T, x, out=w1.grad)
        slope = scores.T @ x
        torch.mm(slope.T, d1.T, out=d2.grad)
        d1.grad.copy_((slope @ d2).T)  # in this order: the other is slow if k is small
        optimizer.step()

    return step


def main() -> bool:
    """Print the tables; return whether all ratios are within their limits."""
    within = True
    print("one training step, ms (median, one thread, interleaved), and direct over lean Gumbel-softmax")
    print(f"{'k':>6}{'batch':>7}{'lean GSM':>10}{'direct':>9}{'exact':>9}{'bare':>8}{'direct/GSM':>12}{'limit':>7}")
    for k, size in [(10, 100), (20, 100), (50, 100), (200, 100), (1000, 100), (10, 20), (10, 500), (10, 1000)]:
        times = measure_medians(
            {
                "lean": make_lean_step(k, size),
                "direct": make_our_step(k, size, hm.Direct()),
                "exact": make_our_step(k, size, hm.Exact()),
                "bare": make_bare_step(k, size),
            },
            rounds=200 if k < 200 else 50,
        )
        ratio = times["direct"] / times["lean"]
        limit = LIMITS.get(k) if size == 100 else None
        within &= limit is None or ratio <= limit
        cells = "".join(
            f"{times[name] * 1e3:{width}.2f}"
            for name, width in [("lean", 10), ("direct", 9), ("exact", 9), ("bare", 8)]
        )
        print(f"{k:6}{size:7}{cells}{ratio:12.2f}{limit or '':>7}")
        if (k, size) == (10, 100):
            over_bare = times["direct"] / times["bare"]
    print(f"direct over the bare products and Adam at k = 10, batch 100: {over_bare:.2f} (limit {BARE_LIMIT})")
    return within and over_bare <= BARE_LIMIT
