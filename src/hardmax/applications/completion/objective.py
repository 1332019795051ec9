"""The mixture prior of a completion model, its KL divergence, and the max-operation loss."""

import math
from dataclasses import dataclass
from typing import Literal, final

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import one_hot

from hardmax.errors import ArgumentError, ShapeError
from hardmax.estimators import AbstractEstimator
from hardmax.objectives.elbo import elbo
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
        >>> import torch
        >>> from hardmax.applications.completion import GaussianMixture
        >>> mean = torch.tensor([[-5.0], [5.0]])
        >>> mixture = GaussianMixture(torch.zeros(2), mean, torch.zeros(2, 1))
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
        """The space of the component."""
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
        samples is biased; the best or the variety of a set improves, since no likely component is missed by chance.

        Args:
            samples: S.
            generator: where the noise comes from, that of the components first; None is torch's global generator.

        Returns:
            z, through which gradients reach mean and log-variance, and the one-hot components, through which none do.

        References:
            Kitagawa, "Monte Carlo filter and smoother for non-Gaussian nonlinear state space models", 1996 (appendix).
        """
        weights = self.log_weights.detach().exp()
        uniforms = torch.rand(samples + 1, *weights.shape[:-1], generator=generator, device=weights.device)
        places = (uniforms[1:].argsort(0) + uniforms[0]).to(weights.dtype) / samples
        # The sum of the weights may round to less than the last place.
        number = torch.searchsorted(weights.cumsum(-1)[..., :-1].contiguous(), places.movedim(0, -1).contiguous())
        component = one_hot(number.movedim(-1, 0), weights.shape[-1]).to(weights.dtype)
        return gaussian_sample(*self.pick(component), generator=generator)[0], component


Rule = Literal["responsibility", "distance", "fair"]
RULES = ("responsibility", "distance", "fair")


@final
@dataclass(frozen=True)
class MixtureKl:
    """A divergence from a mixture, and the component at which it is evaluated.

    Attributes:
        value: `[*B]`. In nats; carries the gradient.
        component: `[*B, k]`. The chosen component, one-hot, detached; without a choice, the responsibilities.
    """

    value: Float[Tensor, "*B"]
    component: Float[Tensor, "*B k"]


def choose_component(
    mean: Float[Tensor, "*B c"], log_variance: Float[Tensor, "*B c"], mixture: GaussianMixture, rule: Rule
) -> Float[Tensor, "*B k"]:
    r"""Return the component that is to learn from a Gaussian, one-hot: the max operation.

    - `"responsibility"`: `argmax_j log w_j - KL(N(mean, e^log_variance) || N_j)`, the one whose share in the mixture
      explains the Gaussian best;
    - `"distance"`: `argmin_j |mean - mean_j|`, which ignores weights and variances;
    - `"fair"`: `argmin_j w_j |mean - mean_j|^2`, where the weights are the frequencies of being chosen so far: one
      that was chosen often has to be nearer. All components are chosen, wherever they are, so this is a way to start.

    Args:
        mean: `[*B, c]`, of the Gaussian.
        log_variance: `[*B, c]`, the same.
        mixture: of k components.
        rule: see above.

    Returns:
        `[*B, k]`, detached.

    Raises:
        ArgumentError: an unknown rule.

    Example:
        >>> import torch
        >>> from hardmax.applications.completion import GaussianMixture, choose_component
        >>> mixture = GaussianMixture(torch.tensor([0.0, 9.0]), torch.tensor([[0.0], [3.0]]), torch.zeros(2, 1))
        >>> choose_component(torch.ones(1), torch.zeros(1), mixture, "distance")
        tensor([1., 0.])
        >>> choose_component(torch.ones(1), torch.zeros(1), mixture, "responsibility")
        tensor([0., 1.])
        >>> choose_component(torch.ones(1), torch.zeros(1), mixture, "fair")
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
        >>> import torch
        >>> from hardmax.applications.completion import GaussianMixture, chosen_kl
        >>> mixture = GaussianMixture(torch.zeros(2), torch.tensor([[-9.0], [9.0]]), torch.zeros(2, 1))
        >>> chosen_kl(torch.tensor([9.0]), torch.zeros(1), mixture).value  # log 2: one of two is chosen
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
    r"""Estimate an upper bound of `KL(q || mixture)` where an encoder chooses the component by its own scores.

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
        validate: check values for NaN and inf.

    Example:
        >>> import torch, hardmax as hm
        >>> from hardmax.applications.completion import GaussianMixture, estimated_kl
        >>> mixture = GaussianMixture(torch.zeros(2), torch.tensor([[-9.0], [9.0]]), torch.zeros(2, 1))
        >>> scores = torch.tensor([-20.0, 20.0], requires_grad=True)
        >>> estimated_kl(torch.tensor([9.0]), torch.zeros(1), mixture, scores, hm.Exact()).value.detach()
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
    """An objective with a table of its values, one for each category."""

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

    Nothing is chosen: every component learns in proportion to its responsibility. Bias: none, in value and gradient.
    Variance: falls as 1/S.

    Args:
        mean: `[*B, c]`, of q.
        log_variance: `[*B, c]`, of q.
        mixture: of k components.
        z: `[S, *B, c]`, reparameterized samples of q (`hardmax.gaussian_sample`).

    Example:
        >>> import torch, hardmax as hm
        >>> from hardmax.applications.completion import GaussianMixture, sampled_kl
        >>> mixture = GaussianMixture(torch.zeros(1), torch.zeros(1, 3), torch.zeros(1, 3))
        >>> z = hm.gaussian_sample(torch.zeros(3), torch.zeros(3), samples=5)
        >>> bool(sampled_kl(torch.zeros(3), torch.zeros(3), mixture, z).value.abs() < 1e-6)
        True
    """
    alone = GaussianMixture(mean.new_zeros(*mean.shape[:-1], 1), mean[..., None, :], log_variance[..., None, :])
    ratio = alone.log_prob(z) - mixture.log_prob(z)
    return MixtureKl(ratio.mean(0), mixture.responsibility(mean, log_variance).detach().softmax(-1))


