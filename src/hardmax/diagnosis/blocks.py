"""Many independent estimates of one gradient, in a few batched calls."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil, prod

import torch
from torch import Tensor

from hardmax.estimators import AbstractEstimator
from hardmax.spaces import AbstractSpace
from hardmax.types import Estimate

# From an estimator, D copies of the scores `[D, *B, *score]` and noise `[S * noises, D, *B, *score]` to an estimate
# whose value is `[D, *B]`: what is differentiated.
Call = Callable[[AbstractEstimator, Tensor, Tensor], Estimate]

_ENTRIES = 2**22  # of noise, in a block
ROWS = 2**14  # evaluations of f in a block: a decoder's rows are hundreds of numbers wide
BLOCKS = 4  # at least, so that a median of their times means something


@dataclass(frozen=True)
class Block:
    """Independent estimates of one gradient.

    Attributes:
        gradient: `[D, *B, *score]`. One estimate for each copy, in float64.
        z: `[S, D, *B, *event]`. The draws behind them.
        evaluations: of f, mean per example of one estimate.
        solves: arg maxes, counted the same way.
        seconds: that the block took, forward, backward and noise.
    """

    gradient: Tensor
    z: Tensor
    evaluations: float
    solves: float
    seconds: float


def one_block(
    call: Call,
    estimator: AbstractEstimator,
    scores: Tensor,
    space: AbstractSpace,
    samples: int,
    copies: int,
    generator: torch.Generator,
) -> Block:
    """Make an estimate for each of D copies of scores `[*B, *score]`."""
    begin = _clock(scores.device)
    shape = (samples * estimator.noises, copies, *space.batch_shape(scores))
    noise = space.noise(shape, generator=generator, dtype=scores.dtype, device=scores.device)
    out, gradient = differentiated(call, estimator, scores, noise)
    return Block(gradient, out.z, out.evaluations, out.solves, _clock(scores.device) - begin)


def differentiated(call: Call, estimator: AbstractEstimator, scores: Tensor, noise: Tensor) -> tuple[Estimate, Tensor]:
    """Return the estimate that this noise makes, and its gradient `[D, *B, *score]` in float64."""
    copied = scores.detach().expand(noise.shape[1:]).clone().requires_grad_()
    out = call(estimator, copied, noise)
    if not out.value.requires_grad:
        return out, torch.zeros_like(copied, dtype=torch.float64)
    (gradient,) = torch.autograd.grad(out.value.sum(), copied, allow_unused=True, materialize_grads=True)
    return out, gradient.double()


def many_blocks(
    call: Call,
    estimator: AbstractEstimator,
    scores: Tensor,
    space: AbstractSpace,
    samples: int,
    draws: int,
    most: int,
    generator: torch.Generator,
) -> Iterator[Block]:
    """Make so many independent estimates, at most so many at a time, and in four blocks or more."""
    most, done = min(most, ceil(draws / BLOCKS)), 0
    while done < draws:
        copies = min(most, draws - done)
        yield one_block(call, estimator, scores, space, samples, copies, generator)
        done += copies


def copies_at_once(
    estimator: AbstractEstimator,
    scores: Tensor,
    space: AbstractSpace,
    samples: int,
    evaluations: float,
    chunk_size: int | None,
) -> int:
    """Return how many estimates of so many samples and evaluations a block may hold, so that its memory is bounded."""
    examples = max(prod(space.batch_shape(scores)), 1)
    entries = _ENTRIES // (examples * samples * estimator.noises * prod(space.score_shape))
    rows = ROWS // (examples * max(ceil(evaluations), samples))
    return max(min(entries, rows, chunk_size or rows), 1)


def looks_across(
    call: Call,
    estimator: AbstractEstimator,
    scores: Tensor,
    space: AbstractSpace,
    samples: int,
    copies: int,
    generator: torch.Generator,
) -> bool:
    """Whether an estimate depends on the noise of the other examples in its call, as with a baseline over the batch.

    Of some copies, all but the first get other noise: then its gradient must not change, but for rounding.
    """
    shape = (samples * estimator.noises, copies, *space.batch_shape(scores))
    noise, other = (space.noise(shape, generator=generator, dtype=scores.dtype, device=scores.device) for _ in range(2))
    other[:, 0] = noise[:, 0]
    first, second = (differentiated(call, estimator, scores, each)[1][0] for each in (noise, other))
    return float((first - second).norm()) > 1e-3 * float(first.norm())


def drawn_seed(generator: torch.Generator | None) -> int:
    """Draw a seed for generators of our own; from torch's global generator where there is none."""
    return int(torch.randint(2**62, (), generator=generator, device="cpu" if generator is None else generator.device))


def _clock(device: torch.device) -> float:
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
    return time.perf_counter()
