"""A mixture of products of Bernoullis, fitted by EM: the counterpart of a VAE with one categorical variable."""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.errors import ArgumentError

_PSEUDO_COUNT = 1e-3  # added to the counts of each pixel: no value of a pixel is impossible in a component
_MIN_MEAN = 1e-6  # nor certain, which a mean over many images would be after rounding


@final
@dataclass(frozen=True, eq=False)
class BernoulliMixture:
    r"""A mixture of k products of Bernoulli distributions, for binary images.

    $$ p(x) = \sum_z \mathrm{weights}_z \prod_j \mathrm{means}_{zj}^{x_j} (1 - \mathrm{means}_{zj})^{1 - x_j} $$

    z is one of k components. The decoder of a VAE with one categorical variable is such a mixture, whatever its layers
    are. Its $-\log p(x)$ after training is therefore not far below what EM reaches here. EM corresponds to a VAE whose
    encoder is the exact posterior, so that the bound equals $\log p(x)$, and whose decoder is optimal for it, in closed
    form.

    Attributes:
        weights: `[k]`, $p(z)$.
        means: `[k, D]`, the mean of each pixel in each component.

    Example:
        >>> import torch
        >>> from hardmax.applications.discrete_vae import BernoulliMixture
        >>> x = torch.eye(4).repeat(25, 1)
        >>> mixture = BernoulliMixture.fit(x, 4, generator=torch.Generator().manual_seed(0))
        >>> mixture.means.shape, mixture.log_likelihood(x).shape
        (torch.Size([4, 4]), torch.Size([100]))

    References:
        Dempster, Laird & Rubin, "Maximum likelihood from incomplete data via the EM algorithm", 1977; Bishop, "Pattern
        recognition and machine learning", 2006, section 9.3.3.
    """

    weights: Float[Tensor, " k"]
    means: Float[Tensor, "k D"]

    @classmethod
    def fit(
        cls, x: Float[Tensor, "N D"], k: int, *, steps: int = 80, generator: torch.Generator | None = None
    ) -> "BernoulliMixture":
        """Fit a mixture by EM; the initial means are k random images, each averaged with the mean image.

        Args:
            x: `[N, D]`, zeros and ones; values in between count as probabilities.
            k: number of components.
            steps: number of EM steps.
            generator: draws the initial images; None is torch's global generator.

        Raises:
            ArgumentError: k < 1, or fewer images than components.
        """
        if not 1 <= k <= len(x):
            raise ArgumentError(f"k must be between 1 and the number of images, {len(x)}, got {k}")
        index = torch.randperm(len(x), generator=generator)[:k]
        mixture = cls(x.new_full((k,), 1 / k), (0.5 * x[index] + 0.5 * x.mean(0)).clamp(0.01, 0.99))
        for _ in range(steps):
            posterior = mixture.log_joint(x).softmax(-1)
            counts = posterior.sum(0)
            weights = (counts + _PSEUDO_COUNT) / (counts + _PSEUDO_COUNT).sum()
            means = (posterior.T @ x + _PSEUDO_COUNT) / (counts[:, None] + 2 * _PSEUDO_COUNT)
            mixture = cls(weights, means.clamp(_MIN_MEAN, 1 - _MIN_MEAN))
        return mixture

    def log_joint(self, x: Float[Tensor, "N D"]) -> Float[Tensor, "N k"]:
        r"""Return $\log p(x, z)$ of every component; its softmax is the posterior $p(z \mid x)$."""
        on, off = self.means.log(), (-self.means).log1p()
        return x @ (on - off).T + off.sum(-1) + self.weights.log()

    def log_likelihood(self, x: Float[Tensor, "N D"]) -> Float[Tensor, " N"]:
        r"""Return $\log p(x)$."""
        return self.log_joint(x).logsumexp(-1)
