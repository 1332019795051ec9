"""Rows for `hm.gumbel_softmax` and `hm.sample` in the place of PyTorch's function."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import gumbel_softmax

import hardmax as hm
from benchmarks.speed.comparison import Call, Comparison

FUNCTION = "hm.gumbel_softmax, over torch.nn.functional.gumbel_softmax"
SAMPLE = "hm.sample with GumbelSoftmax, over torch.nn.functional.gumbel_softmax"
FUNCTION_SIZES = [(32, 10), (16 * 32, 32), (512, 64), (4096, 512)]  # the second: the latents of a world model
SAMPLE_GOALS = {(32, 10): 1.1, (512, 64): 1.0, (4096, 512): 1.0}


def make_calls(function: Callable[[Tensor], Tensor], rows: int, k: int, **options: object) -> tuple[Call, Call]:
    """Return our function and torch's, forward and backward."""
    scores, weights = torch.randn(rows, k, requires_grad=True), torch.randn(rows, k)

    def ours() -> None:
        torch.autograd.grad(function(scores), scores, weights)

    def theirs() -> None:
        torch.autograd.grad(gumbel_softmax(scores, **options), scores, weights)

    return ours, theirs


def make_function_calls(rows: int, k: int, *, hard: bool) -> tuple[Call, Call]:
    """Return the calls of `hm.gumbel_softmax`, with a temperature."""
    return make_calls(lambda x: hm.gumbel_softmax(x, 0.5, hard), rows, k, tau=0.5, hard=hard)


def make_sample_calls(rows: int, k: int, *, hard: bool) -> tuple[Call, Call]:
    """Return the calls of `hm.sample`."""
    space, estimator = hm.Categorical(k), hm.GumbelSoftmax(hard=hard)
    return make_calls(lambda x: hm.sample(x, space, estimator), rows, k, hard=hard)


def list_rows() -> list[Comparison]:
    """Return the rows, relaxed and hard."""
    tables = [
        (FUNCTION, make_function_calls, dict.fromkeys(FUNCTION_SIZES, 1.0)),
        (SAMPLE, make_sample_calls, SAMPLE_GOALS),
    ]
    return [
        Comparison(
            group,
            f"{rows:,} x {k}{', hard' if hard else ''}",
            lambda make=make, rows=rows, k=k, hard=hard: make(rows, k, hard=hard),
            goal,
            memory_goal=1.3,
            rounds=20 if rows > 1000 else 300,
        )
        for group, make, goals in tables
        for hard in (False, True)
        for (rows, k), goal in goals.items()
    ]
