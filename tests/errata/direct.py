"""Checks of document 003: direct optimization through arg max for discrete VAEs, and its released code."""

import math

import torch
from errata.verdict import Same, Slip
from torch.distributions import Gumbel

import hardmax as hm

EULER = 0.5772156649015329
SCORES = torch.tensor([1.0, 0.0, -0.5], dtype=torch.float64)
WORTH = torch.tensor([-2.0, -0.5, -1.0], dtype=torch.float64)  # f: log-likelihoods
SPACE = hm.Categorical(3)


def signs():
    """The gradient of eq. 9 for log p(x | z = 0), where q is the posterior: it should be that of -log p(x)."""
    worth = WORTH.clone().requires_grad_()
    evidence = worth.logsumexp(0) - math.log(3)
    (truth,) = torch.autograd.grad(-evidence, worth, retain_graph=True)
    q = worth.detach().softmax(0)
    likelihood, kl = (q * worth).sum(), (q * (q.log() + math.log(3))).sum()
    gradients = [torch.autograd.grad(sign * likelihood + kl, worth, retain_graph=True)[0][0].item() for sign in (1, -1)]
    return Slip(*gradients, truth[0].item())


def generating_function():
    """d/dh_0 d/d epsilon of G at 0, G = log sum exp(h + epsilon f): the gradient of E[f], not of E[theta].

    Here theta are the logits of a Bernoulli x = 1 and f = log p(x | z) = log sigmoid(theta).
    """
    theta = torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64)
    h, epsilon = SCORES.clone().requires_grad_(), torch.zeros((), dtype=torch.float64, requires_grad=True)
    f = theta.sigmoid().log()
    (slope,) = torch.autograd.grad((h + epsilon * f).logsumexp(0), epsilon, create_graph=True)
    (truth,) = torch.autograd.grad(slope, h)
    gradients = [torch.autograd.grad((h.softmax(0) * values).sum(), h)[0][0].item() for values in (theta, f)]
    return Slip(*gradients, truth[0].item())


def shift():
    """The frequency of the second category, with zero-mean noise and with standard noise."""
    noise = SPACE.noise((200_000,), torch.Generator().manual_seed(0), dtype=torch.float64)
    frequencies = [SPACE.argmax(SCORES + noise - offset).mean(0)[1].item() for offset in (EULER, 0.0)]
    assert frequencies[0] == frequencies[1]
    return Same(*frequencies, SCORES.softmax(0)[1].item(), within=0.005)


def density():
    """The density of zero-mean Gumbel noise at 0."""
    truth = Gumbel(torch.tensor(-EULER, dtype=torch.float64), 1.0).log_prob(torch.zeros((), dtype=torch.float64)).exp()
    written, ours = (math.exp(-EULER + sign * math.exp(-EULER)) for sign in (1, -1))
    return Slip(written, ours, truth.item())


def divergence():
    """The gradient of the bound for the first score: the released code (kl="none") leaves a part out."""

    class Table:
        def __call__(self, z):
            return z @ WORTH

    gradients = []
    for kl in ("none", "auto"):
        scores = SCORES[None].clone().requires_grad_()
        hm.elbo(Table(), scores, SPACE, hm.Exact(), kl=kl).value.sum().backward()
        gradients.append(scores.grad[0, 0].item())
    h = SCORES.clone().requires_grad_()
    q = h.softmax(0)
    (truth,) = torch.autograd.grad((q * (WORTH - math.log(3) - q.log())).sum(), h)
    return Slip(*gradients, truth[0].item())
