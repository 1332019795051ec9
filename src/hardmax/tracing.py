"""How code runs: normally, traced by torch.compile or torch.func, or compiled by Numba."""

import sys
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor


def can_read_values() -> bool:
    """Return whether code may read the values of a tensor: not while compiling, nor under vmap or grad."""
    return not torch.compiler.is_compiling() and not is_transformed()


def is_transformed() -> bool:
    """Return whether a `torch.func` transform is running (torch has no public function for this)."""
    return torch._C._functorch.maybe_current_level() is not None  # pyright: ignore[reportAttributeAccessIssue]


def is_eager(tensor: Tensor) -> bool:
    """Return whether a tensor holds concrete values: an ordinary tensor, and `can_read_values`."""
    return type(tensor) in (Tensor, torch.nn.Parameter) and can_read_values()


def can_use_numpy(tensor: Tensor) -> bool:
    """Return whether NumPy can take a tensor: concrete, float32 or float64 on the CPU."""
    return is_eager(tensor) and tensor.is_cpu and tensor.dtype in (torch.float32, torch.float64)


def can_run_compiled(tensor: Tensor) -> bool:
    """Return whether code compiled by Numba can take a tensor: one that NumPy can take; with Numba."""
    return can_use_numpy(tensor) and has_numba()


def has_numba() -> bool:
    """Return whether Numba can be imported."""
    return sys.modules["numba"] is not None if "numba" in sys.modules else _is_installed("numba")


@cache
def _is_installed(name: str) -> bool:  # the search takes 0.1 ms
    return find_spec(name) is not None
