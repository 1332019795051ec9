"""The unordered-set estimator: REINFORCE with samples drawn without replacement."""

from dataclasses import dataclass
from math import log
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import logsigmoid

from hardmax.errors import ArgumentError
from hardmax.estimators.abstract import AbstractEstimator, attach_gradient
from hardmax.evaluator import Evaluator
from hardmax.random import transform_to_gumbel
from hardmax.spaces import AbstractFactorised, AbstractSpace, Binary
from hardmax.types import Estimate


def compute_set_weights(
    probabilities: Float[Tensor, "*B S"],
) -> tuple[Float[Tensor, "*B S"], Float[Tensor, "*B S S"]]:
    """Return the first- and second-order weights that make sums over a set drawn without replacement unbiased.

    Draw s_1 from p, then each s_i from p without those before it: S is the set, D the space. With
    `p^C(A)`, the probability to draw the set A from C,

        w_s = p(s) p^{D-s}(S-s) / p(S),     w_st = p(t) p^{D-s-t}(S-s-t) / p^{D-s}(S-s),

    so that `E[sum_s w_s f(s)] = sum_s p(s) f(s)`; and `sum_{t != s} w_st = 1 - p(s)`, a mean over the other members.

    Assign to every member of D an exponential waiting time of rate p. The set contains the members whose times are
    shorter than those of all members outside it, which have the total rate `r = 1 - sum_S p`. So

        p(S) = int_0^inf r exp(-r t) prod_{s in S} (1 - exp(-p(s) t)) dt,

    without a factor for the members outside the set. Divided by p(S), the integrand is the density of t given S, and
    the weights are means under this density:

        w_s = E[p(s) / (1 - exp(-p(s) t)) | S],     w_st = E[w_s(t) w_t(t) | S] / E[w_s(t) | S].

    The trapezoidal rule on a grid of log t converges exponentially, whatever the sizes of p: the weights are accurate
    to 1e-11 in double precision (sets of up to 64), 1e-6 in single. The sum over all orders would take S! terms.

    Args:
        probabilities: `[*B, S]`, those of the members of the set, S >= 2; their sum is at most 1, up to rounding. A
            zero stands for a probability that is too small for the dtype.

    Returns:
        `[*B, S]` w_s, and `[*B, S, S]` w_st, whose diagonal has no meaning.
    """
    p, size = probabilities, probabilities.shape[-1]
    smallest = torch.finfo(p.dtype).tiny ** 0.5
    rest = (1 - p.sum(-1, keepdim=True)).clamp_min(smallest)
    rate = (p / rest).clamp_min(smallest)  # time in units of 1 / r
    log_time = _log_times(size, p)
    # Every factor is scaled to 1 at time S, about where the density is if p is small, so that no product overflows or
    # underflows.
    unit = -torch.expm1(-rate * size)
    factors = -torch.expm1(-rate[..., None] * log_time.exp()) / unit[..., None]
    density = (log_time - log_time.exp() + factors.log().sum(-2)).softmax(-1)
    inverse = 1 / factors
    weighted = density[..., None, :] * inverse
    first, second = weighted.sum(-1), weighted @ inverse.mT
    scale = rest * rate / unit
    return scale * first, scale[..., None, :] * second / first[..., None]


def _log_times(size: int, like: Tensor) -> Tensor:
    """Return the grid of log t for sets of this size.

    The mass to the left of the grid is at most eps, since all factors grow with time. On the right the density
    decreases like a gamma density of shape 1 + S or faster, which in log t becomes narrower as S grows.
    """
    start, stop = log(torch.finfo(like.dtype).eps), log(size + 12 * size**0.5 + 30)
    step = (16 + 1.5 * size) ** -0.5
    return start + step * torch.arange(int((stop - start) / step) + 1, dtype=like.dtype, device=like.device)


