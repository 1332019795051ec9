"""Compile solvers by Numba with a cache on disk, and run them on batches split over threads."""

import logging
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from inspect import unwrap
from typing import Any

import torch

from hardmax.errors import MissingExtraError

try:
    import numba
    from numba.extending import intrinsic as numba_intrinsic
except ImportError as error:
    raise MissingExtraError(
        "this solver is compiled by Numba, which is not installed; pip install 'hardmax[solvers]', "
        "or use solver='auto', which does not need it (slower, and only for fewer bits)"
    ) from error

logger = logging.getLogger(__name__)
logger.info(
    "solvers are compiled on their first call, which takes some seconds; later processes load them from a cache"
)


def compile_solver(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function on its first call, or load it from the cache of an earlier process.

    No `fastmath`: it may reorder sums and assume that there is no NaN, and then equality tests fail. `nogil`
    lets several Python threads run kernels at once (see `solve_in_threads`).
    """
    function = unwrap(function)  # type checkers wrap functions, which Numba cannot compile
    options = {"nogil": True, "boundscheck": False, "error_model": "numpy"}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # neither the package's folder nor the user's cache can be written to
        return numba.njit(**options)(function)


@numba_intrinsic
@unwrap
def _count_trailing_zeros(typing_context, word):
    from llvmlite import ir

    def generate(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return numba.types.uint64(numba.types.uint64), generate


@compile_solver
def find_lowest_bit(word):
    """Return the index of the lowest set bit of a 64-bit word (one machine instruction)."""
    return numba.int64(_count_trailing_zeros(word))


SECONDS_PER_THREAD = 1e-4  # work that justifies one more thread
CHUNKS_PER_THREAD = 4  # more than one, since examples differ in difficulty

_pool: ThreadPoolExecutor | None = None
_pool_size = 0


def solve_in_threads(solve: Callable[[slice], object], batch: int, seconds: float) -> None:
    """Call `solve` with slices that cover the batch, in up to `torch.get_num_threads()` threads.

    A small batch uses fewer threads. These are Python threads, which any number of callers may share: the threads of
    Numba's `parallel=True` end the process when two Python threads, or a forked child, use them at the same time.

    Args:
        solve: solves the examples of a slice and stores the results.
        batch: number of examples.
        seconds: approximate time per example.
    """
    threads = min(torch.get_num_threads(), int(batch * seconds / SECONDS_PER_THREAD), batch)
    if threads <= 1:
        solve(slice(0, batch))
        return
    step = -(-batch // (CHUNKS_PER_THREAD * threads))
    chunks = iter([slice(first, first + step) for first in range(0, batch, step)])

    def work() -> None:
        for chunk in chunks:  # `next` on the iterator is atomic: no two threads get the same chunk
            solve(chunk)

    pool = _get_pool(threads - 1)
    helpers = [pool.submit(work) for _ in range(threads - 1)]
    work()
    for helper in helpers:
        helper.result()


def _get_pool(count: int) -> ThreadPoolExecutor:
    global _pool, _pool_size
    if _pool is None or _pool_size < count:
        _pool, _pool_size = ThreadPoolExecutor(count, thread_name_prefix="hardmax"), count
    return _pool


def _discard_pool() -> None:
    global _pool
    _pool = None


os.register_at_fork(after_in_child=_discard_pool)  # a forked child has none of its parent's threads
