"""The evidence lower bound of a model with a discrete and a Gaussian latent, for training and evaluation."""

from dataclasses import replace
from math import prod
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from hardmax.applications.mixed_vae.joins import AbstractJoin
from hardmax.errors import ShapeError
from hardmax.estimators import AbstractEstimator, Direct
from hardmax.evaluator import Evaluator
from hardmax.objectives.bounds import Bounds
from hardmax.objectives.elbo import Elbo, Kl, check_prior, elbo, log_prior
from hardmax.objectives.gaussian import gaussian_kl
from hardmax.objectives.likelihoods import AbstractLikelihood
from hardmax.random import choose_noise_dtype
from hardmax.spaces import AbstractFactorised
from hardmax.tracing import can_read_values
from hardmax.validation import check_samples, check_scores


class MixedObjective:
    r"""The objective f of a discrete z that is combined with a Gaussian latent; works with any estimator.

    $$ f(z) = \log p(x \mid \mathrm{join}(z, z_c)) - \mathrm{KL}(q(z_c \mid x, z) \,\|\, N(0, I)), $$

    $$ z_c = \mathrm{mean} + \mathrm{noise} \cdot e^{\mathrm{log\_variance} / 2} $$

    The noise is drawn once, so that f is the same function throughout a call.
    $\mathbb{E}_q[f] - \mathrm{KL}(q(z) \,\|\, p(z))$ is then an unbiased estimate, over the noise, of the evidence
    lower bound of both latents. The KL of the Gaussians depends on z: without it in f, categories whose Gaussian has a
    large KL would look better than they are.

    Gradients for mean, log_variance and the decoder flow through f (reparameterization); the estimator gives those for
    scores. There is no method `table`: each category of each example is a separate row of the decoder's input, so that
    computing all of them together saves nothing.

    Args:
        likelihood: $\log p(x \mid \cdot)$; its decoder maps `[R, join.width]` to pixels.
        join: how z and the Gaussians are combined.
        mean: `[*B, rows, c]`, the encoder's output.
        log_variance: `[*B, rows, c]`, the encoder's output.
        noise: `[*B, rows, c]`, standard normal; None draws it.
        generator: the source of the noise; None is torch's global generator.

    Attributes:
        join: as given.
        noise: `[*B, rows, c]`. The noise of the Gaussians.
        z_c: `[*B, rows, c]`. The values of the Gaussians.
        divergence: `[*B, rows]`. KL of each Gaussian, in closed form.

    Raises:
        ShapeError: the shapes of the Gaussians do not fit the join and x.
        DtypeError: the Gaussians are integers.

    Example:
        >>> import torch, hardmax as hm
        >>> from hardmax.applications.mixed_vae import GaussianRows, MixedObjective
        >>> join, x = GaussianRows(hm.Categorical(10), 20), torch.rand(8, 784).round()
        >>> likelihood = hm.BernoulliLikelihood(torch.nn.Linear(join.width, 784), x)
        >>> f = MixedObjective(likelihood, join, torch.zeros(8, 10, 20), torch.zeros(8, 10, 20))
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
            dtype = choose_noise_dtype(mean.dtype)
            noise = torch.randn(shape, generator=generator, dtype=dtype, device=mean.device).to(mean.dtype)
        self.divergence = gaussian_kl(mean, log_variance)
        self.join, self.noise = join, noise
        self.z_c = mean + noise * (log_variance / 2).exp()
        self._likelihood = likelihood

    def __call__(self, z: Float[Tensor, "C ..."]) -> Float[Tensor, "C *B"]:
        """Return f of every candidate and example: `[C, *B, *event] -> [C, *B]`."""
        return self.reconstruction(z) - self.join.sum_used_rows(z, self.divergence)

    def reconstruction(self, z: Float[Tensor, "C ..."]) -> Float[Tensor, "C *B"]:
        r"""Return the first term of f, $\log p(x \mid z, z_c)$."""
        return self._likelihood(self.join.join(z, self.z_c))

    def rows(self, z: Float[Tensor, "R ..."], index: Int[Tensor, " R"]) -> Float[Tensor, " R"]:
        """Return f of one z for each of some examples, which `index` selects."""
        count = prod(self._likelihood.batch_shape)
        z_c = self.z_c.reshape(count, *self.z_c.shape[-2:]).index_select(0, index)
        divergence = self.divergence.reshape(count, self.join.rows).index_select(0, index)
        return self._likelihood.rows(self.join.join(z, z_c), index) - self.join.sum_used_rows(z, divergence)


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
    r"""Estimate the evidence lower bound of a discrete and a Gaussian latent, to maximise it.

    $$ \mathbb{E}_{q(z)}\big[\log p(x \mid z, z_c) - \mathrm{KL}(q(z_c \mid x, z) \,\|\, N(0, I))\big]
       - \mathrm{KL}(q(z \mid \mathrm{scores}) \,\|\, p(z)) $$

    It is `hardmax.elbo` of a `MixedObjective`, with other terms: `kl` is the KL of both latents, `reconstruction` is
    the log-likelihood of the pixels. If the variables of z are independent, the KL is exact; otherwise the part of the
    Gaussians is evaluated at the samples of z. `value` always equals `reconstruction - kl`.

    Bias and variance: for scores, those of the estimator; for the Gaussians, no bias, and the variance of one sample.

    Args:
        objective: f, with one sample of the Gaussians, which all samples of z share.
        scores: `[*B, *score]`.
        estimator: "auto" is as for `elbo`, except for one categorical: `Direct(full=True)`, posterior direct, whose
            backward pass decodes only the sampled category.
        prior: scores of p(z) `[*score]`, possibly learned; None is uniform.
        kl: how the KL of z enters the gradient for scores, as for `elbo`; the KL of the Gaussians is always in f.
        samples: S, the number of samples of z for each example.
        generator: the source of the noise of z; None is torch's global generator.
        noise: `[S, *B, *score]`, the noise of z; None draws it.
        chunk_size: maximum number of candidates in one call of the objective.
        validate: check values for NaN and inf.

    Returns:
        The bound and its terms.

    Raises:
        ArgumentError: an argument is invalid.
        NotExactError: the space has no KL, or the estimator does not support it.

    Example:
        >>> import torch, hardmax as hm
        >>> from hardmax.applications.mixed_vae import SharedGaussian, MixedObjective, mixed_elbo
        >>> join, x = SharedGaussian(hm.Binary(2), 3), torch.rand(8, 784).round()
        >>> likelihood = hm.BernoulliLikelihood(torch.nn.Linear(join.width, 784), x)
        >>> mean = torch.zeros(8, 1, 3, requires_grad=True)
        >>> f = MixedObjective(likelihood, join, mean, torch.zeros(8, 1, 3))
        >>> out = mixed_elbo(f, torch.zeros(8, 2))
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
        gaussians = objective.join.sum_used_rows(space.marginals(scores.detach()), divergence)
    else:
        gaussians = objective.join.sum_used_rows(out.z, divergence).mean(0)
    return replace(out, reconstruction=out.reconstruction + gaussians, kl=out.kl + gaussians)


