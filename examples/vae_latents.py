"""The effect of the two terms of a VAE's loss: a latent of two numbers, trained with both terms and without either.

    loss = -E_q[log p(x | z)]  (reconstruction)  +  KL(q(z | x) || N(0, I))  (regulariser)

- Without the regulariser, images are separated best, but in a region that the prior does not sample.
- Without reconstruction, q is the prior for every image: z has no information.

    python examples/vae_latents.py [FIGURE [EPOCHS]]
"""

import sys
from pathlib import Path

import torch
from matplotlib.figure import Figure
from torch import Tensor

import hardmax as hm
from hardmax.data import binarize, load_images
from hardmax.drawing.images import make_grid
from hardmax.drawing.style import use_plot_style

CLASSES = ["T-shirt", "trousers", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot"]
LOSSES = {"both terms": (1.0, 1.0), "no regulariser": (1.0, 0.0), "no reconstruction": (0.0, 1.0)}


def train(images: Tensor, epochs: int, reconstruction: float, regulariser: float) -> hm.GaussianVAE:
    """Return a VAE with a latent of two numbers after training on `[N, 1, H, W]`, its terms weighted."""
    torch.manual_seed(0)
    model = hm.GaussianVAE.build(2, images.shape[1:])
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for _ in range(epochs):
        for batch in torch.randperm(len(images)).split(100):
            x = images[batch]
            mean, log_variance = model.encode(x)
            z = hm.gaussian_sample(mean, log_variance)  # [1, B, 2]
            loss = -reconstruction * model.likelihood(x)(z)[0] + regulariser * hm.gaussian_kl(mean, log_variance)
            optimizer.zero_grad()
            loss.mean().backward()
            optimizer.step()
    return model


@torch.no_grad()
def sample_latents(model: hm.GaussianVAE, x: Tensor) -> Tensor:
    """Return one z of q(z | x) for each image, `[N, 2]`."""
    return hm.gaussian_sample(*model.encode(x), generator=torch.Generator().manual_seed(1))[0]


def measure_neighbours(z: Tensor, labels: Tensor) -> float:
    """Return the share of images whose nearest neighbour in the latent space has the same class."""
    nearest = torch.cdist(z, z).fill_diagonal_(torch.inf).argmin(1)
    return (labels[nearest] == labels).double().mean().item()


def draw_figure(path: Path, models: dict[str, hm.GaussianVAE], x: Tensor, labels: Tensor) -> None:
    """Draw the images as points of the latent space, and below them decoded samples of the prior."""
    with use_plot_style("vae-latents"):
        figure = Figure(figsize=(9, 5.8), layout="constrained")
        upper, lower = figure.subplots(2, 3, height_ratios=[1.45, 1])
        for above, below, (name, model) in zip(upper, lower, models.items(), strict=True):
            z = sample_latents(model, x)
            for k, label in enumerate(CLASSES):
                above.scatter(*z[labels == k].T, s=5, color=f"C{k}", linewidth=0, label=label)
            angle = torch.linspace(0, 2 * torch.pi, 100)
            above.plot(2 * angle.cos(), 2 * angle.sin(), color="black", linewidth=1)
            reach = max(3.5, z.abs().quantile(0.995).item())
            above.set(title=name, xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
            images, _ = model.sample(24, generator=torch.Generator().manual_seed(2))
            below.imshow(make_grid(images, columns=6), cmap="gray", vmin=0, vmax=255)
            below.set_axis_off()
        figure.legend(*above.get_legend_handles_labels(), loc="outside lower center", ncols=5, markerscale=3)
        figure.savefig(path, dpi=110)


def main(path: str = "vae_latents.png", epochs: str = "3") -> None:
    images = load_images("sample")
    training, test = binarize(images.train), binarize(images.test)
    labels = images.labels["test"]
    models = {name: train(training, int(epochs), *weights) for name, weights in LOSSES.items()}

    print("on 1,000 test images; nats per image")
    print(f"{'loss':<17}  {'-E log p(x|z)':>13}  {'KL':>8}  {'-log p(x)':>9}  {'same class nearest':>18}")
    for name, model in models.items():
        bounds = model.bounds(test, samples=50, generator=torch.Generator().manual_seed(3))
        print(
            f"{name:<17}  {-bounds.reconstruction.mean():13.1f}  {bounds.kl.mean():8.1f}  "
            f"{-bounds.log_likelihood.mean():9.1f}  {measure_neighbours(sample_latents(model, test), labels):18.1%}"
        )
    draw_figure(Path(path), models, test, labels)
    print(f"\nsee {path}: a point for each test image, a circle with 86 % of the prior, decoded samples of the prior")


if __name__ == "__main__":
    main(*sys.argv[1:])
