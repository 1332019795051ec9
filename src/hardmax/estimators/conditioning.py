"""Control variates that condition on z: the mathematics that REBAR, RELAX and debiased Direct share."""

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.spaces import AbstractFactorised


def conditioned_gradient(
    scores: Float[Tensor, "..."],
    space: AbstractFactorised,
    noise: Float[Tensor, "S ..."],
    z: Float[Tensor, "S ..."],
    residue: Float[Tensor, "S ..."],
    slope: Float[Tensor, "S ..."],
) -> Float[Tensor, "..."]:
    """Return an unbiased gradient of `E[f(z)]` from a control variate c of the perturbed scores p.

    `E[c(p)]` has two gradients with the same mean: the pathwise one, where p moves as `perturb` says, and the one
    that first draws z and then p given z,

        E[grad c(perturb(scores))] = E[c(p) grad log q(z) + grad c(conditional(scores, residual, z))],

    so that `f(z) grad log q(z)` minus the second plus the first is unbiased, for any c:

        gradient = (f(z) - c(p)) grad log q(z) + slope - (d conditional / d scores)^T slope,     slope = dc / dp.

    Here both p come from the same noise and are equal, so that c is evaluated once.

    Args:
        scores: `[*B, *score]`, detached.
        space: a factorised space.
        noise: `[S, *B, *score]`.
        z: `[S, *B, *event]`, what the noise draws.
        residue: `f(z) - c(p)`, `[S, *B, ...]`: one for all variables (dimensions of one) or one for each.
        slope: `[S, *B, *score]`; may carry a graph to the control variate's own parameters.

    Returns:
        `[*B, *score]`, the mean over samples.
    """
    rest = space.residual(scores, noise, z)
    pull = torch.func.vjp(lambda h: space.conditional(h, rest, z), scores)[1]
    score_function = residue * (z - space.marginals(scores))
    return (score_function + slope).mean(0) - pull(slope)[0] / len(noise)
