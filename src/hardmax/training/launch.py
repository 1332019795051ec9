"""How several processes come to train together: started here, or by torchrun."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import torch

# Its functions have the group of all processes as a default. Imported later (by an optimizer), they would keep it, and
# gloo's threads would live on to the end of Python, which they may turn into an abort (pytorch/pytorch#179291).
import torch.distributed.nn.functional
from torch import distributed
from torch.distributed import TCPStore, rendezvous  # pyright: ignore[reportPrivateImportUsage]
from torch.multiprocessing.spawn import ProcessExitedException, start_processes

from hardmax.errors import HardmaxError
from hardmax.training.group import Group

TIMEOUT = timedelta(minutes=10)
"""How long a process waits for the others: to begin, and to answer."""
_GRACE = 10.0  # seconds that the others have to end by themselves when one has failed, and again when they are told to


def in_group() -> bool:
    """Whether torchrun, or `spawn`, has started this process as one of several."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1 and "RANK" in os.environ


def spawn(size: int, main: Callable[[list[str]], int], arguments: list[str]) -> int:
    """Run a command in several processes on this machine, as torchrun would; return its exit code.

    A signal that reaches this process is passed on to all of them. Not by torch's `elastic_launch`, which torchrun is
    made of: interrupted, it takes 30 seconds and a kill to end functions that have long returned.

    Args:
        size: how many.
        main: the command line, importable by its name.
        arguments: of the command.

    Raises:
        HardmaxError: a process was killed.
    """
    # The store is this process's, on a port that is free: as it is torchrun's there.
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    shared = {
        "WORLD_SIZE": size,
        "LOCAL_WORLD_SIZE": size,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": store.port,
        "TORCHELASTIC_USE_AGENT_STORE": True,
    }
    processes = start_processes(_process, (shared, main, arguments), nprocs=size, join=False)
    assert processes is not None

    def pass_on(number: int, frame: Any) -> None:
        for pid in processes.pids():
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    before = {number: signal.signal(number, pass_on) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        while not processes.join(grace_period=_GRACE):
            pass
    except ProcessExitedException as error:
        if error.exit_code > 0:  # it has said why
            return error.exit_code
        raise HardmaxError(
            f"process {error.error_index + 1} of {size} was ended by {error.signal_name}, and the others with it; "
            f"go on with --resume"
        ) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return 0


def _process(rank: int, shared: dict[str, Any], main: Callable[[list[str]], int], arguments: list[str]) -> None:
    own = {"RANK": rank, "LOCAL_RANK": rank, **shared}
    os.environ.update({name: str(value) for name, value in own.items()})
    try:
        code = main(arguments)
    except SystemExit as end:
        code = int(end.code or 0)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # after an error gloo's threads still live, see above


@contextmanager
def joined() -> Iterator[Group]:
    """Join the processes that this one was started with, and leave when all of them do; or be alone.

    Of the errors that hardmax raises on purpose the first one is raised, in the process that it befell; the others end.
    """
    if not in_group():
        yield Group()
        return
    here = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    _share_cores(here)
    backend = "gloo"
    if torch.cuda.is_available() and distributed.is_nccl_available():
        backend = "cpu:gloo,cuda:nccl"
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
    try:
        store, rank, size = next(rendezvous("env://", timeout=TIMEOUT))
        distributed.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=TIMEOUT)
    except (RuntimeError, ValueError) as error:
        raise HardmaxError(f"the processes did not find each other: {str(error).splitlines()[0]}") from error
    group = Group(rank, size, here)
    try:
        yield group
        # Whoever started them ends all when one of them leaves with an error: not before the files are written.
        group.total(0.0)
    except HardmaxError:
        with suppress(RuntimeError):  # the store may be gone with whoever had it
            if store.add("failed", 1) > 1:
                raise SystemExit(2) from None
        raise
    distributed.destroy_process_group()


def _share_cores(processes: int) -> None:
    """Use no more threads than this process's share of the cores."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    torch.set_num_threads(max(1, min(torch.get_num_threads(), cores // processes)))
