"""How good is a model with a Gaussian latent? The bound, and log p(x) by importance weights."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.objectives.bounds import Bounds
from hardmax.objectives.gaussian import gaussian_elbo, gaussian_kl
from hardmax.types import Objective
from hardmax.validation import check_samples


def gaussian_bounds(
    likelihood: Objective,
    mean: Float[Tensor, "*B D"],
    log_variance: Float[Tensor, "*B D"],
    *,
    samples: int,
    generator: torch.Generator | None = None,
) -> Bounds:
    """Return the bound and `log 1/S sum_s p(x, z_s) / q(z_s)` from S samples of `q = N(mean, e^log_variance)`.

    The second is in the mean a lower bound of log p(x), and rises to it with S. The prior is N(0, I).

    Args:
        likelihood: `log p(x | z)`, maps z `[C, *B, D]` to `[C, *B]`.
        mean: `[*B, D]`.
        log_variance: `[*B, D]`.
        samples: S; they are decoded one after the other.
        generator: where the samples come from; None is torch's global generator.

    Returns:
        All of it `[*B]`; the KL is exact.

    Raises:
        ArgumentError: samples < 1, or what `gaussian_elbo` refuses.

    Example:
        >>> import torch, hardmax as hm
        >>> likelihood = hm.BernoulliLikelihood(torch.nn.Linear(2, 784), torch.rand(8, 784).round())
        >>> zeros = torch.zeros(8, 2)
        >>> hm.gaussian_bounds(likelihood, zeros, zeros, samples=16).elbo.shape
        torch.Size([8])

    References:
        Burda, Grosse & Salakhutdinov, "Importance weighted autoencoders", 2016.
    """
    check_samples(samples)
    # With one sample, the joint-contrastive form is the logarithm of its weight.
    draws = [
        gaussian_elbo(likelihood, mean, log_variance, form="joint-contrastive", generator=generator)
        for _ in range(samples)
    ]
    weights = torch.stack([draw.value for draw in draws])
    reconstruction = torch.stack([draw.reconstruction for draw in draws]).mean(0)
    kl = gaussian_kl(mean, log_variance)
    return Bounds(reconstruction - kl, weights.logsumexp(0) - math.log(samples), reconstruction, kl)
