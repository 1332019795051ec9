"""Rows for every estimator over the same estimator written by hand, in one step of training."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

import hardmax as hm
from benchmarks.speed import handwritten
from benchmarks.speed.comparison import Call, Comparison

PIXELS, BATCH = 784, 100
Handwritten = Callable[[Tensor, handwritten.F], Tensor]
CATEGORIES: dict[str, tuple[hm.AbstractEstimator, int, Handwritten]] = {
    "GumbelSoftmax": (hm.GumbelSoftmax(), 1, handwritten.gumbel_softmax),
    "StraightThrough": (hm.StraightThrough(), 1, handwritten.straight_through),
    "ReinMax": (hm.ReinMax(), 1, handwritten.reinmax),
    "GumbelRao, 10 draws": (hm.GumbelRao(10), 1, handwritten.gumbel_rao),
    "Reinforce, leave-one-out, 2 samples": (hm.Reinforce("leave-one-out"), 2, handwritten.leave_one_out),
    "DisArmCategorical": (hm.DisArmCategorical(), 1, handwritten.disarm_categories),
    "Rebar": (hm.Rebar(0.5), 1, handwritten.rebar),
}
SHORTLIST = {"ShortlistDirect, 4 values of 6 variables": (hm.ShortlistDirect(1.0, 4, 6), 1, handwritten.shortlist)}
EXACT = {"Exact": (hm.Exact(), 1, handwritten.exact)}
BITS: dict[str, tuple[hm.AbstractEstimator, int, Handwritten]] = {
    "GumbelSoftmax": (hm.GumbelSoftmax(), 1, handwritten.gumbel_softmax_bits),
    "StraightThrough": (hm.StraightThrough(), 1, handwritten.straight_through_bits),
    "Reinforce, leave-one-out, 2 samples": (hm.Reinforce("leave-one-out"), 2, handwritten.leave_one_out_bits),
    "DisArm": (hm.DisArm(), 1, handwritten.disarm),
}


class Vae:
    """An encoder with one hidden layer, a decoder, images and an optimizer; the loss leaves out the KL."""

    def __init__(self, *shape: int, hidden: int | None = 300) -> None:
        torch.manual_seed(0)
        entries = torch.Size(shape).numel()
        self.shape, self.images = shape, torch.rand(10_000, PIXELS).round()
        self.encoder = nn.Sequential(nn.Linear(PIXELS, 300), nn.ReLU(), nn.Linear(300, entries))
        layers = [nn.Linear(entries, PIXELS)]
        if hidden is not None:
            layers = [nn.Linear(entries, hidden), nn.ReLU(), nn.Linear(hidden, PIXELS)]
        self.decoder = nn.Sequential(*layers)
        self.optimizer = torch.optim.Adam([*self.encoder.parameters(), *self.decoder.parameters()], fused=True)

    def step(self, estimate: Callable[[Tensor, handwritten.F], Tensor]) -> None:
        x = self.images[torch.randint(0, len(self.images), (BATCH,))]

        def f(z: Tensor) -> Tensor:
            logits = self.decoder(z.flatten(2))
            return (x * logits).sum(-1) - nn.functional.softplus(logits).sum(-1)

        self.optimizer.zero_grad()
        (-estimate(self.encoder(x).view(BATCH, *self.shape), f).mean()).backward()
        self.optimizer.step()


class Tokens:
    """64 tokens of 512 values each: f compares the code vectors with targets."""

    def __init__(self, batch: int = 16, n: int = 64, k: int = 512, width: int = 16) -> None:
        torch.manual_seed(0)
        self.scores = torch.randn(batch, n, k, requires_grad=True)
        self.codebook = torch.randn(k, width, requires_grad=True)
        self.target = torch.randn(batch, n, width)

    def step(self, estimate: Callable[[Tensor, handwritten.F], Tensor]) -> None:
        def f(z: Tensor) -> Tensor:
            return -(z @ self.codebook - self.target).square().sum((-1, -2))

        value = estimate(self.scores, f).sum()
        torch.autograd.grad(value, [self.scores, self.codebook])


def make_calls(
    problem: Callable[[], Vae | Tokens],
    space: hm.AbstractSpace,
    estimator: hm.AbstractEstimator,
    samples: int,
    by_hand: Handwritten,
) -> tuple[Call, Call]:
    """Return a step with our estimator and a step with the hand-written one, each with its own parameters."""

    def ours(scores: Tensor, f: handwritten.F) -> Tensor:
        return hm.expectation(f, scores, space, estimator, samples=samples).value

    mine, theirs = problem(), problem()
    return lambda: mine.step(ours), lambda: theirs.step(by_hand)


def list_rows() -> list[Comparison]:
    """Return a row for every estimator at four sizes."""
    sizes = [
        ("k = 10", partial(Vae, 1, 10), hm.Categorical(10, 1), CATEGORIES | EXACT, 1.10, 100),
        ("20 x 10", partial(Vae, 20, 10), hm.Categorical(10, 20), CATEGORIES | SHORTLIST, 1.10, 100),
        ("200 bits", partial(Vae, 200, hidden=None), hm.Binary(200), BITS, 1.15, 100),
        ("64 x 512 tokens, batch 16", Tokens, hm.Categorical(512, 64), CATEGORIES | SHORTLIST, 1.15, 10),
    ]
    return [
        Comparison(
            f"Estimators, {size}",
            name,
            partial(make_calls, problem, space, *pair),
            goal,
            # The networks of a VAE need more memory than the estimator, and theirs depends on when gradients are freed.
            memory_goal=1.3 if problem is Tokens else None,
            rounds=rounds,
        )
        for size, problem, space, estimators, goal, rounds in sizes
        for name, pair in estimators.items()
    ]
