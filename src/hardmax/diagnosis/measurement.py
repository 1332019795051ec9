"""Measure how far each estimator is from the exact gradient, at equal numbers of evaluations.

    measure(call, scores, space, estimators, exact=reference, draws=1024, ...) -> Diagnosis

- `call(estimator, copies [D, *B, *score], noise [S * noises, D, *B, *score]) -> Estimate` defines *what* is estimated:
  it gets D copies of the scores and returns an estimate whose value is `[D, *B]`. `Repeated(f, D, B)` turns an f for
  the batch into one for the copies. `expected(f, space)` is the call of an expectation,
  `bounded(likelihood, space, prior=..., kl=...)` that of a bound.
- `reference` is the gradient that the estimates are compared with: `enumerated(f, scores, space)`,
  `monte_carlo(call, ...)`, or `exactly(gradient)` for a gradient `[*B, *score]` that is already known.
- `estimators` is a mapping from names to estimators, or a sequence of them.

`hardmax.diagnose` and `hardmax.diagnosis.diagnose_elbo` are this function with the first and the second call.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod, sqrt
from statistics import median

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.diagnosis.advice import Quality, Refusal, name_estimators
from hardmax.diagnosis.candidates import find_least_samples, fit_samples
from hardmax.diagnosis.estimates import Block, Call, GradientSampler, Moments, draw_seed
from hardmax.diagnosis.reference import Reference
from hardmax.diagnosis.result import Diagnosis
from hardmax.errors import ArgumentError, NotExactError
from hardmax.estimators import AbstractEstimator
from hardmax.spaces import AbstractFactorised, AbstractSpace
from hardmax.validation import check_samples, check_scores

# Called with the name of an estimator and the number of its estimates that were completed since the last call.
Observe = Callable[[str, int], None]

_PROBES = 8  # copies that the evaluations of an estimator are counted on
_SIGMAS = 4.0  # a bias is significant if it exceeds this many standard deviations of the subtracted noise
_VAGUE = 0.2  # relative standard error of a reference that deserves a note
_ROUNDINGS = 1e4  # a relative bias of fewer rounding units than this counts as zero


def measure(
    call: Call,
    scores: Float[Tensor, "..."],
    space: AbstractSpace,
    estimators: Mapping[str, AbstractEstimator] | Sequence[AbstractEstimator],
    *,
    exact: Reference,
    draws: int = 1024,
    evaluations: float | None = None,
    samples: int | None = None,
    generator: torch.Generator | None = None,
    chunk_size: int | None = None,
    observe: Observe | None = None,
) -> Diagnosis:
    """Measure the estimates of every estimator against a reference.

    All estimators get noise from the same seed, so that with `evaluations` given a row does not depend on the other
    rows. An estimator that uses the whole batch, as `Reinforce("mean")` does for its baseline, is detected by a probe
    and computes its estimates one batch at a time: among copies of the batch it would see more draws than in training.

    Args:
        call: defines what is estimated; see the module docstring.
        scores: `[*B, *score]`.
        space: the space of z.
        estimators: the estimators to compare, by name, or a sequence, named by their constructor calls.
        exact: the gradient to compare with.
        draws: number of independent estimates of each, at least 2.
        evaluations: of f for each example that an estimate may take; None is the cost of the most expensive estimator
            with its fewest samples. Each estimator gets the most samples that fit, at least its fewest.
        samples: S of every estimator, instead of the most that fit.
        generator: where the noise comes from; None is torch's global generator.
        chunk_size: the most copies in one call; the call itself has to limit the candidates that f gets.
        observe: called to report progress.

    Returns:
        The measurements. Estimators that refuse the space, or f, are in `refused`, with their reasons.

    Raises:
        ArgumentError: too few draws, scores that cannot be used, a reference that is zero.
    """
    check_scores(scores, space, values=True)
    check_draws(draws)
    if samples is not None:
        check_samples(samples)
    if evaluations is not None and not evaluations > 0:
        raise ArgumentError(f"evaluations must be positive, got {evaluations}")
    square = exact.square
    seed, observe = draw_seed(generator), observe or (lambda name, count: None)
    entrants, refused, notes, rows = [], [], [], []
    for name, estimator in name_estimators(estimators).items():
        entrant = _Entrant(name, GradientSampler(call, estimator, scores.detach(), space), seed, chunk_size)
        try:
            entrants.append((entrant, entrant.enter(samples)))
        except (NotExactError, ArgumentError) as error:
            refused.append(Refusal(name, estimator, str(error)))
            observe(name, draws)
    budget = max((entrant.cost(least) for entrant, least in entrants), default=0.0)
    budget = budget if evaluations is None else float(evaluations)
    for entrant, least in entrants:
        count = samples or fit_samples(budget, entrant.cost, least, entrant.estimator, space)
        alone = entrant.looks_across(count)
        if alone:
            notes.append(f"{entrant.name} looks at the whole batch: its estimates were made one batch at a time.")
        record, seconds = _Record(exact, space), []
        for block in entrant.blocks(count, draws, alone=alone):
            record.add(block)
            seconds.append(block.seconds / len(block.gradient))
            observe(entrant.name, len(block.gradient))
        if alone:  # timed like the others
            seconds = [block.seconds / len(block.gradient) for block in entrant.blocks(count, draws, alone=False)]
        rows.append(
            record.quality(entrant.name, entrant.estimator, count, median(seconds), torch.finfo(scores.dtype).eps)
        )
    perturbing = {type(entrant.estimator).__name__ for entrant, _ in entrants if entrant.estimator.perturbs}
    if perturbing and not isinstance(space, AbstractFactorised):
        names = ", ".join(sorted(perturbing))
        notes.append(f"Drawn by perturb-and-MAP: {names}. What that differs from q counts as bias.")
    if exact.error > _VAGUE:
        notes.append(f"The gradient to compare with is itself known to {exact.error:.2g} only: raise draws.")
    return Diagnosis(
        rows=tuple(rows),
        refused=tuple(refused),
        notes=tuple(notes),
        space=str(space),
        examples=prod(space.batch_shape(scores)),
        draws=draws,
        evaluations=budget,
        source=exact.source,
        source_error=exact.error,
        norm=sqrt(square),
    )


def check_draws(draws: int) -> None:
    """Check the number of estimates."""
    if draws < 2:
        raise ArgumentError(f"draws must be at least 2, since a variance is measured, got {draws}")


class _Entrant:
    """An estimator in the comparison, with its gradient sampler and its seed."""

    def __init__(self, name: str, sampler: GradientSampler, seed: int, chunk_size: int | None) -> None:
        self.name, self.estimator = name, sampler.estimator
        self._sampler, self._seed, self._chunk_size = sampler, seed, chunk_size
        self._costs: dict[int, float] = {}

    def enter(self, samples: int | None) -> int:
        """Return the fewest samples, or the requested number, after one test estimate; raises if that fails."""
        space = self._sampler.space
        least = find_least_samples(self.estimator, space) if samples is None else samples
        self.estimator.check(space, least)
        self.cost(least)
        return least

    def cost(self, samples: int) -> float:
        """Count the evaluations of an estimate, mean over a few; the first determines how many copies fit."""
        if samples not in self._costs:
            self._costs[samples] = self._probe(samples, 1)
            self._costs[samples] = self._probe(samples, min(_PROBES, self._most(samples)))
        return self._costs[samples]

    def looks_across(self, samples: int) -> bool:
        """Whether an estimate depends on the noise of other examples; False where only one copy fits anyway."""
        copies = min(_PROBES, self._most(samples))
        return copies > 1 and self._sampler.looks_across(samples, copies, self._generator())

    def blocks(self, samples: int, draws: int, *, alone: bool) -> Iterator[Block]:
        """Yield the estimates, one copy at a time or in larger blocks."""
        most = 1 if alone else self._most(samples)
        return self._sampler.blocks(samples, draws, most, self._generator())

    def _probe(self, samples: int, copies: int) -> float:
        return self._sampler.block(samples, copies, self._generator()).evaluations

    def _most(self, samples: int) -> int:
        return self._sampler.copies_at_once(samples, self.cost(samples), self._chunk_size)

    def _generator(self) -> torch.Generator:
        """Return a new generator with the common seed."""
        return torch.Generator(self._sampler.scores.device).manual_seed(self._seed)


class _Record:
    """Running statistics of the estimates of one estimator."""

    def __init__(self, exact: Reference, space: AbstractSpace) -> None:
        self._exact, self._space = exact, space
        self._norm = self._length(exact.gradient)
        self._moments = Moments()
        self._cosine = torch.zeros_like(self._norm)
        self._evaluations = self._solves = 0.0

    def add(self, block: Block) -> None:
        """Add a block of estimates."""
        self._moments.add(block.gradient)
        product = self._space.dot(block.gradient, self._exact.gradient)
        lengths = self._length(block.gradient) * self._norm
        self._cosine += torch.where(lengths > 0, product / lengths.clamp_min(torch.finfo(lengths.dtype).tiny), 0).sum(0)
        self._evaluations += len(block.gradient) * block.evaluations
        self._solves += len(block.gradient) * block.solves

    def quality(
        self, name: str, estimator: AbstractEstimator, samples: int, seconds: float, rounding: float
    ) -> Quality:
        """Return the quality of the estimates; rounding is the machine epsilon of their dtype."""
        square, draws = self._exact.square, self._moments.draws
        away, variance = self._moments.mean - self._exact.gradient, self._moments.variance
        # Noise in |mean - exact|^2, by example: this is its mean; its standard deviation is at most sqrt(2) times that,
        # reached where an example's components are fully correlated.
        noise = self._sum(variance / draws + self._exact.variance) / square
        left = max(float(away.square().sum()) / square - float(noise.sum()), 0.0)
        shows = max(_SIGMAS * sqrt(2) * float(noise.norm()), (_ROUNDINGS * rounding) ** 2)
        return Quality(
            name=name,
            estimator=estimator,
            samples=samples,
            bias=sqrt(left),
            floor=sqrt(float(noise.sum())),
            biased=left > shows,
            deviation=sqrt(float(variance.sum()) / square),
            cosine=float((self._cosine / draws)[self._norm > 0].mean()),
            evaluations=self._evaluations / draws,
            solves=self._solves / draws,
            seconds=seconds,
        )

    def _sum(self, values: Tensor) -> Tensor:
        return self._space.dot(values, torch.ones_like(values))

    def _length(self, values: Tensor) -> Tensor:
        return self._sum(values.square()).sqrt()
