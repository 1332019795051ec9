"""Whether code runs normally, or is traced by torch.compile or torch.func, where values of tensors cannot be read."""

import torch


def can_read_values() -> bool:
    """Return whether code may read the values of a tensor: not while compiling, nor under vmap or grad."""
    return not torch.compiler.is_compiling() and not is_transformed()


def is_transformed() -> bool:
    """Return whether a `torch.func` transform is running (torch has no public function for this)."""
    return torch._C._functorch.maybe_current_level() is not None  # pyright: ignore[reportAttributeAccessIssue]
