"""REINFORCE with a function of the perturbed scores as its control variate: REBAR, RELAX and debiased direct."""

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
from hardmax.estimators.abstract import AbstractEstimator, attach_gradient, attach_score_gradient, mean_over_samples
from hardmax.evaluator import Evaluator
from hardmax.spaces import AbstractFactorised, AbstractSpace
from hardmax.tracing import can_read_values
from hardmax.types import Estimate, Objective
from hardmax.validation import check_draws, check_positive


def estimate_conditioned_gradient(
    scores: Float[Tensor, "..."],
    space: AbstractFactorised,
    noise: Float[Tensor, "S ..."],
    z: Float[Tensor, "S ..."],
    residue: Float[Tensor, "S ..."],
    slope: Float[Tensor, "S ..."],
) -> Float[Tensor, "..."]:
    """Return an unbiased estimate of the gradient of `E[f(z)]` that uses a control variate c of the perturbed scores p.

    `E[c(p)]` has two unbiased gradient estimates: the pathwise one, through `perturb`, and one that first draws z and
    then p given z,

        E[grad c(perturb(scores))] = E[c(p) grad log q(z) + grad c(conditional(scores, residual, z))],

    so that `f(z) grad log q(z)` minus the second plus the first is unbiased, whatever c is:

        gradient = (f(z) - c(p)) grad log q(z) + slope - (d conditional / d scores)^T slope,     slope = dc / dp.

    Here both p come from the same noise and are equal, so that c is evaluated once.

    Args:
        scores: `[*B, *score]`, detached.
        space: a factorised space.
        noise: `[S, *B, *score]`.
        z: `[S, *B, *event]`, the samples that the noise draws.
        residue: `[S, *B, ...]`, `f(z) - c(p)`: one number for all variables (dimensions of size one) or one for each.
        slope: `[S, *B, *score]`, dc/dp; may carry a graph to the parameters of the control variate.

    Returns:
        `[*B, *score]`, the mean over samples.
    """
    score_function = residue * (z - space.marginals(scores))
    return mean_over_samples(score_function) + space.deduct_conditional(scores, noise, z, slope)


