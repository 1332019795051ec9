"""A variational auto-encoder with Gaussian latents, on the images that come with hardmax.

Encoder 784-300-20, decoder 20-300-784, Bernoulli pixels; the bound is Kingma & Welling's, with the KL in closed form.
"""

import torch

import hardmax as hm
from hardmax.data import binarize, load_images

LATENTS, EPOCHS, BATCH = 20, 5, 100


def main() -> None:
    torch.manual_seed(0)
    images = load_images("sample")
    train, test = binarize(images.train), binarize(images.test)
    model = hm.GaussianVAE.build(LATENTS, images.shape, hidden=300)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    print(images)
    print("epoch  train bound  test bound  reconstruction     KL   (nats per image)")
    for epoch in range(1, EPOCHS + 1):
        total = 0.0
        for batch in torch.randperm(len(train)).split(BATCH):
            value = model(train[batch]).value
            optimizer.zero_grad()
            (-value.mean()).backward()
            optimizer.step()
            total += value.sum().item()
        with torch.no_grad():
            out = model(test, samples=5)
        print(
            f"{epoch:5d}  {total / len(train):11.2f}  {out.value.mean():10.2f}  {out.reconstruction.mean():14.2f}  "
            f"{out.kl.mean():5.2f}"
        )


if __name__ == "__main__":
    main()
