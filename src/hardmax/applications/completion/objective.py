"""The mixture prior of a completion model, KL divergences from it, and the max-operation loss."""

import math
from dataclasses import dataclass
from typing import Literal, final

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import one_hot

from hardmax._deprecation import RenamedMember
from hardmax.errors import ArgumentError, ShapeError
from hardmax.estimators import AbstractEstimator
from hardmax.objectives.elbo import elbo
from hardmax.objectives.gaussian import gaussian_kl, gaussian_sample
from hardmax.spaces import Categorical


@final
@dataclass(frozen=True)
class GaussianMixture:
    r"""A mixture of k diagonal Gaussians of c dimensions for every example of a batch.

    $$ p(z) = \sum_j w_j \, N\big(z; \mathrm{mean}_j, e^{\mathrm{log\_variance}_j}\big), \qquad
       w = \operatorname{softmax}(\mathrm{scores}) $$

    The component is a variable in `Categorical(k)`: to sample p, take the arg max of perturbed scores, then a sample of
    that Gaussian.

    Attributes:
        scores: `[*B, k]`. Scores of the components.
        mean: `[*B, k, c]`. Their means.
        log_variance: `[*B, k, c]`. Their log-variances.

    Raises:
        ShapeError: the shapes do not fit each other.

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
        r"""Return the exact $\log p(z)$, by log-sum-exp: `[..., *B, c] -> [..., *B]`."""
        scaled = (z[..., None, :] - self.mean) * (-self.log_variance / 2).exp()
        constant = self.log_variance.sum(-1) + self.mean.shape[-1] * math.log(2 * math.pi)
        return (self.log_weights - (scaled.square().sum(-1) + constant) / 2).logsumexp(-1)

    def kl_to_components(
        self, mean: Float[Tensor, "*B c"], log_variance: Float[Tensor, "*B c"]
    ) -> Float[Tensor, "*B k"]:
        r"""Return $\mathrm{KL}(N(\mathrm{mean}, e^{\mathrm{log\_variance}}) \,\|\, N_j)$ for every component j."""
        shape = self.mean.shape
        return gaussian_kl(
            mean[..., None, :].expand(shape), log_variance[..., None, :].expand(shape), self.mean, self.log_variance
        )

    def responsibility(self, mean: Float[Tensor, "*B c"], log_variance: Float[Tensor, "*B c"]) -> Float[Tensor, "*B k"]:
        r"""Return scores of the components whose softmax gives the responsibilities.

        $$ \log w_j - \mathrm{KL}(N(\mathrm{mean}, e^{\mathrm{log\_variance}}) \,\|\, N_j) $$
        """
        return self.log_weights - self.kl_to_components(mean, log_variance)

    def select_component(self, component: Float[Tensor, "..."]) -> tuple[Tensor, Tensor]:
        """Return mean and log-variance of one component: one-hot `[..., *B, k] -> [..., *B, c]` twice."""
        rows = component[..., None]
        return (rows * self.mean).sum(-2), (rows * self.log_variance).sum(-2)

    pick = RenamedMember("select_component")

    def apply_temperature(self, temperature: float) -> "GaussianMixture":
        """Return the mixture with `temperature` times the standard deviations, and the same weights and means."""
        return GaussianMixture(self.scores, self.mean, self.log_variance + 2 * math.log(temperature))

    narrowed = RenamedMember("apply_temperature")

    def sample(
        self, samples: int = 1, *, generator: torch.Generator | None = None
    ) -> tuple[Float[Tensor, "S *B c"], Float[Tensor, "S *B k"]]:
        """Sample components by Gumbel-max, then their Gaussians.

        Args:
            samples: S, the number of samples.
            generator: the source of the noise, that of the components first; None is torch's global generator.

        Returns:
            z, through which gradients reach mean and log-variance, and the one-hot components, through which none do.
        """
        component = self.space.sample(self.scores.detach(), samples, generator=generator)
        return gaussian_sample(*self.select_component(component), generator=generator)[0], component

    def systematic_sample(
        self, samples: int, *, generator: torch.Generator | None = None
    ) -> tuple[Float[Tensor, "S *B c"], Float[Tensor, "S *B k"]]:
        r"""Draw S samples that cover the mixture: component j occurs $S w_j$ times, rounded down or up.

        All samples share one uniform number u: sample r has the component whose interval of the cumulative weights
        contains $(r + u) / S$; the order of r is random. Each sample by itself has the distribution p, as with
        `sample`, so that means over samples have no bias. The best sample and the diversity of a set improve, since no
        likely component is missed by chance.

        Args:
            samples: S, the number of samples.
            generator: the source of the noise, that of the components first; None is torch's global generator.

        Returns:
            z, through which gradients reach mean and log-variance, and the one-hot components, through which none do.

        References:
            Kitagawa, "Monte Carlo filter and smoother for non-Gaussian nonlinear state space models", 1996 (appendix).
        """
        weights = self.log_weights.detach().exp()
        uniforms = torch.rand(samples + 1, *weights.shape[:-1], generator=generator, device=weights.device)
        positions = (uniforms[1:].argsort(0) + uniforms[0]).to(weights.dtype) / samples
        # After rounding, the sum of the weights may be below the last position.
        number = torch.searchsorted(weights.cumsum(-1)[..., :-1].contiguous(), positions.movedim(0, -1).contiguous())
        component = one_hot(number.movedim(-1, 0), weights.shape[-1]).to(weights.dtype)
        return gaussian_sample(*self.select_component(component), generator=generator)[0], component


Rule = Literal["responsibility", "distance", "fair"]
RULES = ("responsibility", "distance", "fair")


@final
@dataclass(frozen=True)
class MixtureKl:
    """A KL divergence from a mixture, and the component for which it is evaluated.

    Attributes:
        value: `[*B]`. The divergence in nats; has the gradient.
        component: `[*B, k]`. The chosen component, one-hot, detached; if none is chosen, the responsibilities.
    """

    value: Float[Tensor, "*B"]
    component: Float[Tensor, "*B k"]


def choose_component(
    mean: Float[Tensor, "*B c"], log_variance: Float[Tensor, "*B c"], mixture: GaussianMixture, rule: Rule
) -> Float[Tensor, "*B k"]:
    r"""Choose the component that learns from a Gaussian; return it one-hot. This is the max operation.

    - `"responsibility"`:
      $\arg\max_j \, \log w_j - \mathrm{KL}(N(\mathrm{mean}, e^{\mathrm{log\_variance}}) \,\|\, N_j)$, the component
      that explains the Gaussian best, weights included;
    - `"distance"`: $\arg\min_j |\mathrm{mean} - \mathrm{mean}_j|$, which ignores weights and variances;
    - `"fair"`: $\arg\min_j w_j |\mathrm{mean} - \mathrm{mean}_j|^2$, where the weights are the frequencies of being
      chosen so far: a component that was chosen often must be nearer. All components are chosen, wherever they are, so
      this rule is suitable for the first epochs.

    Args:
        mean: `[*B, c]`, the mean of the Gaussian.
        log_variance: `[*B, c]`, its log-variance.
        mixture: the mixture, of k components.
        rule: see above.

    Returns:
        `[*B, k]`, one-hot and detached.

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
    r"""Return an upper bound of $\mathrm{KL}(q \,\|\, \mathrm{mixture})$ from the component a max operation chooses.

    $$ \mathrm{KL}(q \,\|\, N_j) - \log w_j \quad \text{for the chosen } j $$

    It is an upper bound because the mixture is nowhere below $w_j N_j$. The first term pulls the component to q and q
    to the component; the second makes the weights the frequencies of being chosen. Bias: it exceeds the true divergence
    by the entropy that the choice leaves out, which is zero if components are far apart. Variance: none.

    Args:
        mean: `[*B, c]`, of q.
        log_variance: `[*B, c]`, of q.
        mixture: the mixture, of k components.
        rule: as for `choose_component`; "responsibility" gives the smallest bound.

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
    r"""Estimate an upper bound of the KL divergence from a mixture where an encoder chooses the component.

    The encoder has its own scores, $r = \operatorname{softmax}(\mathrm{scores})$, and
    $\mathrm{KL}(q \,\|\, \mathrm{mixture})$ is at most

    $$ \mathbb{E}_r[\mathrm{KL}(q \,\|\, N_j)] + \mathrm{KL}(r \,\|\, w). $$

    This is minus the evidence lower bound of a discrete latent j, so that any estimator of the library trains the
    choice. Bias and variance for scores are those of the estimator. The bound is smallest,
    $-\log \sum_j w_j e^{-\mathrm{KL}(q \,\|\, N_j)}$, if r are the responsibilities.

    Args:
        mean: `[*B, c]`, of q.
        log_variance: `[*B, c]`, of q.
        mixture: the mixture, of k components.
        scores: `[*B, k]`, from the encoder.
        estimator: the estimator of the gradient for scores.
        generator: the source of the noise; None is torch's global generator.
        noise: `[S, *B, k]`, the noise of the choice; None draws it.
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
    # The objective is linear in z, so that it also has a value for relaxed choices.
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
    r"""Estimate $\mathrm{KL}(q \,\|\, \mathrm{mixture})$ from samples of q, with $\log p$ by log-sum-exp.

    $$ \frac{1}{S} \sum_s \, [\log q(z_s) - \log p(z_s)] $$

    No component is chosen: each one learns in proportion to its responsibility. Bias: none, in value and gradient.
    Variance: proportional to $1/S$.

    Args:
        mean: `[*B, c]`, of q.
        log_variance: `[*B, c]`, of q.
        mixture: the mixture, of k components.
        z: `[S, *B, c]`, reparameterized samples of q (`hardmax.gaussian_sample`).

    Example:
        >>> import torch, hardmax as hm
        >>> from hardmax.applications.completion import GaussianMixture, sampled_kl
        >>> mixture = GaussianMixture(torch.zeros(1), torch.zeros(1, 3), torch.zeros(1, 3))
        >>> z = hm.gaussian_sample(torch.zeros(3), torch.zeros(3), samples=5)
        >>> bool(sampled_kl(torch.zeros(3), torch.zeros(3), mixture, z).value.abs() < 1e-6)
        True
    """
    q = GaussianMixture(mean.new_zeros(*mean.shape[:-1], 1), mean[..., None, :], log_variance[..., None, :])
    ratio = q.log_prob(z) - mixture.log_prob(z)
    return MixtureKl(ratio.mean(0), mixture.responsibility(mean, log_variance).detach().softmax(-1))


