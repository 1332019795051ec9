"""Checks of document 001: the lecture slides on reparameterization and the Gumbel-max trick."""

import math

import torch
from errata.verdict import Same, Slip
from torch.distributions import Gumbel, Normal, RelaxedOneHotCategorical, kl_divergence
from torch.nn.functional import binary_cross_entropy

import hardmax as hm
from hardmax.random import draw_gumbel

SCORES = torch.tensor([1.0, 0.0, -0.5], dtype=torch.float64)
SPACE = hm.Categorical(3)
A, B, THETA = 2.0, 3.0, -1.0  # of the worked example: m = a theta + b = 1


def _draw_noise(count=400_000, seed=0):
    return SPACE.noise((count,), torch.Generator().manual_seed(seed), dtype=torch.float64)


def _expect_normal(mean, function):
    """Return E[function(z)] for z ~ N(mean, 1), by quadrature."""
    z = torch.linspace(mean - 12, mean + 12, 24_001, dtype=torch.float64)
    return torch.trapezoid(function(z) * Normal(mean, 1.0).log_prob(z).exp(), z).item()


def discriminator():
    """The loss at D(x) = 0.9 and D(G(z)) = 0.2: the cross-entropy of classifying real and generated."""
    real, fake = torch.tensor(0.9, dtype=torch.float64), torch.tensor(0.2, dtype=torch.float64)
    truth = binary_cross_entropy(torch.stack([real, fake]), torch.tensor([1.0, 0.0]).double(), reduction="sum")
    return Slip(-(real.log() - (1 - fake).log()).item(), -(real.log() + (1 - fake).log()).item(), truth.item())


def maximum():
    """The density at 1 of the maximum of the other categories; the maximum of Gumbels is a Gumbel at the logsumexp."""
    others, t = SCORES[1:], torch.ones((), dtype=torch.float64, requires_grad=True)
    below = (-(others - t).exp()).exp().prod()
    (density,) = torch.autograd.grad(below, t)
    truth = Gumbel(others.logsumexp(0), torch.ones((), dtype=torch.float64)).log_prob(t).exp()
    return Slip(below.item(), density.item(), truth.item())


