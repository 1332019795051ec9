"""How the solvers written as loops are compiled: by Numba, cached on disk, free of Python's lock."""

import logging
from collections.abc import Callable
from inspect import unwrap
from typing import Any

from hardmax.errors import MissingExtraError

try:
    import numba
    from numba.extending import intrinsic as numba_intrinsic
except ImportError as error:
    raise MissingExtraError(
        "this solver is compiled by Numba, which is not installed; pip install 'hardmax[solvers]', "
        "or take solver='auto', which does without (slower, and only for fewer bits)"
    ) from error

logger = logging.getLogger(__name__)
logger.info(
    "solvers are compiled on their first call, which takes some seconds; later processes load them from a cache"
)


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function on its first call, or load it from the cache of an earlier process.

    No `fastmath`: it may reorder sums and assume there is no NaN, and then equal is no longer equal. `nogil`
    lets several Python threads run kernels at once (see `threads.py`).
    """
    function = unwrap(function)  # type checkers wrap functions, and Numba cannot see through
    options = {"nogil": True, "boundscheck": False, "error_model": "numpy"}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # neither the package's folder nor the user's cache can be written to
        return numba.njit(**options)(function)


@numba_intrinsic
@unwrap
def _trailing_zeros(typing_context, word):
    from llvmlite import ir

    def generate(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return numba.types.uint64(numba.types.uint64), generate


@compiled
def lowest(word):
    """Return the place of the lowest bit that is set in a word of 64 (one machine instruction)."""
    return numba.int64(_trailing_zeros(word))
