"""Measure how far each estimator is from the exact gradient, at equal numbers of evaluations.

    measure_estimators(call, scores, space, estimators, exact=reference, draws=1024, ...) -> Diagnosis

- `call(estimator, copies [D, *B, *score], noise [S * noises, D, *B, *score]) -> Estimate` defines *what* is estimated:
  it gets D copies of the scores and returns an estimate whose value is `[D, *B]`. `RepeatedObjective(f, D, B)` turns an
  f for the batch into one for the copies. `make_expectation_call(f, space)` returns the call for an expectation,
  `make_elbo_call(likelihood, space, prior=..., kl=...)` the call for a bound.
- `reference` is the gradient that the estimates are compared with: `enumerate_reference(f, scores, space)`,
  `estimate_reference(call, ...)`, or `make_exact_reference(gradient)` for a gradient `[*B, *score]` that is already
  known.
- `estimators` is a mapping from names to estimators, or a sequence of them.

`hardmax.diagnose` uses the call for an expectation, `hardmax.diagnosis.diagnose_elbo` the call for a bound.
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
from hardmax.types import Objective
from hardmax.validation import check_samples, check_scores

# Called with the name of an estimator and the number of its estimates completed since the last call.
Observe = Callable[[str, int], None]
# Called with the name of an estimator and a block of its estimates, `[D, *B, *score]` in float64.
Collect = Callable[[str, Tensor], None]

_PROBES = 8  # number of copies on which the evaluations of an estimator are counted
_SIGMAS = 4.0  # a bias is significant if it exceeds this many standard deviations of the subtracted noise
_NOTEWORTHY_ERROR = 0.2  # relative standard error of the reference that deserves a note
_ROUNDINGS = 1e4  # a relative bias of fewer rounding units than this counts as zero


def measure_estimators(
    call: Call,
    scores: Float[Tensor, "..."],
    space: AbstractSpace,
    estimators: Mapping[str, AbstractEstimator] | Sequence[AbstractEstimator],
    *,
    f: Objective | None = None,
    exact: Reference,
    draws: int = 1024,
    evaluations: float | None = None,
    samples: int | None = None,
    generator: torch.Generator | None = None,
    chunk_size: int | None = None,
    observe: Observe | None = None,
    collect: Collect | None = None,
) -> Diagnosis:
    """Measure the estimates of every estimator against a reference.

    All estimators get noise from the same seed, so that a row does not depend on the other rows if `evaluations` is
    given. An estimator that uses the entire batch, as `Reinforce("mean")` does for its baseline, is detected by a test
    call and computes its estimates one batch at a time: with copies of the batch, its baseline would average more draws
    than in training.

    Args:
        call: defines what is estimated; see the module docstring.
        scores: `[*B, *score]`.
        space: the space of z.
        estimators: the estimators to compare, by name, or a sequence, named by their constructor calls.
        f: the objective, if estimators take the form that suits it (`AbstractEstimator.specialise`), as in `call`.
        exact: the gradient to compare with.
        draws: number of independent estimates of each, at least 2.
        evaluations: budget of an estimate, in evaluations of f for each example; None is the cost of the most expensive
            estimator with its fewest samples. Each estimator gets as many samples as fit, at least its fewest.
        samples: S of every estimator, instead of as many as fit the budget.
        generator: where the noise comes from; None is torch's global generator.
        chunk_size: maximum number of copies in one call; the call itself has to limit the candidates that f gets.
        observe: called to report progress.
        collect: called with the estimates themselves, block by block.

    Returns:
        The measurements. Estimators that refuse the space, or f, are in `refused`, with their reasons.

    Raises:
        ArgumentError: there are too few draws, scores are invalid, or the reference is zero.
    """
    scores = check_scores(scores, space, values=True)
    check_draws(draws)
    if samples is not None:
        check_samples(samples)
    if evaluations is not None and not evaluations > 0:
        raise ArgumentError(f"evaluations must be positive, got {evaluations}")
    square = exact.squared_norm
    seed, observe = draw_seed(generator), observe or (lambda name, count: None)
    accepted, refused, notes, rows = [], [], [], []
    for name, estimator in name_estimators(estimators).items():
        special = estimator if f is None else estimator.specialise(f)
        sampler = GradientSampler(call, special, scores.detach(), space)
        candidate = _Candidate(name, estimator, sampler, seed, chunk_size)
        try:
            accepted.append((candidate, candidate.check(samples)))
        except (NotExactError, ArgumentError) as error:
            refused.append(Refusal(name, estimator, str(error)))
            observe(name, draws)
    budget = max((candidate.count_evaluations(least) for candidate, least in accepted), default=0.0)
    budget = budget if evaluations is None else float(evaluations)
    for candidate, least in accepted:
        name, estimator = candidate.name, candidate.estimator
        count = samples or fit_samples(budget, candidate.count_evaluations, least, candidate.sampler.estimator, space)
        uses_batch = candidate.depends_on_other_examples(count)
        if uses_batch:
            notes.append(f"{name} uses the entire batch: its estimates were computed one batch at a time.")
        statistics, seconds = _Statistics(exact, space), []
        for block in candidate.draw_blocks(count, draws, one_copy=uses_batch):
            statistics.add(block)
            seconds.append(block.seconds / len(block.gradient))
            observe(name, len(block.gradient))
            if collect is not None:
                collect(name, block.gradient)
        if uses_batch:  # its time is measured in larger blocks, as for the other estimators
            blocks = candidate.draw_blocks(count, draws, one_copy=False)
            seconds = [block.seconds / len(block.gradient) for block in blocks]
        rows.append(statistics.summarise(name, estimator, count, median(seconds), torch.finfo(scores.dtype).eps))
    perturbing = {type(candidate.estimator).__name__ for candidate, _ in accepted if candidate.estimator.perturbs}
    if perturbing and not isinstance(space, AbstractFactorised):
        names = ", ".join(sorted(perturbing))
        notes.append(f"Drawn by perturb-and-MAP: {names}. The difference of its distribution from q counts as bias.")
    if exact.error > _NOTEWORTHY_ERROR:
        notes.append(f"The reference gradient itself has a relative error of {exact.error:.2g}: raise draws.")
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
        with_gradient=int(exact.has_gradient(space).sum()),
    )


def check_draws(draws: int) -> None:
    """Raise `ArgumentError` unless there are at least two estimates."""
    if draws < 2:
        raise ArgumentError(f"draws must be at least 2, since a variance is measured, got {draws}")


class _Candidate:
    """An estimator in the comparison, with its seed and a gradient sampler, which has the form that suits f."""

    def __init__(
        self, name: str, estimator: AbstractEstimator, sampler: GradientSampler, seed: int, chunk_size: int | None
    ) -> None:
        self.name, self.estimator, self.sampler = name, estimator, sampler
        self._seed, self._chunk_size = seed, chunk_size
        self._costs: dict[int, float] = {}

    def check(self, samples: int | None) -> int:
        """Return the fewest samples, or the requested number, after one test estimate; raises if that fails."""
        estimator, space = self.sampler.estimator, self.sampler.space
        least = find_least_samples(estimator, space) if samples is None else samples
        estimator.check(space, least)
        self.count_evaluations(least)
        return least

    def count_evaluations(self, samples: int) -> float:
        """Return the evaluations of an estimate, mean over a few; a first estimate shows how many copies fit."""
        if samples not in self._costs:
            self._costs[samples] = self._measure_evaluations(samples, 1)
            self._costs[samples] = self._measure_evaluations(samples, min(_PROBES, self._count_copies(samples)))
        return self._costs[samples]

    def depends_on_other_examples(self, samples: int) -> bool:
        """Whether an estimate depends on the noise of other examples; False if only one copy fits anyway."""
        copies = min(_PROBES, self._count_copies(samples))
        return copies > 1 and self.sampler.depends_on_other_examples(samples, copies, self._make_generator())

    def draw_blocks(self, samples: int, draws: int, *, one_copy: bool) -> Iterator[Block]:
        """Yield the estimates, one copy at a time or in larger blocks."""
        most = 1 if one_copy else self._count_copies(samples)
        return self.sampler.draw_blocks(samples, draws, most, self._make_generator())

    def _measure_evaluations(self, samples: int, copies: int) -> float:
        return self.sampler.draw_block(samples, copies, self._make_generator()).evaluations

    def _count_copies(self, samples: int) -> int:
        return self.sampler.count_copies_per_block(samples, self.count_evaluations(samples), self._chunk_size)

    def _make_generator(self) -> torch.Generator:
        """Return a new generator with the common seed."""
        return torch.Generator(self.sampler.scores.device).manual_seed(self._seed)


class _Statistics:
    """Running statistics of the estimates of one estimator."""

    def __init__(self, exact: Reference, space: AbstractSpace) -> None:
        self._exact, self._space = exact, space
        self._norm = self._length(exact.gradient)
        self._has_gradient = exact.has_gradient(space)
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

    def summarise(
        self, name: str, estimator: AbstractEstimator, samples: int, seconds: float, rounding: float
    ) -> Quality:
        """Return the quality of the estimates; rounding is the machine epsilon of their dtype."""
        square, draws = self._exact.squared_norm, self._moments.draws
        difference, variance = self._moments.mean - self._exact.gradient, self._moments.variance
        # Mean of the noise in |mean - exact|^2, by example. Its standard deviation is at most sqrt(2) times the mean;
        # that is reached if the components of an example are fully correlated.
        noise = self._sum(variance / draws + self._exact.variance) / square
        squared_bias = max(float(difference.square().sum()) / square - float(noise.sum()), 0.0)
        significant = max(_SIGMAS * sqrt(2) * float(noise.norm()), (_ROUNDINGS * rounding) ** 2)
        return Quality(
            name=name,
            estimator=estimator,
            samples=samples,
            bias=sqrt(squared_bias),
            floor=sqrt(float(noise.sum())),
            biased=squared_bias > significant,
            deviation=sqrt(float(variance.sum()) / square),
            cosine=float((self._cosine / draws)[self._has_gradient].mean()),
            evaluations=self._evaluations / draws,
            solves=self._solves / draws,
            seconds=seconds,
        )

    def _sum(self, values: Tensor) -> Tensor:
        return self._space.dot(values, torch.ones_like(values))

    def _length(self, values: Tensor) -> Tensor:
        return self._sum(values.square()).sqrt()