def exact_mixed_bounds(
    likelihood: AbstractLikelihood,
    join: AbstractJoin,
    scores: Tensor,
    mean: Tensor,
    log_variance: Tensor,
    *,
    samples: int,
    prior: Tensor | None = None,
    generator: torch.Generator | None = None,
    chunk_size: int | None = None,
) -> Bounds:
    r"""Return the bound and $\log p(x)$ by enumerating every z; the Gaussians are sampled.

    With S samples $z_c$ of the Gaussians, $\log p(x)$ is estimated by

    $$ \log \sum_z p(z) \, \frac{1}{S} \sum_{z_c} \frac{p(x \mid z, z_c) \, p(z_c)}{q(z_c \mid x, z)}, $$

    whose mean is a lower bound of $\log p(x)$ that rises to it with S. The KL divergences are exact.

    Args:
        likelihood: $\log p(x \mid \cdot)$; its decoder maps `[R, join.width]` to pixels.
        join: how z and the Gaussians are combined; its space is small enough to enumerate.
        scores: `[*B, *score]`.
        mean: `[*B, rows, c]`.
        log_variance: `[*B, rows, c]`.
        samples: S, the number of samples.
        prior: scores of p(z) `[*score]`; None is uniform.
        generator: the source of the samples; None is torch's global generator.
        chunk_size: maximum number of z that are decoded for each example at a time.

    Returns:
        All terms `[*B]`.

    Raises:
        NotExactError: the space is too large to enumerate.

    Example:
        >>> import torch, hardmax as hm
        >>> from hardmax.applications.mixed_vae import GaussianRows, exact_mixed_bounds
        >>> join, x = GaussianRows(hm.Categorical(4), 2), torch.rand(8, 784).round()
        >>> likelihood = hm.BernoulliLikelihood(torch.nn.Linear(join.width, 784), x)
        >>> zeros = torch.zeros(8, join.rows, 2)
        >>> exact_mixed_bounds(likelihood, join, torch.zeros(8, 4), zeros, zeros, samples=16).elbo.shape
        torch.Size([8])

    References:
        Burda, Grosse & Salakhutdinov, "Importance weighted autoencoders", 2016.
    """
    space = join.space
    scores = _check_arguments(scores, join, prior, samples)
    batch = space.batch_shape(scores)
    space.check_enumerable()
    log_q = space.log_probs(scores)
    log_p = space.log_probs(scores.new_zeros(space.score_shape) if prior is None else prior)
    q, event = log_q.exp(), space.event_shape
    members = space.enumerate(dtype=scores.dtype, device=scores.device)
    members = members.view(-1, *(1 for _ in batch), *event).expand(-1, *batch, *event)
    reconstruction, weights = torch.zeros_like(q), []
    for _ in range(samples):
        f = MixedObjective(likelihood, join, mean, log_variance, generator=generator)
        values = Evaluator(f.reconstruction, scores, space, chunk_size=chunk_size).table()
        reconstruction = reconstruction + values / samples
        ratio = join.sum_used_rows(members, _log_ratio(f, log_variance)).movedim(0, -1)
        weights.append((values - ratio + log_p).logsumexp(-1))
    divergence = join.sum_used_rows(members, gaussian_kl(mean, log_variance)).movedim(0, -1)
    reconstruction, kl = (q * reconstruction).sum(-1), (q * (divergence + log_q - log_p)).sum(-1)
    return Bounds.from_weights(torch.stack(weights), reconstruction, kl)


