"""The Concrete distribution: the distribution of Gumbel-softmax samples, and its density on the simplex.

    x = softmax((h + G) / tau)
    p(x) = (n - 1)! tau^(n-1) prod_k alpha_k x_k^(-tau - 1) / (sum_i alpha_i x_i^-tau)^n,   alpha = exp(h)

For tau = 1, lecture notes print (n - 1)! prod_k softmax(h)_k, which does not depend on x: the program integrates both.

    python examples/concrete_density.py [FIGURE]
"""

import sys
from math import factorial, sqrt
from pathlib import Path

import torch
from matplotlib.figure import Figure
from torch import Tensor

import hardmax as hm
from hardmax.drawing.style import save_figure, use_plot_style

SCORES = torch.tensor([0.8, 0.0, -0.4], dtype=torch.float64)
TAUS = (0.4, 1.0, 2.5)


def log_density(x: Tensor, h: Tensor, tau: float) -> Tensor:
    """Return log p(x): `[..., n] -> [...]`."""
    n = len(h)
    constant = torch.tensor(factorial(n - 1) * tau ** (n - 1), dtype=x.dtype).log()
    parts = h - (tau + 1) * x.log()
    return constant + parts.sum(-1) - n * (h - tau * x.log()).logsumexp(-1)


def printed_density(x: Tensor, h: Tensor) -> Tensor:
    """Return the density that the notes print for tau = 1: a constant."""
    return (factorial(len(h) - 1) * h.softmax(0).prod()).expand(x.shape[:-1])


def make_simplex_grid() -> tuple[Tensor, Tensor]:
    """Return points of the triangle `[M, 3]` and the area of each.

    They are softmax(a, b, 0) on a grid of a and b, dense near the corners; dx = prod(x) da db.
    """
    line = torch.linspace(-40, 40, 801, dtype=torch.float64)
    logits = torch.cartesian_prod(line, line, line.new_zeros(1))
    x = logits.softmax(-1)
    return x, x.prod(-1) * (line[1] - line[0]) ** 2


def draw_figure(path: Path) -> None:
    """Draw the density over the triangle for each temperature, with samples."""
    step = torch.linspace(0, 1, 301, dtype=torch.float64)
    across, up = torch.meshgrid(step, step * sqrt(3) / 2, indexing="xy")
    third = up / (sqrt(3) / 2)
    x = torch.stack([1 - across - third / 2, across - third / 2, third], -1)
    corners = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.5, sqrt(3) / 2]], dtype=torch.float64)
    with use_plot_style("concrete-density"):
        figure = Figure(figsize=(8, 2.6), layout="constrained")
        for axes, tau in zip(figure.subplots(1, 3), TAUS, strict=True):
            height = log_density(x.clamp_min(1e-6), SCORES, tau)
            shades = axes.contourf(across, up, height, levels=torch.arange(-4, 5), cmap="Blues", extend="both")
            (outline,) = axes.fill(*corners.T, fill=False, edgecolor="#444444", linewidth=0.8)
            shades.set_clip_path(outline)
            z = hm.sample(
                SCORES,
                hm.Categorical(3),
                hm.GumbelSoftmax(tau),
                samples=250,
                generator=torch.Generator().manual_seed(0),
            )
            axes.scatter(*(z @ corners).T, s=5, color="#d1495b", linewidth=0)
            for k, (corner, at) in enumerate(zip(corners, ((-14, -3), (4, -3), (-5, 4)), strict=True), 1):
                axes.annotate(f"$x_{k}$", corner, at, textcoords="offset points")
            axes.set_title(f"$\\tau$ = {tau:g}", pad=16)
            axes.set_aspect("equal")
            axes.set_axis_off()
        save_figure(figure, {path.suffix[1:]: path})


def main(path: str = "concrete_density.png") -> None:
    x, area = make_simplex_grid()
    generator = torch.Generator().manual_seed(0)
    print(f"scores {SCORES.tolist()}\n")
    print(f"{'tau':>4}  {'density':<10}  {'integral':>8}  {'mean of x_1':>11}  {'of 400,000 samples':>18}")
    for tau in TAUS:
        samples = hm.sample(
            SCORES, hm.Categorical(3), hm.GumbelSoftmax(tau), samples=400_000, generator=generator
        )  # [400_000, 3]
        mean = samples[:, 0].mean()
        mass = log_density(x, SCORES, tau).exp() * area
        print(f"{tau:4.1f}  {'right':<10}  {mass.sum():8.4f}  {(mass * x[:, 0]).sum():11.4f}  {mean:18.4f}")
        if tau == 1:
            mass = printed_density(x, SCORES) * area
            print(f"{tau:4.1f}  {'as printed':<10}  {mass.sum():8.4f}  {(mass * x[:, 0]).sum():11.4f}  {mean:18.4f}")

    rounded = samples.argmax(-1).bincount(minlength=3) / len(samples)
    print(f"\nrounded to the nearest corner, at any tau: {rounded.numpy().round(3)}")
    print(f"softmax of the scores:                     {SCORES.softmax(0).numpy().round(3)}")
    draw_figure(Path(path))
    print(f"\nsee {path}")


if __name__ == "__main__":
    main(*sys.argv[1:])
