"""Several processes that train one model together: starting them, and the messages they exchange."""

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

# Its functions have the group of all processes as a default argument. If an optimizer imported it later, they would
# keep the group, and gloo's threads would run until Python exits, which they may turn into an abort
# (pytorch/pytorch#179291).
import torch.distributed.nn.functional
from torch import Tensor, distributed, nn
from torch.distributed import TCPStore, rendezvous  # pyright: ignore[reportPrivateImportUsage]
from torch.multiprocessing.spawn import ProcessExitedException, start_processes

from hardmax.errors import ArgumentError, HardmaxError
from hardmax.training.config import TrainConfig

T = TypeVar("T")


@dataclass(frozen=True)
class Group:
    """The processes that train one model together, each with its part of every batch; by default, this process alone.

    All of them hold the same weights and the same generators, and take the same steps. The first one writes the run's
    folder and prints messages. All processes call the methods that communicate, in the same order.

    Attributes:
        rank: rank of this process, from 0.
        size: number of processes.
        here: number of them that run on this machine.
    """

    rank: int = 0
    size: int = 1
    here: int = 1

    @property
    def first(self) -> bool:
        """Whether this process writes files and prints messages."""
        return self.rank == 0

    def part(self, count: int) -> slice:
        """Return the slice of `count` examples that this process handles; sizes differ by at most 1, and may be 0."""
        return slice(self.rank * count // self.size, (self.rank + 1) * count // self.size)

    def add_up(self, tensor: Tensor) -> None:
        """Replace a tensor by its sum over all processes, the same bits in each."""
        if self.size > 1:
            with self._report_lost_process():
                distributed.all_reduce(tensor)

    def total(self, number: float) -> float:
        """Return the sum of a number over all processes."""
        tensor = torch.tensor(number, dtype=torch.float64)
        self.add_up(tensor)
        return tensor.item()

    def from_first(self, make: Callable[[], T]) -> T:
        """Call `make` in the first process only, and return its result in all of them. It is sent as a pickle."""
        if self.size == 1:
            return make()
        objects = [make() if self.first else None]
        with self._report_lost_process():
            distributed.broadcast_object_list(objects, device=torch.device("cpu"))
        return objects[0]  # pyright: ignore[reportReturnType]

    def check(self, config: TrainConfig, *, couples_examples: bool) -> None:
        """Raise an error if this group cannot train a run, for example if its gradients depend on the whole batch.

        Raises:
            ArgumentError: the group cannot train it; the message names the option to change.
        """
        if config.devices not in (1, self.size):
            raise ArgumentError(
                f"devices is {config.devices}, but the processes that train together are {self.size}; run hardmax "
                f"train --devices {config.devices}, or torchrun without --devices"
            )
        if self.size == 1:
            return
        if couples_examples:
            raise ArgumentError(
                f"a gradient that looks at all pictures of a batch, which {self.size} processes do not have, cannot be "
                f"shared; train in one process, or use another estimator (reinforce: another --baseline)"
            )
        if config.batch_size < self.size:
            raise ArgumentError(f"batch-size must be at least {self.size}, one picture each, got {config.batch_size}")
        if config.device not in ("cpu", "cuda"):
            raise ArgumentError(
                f"several processes train on cpu or on cuda, a GPU for each, not on {config.device!r}; "
                f"give --device cpu or --device cuda"
            )
        if config.device == "cuda" and self.here > torch.cuda.device_count():
            raise ArgumentError(
                f"{self.here} processes need a GPU each, and {torch.cuda.device_count()} are here; ask for fewer"
            )

    def check_same(self, what: str, found: object) -> None:
        """Raise `HardmaxError` unless the value `found` is the same in all processes; `what` is its name."""
        expected = self.from_first(lambda: found)
        if found != expected:
            raise HardmaxError(
                f"process {self.rank + 1} of {self.size} has {what} {found}, the first one {expected}; all machines "
                f"must see the same --data and the same folder --out"
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


ALONE = Group()


class Message:
    """One tensor with the gradients of all parameters, followed by a few sums: all that a step exchanges.

    It replaces `DistributedDataParallel`, which hides the exchange behind the backward pass of large networks: these
    are small. With 478,000 weights and 50 pictures for each of two processes, a step took 10 to 20 percent less time
    this way; `DistributedDataParallel` also needs further messages, of 0.2 ms each, for the sums, the request to stop
    and an estimator's own parameters. A single process exchanges nothing.

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
        """Clear all gradients of an optimizer, and point those of this message's parameters at zeros in its tensor."""
        optimizer.zero_grad(set_to_none=True)
        for parameter, gradient in self._views:
            parameter.grad = gradient.zero_()  # backward adds to an existing gradient in place

    def exchange(self, sums: Tensor, stop: bool) -> tuple[Tensor, bool]:
        """Sum the gradients over all processes in place; return the total of `sums`, and whether any asks to stop."""
        if self._group.size == 1:
            return sums, stop
        self._sums.copy_(torch.cat([sums, sums.new_tensor([stop])]))
        self._group.add_up(self._tensor)
        return self._sums[:-1].clone(), bool(self._sums[-1])


TIMEOUT = timedelta(minutes=10)
"""How long a process waits for the others to start and to answer."""
_GRACE = 10.0  # seconds that the other processes have to exit on their own after one fails, and again once terminated


def is_in_group() -> bool:
    """Whether torchrun, or `spawn_processes`, has started this process as one of several."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1 and "RANK" in os.environ


def spawn_processes(size: int, main: Callable[[list[str]], int], arguments: list[str]) -> int:
    """Run a command in several processes on this machine, as torchrun would; return its exit code.

    A signal that reaches this process is passed on to all of them. It does not use torch's `elastic_launch`, on which
    torchrun is built: when interrupted, that takes 30 seconds and a kill to end functions that returned long before.

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

    def pass_on(number: int, frame: Any) -> None:
        for pid in processes.pids():
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    before = {number: signal.signal(number, pass_on) for number in (signal.SIGINT, signal.SIGTERM)}
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
    os._exit(code)  # after an error gloo's threads are still running, see above


@contextmanager
def join_group() -> Iterator[Group]:
    """Join the processes that this one was started with, and leave when all of them do; one process forms a group of 1.

    Of the errors that hardmax itself raises, the first one is raised in the process where it occurred; the others exit.
    """
    if not is_in_group():
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
        # The launcher ends all processes when one exits with an error: wait until the files are written.
        group.total(0.0)
    except HardmaxError:
        with suppress(RuntimeError):  # the store may have ended with the process that owned it
            if store.add("failed", 1) > 1:
                raise SystemExit(2) from None
        raise
    distributed.destroy_process_group()


def _share_cores(processes: int) -> None:
    """Use no more threads than this process's share of the cores."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    torch.set_num_threads(max(1, min(torch.get_num_threads(), cores // processes)))
