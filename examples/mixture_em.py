"""A VAE with one categorical variable is a mixture, which EM fits in closed form: how near does the VAE come?

The two differ in where q and the pixels come from, and in what that costs:

    EM    q = p(z | x), then the best pixels for it         bound = log p(x)
    VAE   q by an encoder; all by gradients of the bound    bound = log p(x) - KL(q || p(z | x))

    python examples/mixture_em.py [PICTURE]
"""

import sys
from pathlib import Path

import torch
from torch import Tensor

import hardmax as hm
from hardmax.applications.discrete_vae import BernoulliMixture
from hardmax.data import binarize, load
from hardmax.drawing.images import make_grid, save_image
from hardmax.random import stream

K, EPOCHS = 10, 12


def em(x: Tensor) -> BernoulliMixture:
    """Return the best of four fits: EM stops at the peak that is nearest to where it began."""
    fits = [BernoulliMixture.fit(x, K, steps=50, generator=stream(start, "em")) for start in range(4)]
    return max(fits, key=lambda mixture: mixture.log_likelihood(x).mean().item())


def vae(pictures: Tensor) -> hm.DiscreteVAE:
    """Return a trained VAE: the gradient p(z | x) - q first, then the exact one."""
    torch.manual_seed(0)
    model = hm.DiscreteVAE.build(hm.Categorical(K), pictures.shape[1:], prior="learned")
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(EPOCHS):
        estimator = hm.AveragedDirect(1.0) if epoch < EPOCHS // 2 else hm.Exact()
        for batch in torch.randperm(len(pictures)).split(100):
            loss = -model(pictures[batch], estimator=estimator).value.mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model


def report(name: str, bounds: hm.Bounds) -> None:
    gap = (bounds.log_likelihood - bounds.elbo).mean().clamp_min(0)  # zero, but for rounding, where q is the posterior
    print(f"{name:<34}  {-bounds.elbo.mean():7.2f}  {gap:19.2f}  {-bounds.log_likelihood.mean():9.2f}")


def main(picture: str = "mixture_em.png") -> None:
    images = load("sample")
    train, test = (binarize(part, "threshold") for part in (images.train, images.test))
    mixture, model = em(train.flatten(1)), vae(train)

    x, space = test.flatten(1), hm.Categorical(K)
    print(f"{len(test):,} test pictures, {K} components; nats per picture")
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
            report(name, hm.exact_bounds(likelihood, scores, space, prior=prior))
        report("VAE: q is an encoder", model.bounds(test))

    mine = model.decode(torch.eye(K))
    theirs = mixture.means.view(K, *images.shape)
    pairs = hm.Permutation(K).argmax(-torch.cdist(theirs.flatten(1), mine.flatten(1)))  # [K, K], a one in every row
    sheet = make_grid(torch.cat([theirs, mine[pairs.argmax(1)]]), columns=K)
    save_image(sheet.resize((2 * sheet.width, 2 * sheet.height), resample=0), Path(picture))
    print(f"\nsee {picture}: above the components of EM, below the categories of the VAE, paired with them")


if __name__ == "__main__":
    main(*sys.argv[1:])
