"""The unordered-set estimator: REINFORCE on samples drawn without replacement."""

from dataclasses import dataclass
from math import log
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import logsigmoid

from hardmax.errors import ArgumentError
from hardmax.estimators.abstract import AbstractEstimator, carry
from hardmax.evaluator import Evaluator
from hardmax.random import from_exponential
from hardmax.spaces import AbstractFactorised, AbstractSpace, Binary
from hardmax.types import Estimate


def compute_set_weights(
    probabilities: Float[Tensor, "*B S"],
) -> tuple[Float[Tensor, "*B S"], Float[Tensor, "*B S S"]]:
    """Return the weights that make sums over a set drawn without replacement unbiased, of first and second order.

    Draw s_1 from p, then each s_i from p without those before it: S is the set, D the space. With
    `p^C(A)` the probability to draw the set A from C,

        w_s = p(s) p^{D-s}(S-s) / p(S),     w_st = p(t) p^{D-s-t}(S-s-t) / p^{D-s}(S-s),

    so that `E[sum_s w_s f(s)] = sum_s p(s) f(s)`; and `sum_{t != s} w_st = 1 - p(s)`, a mean over the others.

    Give every member of D a clock that rings after an exponential time of rate p: the set holds those that ring before
    all that are not in it, which have the rate `r = 1 - sum_S p` together. So

        p(S) = int_0^inf r exp(-r t) prod_{s in S} (1 - exp(-p(s) t)) dt,

    without a factor for every member that is left out. Divided by p(S) the integrand is the density of t given
    S, and the weights are its means

        w_s = E[p(s) / (1 - exp(-p(s) t)) | S],     w_st = E[w_s(t) w_t(t) | S] / E[w_s(t) | S].

    Trapezoids on a grid of log t converge exponentially, whatever the sizes of p: weights are right to 1e-11 in
    double precision (sets of up to 64), 1e-6 in single. The sum over all orders would take S! terms.

    Args:
        probabilities: `[*B, S]` of the members of the set, S >= 2; their sum is at most 1, up to rounding. A zero is a
            probability too small for the dtype.

    Returns:
        `[*B, S]` and `[*B, S, S]`, s before t; the diagonal of the second is meaningless.
    """
    p, size = probabilities, probabilities.shape[-1]
    smallest = torch.finfo(p.dtype).tiny ** 0.5
    rest = (1 - p.sum(-1, keepdim=True)).clamp_min(smallest)
    rate = (p / rest).clamp_min(smallest)  # time in units of 1 / r
    log_time = _log_times(size, p)
    # Every factor is 1 at time S, about where the density is if p is small: no product runs out of the dtype.
    unit = -torch.expm1(-rate * size)
    rung = -torch.expm1(-rate[..., None] * log_time.exp()) / unit[..., None]
    density = (log_time - log_time.exp() + rung.log().sum(-2)).softmax(-1)
    inverse = 1 / rung
    weighted = density[..., None, :] * inverse
    first, second = weighted.sum(-1), weighted @ inverse.mT
    scale = rest * rate / unit
    return scale * first, scale[..., None, :] * second / first[..., None]


def _log_times(size: int, like: Tensor) -> Tensor:
    """Return the grid for sets of this size.

    Left of it lies at most one part in 1 / eps, since all factors grow with time; on the right the density
    falls as a gamma density of shape 1 + S or faster, whose logarithm is the narrower the larger S is.
    """
    start, stop = log(torch.finfo(like.dtype).eps), log(size + 12 * size**0.5 + 30)
    step = (16 + 1.5 * size) ** -0.5
    return start + step * torch.arange(int((stop - start) / step) + 1, dtype=like.dtype, device=like.device)


