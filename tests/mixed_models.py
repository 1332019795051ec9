"""A small model with a discrete and a Gaussian latent, whose bound is computed from the definitions."""

import torch
from torch import nn
from torch.distributions import Bernoulli, Normal, kl_divergence

import hardmax as hm
from hardmax.applications.mixed_vae import GaussianRows, MixedObjective, SharedGaussian

JOINS = [
    GaussianRows(hm.Categorical(3), 2),
    GaussianRows(hm.Binary(2), 2),
    SharedGaussian(hm.Categorical(3), 2),
    SharedGaussian(hm.Binary(2), 2),
]


class Small:
    """One image, its scores, its Gaussians, noise for them, a prior and a decoder, in float64.

    The seed is one where the gradient for scores is large enough to be measured.
    """

    def __init__(self, join, seed=3):
        generator = torch.Generator().manual_seed(seed)

        def random(*shape):
            return torch.randn(*shape, generator=generator, dtype=torch.float64)

        self.join, self.space = join, join.space
        self.decoder = nn.Sequential(nn.Linear(join.width, 3), nn.Tanh(), nn.Linear(3, 5)).double()
        with torch.no_grad():
            for parameter in self.decoder.parameters():
                parameter.copy_(random(*parameter.shape))
        self.x = random(5).sigmoid().round()
        self.scores = random(*self.space.score_shape).requires_grad_()
        self.prior = random(*self.space.score_shape).requires_grad_()
        self.mean = random(join.rows, join.c).requires_grad_()
        self.log_variance = random(join.rows, join.c).requires_grad_()
        self.noise = random(join.rows, join.c)
        self.members = self.space.enumerate(dtype=torch.float64)

    def leaves(self):
        return [self.scores, self.prior, self.mean, self.log_variance, *self.decoder.parameters()]

    def objective(self, *batch, join=None, noise=None, **options):
        """Return f for a batch of this one image, each with the same noise, or with the given noise."""

        def spread(tensor):
            return tensor.expand(*batch, *tensor.shape)

        likelihood = hm.BernoulliLikelihood(self.decoder, spread(self.x), batch_dims=len(batch))
        if noise is None and "generator" not in options:
            noise = spread(self.noise)
        join = join or self.join
        return MixedObjective(likelihood, join, spread(self.mean), spread(self.log_variance), noise=noise, **options)

    def any_batch(self, z):
        """Evaluate f for any batch shape, as the helpers of `hardmax.testing` need it."""
        batch = z.shape[1 : z.dim() - len(self.space.event_shape)]
        return self.objective(*batch)(z)

    # ------------------------------------------------------------------------------- from nothing but the definitions
    def weights(self, z):
        """Return w of one z, by hand."""
        return torch.cat([1 - z, z]) if isinstance(self.space, hm.Binary) else z.flatten()

    def used_rows(self, z):
        """Return the rows that one z uses."""
        rows = isinstance(self.join, GaussianRows)
        return [d for d, w in enumerate(self.weights(z).tolist()) if w] if rows else [0]

    def decoder_input(self, z, z_c):
        w = self.weights(z)
        if isinstance(self.join, GaussianRows):
            return torch.cat([w[d] * z_c[..., d, :] for d in range(len(w))], -1)
        return torch.cat([w.expand(*z_c.shape[:-2], -1), z_c[..., 0, :]], -1)

    def log_likelihood(self, z, z_c):
        """Return log p(x | z, z_c) of one z and many z_c `[..., rows, c]`."""
        return Bernoulli(logits=self.decoder(self.decoder_input(z, z_c))).log_prob(self.x).sum(-1)

    def posterior(self, row):
        return Normal(self.mean[row], (self.log_variance[row] / 2).exp())

    def gaussian_kl(self, z):
        return sum(kl_divergence(self.posterior(row), Normal(0.0, 1.0)).sum() for row in self.used_rows(z))

    def values(self):
        """Return f of every member, `[M]`, at the noise of this model."""
        z_c = self.mean + self.noise * (self.log_variance / 2).exp()
        return torch.stack([self.log_likelihood(z, z_c) - self.gaussian_kl(z) for z in self.members])

    def log_q(self):
        return (self.space.statistics(self.members).flatten(1) @ self.scores.flatten()).log_softmax(0)

    def log_p(self):
        return (self.space.statistics(self.members).flatten(1) @ self.prior.flatten()).log_softmax(0)

    def bound(self):
        """Return the bound of both latents with the expectation over z enumerated, at the noise of this model."""
        log_q = self.log_q()
        return (log_q.exp() * (self.values() + self.log_p() - log_q)).sum()


def largest_z(draws, exact):
    """Return the largest |z| of the mean of draws `[draws, ...]`; above 5.5 is significant (1e-6, 25 components)."""
    error = draws.std(0) / len(draws) ** 0.5
    return ((draws.mean(0) - exact) / error.clamp_min(1e-12)).abs().max().item()
