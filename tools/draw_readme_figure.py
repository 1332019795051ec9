"""Draw the figure of README.md: ``draw_readme_figure.py [docs/images/gradients.png]``.

Left, the choice that the model of the README's first example learns. Right, many estimates of one gradient by several
estimators, each with nine evaluations of f, and the exact gradient.
"""

import sys
from pathlib import Path

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

import hardmax as hm
from hardmax.drawing.style import use_plot_style

ESTIMATES, SHOWN = 20_000, 400
BUDGET = 9  # evaluations of f per estimate
# Name, estimator and number of samples, so that each estimate takes nine evaluations of f.
ESTIMATORS: tuple[tuple[str, hm.AbstractEstimator, int], ...] = (
    ("UnorderedSet()", hm.UnorderedSet(), 9),
    ("LocalExpectation()", hm.LocalExpectation(), 1),
    ("Reinforce(leave-one-out)", hm.Reinforce(baseline="leave-one-out"), 9),
    ("AveragedDirect(epsilon=0.2)", hm.AveragedDirect(epsilon=0.2), 1),
    ("GumbelSoftmax(tau=1)", hm.GumbelSoftmax(tau=1.0), 9),
    ("StraightThrough()", hm.StraightThrough(), 9),
)


def learn_clouds(x: Tensor) -> tuple[Tensor, Tensor]:
    """Train the README's first example; return the category of each point and the decoder's output of each category."""
    encoder, decoder, space = torch.nn.Linear(2, 10), torch.nn.Linear(10, 2), hm.Categorical(10)
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=0.05)
    for _ in range(300):
        out = hm.expectation(lambda z: -(decoder(z) - x).square().sum(-1), encoder(x), space, hm.Direct(epsilon=2.0))
        optimizer.zero_grad()
        (-out.value.mean()).backward()
        optimizer.step()
    with torch.no_grad():
        return encoder(x).argmax(-1), decoder(torch.eye(10))


def estimate_gradients(estimator: hm.AbstractEstimator, samples: int, copies: int) -> Tensor:
    """Return estimates `[copies, 4, 3]` of the gradient for the scores of four variables with three values."""
    generator = torch.Generator().manual_seed(5)
    space = hm.Categorical(3, 4)
    scores, hidden, last = (torch.randn(*shape, generator=generator) for shape in ((4, 3), (12, 30), (30,)))
    scores = scores.expand(copies, 4, 3).clone().requires_grad_()
    out = hm.expectation(
        lambda z: torch.tanh(z.flatten(-2) @ hidden) @ last,
        scores, space, estimator, samples=samples, generator=generator,
    )  # fmt: skip
    assert copies == 1 or out.evaluations == BUDGET
    out.value.sum().backward()
    assert scores.grad is not None
    return scores.grad


def draw_clouds(axes: Axes, x: Tensor) -> None:
    """Show the points coloured by the category that the encoder chooses, and the decoder's output of each category."""
    categories, centres = learn_clouds(x)
    axes.scatter(*x.T, c=categories, cmap="tab10", vmin=0, vmax=9, s=8, linewidths=0)
    axes.scatter(*centres[categories.unique()].T, c="black", marker="x", s=45, linewidths=1.6)
    axes.set_title("a network chooses one of ten\ncategories for every point", fontsize=10)
    axes.set_aspect("equal")
    axes.axis("off")


def draw_estimates(axes: Axes, name: str, estimates: Tensor, exact: Tensor) -> None:
    """Show two components of the estimates, their mean, and the exact gradient."""
    bias = float((estimates.mean(0) - exact).norm() / exact.norm())
    deviation = float((estimates - estimates.mean(0)).square().sum((1, 2)).mean().sqrt() / exact.norm())
    first, second = estimates[:, 0, 0], estimates[:, 1, 0]
    axes.scatter(first[:SHOWN], second[:SHOWN], s=4, color="#8fb8de", linewidths=0)
    axes.plot(*exact[:2, 0], "+", color="#222222", markersize=13, markeredgewidth=1.6)
    axes.plot(first.mean(), second.mean(), "o", color="#d1495b", markersize=4.5)
    axes.set_title(name, fontsize=8.5, family="monospace")
    unbiased = bias < 4 * deviation / ESTIMATES**0.5  # within the noise of the mean
    axes.set_xlabel(f"bias {'0' if unbiased else f'{bias:.2f}'}, std {deviation:.2f}", fontsize=9)
    x, y = exact[:2, 0].tolist()
    axes.set(xticks=[], yticks=[], xlim=(x - 1, x + 1), ylim=(y - 1, y + 1))


def main(path: str = "docs/images/gradients.png") -> None:
    """Compute the estimates and write the figure."""
    torch.set_num_threads(1)
    torch.manual_seed(3)
    x = torch.randn(256, 2) / 2 + 3 * torch.randint(-1, 2, (256, 2))
    exact = estimate_gradients(hm.Exact(), 1, 1)[0]
    with use_plot_style("gradients"):
        figure = Figure(figsize=(9, 3.9), layout="constrained")
        panels = figure.add_gridspec(1, 2, width_ratios=(1, 1.9))
        left, right = (figure.add_subfigure(panels[0, column]) for column in range(2))
        draw_clouds(left.subplots(), x)
        title = "one gradient: estimates from nine evaluations of f (blue), their mean (red), exact (+)"
        right.suptitle(title, fontsize=10)
        for axes, (name, estimator, samples) in zip(right.subplots(2, 3).flat, ESTIMATORS, strict=True):
            draw_estimates(axes, name, estimate_gradients(estimator, samples, ESTIMATES), exact)
        figure.savefig(Path(path), dpi=160)


if __name__ == "__main__":
    main(*sys.argv[1:])
