"""Data-parallel training: start several processes that train one model, and exchange their gradients."""

import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch

# Imported before a process group exists: its functions have the current group as a default argument. If an optimizer
# imported it later, the functions would keep the group alive, and gloo's threads would run until Python exits, where
# they may cause an abort (pytorch/pytorch#179291).
import torch.distributed.nn.functional
from torch import Tensor, distributed, nn
from torch.distributed import TCPStore, rendezvous  # pyright: ignore[reportPrivateImportUsage]
from torch.multiprocessing.spawn import ProcessExitedException, start_processes

from hardmax._deprecation import RenamedMember
from hardmax.errors import ArgumentError, HardmaxError
from hardmax.training.config import TrainConfig

T = TypeVar("T")


@dataclass(frozen=True)
class Group:
    """The processes that train one model together, each on its slice of every batch; by default only this process.

    All processes have the same weights and the same random generators, and make the same steps. The first process
    writes the run's folder and prints messages. All processes must call the methods that communicate in the same order.

    Attributes:
        rank: rank of this process, from 0.
        size: number of processes.
        local_size: number of processes on this machine.
    """

    rank: int = 0
    size: int = 1
    local_size: int = 1

    first = RenamedMember("is_first")
    part = RenamedMember("own_slice")
    add_up = RenamedMember("all_reduce")

    @property
    def is_first(self) -> bool:
        """Whether this is the first process, which writes files and prints messages."""
        return self.rank == 0

    def own_slice(self, count: int) -> slice:
        """Return the slice of `count` examples that this process handles; sizes differ by at most 1, and may be 0."""
        return slice(self.rank * count // self.size, (self.rank + 1) * count // self.size)

    def all_reduce(self, tensor: Tensor) -> None:
        """Replace a tensor by its sum over all processes; the result has the same bits in every process."""
        if self.size > 1:
            with self._report_lost_process():
                distributed.all_reduce(tensor)

    def sum_over_processes(self, number: float) -> float:
        """Return the sum of a number over all processes."""
        tensor = torch.tensor(number, dtype=torch.float64)
        self.all_reduce(tensor)
        return tensor.item()

    def broadcast_from_first(self, make: Callable[[], T]) -> T:
        """Call `make` in the first process only, and return its result, sent as a pickle, in all processes."""
        if self.size == 1:
            return make()
        objects = [make() if self.is_first else None]
        with self._report_lost_process():
            distributed.broadcast_object_list(objects, device=torch.device("cpu"))
        return objects[0]  # pyright: ignore[reportReturnType]

    def check_config(self, config: TrainConfig, *, couples_examples: bool) -> None:
        """Check that this group can train a run.

        Args:
            config: options of the run.
            couples_examples: whether the gradient of an example depends on others of its batch.

        Raises:
            ArgumentError: the group cannot train the run; the message names the option to change.
        """
        if config.devices not in (1, self.size):
            raise ArgumentError(
                f"devices is {config.devices}, but the number of processes is {self.size}; run hardmax "
                f"train --devices {config.devices}, or torchrun without --devices"
            )
        if self.size == 1:
            return
        if couples_examples:
            raise ArgumentError(
                f"{self.size} processes cannot share a batch if the gradient of an image depends on other images in it"
                f"; train in one process, or use another estimator (reinforce: another --baseline)"
            )
        if config.batch_size < self.size:
            raise ArgumentError(
                f"batch-size must be at least {self.size}, one image per process, got {config.batch_size}"
            )
        if config.device not in ("cpu", "cuda"):
            raise ArgumentError(
                f"several processes train on cpu, or on cuda with a GPU for each, not on {config.device!r}; "
                f"give --device cpu or --device cuda"
            )
        if config.device == "cuda" and self.local_size > torch.cuda.device_count():
            raise ArgumentError(
                f"{self.local_size} processes need a GPU each, but this machine has {torch.cuda.device_count()}; "
                f"use fewer processes"
            )

    def check_same(self, name: str, value: object) -> None:
        """Raise `HardmaxError` if a value is not the same in all processes; the message contains its name."""
        expected = self.broadcast_from_first(lambda: value)
        if value != expected:
            raise HardmaxError(
                f"process {self.rank + 1} of {self.size} has {name} {value}, the first one {expected}; all machines "
                f"must have the same --data and the same folder --out"
            )

    @contextmanager
    def _report_lost_process(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:  # NCCL and a store raise it too
            # gloo adds a location before the reason, and advice after it.
            reason = re.sub(r"^\[[^]]*] |\. .*", "", (str(error).splitlines() or [""])[0])
            raise HardmaxError(
                f"process {self.rank + 1} of {self.size} lost another one, which has failed, was killed or does not "
                f"answer ({reason}); go on with --resume"
            ) from error


SINGLE_PROCESS = Group()
"""The group of a run in one process."""


class Message:
    """One tensor with the gradients of all parameters and a few sums: everything that processes exchange in a step.

    It replaces `DistributedDataParallel`, which overlaps the exchange with the backward pass of large networks; the
    networks here are small. With 478,000 weights and 50 images for each of two processes, a step took 10 to 20 percent
    less time this way; `DistributedDataParallel` also needs further messages, of 0.2 ms each, for the sums, the request
    to stop and the parameters of an estimator. A single process exchanges nothing.

    Args:
        group: the processes that take part.
        parameters: the parameters whose gradients are summed.
        sums: number of sums.
    """

    def __init__(self, group: Group, parameters: Sequence[nn.Parameter], sums: int) -> None:
        self._group = group
        self._views: list[tuple[nn.Parameter, Tensor]] = []
        if group.size == 1:
            return
        sizes = [parameter.numel() for parameter in parameters]
        self._tensor = torch.zeros(sum(sizes) + sums + 1, device=parameters[0].device)
        *gradients, self._sums = self._tensor.split([*sizes, sums + 1])
        self._views = [
            (parameter, gradient.view_as(parameter)) for parameter, gradient in zip(parameters, gradients, strict=True)
        ]

    def clear(self, optimizer: torch.optim.Optimizer) -> None:
        """Clear all gradients of an optimizer; make those of the parameters here views of the tensor, set to zero."""
        optimizer.zero_grad(set_to_none=True)
        for parameter, gradient in self._views:
            parameter.grad = gradient.zero_()  # backward adds to an existing gradient in place

    def exchange(self, sums: Tensor, stop: bool) -> tuple[Tensor, bool]:
        """Sum the gradients over all processes in place; return the total of `sums`, and whether one asks to stop."""
        if self._group.size == 1:
            return sums, stop
        self._sums.copy_(torch.cat([sums, sums.new_tensor([stop])]))
        self._group.all_reduce(self._tensor)
        return self._sums[:-1].clone(), bool(self._sums[-1])


TIMEOUT = timedelta(minutes=10)
"""Maximum time that a process waits for the others to start and to answer."""
_GRACE = 10.0  # seconds for the other processes to exit after one fails, and once more after they are terminated


def is_in_group() -> bool:
    """Whether torchrun, or `spawn_processes`, has started this process as one of several."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1 and "RANK" in os.environ


def spawn_processes(size: int, main: Callable[[list[str]], int], arguments: list[str]) -> int:
    """Run a command in several processes on this machine, as torchrun would; return its exit code.

    Signals to this process are forwarded to all of them. It does not use torch's `elastic_launch`, on which torchrun is
    built: when interrupted, that one waits for 30 seconds and kills functions that returned long before.

    Args:
        size: number of processes.
        main: the command line, importable by its name.
        arguments: the arguments of the command.

    Raises:
        HardmaxError: a process was killed.
    """
    # This process owns the store, on a free port, as torchrun does.
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    shared = {
        "WORLD_SIZE": size,
        "LOCAL_WORLD_SIZE": size,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": store.port,
        "TORCHELASTIC_USE_AGENT_STORE": True,
    }
    processes = start_processes(_run_process, (shared, main, arguments), nprocs=size, join=False)
    assert processes is not None

    def forward_signal(number: int, frame: Any) -> None:
        for pid in processes.pids():
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    before = {number: signal.signal(number, forward_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        while not processes.join(grace_period=_GRACE):
            pass
    except ProcessExitedException as error:
        if error.exit_code > 0:  # the process has printed the reason
            return error.exit_code
        raise HardmaxError(
            f"process {error.error_index + 1} of {size} was ended by {error.signal_name}, and the others with it; "
            f"go on with --resume"
        ) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return 0


def _run_process(rank: int, shared: dict[str, Any], main: Callable[[list[str]], int], arguments: list[str]) -> None:
    variables = {"RANK": rank, "LOCAL_RANK": rank, **shared}
    os.environ.update({name: str(value) for name, value in variables.items()})
    try:
        code = main(arguments)
    except SystemExit as end:
        code = int(end.code or 0)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # after an error gloo's threads are still running: see the import above


@contextmanager
def join_group() -> Iterator[Group]:
    """Join the group of processes that this one was started with; leave it when all of them do.

    A process that was started by itself forms a group of 1. If hardmax raises errors in several processes, only the
    first error is raised, in the process where it occurred; the other processes exit.
    """
    if not is_in_group():
        yield Group()
        return
    local_size = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    _limit_threads(local_size)
    backend = "gloo"
    if torch.cuda.is_available() and distributed.is_nccl_available():
        backend = "cpu:gloo,cuda:nccl"
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
    try:
        store, rank, size = next(rendezvous("env://", timeout=TIMEOUT))
        distributed.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=TIMEOUT)
    except (RuntimeError, ValueError) as error:
        raise HardmaxError(f"the processes did not find each other: {str(error).splitlines()[0]}") from error
    group = Group(rank, size, local_size)
    try:
        yield group
        # The launcher ends all processes when one exits with an error: wait until the files are written.
        group.sum_over_processes(0.0)
    except HardmaxError:
        with suppress(RuntimeError):  # the store may have ended with the process that owned it
            if store.add("failed", 1) > 1:
                raise SystemExit(2) from None
        raise
    distributed.destroy_process_group()


def _limit_threads(processes: int) -> None:
    """Limit torch's threads to this process's share of the cores."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    torch.set_num_threads(max(1, min(torch.get_num_threads(), cores // processes)))
