"""RELAX."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from jaxtyping import Float
from torch import Tensor, nn

from hardmax.estimators.control_variate import AbstractControlled
from hardmax.estimators.rebar import Rebar
from hardmax.spaces import AbstractFactorised
from hardmax.types import Objective


@final
@dataclass(frozen=True, eq=False)
class Relax(AbstractControlled):
    """RELAX: REINFORCE with a learned function of the perturbed scores as its control variate.

    `c(p) = network(p)`, or with `rebar` also `+ scale f(softmax(p / tau))`; the gradient is as for `Rebar`. The network
    is trained with `Estimate.auxiliary`: add it to the loss, and `parameters()` to the optimizer.

    Bias: none, whatever the network. Variance: that of REINFORCE with c as a baseline that knows where z came from;
    falls as the network learns. Cost: one evaluation of f per sample, and f may be a black box; with `rebar` two, and
    its derivative. Training the network takes derivatives of second order: use smooth activations (tanh, SiLU), since
    those of a ReLU vanish; it does not work under torch.compile and torch.func.

    Args:
        network: `[S, *B, *score] -> [S, *B]`, differentiable; a module if it is to be trained. It may close over x.
        rebar: relaxes f beside the network.

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
        own = self.network.parameters() if isinstance(self.network, nn.Module) else ()
        return [p for p in own if p.requires_grad] + ([] if self.rebar is None else self.rebar.parameters())

    def control(
        self, f: Objective, perturbed: Float[Tensor, "S ..."], space: AbstractFactorised
    ) -> Float[Tensor, "S *B"]:
        """Return what the network makes of the perturbed scores."""
        control = self.network(perturbed)
        return control if self.rebar is None else control + self.rebar.control(f, perturbed, space)
