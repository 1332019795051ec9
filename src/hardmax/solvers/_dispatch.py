"""Choose between compiled code, which needs Numba and values on the CPU, and torch code, which always works."""

import sys
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor

from hardmax.tracing import can_read_values


def is_eager(tensor: Tensor) -> bool:
    """Return whether a tensor holds concrete values: not while compiling, nor under `torch.func`."""
    return type(tensor) in (Tensor, torch.nn.Parameter) and can_read_values()


def has_numba() -> bool:
    """Return whether Numba can be imported."""
    return sys.modules["numba"] is not None if "numba" in sys.modules else _is_installed("numba")


@cache
def _is_installed(name: str) -> bool:  # the search takes 0.1 ms
    return find_spec(name) is not None


def can_run_compiled(tensor: Tensor) -> bool:
    """Return whether compiled code can take a tensor: float32 or float64 on the CPU, and Numba exists."""
    return (
        is_eager(tensor)
        and tensor.device.type == "cpu"
        and tensor.dtype in (torch.float32, torch.float64)
        and has_numba()
    )
