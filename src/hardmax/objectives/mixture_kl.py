"""How far a Gaussian is from a mixture: exact by log-sum-exp, or from one component that an arg max picks."""

from dataclasses import dataclass
from typing import Literal, final

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.errors import ArgumentError
from hardmax.estimators import AbstractEstimator
from hardmax.objectives.elbo import elbo
from hardmax.objectives.gaussian_mixture import GaussianMixture

Rule = Literal["responsibility", "distance", "fair"]
RULES = ("responsibility", "distance", "fair")


@final
@dataclass(frozen=True)
class MixtureKl:
    """A divergence from a mixture, and the component it was taken at.

    Attributes:
        value: `[*B]`. In nats; carries the gradient.
        component: `[*B, k]`. What was chosen, one-hot, detached; where nothing is, the responsibilities.
    """

    value: Float[Tensor, "*B"]
    component: Float[Tensor, "*B k"]


def choose_component(
    mean: Float[Tensor, "*B c"], log_variance: Float[Tensor, "*B c"], mixture: GaussianMixture, rule: Rule
) -> Float[Tensor, "*B k"]:
    r"""Return the component that is to learn from a Gaussian, one-hot: the max operation.

    - `"responsibility"`: `argmax_j log w_j - KL(N(mean, e^log_variance) || N_j)`, the one whose share in the mixture
      explains the Gaussian best;
    - `"distance"`: `argmin_j |mean - mean_j|`, which knows neither weights nor variances;
    - `"fair"`: `argmin_j w_j |mean - mean_j|^2`, where the weights are the frequencies of being chosen so far: who was
      chosen often has to be nearer. All components are chosen, wherever they are, so this is a way to start.

    Args:
        mean: `[*B, c]`, of the Gaussian.
        log_variance: `[*B, c]`, the same.
        mixture: of k components.
        rule: see above.

    Returns:
        `[*B, k]`, detached.

    Raises:
        ArgumentError: there is no such rule.

    Example:
        >>> import torch, hardmax as hm
        >>> mixture = hm.GaussianMixture(torch.tensor([0.0, 9.0]), torch.tensor([[0.0], [3.0]]), torch.zeros(2, 1))
        >>> hm.choose_component(torch.ones(1), torch.zeros(1), mixture, "distance")
        tensor([1., 0.])
        >>> hm.choose_component(torch.ones(1), torch.zeros(1), mixture, "responsibility")
        tensor([0., 1.])
        >>> hm.choose_component(torch.ones(1), torch.zeros(1), mixture, "fair")
        tensor([1., 0.])

    References:
        Ahalt, Krishnamurthy, Chen & Melton, "Competitive learning algorithms for vector quantization", 1990 ("fair").
    """
    if rule not in RULES:
        raise ArgumentError(f"rule must be one of {', '.join(map(repr, RULES))}, got {rule!r}")
    with torch.no_grad():
        if rule == "responsibility":
            scores = mixture.responsibility(mean, log_variance)
        else:
            scores = -(mixture.mean - mean[..., None, :]).square().sum(-1)
            if rule == "fair":
                scores = mixture.log_weights.exp() * scores
        return mixture.space.argmax(scores).to(mean.dtype)


def chosen_kl(
    mean: Float[Tensor, "*B c"],
    log_variance: Float[Tensor, "*B c"],
    mixture: GaussianMixture,
    rule: Rule = "responsibility",
) -> MixtureKl:
    r"""Return an upper bound of `KL(q || mixture)` from the one component that a max operation picks.

    `KL(q || N_j) - log w_j` for the chosen j: the mixture is nowhere below `w_j N_j`. The first term pulls the
    component to q and q to it, the second makes the weights the frequencies of being chosen. Bias: above the true
    divergence, by the entropy that the choice leaves out: nothing where components are far apart. No variance.

    Args:
        mean: `[*B, c]`, of q.
        log_variance: `[*B, c]`, of q.
        mixture: of k components.
        rule: as for `choose_component`; "responsibility" gives the least bound.

    Example:
        >>> import torch, hardmax as hm
        >>> mixture = hm.GaussianMixture(torch.zeros(2), torch.tensor([[-9.0], [9.0]]), torch.zeros(2, 1))
        >>> hm.chosen_kl(torch.tensor([9.0]), torch.zeros(1), mixture).value  # log 2: one of two is chosen
        tensor(0.6931)
    """
    component = choose_component(mean, log_variance, mixture, rule)
    return MixtureKl(-(component * mixture.responsibility(mean, log_variance)).sum(-1), component)


