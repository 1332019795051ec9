"""Heavy work of a page: in a thread, off the event loop, and cancelled when newer work or another page replaces it."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import TypeVar, final

T = TypeVar("T")
CheckCancelled = Callable[[], None]
_THREADS = 16  # a page uses one at a time


class CancelledWork(Exception):
    """Newer work has replaced this one, or the page was closed; `LatestWork.run` then returns None."""


@final
class LatestWork:
    """Runs the newest call of a page in a thread; a newer call cancels the older ones.

    One call at a time computes; of the calls that arrive meanwhile only the newest is kept. Without this, a hundred
    quick moves of a slider would queue a hundred computations.

    Example:
        In a page: `work = LatestWork()`, `ui.context.client.on_delete(work.cancel)`, and in an event handler
        `result = await work.run(compute, state)`, followed by `if result is None: return`.
    """

    def __init__(self) -> None:
        self._number = 0
        self._lock = asyncio.Lock()

    async def run(self, function: Callable[..., T], *arguments: object) -> T | None:
        """Return `function(check, *arguments)`, or None if it was cancelled.

        Args:
            function: runs in a thread, and must not touch elements of the page. It calls `check()` now and then, at
                least every tenth of a second, which raises `CancelledWork` once it has been replaced.
            *arguments: the other arguments.

        Raises:
            Exception: whatever the function raises, unless it was cancelled.
        """
        self._number += 1
        number = self._number

        def check() -> None:
            if self._number != number:
                raise CancelledWork

        async with self._lock:  # the older call ends at its next check
            if self._number != number:
                return None
            try:
                result = await asyncio.get_running_loop().run_in_executor(_get_pool(), function, check, *arguments)
            except CancelledWork:
                return None
            except Exception:
                if self._number != number:
                    return None
                raise
            return result if self._number == number else None

    def cancel(self) -> None:
        """Cancel what runs or waits; for a page that is closed."""
        self._number += 1


@lru_cache(maxsize=1)
def _get_pool() -> ThreadPoolExecutor:
    """Return the threads of all pages, created when first used."""
    return ThreadPoolExecutor(_THREADS, "hardmax-studio", initializer=_use_one_thread)


def _use_one_thread() -> None:
    # Many small operations are faster on one core, and the other pages keep theirs.
    import torch

    torch.set_num_threads(1)
