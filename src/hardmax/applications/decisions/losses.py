"""Losses of a decision model: one function each, with the same arguments, in the dictionary `LOSSES`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.applications.decisions.config import DecisionsConfig
from hardmax.errors import ArgumentError
from hardmax.estimators import (
    AbstractSampler,
    AdaptiveImplicitMLE,
    Blackbox,
    IdentityBackward,
    ImplicitMLE,
    PerturbedOptimizer,
)
from hardmax.expectations import expectation, sample
from hardmax.objectives import direct_loss, fenchel_young_loss, spo_plus_loss
from hardmax.spaces import AbstractSpace
from hardmax.types import Objective


@dataclass(frozen=True, eq=False)
class LossSetting:
    """What a loss needs besides scores and examples; each loss uses a part of it.

    Attributes:
        space: the space of decisions.
        noise: `[S, *B, *score]`, noise of the space for perturbed scores; None: no noise.
        epsilon: how strongly the costs move the arg max (`direct`).
        towards: move towards better decisions (`direct`).
        step: how far the slope moves the scores (`implicit_mle`, `blackbox`).
        share: share of the decisions that the step changes (`adaptive_implicit_mle`).
        temperature: temperature of the Gibbs distribution (`gibbs`, `likelihood`).
    """

    space: AbstractSpace
    noise: Tensor | None = None
    epsilon: float = 1.0
    towards: bool = False
    step: float = 1.0
    share: float = 1.0
    temperature: float = 1.0


class Loss(NamedTuple):
    """Values of a loss, and their cost.

    Attributes:
        values: `[*B]`, whose gradient is that for the scores.
        solves: number of arg maxes for each example, including those of the backward pass.
    """

    values: Tensor
    solves: float


def least_squares(scores: Tensor, costs: Tensor, best: Tensor, setting: LossSetting) -> Loss:
    """Return the mean squared error of the predicted costs, minus the scores: the two-stage approach."""
    return Loss(_average((scores + costs).square(), setting.space), 0.0)


def spo_plus(scores: Tensor, costs: Tensor, best: Tensor, setting: LossSetting) -> Loss:
    """Return the SPO+ loss, smoothed if there is noise, see `hardmax.spo_plus_loss`."""
    noise = setting.noise
    values = spo_plus_loss(scores, costs, setting.space, target=best, noise=noise)
    return Loss(values, float(1 if noise is None else len(noise)))


def hinge(scores: Tensor, costs: Tensor, best: Tensor, setting: LossSetting) -> Loss:
    r"""Return the structured hinge loss, with the regret as the margin.

    $$ \max_z \{\langle \mathrm{scores}, z \rangle + \langle c, z - z^* \rangle\}
       - \langle \mathrm{scores}, z^* \rangle $$

    (z stands for its statistics): a convex upper bound of the regret, zero if the best decision scores higher than any
    other by at least the regret of the other. It is SPO+ of half the scores.

    References:
        Tsochantaridis, Joachims, Hofmann & Altun, "Large margin methods for structured and interdependent output
        variables", 2005 (margin rescaling).
    """
    return Loss(spo_plus_loss(scores / 2, costs, setting.space, target=best), 1.0)


def direct(scores: Tensor, costs: Tensor, best: Tensor, setting: LossSetting) -> Loss:
    """Return the regret with the gradient of direct loss minimization, see `hardmax.direct_loss`."""
    noise = setting.noise
    values = direct_loss(
        scores, best, setting.space, loss=costs, epsilon=setting.epsilon, towards=setting.towards, noise=noise
    )
    return Loss(values, 2.0 * (1 if noise is None else len(noise)))


def fenchel_young(scores: Tensor, costs: Tensor, best: Tensor, setting: LossSetting) -> Loss:
    """Return the perturbed Fenchel-Young loss of the best decisions, see `hardmax.fenchel_young_loss`."""
    noise = _get_noise(setting)
    return Loss(fenchel_young_loss(scores, best, setting.space, noise=noise), float(len(noise)))


def implicit_mle(scores: Tensor, costs: Tensor, best: Tensor, setting: LossSetting) -> Loss:
    """Return the distance of the mean of perturbed decisions to the best ones, with the gradient of I-MLE."""
    return _imitate(ImplicitMLE(setting.step), scores, best, setting)


def adaptive_implicit_mle(scores: Tensor, costs: Tensor, best: Tensor, setting: LossSetting) -> Loss:
    """Return the same as `implicit_mle`, with a step that is chosen for each batch.

    The distance is linear in each decision, so a larger step has no larger bias, and `share` is 1 by default: the
    second arg max of every example is then close to the best decision, as in the Fenchel-Young loss.
    """
    return _imitate(AdaptiveImplicitMLE(setting.share), scores, best, setting)


def blackbox(scores: Tensor, costs: Tensor, best: Tensor, setting: LossSetting) -> Loss:
    """Return the regret, with the gradient of `hardmax.Blackbox`."""
    return _differentiate_regret(Blackbox(setting.step), scores, costs, best, setting)


def identity(scores: Tensor, costs: Tensor, best: Tensor, setting: LossSetting) -> Loss:
    """Return the regret, with the gradient of `hardmax.IdentityBackward`: the costs, whatever the decision is."""
    return _differentiate_regret(IdentityBackward(), scores, costs, best, setting)


def perturbed(scores: Tensor, costs: Tensor, best: Tensor, setting: LossSetting) -> Loss:
    """Return the squared distance of the mean of perturbed decisions to the best ones, by `PerturbedOptimizer`."""
    noise = _get_noise(setting)
    mean = sample(scores, setting.space, PerturbedOptimizer(), noise=noise).mean(0)
    return Loss(_average((mean - best).square(), setting.space), float(max(len(noise), 2)))


def gibbs(scores: Tensor, costs: Tensor, best: Tensor, setting: LossSetting) -> Loss:
    r"""Return the exact expected regret of decisions that are sampled from the Gibbs distribution.

    $$ \mathbb{E}_{z \sim q}[\langle c, z \rangle] - \langle c, z^* \rangle
       = \langle c, \mathrm{marginals}(\mathrm{scores} / t) - z^* \rangle, \qquad
       q(z) \propto \exp(\langle \mathrm{scores}, z \rangle / t) $$

    (z stands for its statistics), at the temperature t. It is smooth in the scores, has no variance, and approaches the
    regret as t goes to zero.
    """
    space = setting.space
    difference = space.marginals(scores / setting.temperature) - space.statistics(best.to(scores.dtype))
    return Loss(space.dot(costs, difference), 0.0)


def likelihood(scores: Tensor, costs: Tensor, best: Tensor, setting: LossSetting) -> Loss:
    r"""Return $-\log q(z^*)$ of the best decisions under the Gibbs distribution, in nats.

    The Fenchel-Young loss of the entropy, exact and convex. It uses the best decision of each example, and not how much
    worse others are.
    """
    return Loss(-setting.space.log_prob(scores / setting.temperature, best), 0.0)


def pseudo_likelihood(scores: Tensor, costs: Tensor, best: Tensor, setting: LossSetting) -> Loss:
    """Return minus the log pseudo-likelihood of the best decisions: that of each bit, given all others, in nats.

    Without couplings this is the cross-entropy of the bits. It needs no arg max.

    References:
        Besag, "Statistical analysis of non-lattice data", 1975.
    """
    return Loss(-setting.space.log_prob_bound(scores, best), 0.0)


def make_relative(loss: str, scores: Tensor, best: Tensor, space: AbstractSpace) -> Tensor:
    """Return scores of a fixed size in each example, for a loss; decisions do not depend on the size.

    They have the root mean square 1, a projection onto a sphere: on it, the gradient of `identity` leads to scores that
    are proportional to the costs. For losses that use the best decision alone, absolute scores have the mean 1 over its
    parts: on the sphere, scores of parts that are never chosen could grow, and all others would vanish.

    References:
        Sahoo, Paulus, Vlastelica, Musil, Kuleshov & Martius, "Backpropagation through combinatorial algorithms:
        identity with projection works", 2023 (the sphere).
    """
    if loss in _IMITATING:
        statistics = space.statistics(best.to(scores.dtype)).abs()
        size = space.dot(scores.abs(), statistics) / space.dot(statistics, statistics).clamp_min(1)
    else:
        size = _average(scores.square(), space).sqrt()
    return scores / size.clamp_min(torch.finfo(scores.dtype).tiny).view(-1, *(1 for _ in space.score_shape))


LossFunction = Callable[[Tensor, Tensor, Tensor, LossSetting], Loss]
"""From scores and true costs `[*B, *score]` and best decisions `[*B, *event]` to the loss of each example."""
LOSSES: dict[str, LossFunction] = {
    "least-squares": least_squares,
    "spo-plus": spo_plus,
    "hinge": hinge,
    "direct": direct,
    "fenchel-young": fenchel_young,
    "implicit-mle": implicit_mle,
    "adaptive-implicit-mle": adaptive_implicit_mle,
    "blackbox": blackbox,
    "identity": identity,
    "perturbed": perturbed,
    "gibbs": gibbs,
    "likelihood": likelihood,
    "pseudo-likelihood": pseudo_likelihood,
}
COUPLED = ("adaptive-implicit-mle",)
"""Losses whose gradient for an example depends on the other examples of the batch."""
_IMITATING = ("fenchel-young", "implicit-mle", "adaptive-implicit-mle", "perturbed")  # use the best decisions alone
_NEEDS = {"gibbs": "marginals", "likelihood": "log_prob", "pseudo-likelihood": "log_prob_bound"}


def describe_loss(config: DecisionsConfig) -> str:
    """Return a few words on the loss of a run, and its noise."""
    start = f"hinge for {config.warmup} epochs, then " if config.warmup else ""
    scale = "" if "scale" in config.unused_options else f" of scale {config.scale:g}"
    samples = config.noise_samples
    noise = "" if samples is None else f" with {samples} noise sample{'s' * (samples > 1)}{scale}"
    return f"{start}{config.loss}{noise}"


def check_loss(name: str, space: AbstractSpace) -> None:
    """Check that a space offers what a loss needs.

    Raises:
        ArgumentError: the space lacks a method that the loss needs, such as sums over all decisions.
    """
    method = _NEEDS.get(name)
    if method is not None and not space.offers(method):
        others = ", ".join(other for other in LOSSES if other not in _NEEDS)
        needed = "probabilities of single bits" if method == "log_prob_bound" else "sums over all decisions"
        raise ArgumentError(
            f"loss {name} needs {needed} ({method}), which {space} does not offer; use one that needs only the arg "
            f"max: {others}"
        )


def _get_noise(setting: LossSetting) -> Tensor:
    if setting.noise is None:
        raise ArgumentError("this loss perturbs the scores, got no noise; pass noise=space.noise((S, *B))")
    return setting.noise


def _average(values: Tensor, space: AbstractSpace) -> Float[Tensor, "..."]:
    """Return the mean over the entries of each example."""
    return values.flatten(values.dim() - len(space.score_shape)).mean(-1)


def _imitate(estimator: AbstractSampler, scores: Tensor, best: Tensor, setting: LossSetting) -> Loss:
    """Return the mean absolute difference of the mean of perturbed decisions to the best ones."""
    target = best.to(scores.dtype)

    def f(z: Tensor) -> Tensor:
        # A function of the mean over samples, the same for each of them: its slope at a sample is that at the mean.
        difference = _average((z.mean(0) - target).abs(), setting.space)
        return -difference.expand(len(z), *difference.shape)

    return _minimise(f, estimator, scores, setting.space, _get_noise(setting))


def _differentiate_regret(
    estimator: AbstractSampler, scores: Tensor, costs: Tensor, best: Tensor, setting: LossSetting
) -> Loss:
    """Return the regret of the arg max without noise."""
    space = setting.space
    optimum = space.dot(costs, space.statistics(best.to(costs.dtype)))

    def f(z: Tensor) -> Tensor:
        return optimum - space.dot(costs, space.statistics(z))

    return _minimise(f, estimator, scores, space, scores.new_zeros(1, *scores.shape))


def _minimise(f: Objective, estimator: AbstractSampler, scores: Tensor, space: AbstractSpace, noise: Tensor) -> Loss:
    """Return the expectation of -f: estimators move z to where f is larger."""
    out = expectation(f, scores, space, estimator, noise=noise)
    return Loss(-out.value, out.solves)