def estimated_kl(
    mean: Float[Tensor, "*B c"],
    log_variance: Float[Tensor, "*B c"],
    mixture: GaussianMixture,
    scores: Float[Tensor, "*B k"],
    estimator: AbstractEstimator,
    *,
    generator: torch.Generator | None = None,
    noise: Tensor | None = None,
    validate: bool = True,
) -> MixtureKl:
    r"""Estimate an upper bound of `KL(q || mixture)` where an encoder chooses the component by scores of its own.

    `E_r[KL(q || N_j)] + KL(r || w)`, `r = softmax(scores)`: minus the evidence lower bound of a discrete latent j, so
    that every estimator of the library trains the choice. Bias and variance for scores are the estimator's; the bound
    is least, `-log sum_j w_j e^(-KL(q || N_j))`, where r are the responsibilities.

    Args:
        mean: `[*B, c]`, of q.
        log_variance: `[*B, c]`, of q.
        mixture: of k components.
        scores: `[*B, k]`, of the encoder.
        estimator: of the gradient for scores.
        generator: where the noise comes from; None is torch's global generator.
        noise: `[S, *B, k]`, instead of drawing it.
        validate: look at values for NaN and inf.

    Example:
        >>> import torch, hardmax as hm
        >>> mixture = hm.GaussianMixture(torch.zeros(2), torch.tensor([[-9.0], [9.0]]), torch.zeros(2, 1))
        >>> scores = torch.tensor([-20.0, 20.0], requires_grad=True)
        >>> hm.estimated_kl(torch.tensor([9.0]), torch.zeros(1), mixture, scores, hm.Exact()).value.detach()
        tensor(0.6931)
    """
    kl = mixture.kl_to_components(mean, log_variance)
    # Linear in z, so that relaxed choices have a value too.
    out = elbo(
        _Table(-kl),
        scores,
        mixture.space,
        estimator,
        prior=mixture.log_weights,
        generator=generator,
        noise=noise,
        validate=validate,
    )
    return MixtureKl(-out.value, out.z[0].to(mean.dtype))


class _Table:
    """An objective that is known for every category."""

    def __init__(self, values: Tensor) -> None:
        self._values = values

    def __call__(self, z: Tensor) -> Tensor:
        return (z * self._values).sum(-1)

    def table(self) -> Tensor:
        return self._values


def sampled_kl(
    mean: Float[Tensor, "*B c"],
    log_variance: Float[Tensor, "*B c"],
    mixture: GaussianMixture,
    z: Float[Tensor, "S *B c"],
) -> MixtureKl:
    r"""Estimate `KL(q || mixture)` at samples of q: `1/S sum_s [log q(z_s) - log p(z_s)]`, p by log-sum-exp.

    Nothing is chosen: every component learns as much as it is responsible for. Bias: none, in value and gradient.
    Variance: falls as 1/S.

    Args:
        mean: `[*B, c]`, of q.
        log_variance: `[*B, c]`, of q.
        mixture: of k components.
        z: `[S, *B, c]`, reparameterized samples of q (`hardmax.gaussian_sample`).

    Example:
        >>> import torch, hardmax as hm
        >>> mixture = hm.GaussianMixture(torch.zeros(1), torch.zeros(1, 3), torch.zeros(1, 3))
        >>> z = hm.gaussian_sample(torch.zeros(3), torch.zeros(3), samples=5)
        >>> bool(hm.sampled_kl(torch.zeros(3), torch.zeros(3), mixture, z).value.abs() < 1e-6)
        True
    """
    alone = GaussianMixture(mean.new_zeros(*mean.shape[:-1], 1), mean[..., None, :], log_variance[..., None, :])
    ratio = alone.log_prob(z) - mixture.log_prob(z)
    return MixtureKl(ratio.mean(0), mixture.responsibility(mean, log_variance).detach().softmax(-1))
