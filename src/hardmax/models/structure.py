"""Check that a saved configuration describes the weights that are stored with it, before memory is allocated for it.

A configuration of a few bytes can describe a network of any size. The weights cannot: they take their space in the
file. So the network is built without memory first (on torch's device `meta`), and compared with them.
"""

import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from math import prod
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_parameter_registration_hook,
)

from hardmax.errors import DataError
from hardmax.json_files import check_finite

# Accepted for weights of any size: convolutions work on images of any shape, and a recurrent network at any length.
_MIN_NUMBER = 2**16
_MIN_PIXELS = 2**24
_SPARE = 100  # tensors that a network may create and not store, in addition to as many as it stores

Network = TypeVar("Network", bound=nn.Module)


def build_checked(
    build: Callable[[dict[str, Any]], Network],
    config: dict[str, Any],
    tensors: Mapping[str, Tensor],
    source: str,
    what: str,
) -> Network:
    """Build the network that a configuration describes, if it has the names and shapes of the stored tensors.

    Args:
        build: builds the network, with initial weights; called twice.
        config: the configuration.
        tensors: the stored weights.
        source: the folder, for error messages.
        what: the expected network, for error messages, such as "a discrete-vae".

    Raises:
        DataError: the configuration is not that of such a network, or describes one that has other weights.
    """
    try:
        check_numbers(config, tensors)
        with torch.random.fork_rng(devices=[]):  # building draws initial weights: keep the global generator
            with torch.device("meta"), _limit_tensors(2 * len(tensors) + _SPARE), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torch's, for layers of width 0, which do not fit the weights
                expected = build(config).state_dict()
            if (difference := find_difference(tensors, expected)) is not None:
                raise DataError(f"the weights in {source} do not fit the model: {difference}")
            return build(config)
    except DataError:
        raise
    except (ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError, ValueError) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise DataError(f"{source} does not hold the configuration of {what}: {reason}") from error


def check_numbers(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Check that a configuration has no number that its weights cannot account for, such as 100,000,000 layers.

    Raises:
        ValueError: a number is not finite, or it or the product of a shape is above the number of weights.
    """
    check_finite(dict(config), "the configuration")
    weights = sum(tensor.numel() for tensor in tensors.values())

    def check(name: str, value: object) -> None:
        if isinstance(value, Mapping):
            for key, part in value.items():
                check(key, part)
        elif isinstance(value, list):
            for part in value:
                check(name, part)
            if name == "shape" and abs(prod(value)) > max(_MIN_PIXELS, weights):
                raise ValueError(f"{name} is {str(value)[:80]}, too large for {weights:,} weights")
        elif isinstance(value, int | float) and abs(value) > max(_MIN_NUMBER, weights):
            raise ValueError(f"{name} is {str(value)[:40]}, too large for {weights:,} weights")

    check("the configuration", config)


def find_difference(tensors: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> str | None:
    """Return a phrase about the first difference of names, shapes or kinds of numbers; None if there is none.

    Floating-point numbers of any precision are of one kind.

    Example:
        >>> find_difference({"bias": torch.zeros(3)}, {"bias": torch.zeros(2)})
        "'bias' is floating [3], expected floating [2]"
    """
    for name in chain(expected, tensors):
        texts = [_describe(some.get(name)) for some in (tensors, expected)]
        if texts[0] != texts[1]:
            return f"{name[:80]!r} is {texts[0]}, expected {texts[1]}"
    return None


def _describe(tensor: Tensor | None) -> str:
    if tensor is None:
        return "missing"
    kind = "floating" if tensor.is_floating_point() else str(tensor.dtype).removeprefix("torch.")
    return f"{kind} {list(tensor.shape)}"


@contextmanager
def _limit_tensors(most: int) -> Iterator[None]:
    """Raise `DataError` in this thread once more parameters and buffers than `most` have been added to modules."""
    thread, count = threading.get_ident(), 0

    def count_tensor(module: nn.Module, name: str, tensor: Tensor | None) -> None:
        nonlocal count
        if tensor is not None and threading.get_ident() == thread:
            count += 1
            if count > most:
                raise DataError(f"the configuration describes more than {most} tensors, far more than are stored")

    hooks = [
        register(count_tensor)
        for register in (register_module_parameter_registration_hook, register_module_buffer_registration_hook)
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
