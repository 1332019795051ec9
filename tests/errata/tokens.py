"""Checks of document 004: handwritten notes on the discrete VAE, Gumbel-softmax and contrastive learning."""

import torch
from errata.verdict import Slip
from torch.nn.functional import normalize

import hardmax as hm

LOG_PI = torch.tensor([1.0, 0.0, -0.5], dtype=torch.float64).log_softmax(0)
PI = LOG_PI.exp()
K = 1


def product():
    """The integral over g_k, which should be pi_k."""
    g = torch.linspace(-6, 40, 200_001, dtype=torch.float64)
    density = (-g - (-g).exp()).exp()
    gaps = [g + LOG_PI[K] - LOG_PI[j] for j in (0, 2)]
    factors = torch.stack([(-(-gap).exp()).exp() for gap in gaps])
    torch.testing.assert_close(factors.prod(0), (-(-g).exp() * (1 - PI[K]) / PI[K]).exp())
    as_printed = torch.stack([(-gap).exp() for gap in gaps])
    integrals = [torch.trapezoid(values.prod(0) * density, g).item() for values in (as_printed, factors)]
    return Slip(*integrals, PI[K].item())


def temperature():
    """The frequency of the first weight being largest; the same log tau for all categories does not depend on pi."""
    tau, space = 0.5, hm.Categorical(3)
    noise = space.noise((400_000,), torch.Generator().manual_seed(0), dtype=torch.float64)
    as_printed = ((noise + torch.tensor(tau).log()) / tau).softmax(-1)
    ours = space.relax(space.perturb(LOG_PI, noise), tau)
    written, right = (space.argmax(weights).mean(0)[0].item() for weights in (as_printed, ours))
    return Slip(written, right, PI[0].item(), within=0.004)


def triplet():
    """q.d+ - q.d- after two hundred steps of descent from a start between the two; the margin is 1."""
    near, far = torch.tensor([[1.0, 0.0], [0.0, 1.0]], dtype=torch.float64)

    def descend(loss) -> float:
        q = torch.ones(2, dtype=torch.float64) + torch.tensor([0.0, 0.01])
        for _ in range(200):
            q.requires_grad_()
            (step,) = torch.autograd.grad(loss(normalize(q, dim=0)), q)
            q = normalize(q.detach() - 0.05 * step, dim=0)
        return (q @ near - q @ far).item()

    written = descend(lambda q: q @ near - q @ far)
    return Slip(written, descend(lambda q: (1 + q @ far - q @ near).clamp_min(0)), 1.0, within=0.1)
