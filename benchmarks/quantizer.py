"""Time of a training step of Quantizer, relative to VectorQuantize of vector-quantize-pytorch.

A step is the forward and backward pass of the layer in training, with all it does to its codebook: the nearest codes of
4,096 vectors, their loss, a gradient for the vectors, running means, counts, and in ours the search for rarely used
codes too. Both libraries run in one process, interleaved, with equal options, after a check that they agree: from equal
codes, equal vectors and gradients. Times are of the processor. To install the other library where torch is:
`pip install vector-quantize-pytorch`.
"""

from collections.abc import Callable
from importlib.util import find_spec
from time import process_time
from typing import Any

import torch
from torch import Tensor, nn

import hardmax as hm
from benchmarks.timing import measure_medians

VECTORS = 4_096
SIZES = ((32, 64), (64, 512), (32, 1024), (256, 1024))  # size of a vector, number of codes
LIMIT = 1.0  # of the other library

OURS: dict[str, dict[str, Any]] = {
    "nearest, running means": {},
    "rotate, running means": {"estimator": "rotate", "learning": "average"},
    "nearest, gradient": {"learning": "gradient"},
    "SimVQ, rotate": {"estimator": "rotate", "learning": "linear"},
    "ReinMax": {"estimator": hm.ReinMax()},
}


def make_step(layer: nn.Module, x: Tensor, unpack: Callable[[Any], tuple[Tensor, Tensor]]) -> Callable[[], None]:
    """Return a function that makes one step of training of a layer, for the vectors and a mean of its output."""

    def step() -> None:
        x.grad = None
        quantized, loss = unpack(layer(x))
        (quantized.square().mean() + loss).backward()

    return step


def make_peers(dim: int, codes: int) -> dict[str, nn.Module]:
    """Return the layers of the other library by the name of ours; empty if it is not installed."""
    if find_spec("vector_quantize_pytorch") is None:
        return {}
    from vector_quantize_pytorch import SimVQ, VectorQuantize  # pyright: ignore[reportMissingImports]

    options: dict[str, Any] = {"codebook_size": codes, "decay": 0.99, "commitment_weight": 0.25}
    learned = {"learnable_codebook": True, "ema_update": False}
    return {
        "nearest, running means": VectorQuantize(dim, rotation_trick=False, **options),
        "rotate, running means": VectorQuantize(dim, rotation_trick=True, **options),
        "nearest, gradient": VectorQuantize(dim, rotation_trick=False, **options, **learned),
        "SimVQ, rotate": SimVQ(dim, codes, rotation_trick=True),
    }


def check_agreement(ours: hm.nn.Quantizer, peer: Any, x: Tensor) -> None:
    """Raise an error unless both layers, given the same codes, return the same vectors and gradients."""
    with torch.no_grad():
        peer._codebook.embed.copy_(ours.codebooks[0].vectors[None])
    ours.placed.fill_(ours.codes)
    results = []
    for layer in (ours, peer):
        leaf = x.detach().clone()[None].requires_grad_()
        out = layer(leaf)
        quantized = out[0] if layer is peer else out.quantized
        (quantized * leaf.detach().flip(-1)).sum().backward()
        results.append((quantized.detach(), leaf.grad))
    for left, right in zip(*results, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-4, atol=1e-5)


def main() -> bool:
    """Print a table for each size; return whether each of ours that has a counterpart is within the limit."""
    if find_spec("vector_quantize_pytorch") is None:
        print("vector-quantize-pytorch is not installed: only our times (pip install vector-quantize-pytorch)")
    is_within = True
    for dim, codes in SIZES:
        torch.manual_seed(0)
        x = torch.randn(VECTORS, dim, requires_grad=True)
        ours = {name: hm.nn.Quantizer(dim, codes, **options) for name, options in OURS.items()}
        peers = make_peers(dim, codes)
        for name, layer in peers.items():
            if not name.startswith("SimVQ"):
                check_agreement(hm.nn.Quantizer(dim, codes, **OURS[name]), layer, x)
        steps = {name: make_step(layer, x, lambda out: (out.quantized, out.loss)) for name, layer in ours.items()}
        for name, layer in peers.items():
            steps[f"{name}, peer"] = make_step(layer, x[None].detach().requires_grad_(), lambda out: (out[0], out[2]))
        seconds = measure_medians(steps, rounds=40, warm_up=5, clock=process_time)
        print(f"{VECTORS:,} vectors of size {dim}, {codes:,} codes")
        for name in OURS:
            line = f"  {name:<24}{1e3 * seconds[name]:9.2f} ms"
            if name in peers:
                ratio = seconds[name] / seconds[f"{name}, peer"]
                is_within &= ratio <= LIMIT
                line += f"{1e3 * seconds[f'{name}, peer']:9.2f} ms theirs, ratio {ratio:.2f} (limit {LIMIT:.2f})"
            print(line)
    return is_within
