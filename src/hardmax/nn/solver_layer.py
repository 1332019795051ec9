"""A layer that solves an arg max: scores in, z with a gradient out."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from hardmax.errors import ArgumentError
from hardmax.estimators import AbstractSampler, ImplicitMLE
from hardmax.expectations import sample
from hardmax.spaces import AbstractSpace


class SolverLayer(nn.Module):
    r"""The arg max of a space as a layer of a network: `[*B, *score] -> [*B, *event]`.

    In training it returns z of perturbed scores, with the gradient of the estimator; after `eval()` the arg max of the
    scores themselves, without noise. It has no parameters and no state.

    **Scores are values: larger is better.** A network that predicts costs passes minus these.

    Args:
        space: the space of z, such as a `SolverSpace`, a `GridPath` or a `Subset`.
        estimator: a sample-style estimator; by default `ImplicitMLE()`.
        samples: number of samples; with more than one, the output in training is their mean (a perturbed optimizer),
            which is not discrete.
        generator: source of the noise; None is torch's global generator. A copy or a saved model does not keep it.

    Raises:
        ArgumentError: an estimator that gives no z with a gradient, or fewer than one sample.

    Example:
        >>> import torch, hardmax as hm
        >>> model = torch.nn.Sequential(torch.nn.Linear(3, 8), hm.nn.SolverLayer(hm.Subset(8, 2), hm.ImplicitMLE()))
        >>> z = model(torch.randn(5, 3))
        >>> z.shape, z.sum(-1).tolist(), z.requires_grad
        (torch.Size([5, 8]), [2.0, 2.0, 2.0, 2.0, 2.0], True)

    References:
        Berthet et al., 2020; Niepert et al., 2021; Vlastelica et al., 2020. The estimators' pages have the equations.
    """

    def __init__(
        self,
        space: AbstractSpace,
        estimator: AbstractSampler | None = None,
        *,
        samples: int = 1,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        estimator = ImplicitMLE() if estimator is None else estimator
        if not isinstance(estimator, AbstractSampler):
            raise ArgumentError(
                f"{estimator} gives no z with a gradient; use ImplicitMLE(), PerturbedOptimizer(), Blackbox() or "
                "IdentityBackward(), or hm.expectation with an f"
            )
        if samples < 1:
            raise ArgumentError(f"samples must be at least 1, got {samples}")
        estimator.check(space, samples)
        self.space = space
        self.estimator = estimator
        self.samples = samples
        self.generator = generator

    def forward(self, scores: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return z, `[*B, *event]`."""
        if not self.training:
            return self.space.argmax(scores).to(scores.dtype)
        if self.samples == 1:
            return sample(scores, self.space, self.estimator, generator=self.generator)
        return sample(scores, self.space, self.estimator, samples=self.samples, generator=self.generator).mean(0)

    def extra_repr(self) -> str:
        """Return the arguments, for `repr`."""
        return f"{self.space}, {self.estimator}, samples={self.samples}"

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "generator": None}  # generators can be neither copied nor pickled
