"""Many independent estimates of one gradient, in a few batched calls of f."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil, prod
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from hardmax.estimators import AbstractEstimator
from hardmax.expectations import expectation
from hardmax.objectives import elbo
from hardmax.objectives.elbo import Kl
from hardmax.spaces import AbstractSpace
from hardmax.types import Changes, Estimate, Objective

# Maps an estimator, D copies of the scores `[D, *B, *score]` and noise `[S * noises, D, *B, *score]` to an estimate.
# The estimate's value `[D, *B]` is differentiated.
Call = Callable[[AbstractEstimator, Tensor, Tensor], Estimate]


class Moments:
    """Mean and variance of estimates that are added block by block.

    The running sums are over differences from the first estimate: sums of squares of large numbers would cancel.
    """

    def __init__(self) -> None:
        self.draws = 0
        self._first: Tensor | None = None
        self._total: Tensor | float = 0.0
        self._squares: Tensor | float = 0.0

    def add(self, estimates: Float[Tensor, "D ..."]) -> None:
        """Add a block of estimates, `[D, *B, *score]`."""
        if self._first is None:
            self._first = estimates[0]
        difference = estimates - self._first
        self.draws += len(estimates)
        self._total = self._total + difference.sum(0)
        self._squares = self._squares + difference.square().sum(0)

    @property
    def mean(self) -> Float[Tensor, "..."]:
        """Mean of the estimates, `[*B, *score]`."""
        assert self._first is not None
        return self._first + self._total / self.draws

    @property
    def variance(self) -> Float[Tensor, "..."]:
        """Variance of one estimate, `[*B, *score]`."""
        assert self._first is not None
        difference = self.mean - self._first
        return ((self._squares - self.draws * difference.square()) / (self.draws - 1)).clamp_min(0)


@final
class RepeatedObjective:
    """An objective f for D copies of its batch: the batch shape is `[D, *B]` instead of `*B`.

    f itself is unchanged. A copy is one more candidate of the same examples: a call with `[C, D, *B, *event]` calls f
    with `[C * D, *B, *event]`. The optional methods (`rows`, `pairs`, `table`, `changes`, `augment`) exist if f has
    them.

    Args:
        f: the objective, for examples `*B`.
        copies: D, the number of copies.
        batch_shape: `*B`, the batch shape of f.

    Example:
        >>> import torch, hardmax as hm
        >>> from hardmax.diagnosis import RepeatedObjective
        >>> worth = torch.randn(5, 3)  # of five examples
        >>> f = RepeatedObjective(lambda z: (z * worth).sum(-1), 1000, (5,))
        >>> hm.expectation(f, torch.zeros(1000, 5, 3), hm.Categorical(3)).value.shape
        torch.Size([1000, 5])
    """

    def __init__(self, f: Objective, copies: int, batch_shape: tuple[int, ...]) -> None:
        self._f = f
        self._copies = copies
        self._examples = prod(batch_shape)
        # Estimators detect these methods with hasattr.
        for name in ("rows", "pairs", "table", "changes", "augment"):
            if hasattr(f, name):
                setattr(self, name, getattr(self, f"_{name}"))
        self.takes_categories = getattr(f, "takes_categories", False)

    def __call__(self, z: Float[Tensor, "C D ..."]) -> Float[Tensor, "C D *B"]:
        """Evaluate f, `[C, D, *B, *event] -> [C, D, *B]`."""
        return self._f(z.flatten(0, 1)).unflatten(0, z.shape[:2])

    def _rows(self, z: Float[Tensor, "R ..."] | Int[Tensor, " R"], index: Int[Tensor, " R"]) -> Float[Tensor, " R"]:
        """Evaluate f at chosen examples; index counts over `[D, *B]`; f makes no difference between copies."""
        return self._f.rows(z, index % self._examples)  # pyright: ignore[reportFunctionMemberAccess]

    def _pairs(self, z: Float[Tensor, "M ..."] | Int[Tensor, " M"]) -> Float[Tensor, "D *B M"]:
        """Evaluate f at the same z for every example, once for all copies."""
        return self._expand(self._f.pairs(z))  # pyright: ignore[reportFunctionMemberAccess]

    def _table(self) -> Float[Tensor, "D *B K"]:
        """Evaluate f at every category, once for all copies."""
        return self._expand(self._f.table())  # pyright: ignore[reportFunctionMemberAccess]

    def _changes(self, z: Float[Tensor, "S D ..."]) -> "RepeatedChanges | None":
        """Return the gains of f from single changes of z."""
        changes = self._f.changes(z.flatten(0, 1))  # pyright: ignore[reportFunctionMemberAccess]
        return None if changes is None else RepeatedChanges(changes, tuple(z.shape[:2]))

    def _augment(self, scores: Float[Tensor, "S D ..."], epsilon: float) -> Float[Tensor, "S D ..."]:
        """Return scores whose arg max also weighs f; a copy is one more sample of the same examples."""
        return self._f.augment(scores.flatten(0, 1), epsilon).view_as(scores)  # pyright: ignore[reportFunctionMemberAccess]

    def _expand(self, values: Tensor) -> Tensor:
        return values.expand(self._copies, *values.shape)


@final
class RepeatedChanges:
    """Gains from single changes of z: those of `[S * D, *B, *event]`, in the shape `[S, D, *B, M]`."""

    def __init__(self, changes: Changes, lead: tuple[int, ...]) -> None:
        self._changes = changes
        self._lead = lead

    @property
    def bounds(self) -> Float[Tensor, "S D *B M"] | None:
        """Upper bounds of the gains, if there are any."""
        bounds = self._changes.bounds
        return None if bounds is None else bounds.unflatten(0, self._lead)

    def gains(self, wanted: Tensor) -> Float[Tensor, " R"]:
        """Return f(z after the change) - f(z) where wanted `[S, D, *B, M]`, a flat tensor in that order."""
        return self._changes.gains(wanted.flatten(0, 1))


def make_expectation_call(f: Objective, space: AbstractSpace, *, chunk_size: int | None = None) -> Call:
    r"""Return the call for `measure_estimators` that estimates $\mathbb{E}[f(z)]$ with `hardmax.expectation`.

    f gets at most `chunk_size` candidates at a time, copies included.
    """

    def call(estimator: AbstractEstimator, copies: Tensor, noise: Tensor) -> Estimate:
        repeated, chunk = _repeat_objective(f, copies, space, chunk_size)
        return expectation(repeated, copies, space, estimator, noise=noise, chunk_size=chunk)

    return call


def make_elbo_call(
    likelihood: Objective,
    space: AbstractSpace,
    *,
    prior: Tensor | None = None,
    kl: Kl = "auto",
    chunk_size: int | None = None,
) -> Call:
    """Return the call for `measure_estimators` that estimates the bound with `hardmax.elbo`; arguments as there."""
    prior = None if prior is None else prior.detach()

    def call(estimator: AbstractEstimator, copies: Tensor, noise: Tensor) -> Estimate:
        repeated, chunk = _repeat_objective(likelihood, copies, space, chunk_size)
        return elbo(repeated, copies, space, estimator, prior=prior, kl=kl, noise=noise, chunk_size=chunk)

    return call


def _repeat_objective(
    f: Objective, copies: Tensor, space: AbstractSpace, chunk_size: int | None
) -> tuple[Objective, int | None]:
    """Return f for the copies, and the number of candidates per copy that keeps f within its chunk size."""
    count, *batch = space.batch_shape(copies)
    return RepeatedObjective(f, count, tuple(batch)), chunk_size and max(chunk_size // count, 1)


_NOISE_PER_BLOCK = 2**22  # numbers
ROWS_PER_BLOCK = 2**14  # evaluations of f: a row of a decoder's output is hundreds of numbers wide
_LEAST_BLOCKS = 4  # so that the median of their times is meaningful


@dataclass(frozen=True)
class Block:
    """Independent estimates of one gradient, computed in one call.

    Attributes:
        gradient: `[D, *B, *score]`. One estimate for each copy, in float64.
        z: `[S, D, *B, *event]`. The draws that the estimates are based on.
        evaluations: number of evaluations of f for one estimate, mean per example.
        solves: number of arg maxes, counted in the same way.
        seconds: time for noise, forward and backward pass of the block.
    """

    gradient: Tensor
    z: Tensor
    evaluations: float
    solves: float
    seconds: float


@final
@dataclass(frozen=True)
class GradientSampler:
    """Computes independent estimates of one gradient with one estimator, in blocks of copies of the scores.

    Attributes:
        call: defines what is estimated.
        estimator: how it is estimated.
        scores: `[*B, *score]`.
        space: the space of z.
    """

    call: Call
    estimator: AbstractEstimator
    scores: Tensor
    space: AbstractSpace

    def draw_block(self, samples: int, copies: int, generator: torch.Generator) -> Block:
        """Compute an estimate for each of D copies of the scores."""
        begin = _read_clock(self.scores.device)
        out, gradient = self._differentiate(self._draw_noise(samples, copies, generator))
        return Block(gradient, out.z, out.evaluations, out.solves, _read_clock(self.scores.device) - begin)

    def draw_blocks(self, samples: int, draws: int, most: int, generator: torch.Generator) -> Iterator[Block]:
        """Yield `draws` independent estimates, at most `most` at a time, and in at least four blocks."""
        most, done = min(most, ceil(draws / _LEAST_BLOCKS)), 0
        while done < draws:
            copies = min(most, draws - done)
            yield self.draw_block(samples, copies, generator)
            done += copies

    def count_copies_per_block(self, samples: int, evaluations: float, chunk_size: int | None) -> int:
        """Return the number of estimates, with these samples and evaluations each, that fit the memory of a block."""
        examples = max(prod(self.space.batch_shape(self.scores)), 1)
        entries = _NOISE_PER_BLOCK // (examples * samples * self.estimator.noises * prod(self.space.score_shape))
        rows = ROWS_PER_BLOCK // (examples * max(ceil(evaluations), samples))
        return max(min(entries, rows, chunk_size or rows), 1)

    def depends_on_other_examples(self, samples: int, copies: int, generator: torch.Generator) -> bool:
        """Whether an estimate depends on the noise of other examples in its call, as with a baseline over the batch.

        The test draws new noise for all copies except the first. The gradient of the first must not change, except for
        rounding.
        """
        noise, other = (self._draw_noise(samples, copies, generator) for _ in range(2))
        other[:, 0] = noise[:, 0]
        first, second = (self._differentiate(each)[1][0] for each in (noise, other))
        return float((first - second).norm()) > 1e-3 * float(first.norm())

    def _draw_noise(self, samples: int, copies: int, generator: torch.Generator) -> Tensor:
        batch_shape, scores = (copies, *self.space.batch_shape(self.scores)), self.scores
        return self.estimator.draw_noise(
            self.space, samples, batch_shape, generator, dtype=scores.dtype, device=scores.device
        )

    def _differentiate(self, noise: Tensor) -> tuple[Estimate, Tensor]:
        """Return the estimate from this noise, and its gradient `[D, *B, *score]` in float64."""
        copied = self.scores.detach().expand(noise.shape[1], *self.scores.shape).clone().requires_grad_()
        out = self.call(self.estimator, copied, noise)
        if not out.value.requires_grad:
            return out, torch.zeros_like(copied, dtype=torch.float64)
        (gradient,) = torch.autograd.grad(out.value.sum(), copied, allow_unused=True, materialize_grads=True)
        return out, gradient.double()


def draw_seed(generator: torch.Generator | None) -> int:
    """Draw a seed for new generators; from torch's global generator if `generator` is None."""
    return int(torch.randint(2**62, (), generator=generator, device="cpu" if generator is None else generator.device))


def _read_clock(device: torch.device) -> float:
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
    return time.perf_counter()
