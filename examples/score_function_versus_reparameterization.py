"""Two estimators of the same gradient: the score function and reparameterization.

Minimise E[z^2] for z ~ N(a theta + b, 1); the best theta is -b / a. With m = a theta + b, one sample gives the gradient

    score function       z^2 a (z - m)    mean 2 a m, variance a^2 (m^4 + 14 m^2 + 15)
    reparameterization   2 a z            mean 2 a m, variance 4 a^2

Reparameterization uses the slope of z^2, the score function only its value, so its variance is larger.

    python examples/score_function_versus_reparameterization.py [FIGURE]
"""

import sys
from pathlib import Path

import torch
from matplotlib.figure import Figure
from torch import Tensor

import hardmax as hm
from hardmax.drawing.style import save_figure, use_plot_style

A, B = 2.0, 3.0


def score_function(theta: Tensor, generator: torch.Generator) -> Tensor:
    """Return for each theta z^2, whose gradient for theta is z^2 grad log N(z; a theta + b, 1)."""
    mean = A * theta + B
    z = hm.gaussian_sample(mean[:, None], torch.zeros_like(mean)[:, None], generator=generator)[0, :, 0].detach()
    log_probability = -(z - mean).square() / 2
    surrogate = z.square() * log_probability
    return z.square() + (surrogate - surrogate.detach())


def reparameterization(theta: Tensor, generator: torch.Generator) -> Tensor:
    """Return for each theta z^2, whose gradient for theta goes through z = a theta + b + noise."""
    mean = A * theta + B
    z = hm.gaussian_sample(mean[:, None], torch.zeros_like(mean)[:, None], generator=generator)[0, :, 0]
    return z.square()


def gradients(method, theta: float, draws: int, generator: torch.Generator) -> Tensor:
    """Return independent gradients `[draws]`, each from one sample."""
    copies = torch.full((draws,), theta, dtype=torch.float64, requires_grad=True)
    return torch.autograd.grad(method(copies, generator).sum(), copies)[0]


def variance(method, m: float) -> float:
    """Return the variance in closed form."""
    return A**2 * (m**4 + 14 * m**2 + 15) if method is score_function else 4 * A**2


def draw_figure(path: Path) -> None:
    """Draw the gradients of single samples, and their variance by theta: closed forms as lines, measured as dots."""
    generator = torch.Generator().manual_seed(0)
    with use_plot_style("two-gradients"):
        figure = Figure(figsize=(8, 3), layout="constrained")
        left, right = figure.subplots(1, 2)
        for i, method in enumerate((score_function, reparameterization)):
            name = method.__name__.replace("_", " ")
            samples = gradients(method, -1.0, 100_000, generator).numpy()
            left.hist(samples, bins=120, range=(-25, 35), density=True, color=f"C{i}", alpha=0.6, label=name)
            thetas = torch.linspace(-3, 1, 81)
            right.plot(thetas, [variance(method, A * theta + B) for theta in thetas.tolist()], color=f"C{i}")
            for theta in thetas[::10].tolist():
                right.plot(theta, gradients(method, theta, 100_000, generator).var(), "o", color=f"C{i}", markersize=4)
        left.axvline(2 * A * (B - A), color="#444444", linewidth=1)
        left.set(title=r"gradients of one sample, $\theta$ = -1", xlabel="gradient", yticks=[], ylim=(0, 0.2))
        left.legend()
        right.set(title="their variance", xlabel=r"$\theta$", yscale="log")
        save_figure(figure, {path.suffix[1:]: path})


def main(path: str = "two_gradients.svg") -> None:
    generator = torch.Generator().manual_seed(0)
    print(f"minimise E[z^2], z ~ N({A:g} theta + {B:g}, 1)\n")
    print(f"{'theta':>6}  {'method':<18}  {'mean':>8}  {'exact':>8}  {'variance':>9}  {'exact':>9}")
    for theta in (-2.0, -1.5, 0.0, 1.0):
        m = A * theta + B
        for method in (score_function, reparameterization):
            samples = gradients(method, theta, 400_000, generator)
            print(
                f"{theta:6.1f}  {method.__name__:<18}  {samples.mean():8.3f}  {2 * A * m:8.3f}  "
                f"{samples.var():9.2f}  {variance(method, m):9.2f}"
            )

    print(f"\ngradient descent, each step 0.01 times the mean gradient of 50 samples; the best theta is {-B / A:g}")
    print(f"{'step':>6}  {'score_function':>18}  {'reparameterization':>18}")
    thetas = [1.0, 1.0]
    for step in range(201):
        if step % 50 == 0:
            print(f"{step:6d}  {thetas[0]:18.3f}  {thetas[1]:18.3f}")
        for i, method in enumerate((score_function, reparameterization)):
            thetas[i] -= 0.01 * gradients(method, thetas[i], 50, generator).mean().item()
    draw_figure(Path(path))
    print(f"\nsee {path}")


if __name__ == "__main__":
    main(*sys.argv[1:])
