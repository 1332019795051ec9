"""A mixture of diagonal Gaussians, of which an arg max picks one: the prior of what is hidden, given what is seen."""

import math
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import one_hot

from hardmax.errors import ShapeError
from hardmax.objectives.gaussian import gaussian_kl, gaussian_sample
from hardmax.spaces import Categorical


@final
@dataclass(frozen=True)
class GaussianMixture:
    r"""`p(z) = sum_j w_j N(z; mean_j, e^log_variance_j)`, `w = softmax(scores)`, for every example of a batch.

    The component is a choice in `Categorical(k)`; a sample of p is the arg max of perturbed scores, then a sample of
    that Gaussian.

    Attributes:
        scores: `[*B, k]`.
        mean: `[*B, k, c]`.
        log_variance: `[*B, k, c]`.

    Raises:
        ShapeError: shapes that do not fit.

    Example:
        >>> import torch, hardmax as hm
        >>> mean = torch.tensor([[-5.0], [5.0]])
        >>> mixture = hm.GaussianMixture(torch.zeros(2), mean, torch.zeros(2, 1))
        >>> z, component = mixture.sample(4, generator=torch.Generator().manual_seed(0))
        >>> z.shape, component.shape, bool(((z > 0)[:, 0] == component[:, 1].bool()).all())
        (torch.Size([4, 1]), torch.Size([4, 2]), True)
        >>> round(mixture.log_prob(torch.tensor([5.0])).exp().item(), 4)  # half of a standard normal's 0.3989
        0.1995
    """

    scores: Float[Tensor, "*B k"]
    mean: Float[Tensor, "*B k c"]
    log_variance: Float[Tensor, "*B k c"]

    def __post_init__(self) -> None:
        if self.mean.shape[:-1] != self.scores.shape or self.mean.shape != self.log_variance.shape:
            raise ShapeError(
                f"a mixture needs scores [*B, k], and mean and log_variance [*B, k, c], got {list(self.scores.shape)}, "
                f"{list(self.mean.shape)} and {list(self.log_variance.shape)}"
            )

    @property
    def space(self) -> Categorical:
        """What the component is chosen from."""
        return Categorical(self.scores.shape[-1])

    @property
    def log_weights(self) -> Float[Tensor, "*B k"]:
        """The logarithms of the weights."""
        return self.scores.log_softmax(-1)

    def log_prob(self, z: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return log p(z), exactly, by log-sum-exp: `[..., *B, c] -> [..., *B]`."""
        scaled = (z[..., None, :] - self.mean) * (-self.log_variance / 2).exp()
        constant = self.log_variance.sum(-1) + self.mean.shape[-1] * math.log(2 * math.pi)
        return (self.log_weights - (scaled.square().sum(-1) + constant) / 2).logsumexp(-1)

    def kl_to_components(
        self, mean: Float[Tensor, "*B c"], log_variance: Float[Tensor, "*B c"]
    ) -> Float[Tensor, "*B k"]:
        """Return `KL(N(mean, e^log_variance) || component j)` for every j."""
        spread = self.mean.shape
        return gaussian_kl(
            mean[..., None, :].expand(spread), log_variance[..., None, :].expand(spread), self.mean, self.log_variance
        )

    def responsibility(self, mean: Float[Tensor, "*B c"], log_variance: Float[Tensor, "*B c"]) -> Float[Tensor, "*B k"]:
        """Return `log w_j - KL(N(mean, e^log_variance) || component j)`; its softmax are the shares of components."""
        return self.log_weights - self.kl_to_components(mean, log_variance)

    def pick(self, component: Float[Tensor, "..."]) -> tuple[Tensor, Tensor]:
        """Return mean and log-variance of chosen components: one-hot `[..., *B, k] -> [..., *B, c]` twice."""
        rows = component[..., None]
        return (rows * self.mean).sum(-2), (rows * self.log_variance).sum(-2)

    def narrowed(self, temperature: float) -> "GaussianMixture":
        """Return the mixture with the same weights and means, and `temperature` times the standard deviations."""
        return GaussianMixture(self.scores, self.mean, self.log_variance + 2 * math.log(temperature))

    def sample(
        self, samples: int = 1, *, generator: torch.Generator | None = None
    ) -> tuple[Float[Tensor, "S *B c"], Float[Tensor, "S *B k"]]:
        """Draw components by Gumbel-max, then their Gaussians.

        Args:
            samples: S.
            generator: where the noise comes from, that of the components first; None is torch's global generator.

        Returns:
            z, through which gradients reach mean and log-variance, and the one-hot components, through which none do.
        """
        component = self.space.sample(self.scores.detach(), samples, generator=generator)
        return gaussian_sample(*self.pick(component), generator=generator)[0], component

    def systematic_sample(
        self, samples: int, *, generator: torch.Generator | None = None
    ) -> tuple[Float[Tensor, "S *B c"], Float[Tensor, "S *B k"]]:
        r"""Draw S samples that cover the mixture: component j is among them `S w_j` times, rounded down or up.

        One uniform u is shared by all: the r-th sample has the component in which `(r + u) / S` falls when the weights
        are laid end to end; r is shuffled. Every sample by itself is one of p, as with `sample`, and so no mean over
        samples is biased; the best or the variety of a set gains, since no likely component is forgotten by chance.

        Args:
            samples: S.
            generator: where the noise comes from, that of the components first; None is torch's global generator.

        Returns:
            z, through which gradients reach mean and log-variance, and the one-hot components, through which none do.

        References:
            Kitagawa, "Monte Carlo filter and smoother for non-Gaussian nonlinear state space models", 1996 (appendix).
        """
        weights = self.log_weights.detach().exp()
        drawn = torch.rand(samples + 1, *weights.shape[:-1], generator=generator, device=weights.device)
        places = (drawn[1:].argsort(0) + drawn[0]).to(weights.dtype) / samples
        # The sum of the weights may round to less than the last place.
        number = torch.searchsorted(weights.cumsum(-1)[..., :-1].contiguous(), places.movedim(0, -1).contiguous())
        component = one_hot(number.movedim(-1, 0), weights.shape[-1]).to(weights.dtype)
        return gaussian_sample(*self.pick(component), generator=generator)[0], component
