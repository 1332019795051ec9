"""REINFORCE with a control variate of the perturbed scores: REBAR, RELAX, and direct optimization without its bias."""

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from hardmax.errors import ArgumentError
from hardmax.estimators._single_changes import evaluate_single_changes
from hardmax.estimators.abstract import AbstractEstimator, carry
from hardmax.evaluator import Evaluator
from hardmax.spaces import AbstractFactorised, AbstractSpace
from hardmax.types import Estimate, Objective
from hardmax.validation import can_read_values, check_positive


def estimate_conditioned_gradient(
    scores: Float[Tensor, "..."],
    space: AbstractFactorised,
    noise: Float[Tensor, "S ..."],
    z: Float[Tensor, "S ..."],
    residue: Float[Tensor, "S ..."],
    slope: Float[Tensor, "S ..."],
) -> Float[Tensor, "..."]:
    """Return an unbiased gradient of `E[f(z)]` from a control variate c of the perturbed scores p.

    `E[c(p)]` has two gradients with the same mean: the pathwise one, through `perturb`, and the one that first draws z
    and then p given z,

        E[grad c(perturb(scores))] = E[c(p) grad log q(z) + grad c(conditional(scores, residual, z))],

    so that `f(z) grad log q(z)` minus the second plus the first is unbiased, for any c:

        gradient = (f(z) - c(p)) grad log q(z) + slope - (d conditional / d scores)^T slope,     slope = dc / dp.

    Here both p come from the same noise and are equal, so that c is evaluated once.

    Args:
        scores: `[*B, *score]`, detached.
        space: a factorised space.
        noise: `[S, *B, *score]`.
        z: `[S, *B, *event]`, the samples that the noise draws.
        residue: `f(z) - c(p)`, `[S, *B, ...]`: one for all variables (dimensions of one) or one for each.
        slope: `[S, *B, *score]`; may carry a graph to the parameters of the control variate.

    Returns:
        `[*B, *score]`, the mean over samples.
    """
    rest = space.residual(scores, noise, z)
    pull = torch.func.vjp(lambda h: space.conditional(h, rest, z), scores)[1]
    score_function = residue * (z - space.marginals(scores))
    return (score_function + slope).mean(0) - pull(slope)[0] / len(noise)