def draw_without_replacement(
    scores: Float[Tensor, "..."], space: AbstractFactorised, noise: Float[Tensor, "S ..."]
) -> Float[Tensor, "S ..."]:
    """Draw S different z, each from q without those before it, by stochastic beam search.

    These are the z with the S largest `log q(z) + Gumbel` of the entire space, found variable by variable. A beam
    element is an assignment of the first variables; its perturbed log-probability G is the largest of all z that begin
    with it. Given G, one of its children has the same G, child c with probability q_i(c), and the other children have
    Gumbels truncated at G:

        G_c = -log(exp(-G) + exp(-log q(z_1..i-1, c) - gumbel_c)).

    The S largest children form the next beam. The order of the z is independent of the largest G, which is set to 0.

    Args:
        scores: `[*B, *score]`, detached.
        space: a factorised space with S members or more.
        noise: `[S, *B, *score]`. `noise[s]` is used for the children of the beam element of rank s: the value that it
            draws is the child with the same G, and its remaining randomness gives the Gumbels of the other children.

    Returns:
        `[S, *B, *event]`, in the order in which they are drawn.
    """
    log_q, is_drawn, gumbels = _prepare_children(scores.to(noise.dtype), space, noise)
    samples, (variables, values) = len(noise), log_q.shape[-2:]
    log_prob = top = log_q.new_zeros(*log_q.shape[:-2], 1)
    parents, children = [], []
    for i in range(variables):
        width = top.shape[-1]
        child = log_prob[..., None] + log_q[..., i, None, :]
        truncated = -torch.logaddexp(-top[..., None], -(child + gumbels[:width, ..., i, :].movedim(0, -2)))
        perturbed = torch.where(is_drawn[:width, ..., i, :].movedim(0, -2), top[..., None], truncated)
        top, index = perturbed.flatten(-2).topk(min(samples, width * values), dim=-1)
        log_prob = child.flatten(-2).gather(-1, index)
        parents.append(index // values)
        children.append(index % values)
    path, element = [], torch.arange(samples, device=scores.device).expand(top.shape)
    for parent, value in zip(reversed(parents), reversed(children), strict=True):
        path.append(value.gather(-1, element))
        element = parent.gather(-1, element)
    z = torch.stack(path[::-1], -1).movedim(-2, 0)
    if not isinstance(space, Binary):
        z = z[..., None] == torch.arange(values, device=scores.device)
    return z.reshape(samples, *space.batch_shape(scores), *space.event_shape).to(scores.dtype)


def _prepare_children(scores: Tensor, space: AbstractFactorised, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return log q of each value `[*B, N, K]`, and `[S, *B, N, K]` whether the noise draws it, and else its Gumbel."""
    z = space.draw(scores, noise)
    if isinstance(space, Binary):
        gumbel = transform_to_gumbel(-space.leftover(scores, noise, z).log())
        log_q = torch.stack([logsigmoid(-scores), logsigmoid(scores)], -1)
        return log_q, torch.stack([z < 1, z > 0], -1), torch.stack([gumbel, gumbel], -1)
    batch = space.batch_shape(scores)
    shape = (space.variables, space.score_shape[-1])
    gumbel = space.residual(scores, noise, z)
    return (
        scores.log_softmax(-1).view(*batch, *shape),
        (z > 0).view(len(noise), *batch, *shape),
        gumbel.view(len(noise), *batch, *shape),
    )


@final
@dataclass(frozen=True)
class UnorderedSet(AbstractEstimator):
    r"""Unordered-set estimator: REINFORCE with S different z, drawn without replacement and weighted to be unbiased.

    With several variables the set is drawn by stochastic beam search. With D the space, p = q, and $p^C(A)$ the
    probability to draw the set A from C, in any order,

    $$ w_s = \frac{p(s) \, p^{D-s}(S-s)}{p(S)}, \qquad w_{st} = \frac{p(t) \, p^{D-s-t}(S-s-t)}{p^{D-s}(S-s)}, $$

    $$ \mathrm{value} = \sum_s w_s f(s), \qquad
       \mathrm{gradient} = \sum_s w_s \, \nabla \log q(s) \sum_{t \ne s} w_{st} \, (f(s) - f(t)), $$

    that is, f(s) minus a weighted mean over the other members: a baseline that costs nothing. The weights do not depend
    on the order of the draws, which removes the noise of this order (Rao-Blackwell). They are integrals over one
    variable, accurate to 1e-11 in double precision and 1e-6 in single (`hardmax.estimators.unordered_set`). The z are
    not independent samples of q: means over them need the weights.

    Bias: none, of value and gradient. Variance: f is never evaluated twice at the same z, so the variance is lower than
    that of leave-one-out REINFORCE where q concentrates on a few z: with 8 samples we measured no difference for an
    entropy of 7 nats, two thirds of it at 3.4 nats and a quarter at 2.1. None where S is the size of the space; with
    one sample it is REINFORCE without a baseline. Cost: S evaluations of f, which need not be differentiable. Beyond f,
    memory for some 100 S numbers (200 S in double precision) for the weights, and N steps of the beam for N variables.

    Raises:
        ArgumentError: more samples than the space has members.
        NotExactError: the space's variables are not independent.

    Example:
        >>> import torch, hardmax as hm
        >>> scores = torch.zeros(3, requires_grad=True)
        >>> worth = torch.tensor([1.0, 2.0, 6.0])
        >>> out = hm.expectation(lambda z: z @ worth, scores, hm.Categorical(3), hm.UnorderedSet(), samples=3)
        >>> out.value.backward()
        >>> round(out.value.item(), 4), [round(g, 4) for g in scores.grad.tolist()], out.evaluations
        (3.0, [-0.6667, -0.3333, 1.0], 3.0)

    References:
        Kool, van Hoof & Welling, "Estimating gradients for discrete random variables by sampling without replacement",
        2020; Kool, van Hoof & Welling, "Stochastic beams and where to find them", 2019.
    """

    needs = ("draw", "log_prob")
    independent = True
    default_samples = 2
    couples_samples = True

    def check(self, space: AbstractSpace, samples: int) -> None:
        """Refuse more samples than the space has members."""
        super().check(space, samples)
        if samples > space.size:
            raise ArgumentError(
                f"{self} draws without replacement, but samples={samples} is more than the {space.size} members of "
                f"{space}; pass samples={space.size}, which is exact, or fewer"
            )

    def estimate(
        self, f: Evaluator, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> Estimate:
        """Draw a set of z and weight its members."""
        assert isinstance(space, AbstractFactorised)  # check() refuses all other spaces
        z = draw_without_replacement(scores.detach(), space, noise)
        values, log_prob = f(z), space.log_prob(scores, z)
        detached = values.detach()
        if len(noise) == 1:
            return Estimate(attach_gradient(values, detached * log_prob).squeeze(0), z, f.evaluations, solves=1.0)
        # From here on, the dimension of the set is the last: [*B, S].
        log_q = space.log_prob(scores.detach().to(noise.dtype), z.to(noise.dtype)).movedim(0, -1)
        first, second = compute_set_weights(log_q.exp())
        weights, detached = first.to(values.dtype).movedim(-1, 0), detached.movedim(0, -1)
        differences = detached[..., None] - detached[..., None, :]
        advantage = (second.to(values.dtype) * differences).sum(-1).movedim(-1, 0)
        value = attach_gradient((weights * values).sum(0), (weights * advantage * log_prob).sum(0))
        return Estimate(value, z, f.evaluations, solves=float(len(noise)))
