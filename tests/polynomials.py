"""Polynomials of the variables, and gradients of estimators that differentiate them at the corners."""

import torch

import hardmax as hm

SPACES = [hm.Binary(1), hm.Binary(3), hm.Categorical(4), hm.Categorical(3, 1), hm.Categorical(3, 2)]


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def as_rows(space, z):
    """Return z as `[..., N, V]`: a row of V numbers for each variable."""
    return z[..., None] if isinstance(space, hm.Binary) else z if space.n else z[..., None, :]


def of_degree(space, degree, seed=1):
    """Return a product over variables of random polynomials of this degree: an f that is not additive."""
    shape = tuple(as_rows(space, torch.zeros(space.event_shape)).shape)
    weights = [normal(3, *shape, seed=seed + d) for d in range(1, degree + 1)]

    def f(z):
        powers = [((as_rows(space, z)[..., None, :, :] * w).sum(-1) ** (d + 1)).sum(-2) for d, w in enumerate(weights)]
        return (1 + sum(powers)).prod(-1)

    return f


def of_every_z(estimator, f, scores, space):
    """Return the gradients of an estimator that depends on the noise only through z, `[M, *score]`, one for each z."""
    members = space.enumerate(dtype=torch.float64)
    batch = scores.expand(len(members), *scores.shape).clone().requires_grad_()
    out = hm.expectation(f, batch, space, estimator, noise=200 * (members[None] - 0.5))
    assert torch.equal(out.z[0], members)
    return torch.autograd.grad(out.value.sum(), batch)[0]


def exact_bias(estimator, f, scores, space):
    """Return the relative bias of such an estimator, without any sampling error."""
    probability = space.log_probs(scores).exp()
    mean = torch.tensordot(probability, of_every_z(estimator, f, scores, space), 1)
    leaf = scores.clone().requires_grad_()
    value = space.log_probs(leaf).exp() @ f(space.enumerate(dtype=torch.float64)).detach()
    truth = torch.autograd.grad(value, leaf)[0]
    return float((mean - truth).norm() / truth.norm())


def jacobian(q):
    """Return diag(q) - q q^T."""
    return torch.diag_embed(q) - q[..., :, None] * q[..., None, :]


def slopes(f, z):
    """Return grad f at each z."""
    z = z.clone().requires_grad_()
    return torch.autograd.grad(f(z).sum(), z)[0]


def gradient(f, scores, space, estimator, noise):
    scores = scores.clone().requires_grad_()
    return torch.autograd.grad(hm.expectation(f, scores, space, estimator, noise=noise).value, scores)[0]


def estimates(estimator, f, scores, space, draws, seed=0, change=lambda noise: noise):
    """Return independent gradients, `[draws, *score]`."""
    batch = scores.expand(draws, *scores.shape).clone().requires_grad_()
    generator = torch.Generator().manual_seed(seed)
    noise = change(space.noise((estimator.noises, draws), generator, dtype=torch.float64))
    value = hm.expectation(f, batch, space, estimator, noise=noise).value
    return torch.autograd.grad(value.sum(), batch)[0]


def largest_z(first, second):
    """Return the largest |z| between the means of two sets of gradients."""
    error = (first.var(0) / len(first) + second.var(0) / len(second)).sqrt()
    return float(((first.mean(0) - second.mean(0)).abs() / error).max())
