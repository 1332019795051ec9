"""A mixture of products of Bernoullis, fitted by EM: the counterpart of a VAE with one categorical variable."""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.errors import ArgumentError

_SMOOTH = 1e-3  # pseudo-counts of each pixel: one that is always on in a component must not be impossible
_SURE = 1e-6  # nor certain, which a mean of many pictures is once it is rounded


@final
@dataclass(frozen=True, eq=False)
class BernoulliMixture:
    """`p(x) = sum_z weights_z prod_j means_zj^x_j (1 - means_zj)^(1 - x_j)`, z one of k components.

    The decoder of a VAE with one categorical variable is such a mixture, whatever its layers are: no training gets far
    below what EM reaches here. EM is the VAE whose encoder is the posterior, so that there is no gap between bound
    and log p(x), and whose decoder is the best one for it, in closed form.

    Attributes:
        weights: `[k]`, p(z).
        means: `[k, D]`, of each pixel.

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
        """Fit by EM, from k pictures, each mixed with the mean picture.

        Args:
            x: `[N, D]`, zeros and ones; values between count as probabilities.
            k: components.
            steps: of EM.
            generator: draws the initial pictures; None is torch's global generator.

        Raises:
            ArgumentError: k < 1, or fewer pictures than components.
        """
        if not 1 <= k <= len(x):
            raise ArgumentError(f"k must be between 1 and the number of pictures, {len(x)}, got {k}")
        chosen = torch.randperm(len(x), generator=generator)[:k]
        mixture = cls(x.new_full((k,), 1 / k), (0.5 * x[chosen] + 0.5 * x.mean(0)).clamp(0.01, 0.99))
        for _ in range(steps):
            posterior = mixture.log_joint(x).softmax(-1)
            counts = posterior.sum(0)
            weights = (counts + _SMOOTH) / (counts + _SMOOTH).sum()
            means = (posterior.T @ x + _SMOOTH) / (counts[:, None] + 2 * _SMOOTH)
            mixture = cls(weights, means.clamp(_SURE, 1 - _SURE))
        return mixture

    def log_joint(self, x: Float[Tensor, "N D"]) -> Float[Tensor, "N k"]:
        """Return log p(x, z) of every component; its softmax is the posterior p(z | x)."""
        on, off = self.means.log(), (-self.means).log1p()
        return x @ (on - off).T + off.sum(-1) + self.weights.log()

    def log_likelihood(self, x: Float[Tensor, "N D"]) -> Float[Tensor, " N"]:
        """Return log p(x)."""
        return self.log_joint(x).logsumexp(-1)
