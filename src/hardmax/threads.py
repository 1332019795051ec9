"""Limit the number of threads that torch uses."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def use_one_thread() -> Iterator[None]:
    """Run torch with one thread, and restore the previous number on exit.

    For many small operations more threads are slower, and much slower on a busy machine, because each thread waits for
    all the rest at the end of every operation. With one thread the result is also the same on every machine, to the
    last bit.

    Example:
        >>> import torch
        >>> with use_one_thread():
        ...     torch.get_num_threads()
        1
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