class AbstractControlled(AbstractEstimator):
    """An estimator that subtracts a function c of the perturbed scores from f, and adds its gradient back.

    See `estimate_conditioned_gradient` for the equation. With several samples the residue `f(z) - c(p)` also gets the
    leave-one-out baseline. Where c has parameters, `Estimate.auxiliary` is the mean over examples of `|gradient|^2`,
    which differs from the variance by a constant: its gradient goes to these parameters only. It needs second-order
    derivatives, and does not work under torch.compile and torch.func.
    """

    needs = ("draw", "marginals", "relax", "conditional", "residual")
    independent = True
    couples_samples = True

    @abstractmethod
    def control(
        self, f: Objective, perturbed: Float[Tensor, "S ..."], space: AbstractFactorised
    ) -> Float[Tensor, "S *B"]:
        """Return c at perturbed scores `[S, *B, *score]`, differentiable in them."""

    @abstractmethod
    def parameters(self) -> list[nn.Parameter]:
        """Return the parameters that `Estimate.auxiliary` trains; empty if nothing is learned."""

    def check(self, space: AbstractSpace, samples: int) -> None:
        """Refuse to train parameters where autograd cannot be called."""
        super().check(space, samples)
        if torch.is_grad_enabled() and not can_read_values() and self.parameters():
            raise ArgumentError(
                f"{type(self).__name__} has parameters to train, which takes derivatives of second order and does not "
                f"work under torch.compile and torch.func; call it outside of them, or without training: "
                f"Rebar(learned=False), Relax with network.requires_grad_(False)"
            )

    def estimate(
        self, f: Evaluator, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> Estimate:
        """Evaluate f at z, and the control variate at the perturbed scores."""
        assert isinstance(space, AbstractFactorised)  # check() refuses all others
        held = scores.detach()
        perturbed = space.perturb(held, noise)
        z = space.argmax(perturbed).to(scores.dtype)
        values = f(z)
        control, slope = self._with_slope(f, perturbed, space, scores.dtype)
        residue = values.detach() - control
        if len(z) > 1:  # no draw is in its own baseline
            residue = (residue - residue.mean(0)) * (len(z) / (len(z) - 1))
        residue = residue.view(*residue.shape, *(1 for _ in space.score_shape))
        gradient = estimate_conditioned_gradient(held, space, noise, z, residue, slope)
        value = carry(values.mean(0), space.dot(gradient.detach().to(scores.dtype), scores))
        return Estimate(value, z, f.evaluations, float(len(noise)), auxiliary=self._auxiliary(gradient, space))

    def _with_slope(
        self, f: Evaluator, perturbed: Tensor, space: AbstractFactorised, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor]:
        """Return c `[S, *B]` and dc/dp `[S, *B, *score]`; under vjp, f cannot split its input into chunks itself."""

        def worth(relaxed: Tensor) -> Tensor:
            return f(relaxed.to(dtype))  # the noise, and so p, may be wider than the scores and a decoder's weights

        chunks = []
        for chunk in perturbed.split(f.chunk_size or len(perturbed)):
            control, pull = torch.func.vjp(lambda p: self.control(worth, p, space), chunk)[:2]
            chunks.append((control, pull(torch.ones_like(control))[0]))
        controls, slopes = zip(*chunks, strict=True)
        return torch.cat(controls), torch.cat(slopes)

    def _auxiliary(self, gradient: Tensor, space: AbstractSpace) -> Tensor | None:
        """Return `mean |gradient|^2`, whose gradient goes to the parameters only, not to those of f."""
        parameters = self.parameters()
        if not parameters or not torch.is_grad_enabled():
            return None
        squares = space.dot(gradient, gradient)
        square = squares.sum() / max(squares.numel(), 1)  # without examples there is nothing to learn from
        slopes = torch.autograd.grad(square, parameters, allow_unused=True, materialize_grads=True)
        pairs = zip(slopes, parameters, strict=True)
        return carry(square.detach(), sum(((s * p).sum() for s, p in pairs), square.new_zeros(())))


@final
@dataclass(frozen=True, eq=False)
class Rebar(AbstractControlled):
    """REBAR: REINFORCE with f at the relaxed z as its control variate.

    With p = scores + noise, z = argmax p and `c(p) = scale f(softmax(p / tau))` (for bits the sigmoid),

        gradient = (f(z) - c(p)) grad log q(z) + grad c(p) - grad c(p given z)

    where the last gradient moves p with the scores while z is fixed. p and p given z come from the same noise.

    Bias: none, at any tau and scale. Variance: at scale 0 that of REINFORCE; low where f at the relaxed z is correlated
    with f at z. With `learned` both are parameters (initialised to the values given), which `Estimate.auxiliary`
    trains; add it to the loss, and `parameters()` to the optimizer. Cost: two evaluations of f per sample and the
    derivative of one; f must be defined off the corners and differentiable there.

    Args:
        tau: temperature of the relaxation, > 0.
        scale: weight of the control variate.
        learned: make both parameters, for `Estimate.auxiliary`; not under torch.compile or torch.func.

    Raises:
        ArgumentError: tau <= 0; learned under torch.compile or torch.func.
        NotExactError: the space's variables are not independent.

    Example:
        >>> import torch, hardmax as hm
        >>> scores, estimator = torch.zeros(4, 6, requires_grad=True), hm.Rebar(tau=0.5, learned=True)
        >>> out = hm.expectation(lambda z: (z - 0.45).square().sum(-1), scores, hm.Binary(6), estimator)
        >>> (out.value.sum() + out.auxiliary).backward()
        >>> out.evaluations, [p.grad is not None for p in estimator.parameters()]
        (2.0, [True, True])

    References:
        Tucker, Mnih, Maddison, Lawson & Sohl-Dickstein, "REBAR: low-variance, unbiased gradient estimates for discrete
        latent variable models", 2017.
    """

    tau: float = 0.5
    scale: float = 1.0
    learned: bool = False
    _log_tau: nn.Parameter = field(init=False, repr=False)
    _scale: nn.Parameter = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_positive("tau", self.tau)
        for name, start in (("_log_tau", math.log(self.tau)), ("_scale", self.scale)):
            object.__setattr__(self, name, nn.Parameter(torch.tensor(start), requires_grad=self.learned))

    def parameters(self) -> list[nn.Parameter]:
        """Return the logarithm of the temperature and the scale, if they are learned."""
        return [self._log_tau, self._scale] if self.learned else []

    def control(
        self, f: Objective, perturbed: Float[Tensor, "S ..."], space: AbstractFactorised
    ) -> Float[Tensor, "S *B"]:
        """Return `scale f(relaxed z)`."""
        return self._scale * f(space.relax(perturbed / self._log_tau.exp(), 1.0))


@final
@dataclass(frozen=True, eq=False)
class Relax(AbstractControlled):
    """RELAX: REINFORCE with a learned function of the perturbed scores as its control variate.

    `c(p) = network(p)`, or with `rebar` also `+ scale f(softmax(p / tau))`; the gradient is as for `Rebar`. The network
    is trained with `Estimate.auxiliary`: add it to the loss, and `parameters()` to the optimizer.

    Bias: none, whatever the network. Variance: that of REINFORCE with c as a baseline that depends on the perturbed
    scores; falls as the network learns. Cost: one evaluation of f per sample, and f may be a black box; with `rebar`
    two, and its derivative. Training the network takes derivatives of second order: use smooth activations (tanh,
    SiLU), since those of a ReLU vanish; it does not work under torch.compile and torch.func.

    Args:
        network: `[S, *B, *score] -> [S, *B]`, differentiable; a module if it is to be trained. It may close over x.
        rebar: adds the relaxed f to the network.

    Raises:
        ArgumentError: a network to be trained under torch.compile or torch.func.
        NotExactError: the space's variables are not independent.

    Example:
        >>> import torch, hardmax as hm
        >>> network = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
        >>> estimator = hm.Relax(torch.nn.Sequential(network, torch.nn.Flatten(-2)))
        >>> scores = torch.zeros(4, 6, requires_grad=True)
        >>> out = hm.expectation(lambda z: (z.sum(-1) > 3).float(), scores, hm.Binary(6), estimator)
        >>> (out.value.sum() + out.auxiliary).backward()
        >>> out.evaluations, all(p.grad is not None for p in estimator.parameters())
        (1.0, True)

    References:
        Grathwohl, Choi, Wu, Roeder & Duvenaud, "Backpropagation through the void", 2018.
    """

    network: Callable[[Tensor], Tensor]
    rebar: Rebar | None = None

    def parameters(self) -> list[nn.Parameter]:
        """Return the network's parameters that are trained, and those of `rebar`."""
        trainable = self.network.parameters() if isinstance(self.network, nn.Module) else ()
        return [p for p in trainable if p.requires_grad] + ([] if self.rebar is None else self.rebar.parameters())

    def control(
        self, f: Objective, perturbed: Float[Tensor, "S ..."], space: AbstractFactorised
    ) -> Float[Tensor, "S *B"]:
        """Return the network's output at the perturbed scores, plus the relaxed f with `rebar`."""
        control = self.network(perturbed)
        return control if self.rebar is None else control + self.rebar.control(f, perturbed, space)


@final
@dataclass(frozen=True)
class DebiasedDirect(AbstractEstimator):
    """Direct as the control variate of REINFORCE: unbiased at any epsilon.

    The two-sided direct gradient is the pathwise gradient of

        W(p) = (max_z {p(z) + epsilon f(z)} - max_z {p(z) - epsilon f(z)}) / (2 epsilon),      p = scores + noise,

    which follows f(z*) closely. With W as a control variate that conditions on z*,

        gradient = (f(z*) - W) grad log q(z*) + g - J^T g,
        g = (statistics(z(epsilon)) - statistics(z(-epsilon))) / (2 epsilon),

    J the derivative of the perturbed scores given z*. With several variables, each has its own W, with the others held
    at a sample z, from the single changes of z. These serve any number of draws of the noise, so the mean is taken over
    several of each variable.

    Bias: none. Variance: lowest where epsilon is about 1 over the differences of f; a smaller epsilon has Direct's
    variance, which grows as 1/epsilon. More draws reduce the variance from the noise, not that from the other
    variables; the limit of many is `LocalExpectation`, which takes the same evaluations of f and no arg max: prefer it
    where it applies. Cost: as Direct, 1 + (number of single changes) evaluations per sample; 3 arg maxes per draw.

    Args:
        epsilon: how strongly f perturbs the arg max, > 0.
        draws: number of noise draws of each variable for one sample.

    Raises:
        ArgumentError: epsilon <= 0, or draws < 1.
        NotExactError: the space's variables are not independent.

    Example:
        >>> import torch, hardmax as hm
        >>> scores = torch.zeros(4, 6, requires_grad=True)
        >>> out = hm.expectation(lambda z: z.prod(-1), scores, hm.Binary(6), hm.DebiasedDirect(epsilon=1.0, draws=8))
        >>> out.value.sum().backward()
        >>> out.evaluations, out.solves
        (7.0, 24.0)

    References:
        Ours, after Tucker, Mnih, Maddison, Lawson & Sohl-Dickstein, "REBAR", 2017, and the hope for a control variate
        in section 6 of Lorberbom et al., 2019.
    """

    epsilon: float = 1.0
    draws: int = 32

    needs = ("draw", "marginals", "change", "parts", "per_variable", "conditional", "residual")
    independent = True

    @property
    def noises(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """One for each draw; the first also draws z."""
        return self.draws

    def __post_init__(self) -> None:
        check_positive("epsilon", self.epsilon)
        if self.draws < 1:
            raise ArgumentError(f"draws must be at least 1, got {self.draws}")

    def estimate(
        self, f: Evaluator, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> Estimate:
        """Evaluate f around z, and correct the direct gradient of every noise by the residue of its control variate."""
        assert isinstance(space, AbstractFactorised)  # check() refuses all others
        held, draws = scores.detach(), self.draws
        perturbed = space.perturb(held, noise)
        z = space.argmax(perturbed).to(scores.dtype)
        first = z[::draws]
        values, parts = evaluate_single_changes(f, space, first)
        # One categorical has a single table for all samples.
        parts = parts if parts.dim() == held.dim() else parts.repeat_interleave(draws, 0)
        above, below = perturbed + self.epsilon * parts, perturbed - self.epsilon * parts
        ahead, behind = space.argmax(above).to(scores.dtype), space.argmax(below).to(scores.dtype)
        control = space.per_variable(ahead * above - behind * below) / (2 * self.epsilon)
        residue = space.per_variable(z * parts) - control
        gradient = estimate_conditioned_gradient(held, space, noise, z, residue, (ahead - behind) / (2 * self.epsilon))
        gradient = gradient.to(scores.dtype)
        return Estimate(
            carry(values.mean(0), space.dot(gradient, scores)), first, f.evaluations, solves=3.0 * len(noise)
        )