def sampled_mixed_bounds(
    likelihood: AbstractLikelihood,
    join: AbstractJoin,
    scores: Tensor,
    mean: Tensor,
    log_variance: Tensor,
    *,
    samples: int,
    prior: Tensor | None = None,
    generator: torch.Generator | None = None,
) -> Bounds:
    r"""Return the bound and $\log p(x)$ from S samples of both latents, for spaces of any size.

    $\log p(x)$ is estimated by

    $$ \log \frac{1}{S} \sum \frac{p(x, z, z_c)}{q(z, z_c \mid x)}, $$

    whose mean is a lower bound of it.

    Args:
        likelihood: $\log p(x \mid \cdot)$; its decoder maps `[R, join.width]` to pixels.
        join: how z and the Gaussians are combined; its space offers `draw`, `log_prob` and `kl`.
        scores: `[*B, *score]`.
        mean: `[*B, rows, c]`.
        log_variance: `[*B, rows, c]`.
        samples: S, the number of samples.
        prior: scores of p(z) `[*score]`; None is uniform.
        generator: the source of the samples; None is torch's global generator.

    Returns:
        All terms `[*B]`; the KL of z is exact, that of the Gaussians is evaluated at the samples.

    Raises:
        NotExactError: the space has no exact samples or probabilities.

    Example:
        >>> import torch, hardmax as hm
        >>> from hardmax.applications.mixed_vae import SharedGaussian, sampled_mixed_bounds
        >>> join, x = SharedGaussian(hm.Binary(40), 2), torch.rand(8, 784).round()
        >>> likelihood = hm.BernoulliLikelihood(torch.nn.Linear(join.width, 784), x)
        >>> zeros = torch.zeros(8, join.rows, 2)
        >>> sampled_mixed_bounds(likelihood, join, torch.zeros(8, 40), zeros, zeros, samples=16).elbo.shape
        torch.Size([8])

    References:
        Burda, Grosse & Salakhutdinov, "Importance weighted autoencoders", 2016.
    """
    space = join.space
    scores = _check_arguments(scores, join, prior, samples)
    reconstruction, kl, weights = scores.new_zeros(()), space.kl(scores, prior), []
    for z in space.sample(scores, samples, generator=generator):
        f = MixedObjective(likelihood, join, mean, log_variance, generator=generator)
        values = Evaluator(f.reconstruction, scores, space)(z[None])[0]
        reconstruction, kl = reconstruction + values / samples, kl + join.sum_used_rows(z, f.divergence) / samples
        ratio = (
            join.sum_used_rows(z, _log_ratio(f, log_variance)) + space.log_prob(scores, z) - log_prior(prior, space, z)
        )
        weights.append(values - ratio)
    return Bounds.from_weights(torch.stack(weights), reconstruction, kl)


def _check_arguments(scores: Tensor, join: AbstractJoin, prior: Tensor | None, samples: int) -> Tensor:
    """Check the arguments of the bounds; return the scores, with a low number for minus infinity."""
    check_prior(prior, join.space)
    check_samples(samples)
    return check_scores(scores, join.space, values=can_read_values())


def _log_ratio(f: MixedObjective, log_variance: Tensor) -> Tensor:
    """Return log q - log p of each Gaussian's value, `[*B, rows]`: (value - mean)^2 / variance is noise^2."""
    return (f.z_c.square() - f.noise.square() - log_variance).sum(-1) / 2