class AbstractControlled(AbstractEstimator):
    r"""Base class of REINFORCE with a control variate: subtracts a function c of the perturbed scores from f.

    The gradient of $\mathbb{E}[c]$ is added back, so that the estimate stays unbiased; `estimate_conditioned_gradient`
    has the equation. With several samples the residue $f(z) - c(p)$ also gets the leave-one-out baseline. Where c has
    parameters, `Estimate.auxiliary` is the mean over examples of $|\mathrm{gradient}|^2$, which differs from the
    variance by a constant: minimise it to train these parameters, which are the only ones that receive its gradient. It
    needs second-order derivatives, and does not work under torch.compile and torch.func.
    """

    needs = ("draw", "marginals", "relax", "conditional", "residual")
    independent = True
    couples_samples = True

    @abstractmethod
    def control(
        self, f: Objective, perturbed: Float[Tensor, "S ..."], space: AbstractFactorised
    ) -> Float[Tensor, "S *B"]:
        """Return the control variate c at the perturbed scores `[S, *B, *score]`, differentiable in them."""

    @abstractmethod
    def parameters(self) -> list[nn.Parameter]:
        """Return the parameters that `Estimate.auxiliary` trains; an empty list if nothing is learned."""

    def check(self, space: AbstractSpace, samples: int) -> None:
        """Refuse to train parameters where autograd cannot be called."""
        super().check(space, samples)
        if torch.is_grad_enabled() and not can_read_values() and self.parameters():
            raise ArgumentError(
                f"{type(self).__name__} has parameters to train, which needs second-order derivatives and does not "
                f"work under torch.compile and torch.func; call it outside of them, or without training: "
                f"Rebar(learned=False), Relax with network.requires_grad_(False)"
            )

    def estimate(
        self, f: Evaluator, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> Estimate:
        """Evaluate f at z, and the control variate at the perturbed scores."""
        assert isinstance(space, AbstractFactorised)  # check() refuses all other spaces
        detached = scores.detach()
        perturbed = space.perturb(detached, noise)
        z = space.argmax(perturbed).to(scores.dtype)
        values = f(z)
        control, slope = self._control_with_slope(f, perturbed, space, scores.dtype)
        residue = values.detach() - control
        if len(z) > 1:  # leave-one-out: no draw is in its own baseline
            residue = (residue - residue.mean(0)) * (len(z) / (len(z) - 1))
        residue = residue.view(*residue.shape, *(1 for _ in space.score_shape))
        gradient = estimate_conditioned_gradient(detached, space, noise, z, residue, slope)
        value = attach_score_gradient(mean_over_samples(values), scores, gradient.detach().to(scores.dtype))
        return Estimate(value, z, f.evaluations, float(len(noise)), auxiliary=self._auxiliary(gradient, space))

    def _control_with_slope(
        self, f: Evaluator, perturbed: Tensor, space: AbstractFactorised, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor]:
        """Return c `[S, *B]` and dc/dp `[S, *B, *score]`; under vjp, f cannot split its input into chunks itself."""

        def evaluate(relaxed: Tensor) -> Tensor:
            return f(relaxed.to(dtype))  # the noise, and so p, may have a wider dtype than the scores and the decoder

        chunks = []
        for chunk in perturbed.split(f.chunk_size or len(perturbed)):
            control, pull = torch.func.vjp(lambda p: self.control(evaluate, p, space), chunk)[:2]
            chunks.append((control, pull(torch.ones_like(control))[0]))
        controls, slopes = zip(*chunks, strict=True)
        return torch.cat(controls), torch.cat(slopes)

    def _auxiliary(self, gradient: Tensor, space: AbstractSpace) -> Tensor | None:
        """Return `mean |gradient|^2`, whose gradient goes only to the estimator's parameters, not to those of f."""
        parameters = self.parameters()
        if not parameters or not torch.is_grad_enabled():
            return None
        squares = space.dot(gradient, gradient)
        square = squares.sum() / max(squares.numel(), 1)  # without examples there is nothing to learn from
        slopes = torch.autograd.grad(square, parameters, allow_unused=True, materialize_grads=True)
        pairs = zip(slopes, parameters, strict=True)
        return attach_gradient(square.detach(), sum(((s * p).sum() for s, p in pairs), square.new_zeros(())))


@final
@dataclass(frozen=True, eq=False)
class Rebar(AbstractControlled):
    r"""REBAR: REINFORCE with the relaxed (Gumbel-softmax) f as its control variate.

    With $p = \mathrm{scores} + \mathrm{noise}$, $z = \operatorname{argmax} p$ and
    $c(p) = \mathrm{scale} \cdot f(\operatorname{softmax}(p / \tau))$ (for bits the sigmoid),

    $$ \mathrm{gradient} = (f(z) - c(p)) \, \nabla \log q(z) + \nabla c(p) - \nabla c(p \text{ given } z), $$

    where the last gradient moves p with the scores while z is fixed. p and p given z come from the same noise. With
    `learned`, tau and scale are parameters, initialised to the values given, which `Estimate.auxiliary` trains: add it
    to the loss, and `parameters()` to the optimizer.

    Bias: none, at any tau and scale. Variance: at scale 0 that of REINFORCE; low where f at the relaxed z is correlated
    with f at z. Cost: two evaluations of f per sample and the derivative of one; f must be defined and differentiable
    at relaxed z, too.

    Args:
        tau: temperature of the relaxation, > 0.
        scale: weight of the control variate.
        learned: train tau and scale with `Estimate.auxiliary`; not under torch.compile or torch.func.

    Raises:
        ArgumentError: tau <= 0; `learned` under torch.compile or torch.func.
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
    r"""RELAX: REINFORCE with a learned function of the perturbed scores as its control variate.

    The control variate is $c(p) = \mathrm{network}(p)$, and with `rebar`

    $$ c(p) = \mathrm{network}(p) + \mathrm{scale} \cdot f(\operatorname{softmax}(p / \tau)). $$

    The gradient is as for `Rebar`. The network is trained with `Estimate.auxiliary`: add it to the loss, and
    `parameters()` to the optimizer.

    Bias: none, whatever the network. Variance: that of REINFORCE with c as a baseline that depends on the perturbed
    scores; it decreases as the network learns. Cost: one evaluation of f per sample, and f may be a black box; with
    `rebar` two, and the derivative of f. Training the network needs second-order derivatives: use smooth activations
    (tanh, SiLU), since those of a ReLU vanish; it does not work under torch.compile and torch.func.

    Args:
        network: `[S, *B, *score] -> [S, *B]`, differentiable; a module if it is to be trained. It may close over x.
        rebar: a `Rebar` whose relaxed f is added to the network; None for the network only.

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
        """Return the trainable parameters of the network, and those of `rebar`."""
        trainable = self.network.parameters() if isinstance(self.network, nn.Module) else ()
        return [p for p in trainable if p.requires_grad] + ([] if self.rebar is None else self.rebar.parameters())

    def control(
        self, f: Objective, perturbed: Float[Tensor, "S ..."], space: AbstractFactorised
    ) -> Float[Tensor, "S *B"]:
        """Return the network's output at the perturbed scores, plus the relaxed f with `rebar`."""
        control = self.network(perturbed)
        return control if self.rebar is None else control + self.rebar.control(f, perturbed, space)


_NUMBERS = 2**21  # perturbed scores at a time: 8 MB in float32


@final
@dataclass(frozen=True)
class DebiasedDirect(AbstractEstimator):
    r"""Debiased direct optimization: REINFORCE with `Direct` as its control variate, unbiased at any epsilon.

    With $p = \mathrm{scores} + \mathrm{noise}$, the two-sided direct gradient is the pathwise gradient of

    $$ W(p) = \frac{\max_z \{p(z) + \epsilon f(z)\} - \max_z \{p(z) - \epsilon f(z)\}}{2 \epsilon}, $$

    which is close to $f(z^*)$. With W as a control variate that conditions on $z^*$,

    $$ \begin{aligned}
       \mathrm{gradient} &= (f(z^*) - W) \, \nabla \log q(z^*) + g - J^T g, \\
       g &= \frac{\mathrm{statistics}(z(\epsilon)) - \mathrm{statistics}(z(-\epsilon))}{2 \epsilon},
       \end{aligned} $$

    where J is the derivative of the perturbed scores given $z^*$. With several variables, each has its own W, from the
    single changes of a sample z at which the other variables are held. The same evaluations of f serve any number of
    noise draws, so the estimate is the mean over several draws of each variable.

    Bias: none. Variance: lowest where epsilon is about 1 over the differences of f; a smaller epsilon has the variance
    of `Direct`, which grows as $1/\epsilon$. More draws reduce the variance from the noise, not the variance from the
    other variables. The limit of many draws is `LocalExpectation`, which needs the same evaluations of f and no arg
    max: prefer it where it applies. Cost: as `Direct`, 1 + (number of single changes) evaluations per sample; an arg
    max per sample and 3 per draw.

    Args:
        epsilon: how strongly f perturbs the arg max, > 0.
        draws: number of noise draws of each variable per sample, at least 1.

    Raises:
        ArgumentError: epsilon <= 0, or draws < 1.
        NotExactError: the space's variables are not independent.

    Example:
        >>> import torch, hardmax as hm
        >>> scores = torch.zeros(4, 6, requires_grad=True)
        >>> out = hm.expectation(lambda z: z.prod(-1), scores, hm.Binary(6), hm.DebiasedDirect(epsilon=1.0, draws=8))
        >>> out.value.sum().backward()
        >>> out.evaluations, out.solves
        (7.0, 25.0)

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
        """One noise tensor per draw; the first also draws z."""
        return self.draws

    def __post_init__(self) -> None:
        check_positive("epsilon", self.epsilon)
        check_draws(self.draws)

    def estimate(
        self, f: Evaluator, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> Estimate:
        """Evaluate f around z, and correct the direct gradient of each draw by the residue of its control variate."""
        assert isinstance(space, AbstractFactorised)  # check() refuses all other spaces
        detached = scores.detach()
        by_sample = noise.unflatten(0, (-1, self.draws))
        z = space.argmax(space.perturb(detached, by_sample[:, 0])).to(scores.dtype)
        values, parts = evaluate_single_changes(f, space, z)
        # Some draws at a time: their perturbed scores need more memory than the rest of a step.
        size = max(_NUMBERS // max(by_sample[:, 0].numel(), 1), 1)
        gradient = sum(
            self._correct(detached, space, block, parts) * (block.shape[1] / self.draws)
            for block in by_sample.split(size, 1)
        )
        assert isinstance(gradient, Tensor)
        value = attach_score_gradient(mean_over_samples(values), scores, gradient.to(scores.dtype))
        return Estimate(value, z, f.evaluations, solves=3.0 * len(noise) + len(z))

    def _correct(self, scores: Tensor, space: AbstractFactorised, noise: Tensor, parts: Tensor) -> Tensor:
        """Return the mean of the corrected direct gradients of some draws, noise `[S, draws, *B, *score]`."""
        # One categorical variable has a single table for all samples.
        parts = parts if parts.dim() == scores.dim() else parts.repeat_interleave(noise.shape[1], 0)
        noise = noise.flatten(0, 1)
        perturbed = space.perturb(scores, noise)
        scores_plus, scores_minus = perturbed + self.epsilon * parts, perturbed - self.epsilon * parts
        z, z_plus, z_minus = (space.argmax(s).to(scores.dtype) for s in (perturbed, scores_plus, scores_minus))
        control = space.per_variable(z_plus * scores_plus - z_minus * scores_minus) / (2 * self.epsilon)
        residue = space.per_variable(z * parts) - control
        slope = (z_plus - z_minus) / (2 * self.epsilon)
        return estimate_conditioned_gradient(scores, space, noise, z, residue, slope)
