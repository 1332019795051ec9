"""Calls in forked processes, which may be killed at any moment without harm to this one."""

import os
import signal
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hardmax.errors import HardmaxError

FINISHED, CRASHED, REFUSED, KILLED = 0, 1, 2, 137
_PATIENCE = 120
_MESSAGE = 8000  # bytes


@dataclass(frozen=True)
class Outcome:
    """How a call in a child ended.

    Attributes:
        code: `FINISHED`, `REFUSED` by an error of hardmax, `CRASHED` by another one, or `KILLED`.
        text: the message of the error of hardmax, or a traceback.
        seconds: duration.
    """

    code: int
    text: str
    seconds: float


def run_in_child(call: Callable[[], object], log: Path, *, kill_after: float | None = None) -> Outcome:
    """Call a function in a forked process.

    Args:
        call: the function.
        log: file for what the child prints.
        kill_after: seconds after which it is killed, unless it has ended.
    """
    begin = time.monotonic()
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _act_as_child(call, log, writer)
    os.close(writer)
    code, seconds = _wait_for(child, begin, kill_after)
    with open(reader, "rb") as pipe:  # it has room for the message, so that the child never waits for us
        text = log.read_text(errors="replace") + pipe.read().decode(errors="replace")
    if code in (FINISHED, REFUSED, KILLED):
        return Outcome(code, text, seconds)
    reason = f"it did not end within {_PATIENCE} s" if code is None else f"the process ended with {code}"
    return Outcome(CRASHED, f"{text}\n{reason}" if code != CRASHED else text, seconds)


def _wait_for(child: int, begin: float, kill_after: float | None) -> tuple[int | None, float]:
    """Wait for a child, or kill it; return its exit code, None if it took too long, and the seconds since its begin."""
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        seconds = time.monotonic() - begin
        if done:
            return os.waitstatus_to_exitcode(status), seconds
        if seconds > (_PATIENCE if kill_after is None else kill_after):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return None if kill_after is None else KILLED, seconds
        time.sleep(0.002)


def _act_as_child(call: Callable[[], object], log: Path, writer: int) -> None:
    """Make the call and end this process, whatever happens; the message of an error goes through a pipe."""
    code = CRASHED
    try:
        target = os.open(log, os.O_WRONLY | os.O_TRUNC)
        os.dup2(target, 1)
        os.dup2(target, 2)
        try:
            call()
            code = FINISHED
        except HardmaxError as error:
            code = REFUSED
            os.write(writer, str(error).encode(errors="replace")[:_MESSAGE])
        except BaseException as error:  # of any kind: the parent reports it
            os.write(writer, "".join(traceback.format_exception(error)).encode(errors="replace")[-_MESSAGE:])
    finally:
        os._exit(code)
