"""`hm.nn.Linear`, forward and backward, compared with `nn.Linear`, for the layers of the networks in our tables."""

from collections.abc import Callable
from time import process_time

import torch
from torch import Tensor, nn

import hardmax as hm
from benchmarks.timing import measure_medians

SIZES = ((100, 10, 10), (100, 100, 100), (100, 200, 200), (100, 784, 300), (100, 784, 512), (1000, 300, 784))
LIMIT = 1.1  # where nn.Linear is as fast, our choice between the two costs little


def make_step(layer: nn.Module, x: Tensor) -> Callable[[], None]:
    def step() -> None:
        layer(x).sum().backward()

    return step


def main() -> bool:
    """Print a table; return whether no layer is slower than the limit."""
    is_within = True
    for rows, inputs, outputs in SIZES:
        x = torch.randn(rows, inputs, requires_grad=True)
        steps = {"ours": make_step(hm.nn.Linear(inputs, outputs), x), "torch": make_step(nn.Linear(inputs, outputs), x)}
        seconds = measure_medians(steps, clock=process_time)
        ratio = seconds["ours"] / seconds["torch"]
        is_within &= ratio <= LIMIT
        times = "  ".join(f"{name} {1e6 * value:8.1f} us" for name, value in seconds.items())
        print(f"{rows:>6} x {inputs:>4} -> {outputs:>4}  {times}  ratio {ratio:.2f} (limit {LIMIT:.2f})")
    return is_within