Form = Literal["corrected", "published"]


def max_operation_loss(
    mean: Float[Tensor, "*B c"],
    log_variance: Float[Tensor, "*B c"],
    mixture: GaussianMixture,
    rule: Rule = "responsibility",
    form: Form = "corrected",
) -> Float[Tensor, "*B"]:
    r"""Return the divergence between the component that the max operation chooses and the Gaussian of an encoder.

    m and l are the mean and log-variance of the encoder, which are held fixed, $m_j$ and $l_j$ those of the chosen
    component. `"corrected"` is zero at equality:

    $$ \mathrm{KL}(N_j \,\|\, q) = \frac{1}{2} \sum_i \, [l - l_j + e^{l_j - l} + (m_j - m)^2 e^{-l} - 1] $$

    `"published"` is as printed in the notes on pluralistic completion. It has no minimum: gradient descent drives the
    means apart without bound. For comparison only:

    $$ \frac{1}{2} \sum_i \, [l - l_j + e^{l_j - l} - (m_j - m)^2 e^{-l}] $$

    Gradients reach only the means and log-variances of the mixture. The weights learn from $-\log w_j$ of the same
    component.

    Args:
        mean: `[*B, c]`, from the encoder.
        log_variance: `[*B, c]`, from the encoder.
        mixture: the mixture, of k components.
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
        >>> for form in ("corrected", "published"):  # the component at 1 is nearer to the encoder at 0
        ...     mean.grad = None
        ...     max_operation_loss(torch.zeros(1), torch.zeros(1), mixture, form=form).backward()
        ...     print(form, mean.grad[0].item())  # descent moves against the gradient
        corrected 1.0
        published -1.0
    """
    if form not in ("corrected", "published"):
        raise ArgumentError(f"form must be 'corrected' or 'published', got {form!r}")
    fixed, fixed_log = mean.detach(), log_variance.detach()
    chosen_mean, chosen_log = mixture.select_component(choose_component(fixed, fixed_log, mixture, rule))
    loss = gaussian_kl(chosen_mean, chosen_log, fixed, fixed_log)
    if form == "corrected":
        return loss
    # As printed, the third term has the opposite sign, and the constant -1/2 of each dimension is missing.
    squares = ((chosen_mean - fixed).square() * (-fixed_log).exp()).sum(-1)
    return loss - squares + mean.shape[-1] / 2
