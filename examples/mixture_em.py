"""A VAE with one categorical variable is a mixture, which EM fits in closed form: how close does the VAE come?

The two differ in how q and the pixels are computed, and so in the bound:

    EM    q = p(z | x), then the best pixels for it         bound = log p(x)
    VAE   q by an encoder, trained on the bound             bound = log p(x) - KL(q || p(z | x))

    python examples/mixture_em.py [FIGURE]
"""

import sys
from pathlib import Path

import torch
from torch import Tensor

import hardmax as hm
from hardmax.applications.discrete_vae import BernoulliMixture
from hardmax.data import binarize, load_images
from hardmax.drawing.images import make_grid, save_image
from hardmax.random import make_generator

K, EPOCHS = 10, 12


def fit_em(x: Tensor) -> BernoulliMixture:
    """Return the best of four fits: EM converges to a local maximum that depends on the start."""
    fits = [BernoulliMixture.fit(x, K, steps=50, generator=make_generator(start, "em")) for start in range(4)]
    return max(fits, key=lambda mixture: mixture.log_likelihood(x).mean().item())


def train_vae(images: Tensor) -> hm.DiscreteVAE:
    """Return a trained VAE: first with the gradient p(z | x) - q, then with the exact gradient."""
    torch.manual_seed(0)
    model = hm.DiscreteVAE.build(hm.Categorical(K), images.shape[1:], prior="learned")
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(EPOCHS):
        estimator = hm.AveragedDirect(1.0) if epoch < EPOCHS // 2 else hm.Exact()
        for batch in torch.randperm(len(images)).split(100):
            loss = -model(images[batch], estimator=estimator).value.mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model


def print_bounds(name: str, bounds: hm.Bounds) -> None:
    gap = (bounds.log_likelihood - bounds.elbo).mean().clamp_min(0)  # zero, except for rounding, if q is the posterior
    print(f"{name:<34}  {-bounds.elbo.mean():7.2f}  {gap:19.2f}  {-bounds.log_likelihood.mean():9.2f}")


def main(path: str = "mixture_em.png") -> None:
    images = load_images("sample")
    train, test = (binarize(part, "threshold") for part in (images.train, images.test))
    mixture, model = fit_em(train.flatten(1)), train_vae(train)

    x, space = test.flatten(1), hm.Categorical(K)
    print(f"{len(test):,} test images, {K} components; nats per image")
    print(f"{'':<34}  {'-bound':>7}  {'KL(q || posterior)':>19}  {'-log p(x)':>9}")
    decoder = torch.nn.Linear(K, x.shape[1], bias=False)  # the mixture, as the decoder of a VAE
    decoder.weight.data = mixture.means.logit().T
    prior = mixture.weights.log()
    with torch.no_grad():
        likelihood = hm.BernoulliLikelihood(decoder, x)
        for name, scores in (
            ("EM: q is the posterior", mixture.log_joint(x)),
            ("the same mixture, q is the prior", prior.expand(len(x), K)),
        ):
            print_bounds(name, hm.exact_bounds(likelihood, scores, space, prior=prior))
        print_bounds("VAE: q is an encoder", model.bounds(test))

    vae_images = model.decode(torch.eye(K))
    em_images = mixture.means.view(K, *images.shape)
    distances = torch.cdist(em_images.flatten(1), vae_images.flatten(1))
    pairs = hm.Permutation(K).argmax(-distances)  # [K, K], one 1 in every row
    sheet = make_grid(torch.cat([em_images, vae_images[pairs.argmax(1)]]), columns=K)
    save_image(sheet.resize((2 * sheet.width, 2 * sheet.height), resample=0), Path(path))
    print(f"\nsee {path}: above the components of EM, below the categories of the VAE, paired with them")


if __name__ == "__main__":
    main(*sys.argv[1:])