def distribution():
    """P(G <= 1), against drawn noise."""
    noise = draw_gumbel((400_000,), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return Slip(math.exp(-math.exp(1)), math.exp(-math.exp(-1)), (noise <= 1).double().mean().item(), within=0.004)


def shared():
    """The frequency of the second category, against draws with independent noise for each category."""
    noise = _draw_noise()
    shared_noise = SPACE.argmax(SCORES + noise[:, :1]).mean(0)[1].item()
    return Slip(shared_noise, SCORES.softmax(0)[1].item(), SPACE.argmax(SCORES + noise).mean(0)[1].item(), within=0.004)


def scale():
    """The standard deviation of z, which should be sigma = 0.5."""
    x = torch.randn(400_000, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    log_variance = torch.full_like(x, 0.25).log()
    samples = hm.gaussian_sample(torch.zeros_like(x), log_variance, generator=torch.Generator().manual_seed(1))
    return Slip((x * 0.25).std().item(), samples.std().item(), 0.5, within=0.003)


def gaussian():
    """The integral of the density, sigma = 0.5."""
    z = torch.linspace(-6, 6, 12_001, dtype=torch.float64)
    as_printed = (-(z / 0.5).square()).exp() / (math.sqrt(2 * math.pi) * 0.5)
    ours = (-(z / 0.5).square() / 2).exp() / (math.sqrt(2 * math.pi) * 0.5)
    return Slip(torch.trapezoid(as_printed, z).item(), torch.trapezoid(ours, z).item(), 1.0)


def slope():
    """The derivative of the density for mu at mu = 0, z = 1, sigma = 1, by autograd."""
    mu = torch.zeros((), dtype=torch.float64, requires_grad=True)
    (truth,) = torch.autograd.grad(Normal(mu, 1.0).log_prob(torch.ones((), dtype=torch.float64)).exp(), mu)
    root = math.sqrt(2 * math.pi)
    return Slip(2 * math.exp(-1) / root, math.exp(-1 / 2) / root, truth.item())


def average():
    """E[z^2] = 1 from a thousand draws of a standard normal."""
    z = torch.randn(1000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return Slip(z.square().sum().item(), z.square().mean().item(), 1.0, within=0.2)


def minimum():
    """The theta that minimises E[z^2], in steps of a hundredth from -3 to 3."""
    theta = torch.linspace(-3, 3, 601, dtype=torch.float64)
    value = (A * theta + B).square() + 1
    return Slip(theta[value.argmax()].item(), theta[value.argmin()].item(), -B / A)


def substitution():
    """The mean of the score function's gradient at theta = -1; as printed z has the mean a theta + b theta."""
    m = A * THETA + B
    gradients = [_expect_normal(mean, lambda z: z.square() * A * (z - m)) for mean in (A * THETA + B * THETA, m)]
    theta = torch.tensor(THETA, dtype=torch.float64, requires_grad=True)
    (truth,) = torch.autograd.grad((A * theta + B).square() + 1, theta)
    return Slip(*gradients, truth.item())


def two_gradients():
    """Score function (as written) and reparameterization (right) have the same mean."""
    m = A * THETA + B
    score, pathwise = _expect_normal(m, lambda z: z.square() * A * (z - m)), _expect_normal(m, lambda z: 2 * A * z)
    return Same(score, pathwise, 2 * A * m)


def variance():
    """The variance of the score function's gradient at m = 1, which is not "the same result"; 4 a^2 reparameterized."""
    m = A * THETA + B
    second = _expect_normal(m, lambda z: (z.square() * A * (z - m)).square())
    return Slip(4 * A**2, A**2 * (m**4 + 14 * m**2 + 15), second - (2 * A * m) ** 2)


def prior_mean():
    """KL(N(0.8, 0.8^2) || N(0, 1))."""
    mean, log_variance = torch.tensor([0.8]).double(), torch.tensor([0.64]).double().log()
    truth = kl_divergence(Normal(mean, 0.8), Normal(torch.zeros_like(mean), 1.0)).item()
    as_printed = hm.gaussian_kl(mean, log_variance, torch.ones_like(mean), torch.zeros_like(mean))
    return Slip(as_printed.item(), hm.gaussian_kl(mean, log_variance).item(), truth)


def decoder():
    """The change of KL(q || posterior) when a better decoder lowers the loss: two categories, q = (1/2, 1/2)."""
    q, prior = torch.tensor([0.5, 0.5]).double(), torch.tensor([0.5, 0.5]).double()
    losses, divergences, evidence = [], [], []
    for likelihood in (torch.tensor([0.2, 0.2]).double(), torch.tensor([0.2, 0.9]).double()):
        joint = prior * likelihood
        posterior = joint / joint.sum()
        losses.append(-(q * likelihood.log()).sum() + (q * (q / prior).log()).sum())
        divergences.append((q * (q / posterior).log()).sum())
        evidence.append(joint.sum().log())
    loss, divergence, log_p = (float(after - before) for before, after in (losses, divergences, evidence))
    return Slip(loss, loss + log_p, divergence)


def concrete():
    """The integral of the density over the triangle at tau = 1; ours is compared with torch's."""
    line = torch.linspace(-40, 40, 801, dtype=torch.float64)
    logits = torch.cartesian_prod(line, line, line.new_zeros(1))
    area = logits.log_softmax(-1).sum(-1).exp() * (line[1] - line[0]) ** 2  # dx = prod(x) da db, x = softmax(a, b, 0)
    alpha, x = SCORES.exp(), logits.softmax(-1)
    ours = 2 * (alpha * x**-2).prod(-1) / (alpha / x).sum(-1) ** 3
    distribution = RelaxedOneHotCategorical(torch.ones(()), logits=SCORES, validate_args=False)
    torch.testing.assert_close(ours, distribution.log_prob(x).exp())
    return Slip((2 * SCORES.softmax(0).prod() * area).sum().item(), (ours * area).sum().item(), 1.0)


def temperature():
    """The mean of the largest entry of relaxed samples at tau = 0.01, which should be almost one-hot."""
    perturbed = SCORES + _draw_noise(10_000)
    as_printed = perturbed.exp() / 0.01
    as_printed = as_printed / as_printed.sum(-1, keepdim=True)
    written, right = (samples.amax(-1).mean().item() for samples in (as_printed, SPACE.relax(perturbed, 0.01)))
    return Slip(written, right, 1.0, within=0.02)
