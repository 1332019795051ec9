"""REBAR."""

import math
from dataclasses import dataclass, field
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from hardmax.estimators.control_variate import AbstractControlled
from hardmax.spaces import AbstractFactorised
from hardmax.types import Objective
from hardmax.validation import check_positive


@final
@dataclass(frozen=True, eq=False)
class Rebar(AbstractControlled):
    """REBAR: REINFORCE with f at the relaxed z as its control variate.

    With p = scores + noise, z = argmax p and `c(p) = scale f(softmax(p / tau))` (for bits the sigmoid),

        gradient = (f(z) - c(p)) grad log q(z) + grad c(p) - grad c(p given z)

    where the last gradient moves p with the scores while z may not change. p and p given z come from the same noise.

    Bias: none, at any tau and scale. Variance: at scale 0 that of REINFORCE; low where f at the relaxed z goes with f
    at z. With `learned` both are parameters (start: the values given), which `Estimate.auxiliary` trains; add it to the
    loss, and `parameters()` to the optimizer. Cost: two evaluations of f per sample and the derivative of one; f must
    be defined off the corners and differentiable there.

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
