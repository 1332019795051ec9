"""Checks of document 002: the notes on auto-encoding variational Bayes and segmentation of medical images."""

from itertools import product

import torch
from errata.verdict import Slip
from torch.distributions import MultivariateNormal, Normal, kl_divergence

import hardmax as hm

# Two voxels, three labels: intensities, the labels' Gaussians, and the labels' probabilities f at each voxel.
X = torch.tensor([0.4, 1.8], dtype=torch.float64)
MU, SIGMA = torch.tensor([[0.0, 1.0, 2.0], [0.5, 0.2, 1.0]], dtype=torch.float64)
F = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3]], dtype=torch.float64)


def _log_normal():
    """Return log N(x_j; mu_m, sigma_m^2), `[voxels, labels]`."""
    return Normal(MU, SIGMA).log_prob(X[:, None])


def kl():
    """KL(N(0.5, 0.8^2) || N(0, 1))."""
    mean, log_variance = torch.tensor([0.5]).double(), torch.tensor([0.64]).double().log()
    truth = kl_divergence(Normal(mean, 0.8), Normal(torch.zeros_like(mean), 1.0)).item()
    as_printed = (1 + log_variance - mean.square() - log_variance.exp()).sum() / 2
    return Slip(as_printed.item(), hm.gaussian_kl(mean, log_variance).item(), truth)


def jensen():
    """The change of the Jensen bound from these f to equal ones: the dropped term is not constant."""
    even = torch.full_like(F, 1 / 3)
    dropped = -((X[:, None] - MU) ** 2) / (2 * SIGMA**2)
    kept = dropped - torch.log(2 * torch.pi * SIGMA**2) / 2
    truth = sum((even - F)[j, m] * Normal(MU[m], SIGMA[m]).log_prob(X[j]) for j, m in product(range(2), range(3)))
    return Slip(((even - F) * dropped).sum().item(), ((even - F) * kept).sum().item(), float(truth))


def intractable():
    """log p(x | z), against a sum over all nine segmentations."""
    by_voxel = (F.log() + _log_normal()).logsumexp(-1).sum()
    jensen_bound = (F * _log_normal()).sum()
    log_joint = [
        sum(F[j, m].log() + _log_normal()[j, m] for j, m in enumerate(labels)) for labels in product(range(3), repeat=2)
    ]
    return Slip(jensen_bound.item(), by_voxel.item(), torch.stack(log_joint).logsumexp(0).item())


def location():
    """The sum of the probabilities of the labels of a voxel, after the location prior."""
    prior = torch.tensor([0.7, 0.2, 0.1], dtype=torch.float64)
    return Slip((F[0] * prior).sum().item(), (F[0].log() + prior.log()).softmax(0).sum().item(), 1.0)


def floor():
    """-log of the probability of a label that never occurred at the voxel; the location prior is floored at 0.001."""
    prior = torch.tensor([0.7, 0.3, 0.0], dtype=torch.float64)
    written, ours = (-(F[0].log() + p.log()).log_softmax(0)[2] for p in (prior, prior.clamp_min(1e-3)))
    floored = F[0] * torch.tensor([0.7, 0.3, 1e-3], dtype=torch.float64)
    return Slip(written.item(), ours.item(), -(floored[2] / floored.sum()).log().item())


def expectation():
    """E[(x - mu)^T Sigma^-1 (x - mu)] in three dimensions, against draws; as printed, the value of a single x."""
    raw = torch.tensor([[1.0, 0.0, 0.0], [0.4, 0.8, 0.0], [-0.3, 0.2, 0.5]], dtype=torch.float64)
    normal = MultivariateNormal(torch.zeros(3, dtype=torch.float64), scale_tril=raw)
    x = hm.gaussian_sample_full(normal.loc, raw, 200_000, generator=torch.Generator().manual_seed(0))
    forms = torch.einsum("si,ij,sj->s", x, normal.covariance_matrix.inverse(), x)
    return Slip(forms[0].item(), torch.eye(3).trace().item(), forms.mean().item(), within=0.03)


def samples():
    """The score function's gradient of E[z^2] for the mean 1 of z, by quadrature; as printed, f has its own z."""
    z = torch.linspace(-11, 13, 24_001, dtype=torch.float64)
    p = Normal(1.0, 1.0).log_prob(z).exp()
    together, apart = (torch.trapezoid(integrand * p, z) for integrand in (z.square() * (z - 1), z - 1))
    mean = torch.ones((), dtype=torch.float64, requires_grad=True)
    (truth,) = torch.autograd.grad(mean.square() + 1, mean)
    return Slip((torch.trapezoid(z.square() * p, z) * apart).item(), together.item(), truth.item())
