"""Sets drawn without replacement: how much each member stands for."""

from math import log

import torch
from jaxtyping import Float
from torch import Tensor


def leave_one_out_weights(
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
        probabilities: `[*B, S]` of the members of the set, S >= 2; their sum is at most 1, but for rounding. A zero
            is a probability too small for the dtype.

    Returns:
        `[*B, S]` and `[*B, S, S]`, s before t; the diagonal of the second means nothing.
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
