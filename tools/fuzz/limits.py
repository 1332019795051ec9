"""Limits of memory and time for one call inside this process, and what it took."""

import resource
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType

SECONDS = 10
MEGABYTES = 1024


class TooSlow(BaseException):
    """Raised inside a call that takes too long; not an Exception, so that no reader takes it for a broken file."""


def limit_memory(megabytes: int = MEGABYTES) -> None:
    """Allow this process so much memory more than it has."""
    limit = (_read_status("VmSize") << 10) + megabytes * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def measure_call(call: Callable[[], object]) -> tuple[BaseException | None, float, float]:
    """Call a function; return the error that it raised, its seconds, and the memory that it needed at most, in MB."""
    before = _reset_peak()
    signal.signal(signal.SIGALRM, _stop)
    begin = time.perf_counter()
    error: BaseException | None = None
    try:
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        try:
            call()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        raise
    except BaseException as caught:  # of any kind: a campaign has to survive it
        error = caught
    seconds = time.perf_counter() - begin
    return error, seconds, max(_read_status("VmHWM") - before, 0) / 1024


def _stop(number: int, frame: FrameType | None) -> None:
    raise TooSlow(f"more than {SECONDS} s")


def _reset_peak() -> int:
    """Forget the peak of this process's memory; return its memory in KB."""
    with suppress(OSError):  # without this, the peak is that of all calls so far: too large rather than too small
        Path("/proc/self/clear_refs").write_text("5")
    return _read_status("VmRSS")


def _read_status(name: str) -> int:
    """Return a number of the kernel about this process, in KB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    raise OSError(f"the kernel does not tell {name}")