def draw_without_replacement(
    scores: Float[Tensor, "..."], space: AbstractFactorised, noise: Float[Tensor, "S ..."]
) -> Float[Tensor, "S ..."]:
    """Draw S different z, each from q without those before it.

    The S largest of `log q(z) + Gumbel` over the whole space, found variable by variable. A beam element is a value
    of the first variables; its perturbed log-probability G is the largest of all z that begin so. Given G, one of its
    children has it too, child c with probability q_i(c), and the others are Gumbels cut off at G:

        G_c = -log(exp(-G) + exp(-log q(z_1..i-1, c) - gumbel_c)).

    The S largest children form the next beam. The order of z is independent of the largest G, which is set to 0.

    Args:
        scores: `[*B, *score]`, detached.
        space: a factorised space with S members or more.
        noise: `[S, *B, *score]`. The beam element of rank s is divided by `noise[s]`: the value it draws is the child
            with the same G, its remaining randomness gives the Gumbels of the others.

    Returns:
        `[S, *B, *event]`, in the order in which they are drawn.
    """
    log_q, is_drawn, gumbels = _branches(scores.to(noise.dtype), space, noise)
    samples, (variables, values) = len(noise), log_q.shape[-2:]
    log_prob = top = log_q.new_zeros(*log_q.shape[:-2], 1)
    parents, chosen = [], []
    for i in range(variables):
        width = top.shape[-1]
        child = log_prob[..., None] + log_q[..., i, None, :]
        cut = -torch.logaddexp(-top[..., None], -(child + gumbels[:width, ..., i, :].movedim(0, -2)))
        perturbed = torch.where(is_drawn[:width, ..., i, :].movedim(0, -2), top[..., None], cut)
        top, index = perturbed.flatten(-2).topk(min(samples, width * values), dim=-1)
        log_prob = child.flatten(-2).gather(-1, index)
        parents.append(index // values)
        chosen.append(index % values)
    digits, place = [], torch.arange(samples, device=scores.device).expand(top.shape)
    for parent, value in zip(reversed(parents), reversed(chosen), strict=True):
        digits.append(value.gather(-1, place))
        place = parent.gather(-1, place)
    z = torch.stack(digits[::-1], -1).movedim(-2, 0)
    if not isinstance(space, Binary):
        z = z[..., None] == torch.arange(values, device=scores.device)
    return z.reshape(samples, *space.batch_shape(scores), *space.event_shape).to(scores.dtype)


def _branches(scores: Tensor, space: AbstractFactorised, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return log q of each value `[*B, N, K]`; which one noise draws and a Gumbel for the others `[S, *B, N, K]`."""
    z = space.draw(scores, noise)
    if isinstance(space, Binary):
        gumbel = from_exponential(-space.leftover(scores, noise, z).log())
        log_q = torch.stack([logsigmoid(-scores), logsigmoid(scores)], -1)
        return log_q, torch.stack([z < 1, z > 0], -1), torch.stack([gumbel, gumbel], -1)
    batch = space.batch_shape(scores)
    shape = (space.variables, space.score_shape[-1])
    rest = space.residual(scores, noise, z)
    return (
        scores.log_softmax(-1).view(*batch, *shape),
        (z > 0).view(len(noise), *batch, *shape),
        rest.view(len(noise), *batch, *shape),
    )


@final
@dataclass(frozen=True)
class UnorderedSet(AbstractEstimator):
    """The unordered-set estimator: S different z, each weighted by the share of q that it represents.

    The set is drawn without replacement, for several variables by stochastic beam search. With D the space, p = q, and
    `p^C(A)` the probability to draw the set A from C, whatever the order,

        w_s = p(s) p^{D-s}(S-s) / p(S),     w_st = p(t) p^{D-s-t}(S-s-t) / p^{D-s}(S-s),

        value    = sum_s w_s f(s),
        gradient = sum_s w_s grad log q(s) sum_{t != s} w_st (f(s) - f(t)),

    f(s) minus a weighted mean of the others: a baseline that costs nothing. The weights do not depend on the order of
    the draws, which removes its noise (Rao-Blackwell). They are integrals over one variable, right to 1e-11 in double
    precision and 1e-6 in single (`hardmax.estimators.unordered_set`).

    Bias: none, of value and gradient. Variance: f is never evaluated twice at the same z, so the more q concentrates on
    a few z, the further the variance lies below leave-one-out REINFORCE: with 8 samples we measured no difference for
    an entropy of 7 nats, two thirds of it at 3.4 nats and a quarter at 2.1. None where S is the size of the space; with
    one sample it is REINFORCE without a baseline. Cost: S evaluations of f, which need not be differentiable. Beyond f,
    memory for some 100 S numbers (200 S in double precision) for the weights, and N steps of the beam for N variables.

    The z are not independent samples of q: means over them need the weights.

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
        """Refuse sets larger than the space."""
        super().check(space, samples)
        if samples > space.size:
            raise ArgumentError(
                f"{self} draws without replacement, but samples={samples} is more than the {space.size} members of "
                f"{space}; pass samples={space.size}, which is exact, or fewer"
            )

    def estimate(
        self, f: Evaluator, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> Estimate:
        """Draw a set and weight its members."""
        assert isinstance(space, AbstractFactorised)  # check() refuses all others
        z = draw_without_replacement(scores.detach(), space, noise)
        values, log_prob = f(z), space.log_prob(scores, z)
        held = values.detach()
        if len(noise) == 1:
            return Estimate(carry(values, held * log_prob).squeeze(0), z, f.evaluations, solves=1.0)
        # [*B, S]: the dimension of the set comes last.
        log_q = space.log_prob(scores.detach().to(noise.dtype), z.to(noise.dtype)).movedim(0, -1)
        first, second = compute_set_weights(log_q.exp())
        weights, worth = first.to(values.dtype).movedim(-1, 0), held.movedim(0, -1)
        advantage = (second.to(values.dtype) * (worth[..., None] - worth[..., None, :])).sum(-1).movedim(-1, 0)
        value = carry((weights * values).sum(0), (weights * advantage * log_prob).sum(0))
        return Estimate(value, z, f.evaluations, solves=float(len(noise)))
