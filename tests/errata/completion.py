"""Checks of document 000: the back-propagate-max-operation loss of pluralistic image completion.

With the log-variances l and l_hat, the loss should be KL(N(mu_hat, e^l_hat) || N(mu, e^l)).
"""

import warnings

import torch
from errata.verdict import Slip
from torch import Tensor
from torch.distributions import MultivariateNormal, Normal, kl_divergence

import hardmax as hm

MU, MU_HAT = torch.tensor([[0.0, 1.0, -0.5], [1.5, 0.2, 0.3]], dtype=torch.float64)
L, L_HAT = torch.tensor([[0.2, -0.4, 0.6], [0.5, 0.3, -0.2]], dtype=torch.float64)
CODE = """-(1/2) * ((z_c_logsigma_hat_j - z_c_logsigma)
                        - ((1/z_c_logsigma.exp()) * z_c_logsigma_hat_j.exp())
                        + (z_c_mu_hat_j - z_c_mu) * 2 * (1/z_c_logsigma.exp()))).sum(1).mean()"""


def _distance(mu_hat: Tensor, mu: Tensor) -> Tensor:
    return (mu_hat - mu).square().sum() / 2


def sign():
    """Fifty steps of descent from a distance of 1, at unit variances; the correct loss removes a tenth in each step."""

    def descend(loss) -> float:
        mu_hat = torch.ones(1, dtype=torch.float64)
        for _ in range(50):
            mu_hat.requires_grad_()
            (step,) = torch.autograd.grad(loss(mu_hat), mu_hat)
            mu_hat = (mu_hat - 0.1 * step).detach()
        return mu_hat.item()

    zero = torch.zeros(1, dtype=torch.float64)
    ours = descend(lambda mu_hat: hm.gaussian_kl(mu_hat, zero, zero, zero))
    return Slip(descend(lambda mu_hat: -_distance(mu_hat, zero)), ours, 0.9**50)


def constant():
    """The KL of two equal Gaussians of three dimensions."""
    ours = hm.gaussian_kl(MU, L, MU, L).item()
    same = Normal(MU, (L / 2).exp())
    return Slip(3 / 2, ours, kl_divergence(same, same).sum().item())


def ratio():
    """The first term, from the determinants of the matrices."""
    truth = -(torch.diag(L_HAT.exp()).logdet() - torch.diag(L.exp()).logdet()) / 2
    return Slip(-((L - L_HAT).sum() / 2).item(), ((L - L_HAT).sum() / 2).item(), truth.item())


def sums():
    """The number of values that the loss of one image has."""
    as_printed = -(L - L_HAT) / 2
    return Slip(as_printed.numel(), hm.gaussian_kl(MU_HAT, L_HAT, MU, L).numel(), 1)


def trace():
    """The second term, from the matrices."""
    truth = (torch.diag(L.exp()).inverse() @ torch.diag(L_HAT.exp())).trace() / 2
    return Slip(((-L).exp() * L_HAT).sum().item() / 2, (L_HAT - L).exp().sum().item() / 2, truth.item())


def square():
    """The third term, from the matrices."""
    gap = MU_HAT - MU
    truth = gap @ torch.diag(L.exp()).inverse() @ gap / 2
    times_two, squared = ((gap * 2 * (-L).exp()).sum() / 2, (gap**2 * (-L).exp()).sum() / 2)
    return Slip(times_two.item(), squared.item(), truth.item())


def parentheses():
    """Opening minus closing parentheses."""
    corrected = CODE.replace("exp()))).sum", "exp())).sum").replace("* 2 *", "** 2 *")
    return Slip(CODE.count("(") - CODE.count(")"), corrected.count("(") - corrected.count(")"), 0)


def whole():
    """All three terms and the constant, against torch.distributions."""
    wide = MultivariateNormal(MU_HAT, torch.diag(L_HAT.exp())), MultivariateNormal(MU, torch.diag(L.exp()))
    as_printed = (L - L_HAT + (L_HAT - L).exp() - (MU_HAT - MU) ** 2 * (-L).exp()).sum() / 2
    return Slip(as_printed.item(), hm.gaussian_kl(MU_HAT, L_HAT, MU, L).item(), kl_divergence(*wide).item())


def logarithm():
    """The standard deviation of a sample whose log-variance is 0.5; as printed 0.5 is the variance itself."""
    half = torch.full((200_000, 1), 0.5, dtype=torch.float64)
    samples = hm.gaussian_sample(torch.zeros_like(half), half, generator=torch.Generator().manual_seed(0))
    return Slip(0.5**0.5, torch.tensor(0.25).exp().item(), samples.std().item(), within=0.01)


def component():
    """The component, N(0, 3) or N(3, 1), that a latent of 3.0 should be assigned to."""
    mu_hat, l_hat, latent = torch.tensor([0.0, 3.0]), torch.tensor([3.0, 1.0]).log(), 3.0
    responsibility = Normal(mu_hat, (l_hat / 2).exp()).log_prob(torch.tensor(latent))
    components = [(values - latent).abs().argmin().item() for values in (l_hat.exp(), mu_hat)]
    return Slip(*components, responsibility.argmax().item(), within=0)


def graph():
    """The gradient for mu_hat[0], against a difference quotient."""
    mu_hat = MU_HAT.clone().requires_grad_()
    loss = hm.gaussian_kl(mu_hat, L_HAT, MU, L)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch itself warns about the call in the published code
        cut = torch.tensor(loss)
    (gradient,) = torch.autograd.grad(loss, mu_hat)
    step = torch.tensor([1e-6, 0.0, 0.0], dtype=torch.float64)
    up, down = (hm.gaussian_kl(MU_HAT + sign * step, L_HAT, MU, L) for sign in (1, -1))
    written = 0.0 if not cut.requires_grad else gradient[0].item()
    return Slip(written, gradient[0].item(), ((up - down) / 2e-6).item())
