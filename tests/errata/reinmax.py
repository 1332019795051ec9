"""Checks of ReinMax-Rao and ReinMax-CV: how much of the exact gradient is left in the mean, for a linear f."""

import torch
from errata.verdict import Slip

import hardmax as hm

SPACE = hm.Categorical(3)
SCORES = torch.tensor([1.0, 0.0, -0.5], dtype=torch.float64)
WEIGHT = torch.tensor([0.3, -1.0, 2.0], dtype=torch.float64)
Q = SCORES.softmax(-1)
TRUTH = 1.0
TAU, DRAWS = 0.05, 400_000


def _jacobian(p):
    return torch.diag_embed(p) - p[..., :, None] * p[..., None, :]


def _measure_share(gradients):
    """Return the mean over z of gradients `[3, 3]`, one for each z, in units of the exact gradient."""
    leaf = SCORES.clone().requires_grad_()
    (exact,) = torch.autograd.grad(leaf.softmax(-1) @ WEIGHT, leaf)
    return float((Q @ gradients @ exact) / (exact @ exact))


def _differentiate(estimator):
    """Return the gradient of an estimator for each z, with all noise but the first drawn at random."""
    gradients = []
    generator = torch.Generator().manual_seed(0)
    for z in torch.eye(3, dtype=torch.float64):
        noise = SPACE.noise((estimator.noises,), generator, dtype=torch.float64)
        noise[0] = 200 * (z - 0.5)
        leaf = SCORES.clone().requires_grad_()
        value = hm.expectation(lambda z: z @ WEIGHT, leaf, SPACE, estimator, noise=noise).value
        gradients.append(torch.autograd.grad(value, leaf)[0])
    return torch.stack(gradients)


def _relax(perturbed):
    """Return the mean Jacobian of the relaxed z, `[3, 3, 3]`, of perturbed scores `[draws, 3, 3]`."""
    return (_jacobian((perturbed / TAU).softmax(-1)) / TAU).mean(0)


def conditioning():
    """ReinMax-Rao at tau = 0.05."""
    written, right = (_differentiate(hm.ReinMaxRao(DRAWS, TAU, given_z)) for given_z in (True, False))
    return Slip(_measure_share(written), _measure_share(right), TRUTH, within=0.04)


def subtraction():
    """The limit of ReinMax-Rao for a small tau, which is ReinMax: 2 J(p) - J(q) / 2."""
    average = (Q + torch.eye(3, dtype=torch.float64)) / 2
    written = 2 * _jacobian(average) - _jacobian(average) / 2
    return Slip(_measure_share(written @ WEIGHT), _measure_share(_differentiate(hm.ReinMax())), TRUTH)


def factor():
    """ReinMax-CV in the mean, which is ReinMax."""
    written = _jacobian((Q + torch.eye(3, dtype=torch.float64)) / 2) - _jacobian(Q) / 2
    return Slip(_measure_share(written @ WEIGHT), _measure_share(_differentiate(hm.ReinMaxCV(1.0, 1))), TRUTH)


def control():
    """ReinMax-CV with eta = 1 and tau = 0.05: the mean Jacobian given z, minus one given z or any one."""
    z = torch.eye(3, dtype=torch.float64)
    average = ((Q + z) / 2).log()
    noise, other = (
        SPACE.noise((DRAWS // 4, 3), torch.Generator().manual_seed(seed), dtype=torch.float64) for seed in (1, 2)
    )
    reinmax = 2 * _jacobian(average.exp()) - _jacobian(Q) / 2
    given = _relax(SPACE.conditional(average, noise, z.expand_as(noise)))
    written, right = (
        reinmax + given - _relax(perturbed)
        for perturbed in (average + other, SPACE.conditional(average, other, z.expand_as(other)))
    )
    return Slip(_measure_share(written @ WEIGHT), _measure_share(right @ WEIGHT), TRUTH, within=0.02)
