"""Gumbel-max: the arg max of scores plus Gumbel noise is a sample of their softmax. The proof, line by line.

Category k wins with the value t if its perturbed score is t and those of all other categories are lower. Each line
rewrites the line before it; C = sum_j exp(h_j):

    1   p(t - h_k) prod_(j != k) F(t - h_j)       p(g) = exp(-g - exp(-g)), F(g) = exp(-exp(-g))
    2   exp(h_k - t - sum_j exp(h_j - t))         exponents add up; the term of k completes the sum
    3   exp(h_k) exp(-t - C exp(-t))              exp(-t) is factored out of the sum
    4   d/dt [exp(h_k) / C exp(-C exp(-t))]       it is a derivative: 0 at -infinity, softmax(h)_k at +infinity

    python examples/gumbel_max.py [FIGURE]
"""

import sys
from pathlib import Path

import torch
from matplotlib.figure import Figure
from torch import Tensor

import hardmax as hm
from hardmax.drawing.style import save_figure, use_plot_style

SCORES = torch.tensor([-0.5, 0.0, 0.5, 1.0], dtype=torch.float64)
T = torch.linspace(-6, 40, 460_001, dtype=torch.float64)


def density(g: Tensor) -> Tensor:
    """Return p(g) of the standard Gumbel distribution."""
    return (-g - (-g).exp()).exp()


def distribution(g: Tensor) -> Tensor:
    """Return P(G <= g)."""
    return (-(-g).exp()).exp()


def proof_lines(h: Tensor, k: int, t: Tensor = T) -> list[Tensor]:
    """Return the four lines above, each at every t: `[K] -> 4 x [T]`."""
    others = [j for j in range(len(h)) if j != k]
    c = h.exp().sum()
    t = t.clone().requires_grad_()
    antiderivative = h[k].exp() / c * (-c * (-t).exp()).exp()
    (derivative,) = torch.autograd.grad(antiderivative.sum(), t)
    t = t.detach()
    return [
        density(t - h[k]) * torch.stack([distribution(t - h[j]) for j in others]).prod(0),
        (h[k] - t - (h[:, None] - t).exp().sum(0)).exp(),
        h[k].exp() * (-t - c * (-t).exp()).exp(),
        derivative,
    ]


def draw_figure(path: Path) -> None:
    """Draw the densities of the perturbed scores, and of their maximum, whose parts have the areas softmax(h)."""
    t, h = torch.linspace(-3, 7, 101, dtype=torch.float64), SCORES
    with use_plot_style("gumbel-max"):
        figure = Figure(figsize=(8, 3), layout="constrained")
        left, right = figure.subplots(1, 2, sharex=True)
        floor = torch.zeros_like(t)
        for k, share in enumerate(h.softmax(0)):
            left.plot(t, density(t - h[k]), color=f"C{k}", label=f"score {h[k]:g}")
            top = floor + proof_lines(h, k, t)[0]
            right.fill_between(t, floor, top, color=f"C{k}", alpha=0.75, linewidth=0, label=f"{share:.1%}")
            floor = top
        right.plot(t, density(t - h.logsumexp(0)), color="#222222", linewidth=1.2)
        left.set(title="each score plus its own Gumbel noise", xlabel="value", ylabel="density", ylim=(0, 0.42))
        right.set(title="the largest, by its category", xlabel="value t", ylim=(0, 0.42))
        left.legend(reverse=True)
        right.legend(title="area", reverse=True)
        save_figure(figure, {path.suffix[1:]: path})


def main(path: str = "gumbel_max.svg") -> None:
    k, share = 1, SCORES.softmax(0)
    print(f"scores {SCORES.tolist()}; category {k} has softmax {share[k]:.6f}\n")
    print(f"{'line':>4}  {'largest change':>14}  {'integral':>9}")
    lines = proof_lines(SCORES, k)
    for number, (line, before) in enumerate(zip(lines, [lines[0], *lines], strict=False), 1):
        print(f"{number:4d}  {(line - before).abs().max():14.1e}  {torch.trapezoid(line, T):9.6f}")

    space, draws = hm.Categorical(len(SCORES)), 1_000_000
    noise = space.noise((draws,), torch.Generator().manual_seed(0), dtype=torch.float64)  # one for each category
    frequencies = space.argmax(SCORES + noise).mean(0)
    errors = (share * (1 - share) / draws).sqrt()
    print(f"\n{draws:,} arg maxes of score plus noise\n{'category':>8}  {'softmax':>8}  {'frequency':>9}  {'z':>5}")
    for j in range(len(SCORES)):
        print(f"{j:8d}  {share[j]:8.5f}  {frequencies[j]:9.5f}  {(frequencies[j] - share[j]) / errors[j]:5.1f}")
    shared = space.argmax(SCORES + noise[:, :1]).mean(0)
    print(f"one noise for all categories instead: {shared.tolist()}, always the same one")
    draw_figure(Path(path))
    print(f"\nsee {path}")


if __name__ == "__main__":
    main(*sys.argv[1:])