Form = Literal["corrected", "published"]


def max_operation_loss(
    mean: Float[Tensor, "*B c"],
    log_variance: Float[Tensor, "*B c"],
    mixture: GaussianMixture,
    rule: Rule = "responsibility",
    form: Form = "corrected",
) -> Float[Tensor, "*B"]:
    r"""Return how far the component that the max operation picks is from an encoder's Gaussian, which is held fixed.

    With `(m, l)` mean and log-variance of the encoder and `(m_j, l_j)` of the chosen component:

    - `"corrected"`: `KL(N_j || q) = 1/2 sum_i [l - l_j + e^(l_j - l) + (m_j - m)^2 e^(-l) - 1]`, zero at equality;
    - `"published"`: `1/2 sum_i [l - l_j + e^(l_j - l) - (m_j - m)^2 e^(-l)]`, as the document prints it. It has no
      minimum: descent drives the means apart without bound. For comparison only.

    Gradients reach the mixture's means and log-variances alone. The weights learn from `-log w_j` of the same choice.

    Args:
        mean: `[*B, c]`, of the encoder.
        log_variance: `[*B, c]`, of the encoder.
        mixture: of k components.
        rule: as for `choose_component`.
        form: see above.

    Returns:
        `[*B]`.

    Raises:
        ArgumentError: an unknown form.

    Example:
        >>> import torch
        >>> from hardmax.applications.completion import GaussianMixture, max_operation_loss
        >>> mean = torch.tensor([[1.0], [5.0]], requires_grad=True)
        >>> mixture = GaussianMixture(torch.zeros(2), mean, torch.zeros(2, 1))
        >>> for form in ("corrected", "published"):  # the component at 1 is the nearer one to an encoder at 0
        ...     mean.grad = None
        ...     max_operation_loss(torch.zeros(1), torch.zeros(1), mixture, form=form).backward()
        ...     print(form, mean.grad[0].item())  # descent goes the other way
        corrected 1.0
        published -1.0
    """
    if form not in ("corrected", "published"):
        raise ArgumentError(f"form must be 'corrected' or 'published', got {form!r}")
    fixed, fixed_log = mean.detach(), log_variance.detach()
    chosen_mean, chosen_log = mixture.pick(choose_component(fixed, fixed_log, mixture, rule))
    loss = gaussian_kl(chosen_mean, chosen_log, fixed, fixed_log)
    if form == "corrected":
        return loss
    # The printed third term has the other sign, and the constant -1/2 of each dimension is missing.
    squares = ((chosen_mean - fixed).square() * (-fixed_log).exp()).sum(-1)
    return loss - squares + mean.shape[-1] / 2
