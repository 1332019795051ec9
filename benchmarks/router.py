"""Overhead of TopKRouter over a router by hand, as part of the time of a small mixture-of-experts layer.

One training step of the layer, forward and backward, with 512 tokens of size 128 and 8 experts with 256 hidden units,
of which each token uses 2. The layer by hand has a linear map, a softmax, topk, and a loop over the experts; it has no
checks, no load statistics and no gradient of the choice. Times are of the processor: steps of many milliseconds are
interrupted by other processes.
"""

from collections.abc import Callable
from time import process_time

import torch
from torch import Tensor, nn

import hardmax as hm
from benchmarks.timing import measure_medians

TOKENS, DIM, HIDDEN, EXPERTS, K = 512, 128, 256, 8, 2
LIMIT = 0.1  # of the layer by hand

ROUTERS = {
    "softmax": {},
    "softmax, balance loss": {"balance": "loss"},
    "softmax, balance bias": {"balance": "bias"},
    "softmax, noise": {"noise": 1.0},
    "score-function": {"estimator": "score-function"},
    "dense": {"estimator": "dense"},
    "StraightThrough": {"estimator": hm.StraightThrough()},
    "ReinMax": {"estimator": hm.ReinMax()},
    "GumbelSoftmax, hard": {"estimator": hm.GumbelSoftmax(hard=True)},
    "ImplicitMLE": {"estimator": hm.ImplicitMLE(step=TOKENS)},
}


def make_step(layer: Callable[[Tensor], Tensor], x: Tensor) -> Callable[[], None]:
    """Return a function that makes one step of training."""
    return lambda: layer(x).square().mean().backward()


def main() -> bool:
    """Print a table; return whether the overhead of the default router is within the limit."""
    torch.manual_seed(0)
    x = torch.randn(TOKENS, DIM, requires_grad=True)
    linear = nn.Linear(DIM, EXPERTS, bias=False)
    experts = [nn.Sequential(nn.Linear(DIM, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, DIM)) for _ in range(EXPERTS)]

    def route_by_hand(x: Tensor) -> tuple[Tensor, Tensor]:
        weights, indices = linear(x).softmax(-1).topk(K)
        return weights, indices

    def mix_by_hand(x: Tensor) -> Tensor:
        weights, indices = route_by_hand(x)
        y = torch.zeros_like(x)
        for number, expert in enumerate(experts):
            rows, column = (indices == number).nonzero(as_tuple=True)
            y = y.index_add(0, rows, expert(x[rows]) * weights[rows, column, None])
        return y

    routers = {name: hm.nn.TopKRouter(DIM, EXPERTS, K, **options) for name, options in ROUTERS.items()}
    steps = {"by hand": make_step(mix_by_hand, x)}
    steps |= {"router by hand": make_step(lambda x: route_by_hand(x)[0], x)}
    for name, router in routers.items():
        router.load_state_dict({"linear.weight": linear.weight}, strict=False)
        steps[name] = make_step(lambda x, router=router: hm.nn.mix_experts(experts, x, router(x)), x)
        steps[f"{name}, alone"] = make_step(lambda x, router=router: router(x).weights, x)
    assert torch.allclose(mix_by_hand(x), hm.nn.mix_experts(experts, x, routers["softmax"](x)), atol=1e-6)
    seconds = measure_medians(steps, rounds=60, warm_up=5, clock=process_time)

    hand, router_by_hand = seconds["by hand"], seconds["router by hand"]
    print(f"layer by hand {1e3 * hand:.2f} ms, of which its router {1e3 * router_by_hand:.2f} ms (limit {LIMIT:.0%})")
    print(f"{'router':<24}{'layer ms':>10}{'over the layer':>16}{'router ms':>11}{'over, of layer':>16}")
    for name in ROUTERS:
        layer, alone = seconds[name], seconds[f"{name}, alone"]
        over = (layer / hand - 1, (alone - router_by_hand) / hand)
        print(f"{name:<24}{1e3 * layer:10.2f}{over[0]:16.1%}{1e3 * alone:11.2f}{over[1]:16.1%}")
    alone = seconds["softmax, alone"] - router_by_hand
    return max(seconds["softmax"] - hand, alone) <= LIMIT * hand
