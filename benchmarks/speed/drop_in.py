"""Rows for `hm.sample` in the place of functions of PyTorch."""

import torch
from torch.nn.functional import gumbel_softmax

import hardmax as hm
from benchmarks.speed.comparison import Call, Comparison

GROUP = "hm.sample with GumbelSoftmax, over torch.nn.functional.gumbel_softmax"
GOALS = {(32, 10): 1.1, (512, 64): 1.0, (4096, 512): 1.0}


def make_calls(rows: int, k: int, *, hard: bool) -> tuple[Call, Call]:
    """Return both functions, forward and backward."""
    scores, weights = torch.randn(rows, k, requires_grad=True), torch.randn(rows, k)
    space, estimator = hm.Categorical(k), hm.GumbelSoftmax(hard=hard)

    def ours() -> None:
        torch.autograd.grad(hm.sample(scores, space, estimator), scores, weights)

    def theirs() -> None:
        torch.autograd.grad(gumbel_softmax(scores, hard=hard), scores, weights)

    return ours, theirs


def list_rows() -> list[Comparison]:
    """Return the rows, relaxed and hard."""
    return [
        Comparison(
            GROUP,
            f"{rows:,} x {k}{', hard' if hard else ''}",
            lambda rows=rows, k=k, hard=hard: make_calls(rows, k, hard=hard),
            goal,
            memory_goal=1.3,
            rounds=20 if rows > 1000 else 300,
        )
        for hard in (False, True)
        for (rows, k), goal in GOALS.items()
    ]
