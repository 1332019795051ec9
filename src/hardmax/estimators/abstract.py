"""Base classes of estimators, and helpers that many of them use.

An `AbstractEstimator` estimates the gradient of `E[f(z)]` for the scores. An `AbstractSampler` also returns samples z
that carry a gradient themselves.
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.errors import ArgumentError, NotExactError
from hardmax.estimators.registry import check_two_samples
from hardmax.evaluator import Evaluator
from hardmax.spaces import AbstractFactorised, AbstractSpace
from hardmax.tracing import can_read_values, is_transformed
from hardmax.types import Estimate, Objective


class AbstractEstimator(ABC):
    r"""Base class of all estimators: estimates an expectation and its gradient for the scores.

    $$ \mathbb{E}_{z \sim q(z \mid \mathrm{scores})}[f(z)] $$

    An estimator is a small frozen object. It draws no random numbers of its own: all randomness is in the noise that it
    receives, so the same noise gives the same estimate.
    """

    needs: ClassVar[tuple[str, ...]] = ()
    """Optional methods of the space that this estimator requires."""
    independent: ClassVar[bool] = False
    """Whether the variables of the space must be independent."""
    default_samples: ClassVar[int] = 1
    """Number of samples S if the caller does not set it."""
    takes_integrand: ClassVar[bool] = False
    """Whether `elbo` passes log p(z) - log q(z) as `f.linear`, instead of adding the analytic gradient of the KL."""
    perturbs: ClassVar[bool] = False
    """Whether z is the arg max of perturbed scores: for structured spaces these are not samples of q."""
    couples_samples: ClassVar[bool] = False
    """Whether the samples of an example are baselines of each other, and so must be independent."""
    needs_two_samples: ClassVar[bool] = False
    """Whether at least two samples are required, as for a leave-one-out baseline."""
    couples_examples: ClassVar[bool] = False
    """Whether the gradient of an example depends on the other examples of its batch."""
    noises: ClassVar[int] = 1
    """Number of noise tensors per sample; they are adjacent, so the caller's noise is `[S * noises, *B, *score]`."""
    only_draws: ClassVar[bool] = False
    """Whether the noise serves `space.draw` alone, so that noise of the shape `space.draw_shape` is enough."""

    _alternatives_for_structured: ClassVar[str] = "GibbsCovariance() or Direct()"

    def check(self, space: AbstractSpace, samples: int) -> None:
        """Raise an error if this estimator does not support this space or this number of samples.

        Called before f is evaluated. Override it to refuse more.

        Raises:
            NotExactError: the space does not offer what the estimator needs.
            ArgumentError: too few samples.
        """
        if self.independent and not isinstance(space, AbstractFactorised):
            raise NotExactError(
                f"{self} needs independent variables, which {space} does not have; "
                f"use {self._alternatives_for_structured}"
            )
        for name in self.needs:
            if not space.offers(name):
                raise NotExactError(f"{self} needs {name}, which {space} does not offer; {space.alternatives}")
        if self.needs_two_samples:
            check_two_samples(self, samples)

    def specialise(self, f: Objective) -> "AbstractEstimator":
        """Return the estimator for this f: another one if f has a method that this estimator can use; else itself."""
        return self

    def draw_noise(
        self,
        space: AbstractSpace,
        samples: int | None,
        batch_shape: tuple[int, ...],
        generator: torch.Generator | None = None,
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> Float[Tensor, "S ..."]:
        """Draw the noise of one estimate: `[S * noises, *B, *score]`, or `[S * noises, *B, *draw_shape]` if enough.

        Args:
            space: the space of z.
            samples: S; None for `default_samples`.
            batch_shape: `*B`.
            generator: source of the randomness; None is torch's global generator.
            dtype: dtype of the scores; half precision is drawn as float32.
            device: device of the noise.
        """
        draw = space.draw_noise if self.only_draws else space.noise
        shape = ((self.default_samples if samples is None else samples) * self.noises, *batch_shape)
        return draw(shape, generator, dtype=dtype, device=device)

    @abstractmethod
    def estimate(
        self, f: Evaluator, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> Estimate:
        r"""Estimate $\mathbb{E}[f(z)]$ and its gradient; scores `[*B, *score]`, noise `[S * noises, *B, *score]`.

        If there is `f.linear`, the gradient for scores is that of
        $\mathbb{E}[f(z) + \langle \mathrm{linear}, \mathrm{statistics}(z) \rangle]$, and the value that of f alone.
        """


class AbstractSampler(AbstractEstimator):
    """Base class of estimators whose z carries a gradient to the scores; they also work with `hardmax.sample`.

    f must be differentiable in z. Where z is relaxed, f must also be defined for z that are not discrete.
    """

    _alternatives_for_structured = "StraightThrough(), GumbelSoftmax() or ImplicitMLE()"
    _alternatives_for_values: ClassVar[str] = "LocalExpectation(), Reinforce() or Direct()"

    solves: ClassVar[int] = 1
    """Number of arg maxes per sample, including those of the backward pass."""

    @abstractmethod
    def sample(
        self, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> tuple[Float[Tensor, "S ..."], Float[Tensor, "S ..."]]:
        """Return two tensors `[S, *B, *event]`: the hard z, detached, and the z that carries the gradient."""

    def sample_with_gradient(
        self, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "R ..."]
    ) -> Float[Tensor, "S ..."]:
        """Return only the z that carries the gradient, `[S, *B, *event]`."""
        return self.sample(scores, space, noise)[1]

    def estimate(
        self, f: Evaluator, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> Estimate:
        """Evaluate f at z and differentiate by autograd."""
        hard, z = self.sample(scores, space, noise)
        values = self._evaluate(f, z)
        return Estimate(mean_over_samples(values), hard, f.evaluations, solves=float(self.solves * len(hard)))

    def _evaluate(self, f: Evaluator, z: Tensor) -> Tensor:
        """Return f(z), `[S, *B]`; raise `ArgumentError` if z carries a gradient and f(z) does not."""
        values = f(z)
        if z.requires_grad and not values.requires_grad and not is_transformed():
            raise ArgumentError(
                f"{self} needs an f that is differentiable in z, but f(z) carries no gradient; use an estimator that "
                f"needs only values of f, such as {self._alternatives_for_values}"
            )
        return values


def attach_gradient(value: Tensor, surrogate: Tensor) -> Tensor:
    """Return `value` with the gradient of `surrogate` added to its own gradient.

    The parentheses matter: the difference is exactly zero, so `value` is not rounded to the size of `surrogate`.
    """
    return value + (surrogate - surrogate.detach())


def attach_score_gradient(
    value: Float[Tensor, "*B"], scores: Float[Tensor, "..."], gradient: Float[Tensor, "..."]
) -> Float[Tensor, "*B"]:
    """Return `value`; in the backward pass, scores get `gradient`, in addition to what `value` gives them.

    The same as `attach_gradient(value, <gradient, scores>)`, as one node of the graph: for small tensors, the nodes
    cost more than the numbers.

    Args:
        value: `[*B]`.
        scores: `[*B, *score]`.
        gradient: `[*B, *score]`, detached.
    """
    if can_read_values():
        return _ScoreGradient.apply(value, scores, gradient)
    dims = tuple(range(value.dim() - scores.dim(), 0))
    return attach_gradient(value, (gradient * scores).sum(dims))


class _ScoreGradient(torch.autograd.Function):
    # Without setup_context, which vmap would need: with it, each call inspects the signature of forward (0.1 ms).
    @staticmethod
    def forward(ctx: Any, value: Tensor, scores: Tensor, gradient: Tensor) -> Tensor:
        ctx.save_for_backward(gradient)
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor, Tensor, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        (gradient,) = ctx.saved_tensors
        return outer, outer.view(*outer.shape, *(1,) * (gradient.dim() - outer.dim())) * gradient, None


def mean_over_samples(values: Float[Tensor, "S ..."]) -> Float[Tensor, "..."]:
    """Return the mean over the samples; for one sample a view, which costs nothing."""
    return values.squeeze(0) if values.shape[0] == 1 else values.mean(0)


def mean_of_others(values: Float[Tensor, "S ..."]) -> Float[Tensor, "S ..."]:
    """Return the leave-one-out baseline: for each of two or more samples, the mean over all other samples."""
    return (values.sum(0) - values) / (len(values) - 1)
