"""The bound of a model with a discrete and a Gaussian latent: the Gaussian is part of what the discrete z is worth."""

from dataclasses import replace
from math import prod
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from hardmax.errors import ShapeError
from hardmax.estimators import AbstractEstimator, Direct
from hardmax.objectives.elbo import Elbo, Kl, elbo
from hardmax.objectives.gaussian import gaussian_kl
from hardmax.objectives.joins import AbstractJoin
from hardmax.objectives.likelihoods import AbstractLikelihood
from hardmax.random import noise_dtype
from hardmax.spaces import AbstractFactorised


class MixedObjective:
    """What a discrete z is worth where a Gaussian latent goes with it, an objective for any estimator.

        f(z) = log p(x | join(z, z_c)) - KL(q(z_c | x, z) || N(0, I)),    z_c = mean + noise * e^(log_variance / 2)

    The noise is drawn once, so that f is the same function in all of a call. `E_q[f] - KL(q(z) || p(z))` is then an
    unbiased estimate, over the noise, of the evidence lower bound of both latents. Which Gaussians the KL counts
    depends on z: left out of f, categories that need more of their Gaussian look better than they are.

    Gradients for mean, log_variance and the decoder flow through f (reparameterization); those for scores are the
    estimator's. There is no `table`: every category is a row of the decoder for each example, so nothing is saved by
    asking for all of them at once.

    Args:
        likelihood: `log p(x | .)`; its decoder maps `[R, join.width]` to pixels.
        join: how z and the Gaussians go together.
        mean: `[*B, rows, c]`, the encoder's output.
        log_variance: `[*B, rows, c]`, the same.
        noise: `[*B, rows, c]`, standard normal, instead of drawing it.
        generator: where the noise comes from; None is torch's global generator.

    Attributes:
        join: as given.
        noise: `[*B, rows, c]`. What was drawn.
        z_c: `[*B, rows, c]`. The Gaussians' values.
        divergence: `[*B, rows]`. KL of each Gaussian, in closed form.

    Raises:
        ShapeError: the Gaussians do not fit the join and x; `DtypeError`: integers.

    Example:
        >>> import torch, hardmax as hm
        >>> join, x = hm.GaussianRows(hm.Categorical(10), 20), torch.rand(8, 784).round()
        >>> likelihood = hm.BernoulliLikelihood(torch.nn.Linear(join.width, 784), x)
        >>> f = hm.MixedObjective(likelihood, join, torch.zeros(8, 10, 20), torch.zeros(8, 10, 20))
        >>> hm.expectation(f, torch.zeros(8, 10), join.space, hm.Reinforce()).value.shape
        torch.Size([8])

    References:
        Lorberbom et al., 2019, section 5.3.
    """

    def __init__(
        self,
        likelihood: AbstractLikelihood,
        join: AbstractJoin,
        mean: Tensor,
        log_variance: Tensor,
        *,
        noise: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        shape = (*likelihood.batch_shape, join.rows, join.c)
        given = {"mean": mean, "log_variance": log_variance} | ({} if noise is None else {"noise": noise})
        for name, tensor in given.items():
            if tuple(tensor.shape) != shape:
                raise ShapeError(
                    f"{name} has shape {list(tensor.shape)}, but {join} and x of batch shape "
                    f"{list(likelihood.batch_shape)} need {list(shape)}: one Gaussian of c dimensions for each row"
                )
        if noise is None:
            dtype = noise_dtype(mean.dtype)
            noise = torch.randn(shape, generator=generator, dtype=dtype, device=mean.device).to(mean.dtype)
        self.divergence = gaussian_kl(mean, log_variance)
        self.join, self.noise = join, noise
        self.z_c = mean + noise * (log_variance / 2).exp()
        self._likelihood = likelihood

    def __call__(self, z: Float[Tensor, "C ..."]) -> Float[Tensor, "C *B"]:
        """Return f of every candidate and example: `[C, *B, *event] -> [C, *B]`."""
        return self.reconstruction(z) - self.join.used(z, self.divergence)

    def reconstruction(self, z: Float[Tensor, "C ..."]) -> Float[Tensor, "C *B"]:
        """Return the first term of f alone, `log p(x | z, z_c)`."""
        return self._likelihood(self.join.join(z, self.z_c))

    def rows(self, z: Float[Tensor, "R ..."], index: Int[Tensor, " R"]) -> Float[Tensor, " R"]:
        """Return f for chosen examples."""
        count = prod(self._likelihood.batch_shape)
        z_c = self.z_c.reshape(count, *self.z_c.shape[-2:]).index_select(0, index)
        divergence = self.divergence.reshape(count, self.join.rows).index_select(0, index)
        return self._likelihood.rows(self.join.join(z, z_c), index) - self.join.used(z, divergence)


def mixed_elbo(
    objective: MixedObjective,
    scores: Tensor,
    estimator: AbstractEstimator | Literal["auto"] = "auto",
    *,
    prior: Tensor | None = None,
    kl: Kl = "auto",
    samples: int | None = None,
    generator: torch.Generator | None = None,
    noise: Tensor | None = None,
    chunk_size: int | None = None,
    validate: bool = True,
) -> Elbo:
    """Estimate the evidence lower bound of a discrete and a Gaussian latent, to maximise it.

        E_q(z)[log p(x | z, z_c) - KL(q(z_c | x, z) || N(0, I))] - KL(q(z | scores) || p(z))

    It is `hardmax.elbo` of a `MixedObjective`, with the terms told apart: `kl` is that of both latents, and
    `reconstruction` that of the pixels. For independent variables the KL is exact, whatever was drawn; for others the
    Gaussians' part of it is taken at the draws. `value` is `reconstruction - kl` always.

    Bias and variance: those of the estimator for scores; for the Gaussians none, and that of one draw of the noise.

    Args:
        objective: f, with one draw of the Gaussians, which all samples of z share.
        scores: `[*B, *score]`.
        estimator: "auto" as for `elbo`; for one categorical `Direct(full=True)`, posterior direct, whose backward
            pass goes through the drawn category alone.
        prior: scores of p(z) `[*score]`, possibly learned; None is uniform.
        kl: how the KL of z takes part in the gradient for scores, as for `elbo`; the Gaussians' is always in f.
        samples: S, how many z are drawn for each example.
        generator: where the noise of z comes from; None is torch's global generator.
        noise: `[S, *B, *score]`, instead of drawing it.
        chunk_size: the most candidates that the objective gets in one call.
        validate: look at values for NaN and inf.

    Returns:
        The bound, and its terms beside it.

    Raises:
        ArgumentError: an argument that cannot be used.
        NotExactError: a space without KL, or one that the estimator cannot serve.

    Example:
        >>> import torch, hardmax as hm
        >>> join, x = hm.GaussianBeside(hm.Binary(2), 3), torch.rand(8, 784).round()
        >>> likelihood = hm.BernoulliLikelihood(torch.nn.Linear(join.width, 784), x)
        >>> mean = torch.zeros(8, 1, 3, requires_grad=True)
        >>> f = hm.MixedObjective(likelihood, join, mean, torch.zeros(8, 1, 3))
        >>> out = hm.mixed_elbo(f, torch.zeros(8, 2))
        >>> (-out.value.mean()).backward()
        >>> out.value.shape, mean.grad.shape
        (torch.Size([8]), torch.Size([8, 1, 3]))
    """
    space = objective.join.space
    if estimator == "auto" and space.categories is not None:
        estimator = Direct(full=True)
    out = elbo(
        objective,
        scores,
        space,
        estimator,
        prior=prior,
        kl=kl,
        samples=samples,
        generator=generator,
        noise=noise,
        chunk_size=chunk_size,
        validate=validate,
    )
    divergence = objective.divergence.detach()
    if isinstance(space, AbstractFactorised):
        gaussians = objective.join.used(space.marginals(scores.detach()), divergence)
    else:
        gaussians = objective.join.used(out.z, divergence).mean(0)
    return replace(out, reconstruction=out.reconstruction + gaussians, kl=out.kl + gaussians)
