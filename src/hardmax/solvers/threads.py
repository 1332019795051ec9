"""Split a batch over threads, for kernels that run without Python's lock."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch

HANDOVER = 1e-4  # seconds of work that make one more thread worth its start
CHUNKS = 4  # per thread: examples differ in how hard they are

_pool: ThreadPoolExecutor | None = None
_size = 0


def over_batch(solve: Callable[[slice], object], batch: int, seconds: float) -> None:
    """Call `solve` with slices that together make up the batch, in as many threads as torch has and the work is worth.

    Not Numba's own `parallel=True`: its threads end the process when two Python threads, or a forked
    child, use them at the same time. Ours are Python threads, and any number of callers may share them.

    Args:
        solve: solves the examples of a slice and stores what it finds.
        batch: number of examples.
        seconds: what one example takes, roughly.
    """
    threads = min(torch.get_num_threads(), int(batch * seconds / HANDOVER), batch)
    if threads <= 1:
        solve(slice(0, batch))
        return
    step = -(-batch // (CHUNKS * threads))
    chunks = iter([slice(first, first + step) for first in range(0, batch, step)])

    def work() -> None:
        for chunk in chunks:  # taking the next one is a single operation: no two threads get the same
            solve(chunk)

    pool = _threads(threads - 1)
    helpers = [pool.submit(work) for _ in range(threads - 1)]
    work()
    for helper in helpers:
        helper.result()


def _threads(count: int) -> ThreadPoolExecutor:
    global _pool, _size
    if _pool is None or _size < count:
        _pool, _size = ThreadPoolExecutor(count, thread_name_prefix="hardmax"), count
    return _pool


def _forget() -> None:
    global _pool
    _pool = None


os.register_at_fork(after_in_child=_forget)  # a forked child has none of its parent's threads
