"""Segment a batch of scans, in this process or in several at the same time; an error in one does not end the others."""

import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from hardmax.applications.segmentation.results.layouts import AbstractLayout
from hardmax.applications.segmentation.results.outputs import AbstractSegmenter, OutputOptions, segment_scan
from hardmax.applications.segmentation.results.records import quality_image_path
from hardmax.applications.segmentation.results.tables import Result
from hardmax.applications.segmentation.volumes.labels import LabelTable
from hardmax.applications.segmentation.volumes.scans import Scan
from hardmax.errors import HardmaxError

# Called with the index of a scan in the batch, the fraction of it that is done, and a description of the current step.
Progress = Callable[[int, float, str], None]
Results = Generator[tuple[int, Result], None, None]


@dataclass(frozen=True)
class Batch:
    """Scans, and how to segment them; sent to other processes.

    Args:
        scans: the scans.
        truths: true label maps, by the names of their scans.
        layout: where the results are written.
        table: the labels.
        options: which results are written.
        model: description of the model, for the records.
        masks: brain masks that the user gives, by the names of their scans.
    """

    scans: Sequence[Scan]
    truths: dict[str, Path]
    layout: AbstractLayout
    table: LabelTable
    options: OutputOptions
    model: str
    masks: dict[str, Path] = field(default_factory=dict)

    def segment(self, segmenter: AbstractSegmenter, index: int, progress: Progress) -> Result:
        """Segment one scan; if it is not the only one, an error is the result, and its earlier files are removed.

        Raises:
            HardmaxError: the only scan cannot be segmented.
        """
        scan = self.scans[index]
        progress(index, 0.0, "reading")
        try:
            return segment_scan(
                segmenter,
                scan,
                self.layout,
                self.table,
                options=self.options,
                model=self.model,
                truth=self.truths.get(scan.name),
                mask=self.masks.get(scan.name),
                progress=lambda part, doing: progress(index, min(part, 1.0), doing),
            )
        except HardmaxError as error:
            if len(self.scans) == 1:
                raise
            return self.report_failure(index, " ".join(str(error).split()))

    def report_failure(self, index: int, error: str) -> Result:
        """Return the result of a scan that cannot be segmented, and remove the files of an earlier result."""
        scan = self.scans[index]
        self.layout.remove_files(scan)
        quality_image_path(self.layout.out, scan.name).unlink(missing_ok=True)
        return Result(scan, error=error, model=self.model)


def segment_batch(segmenter: AbstractSegmenter, batch: Batch, progress: Progress) -> Results:
    """Segment the scans one after the other, and yield the index and the result of each."""
    for index in range(len(batch.scans)):
        yield index, batch.segment(segmenter, index, progress)


def segment_in_processes(model: Path, batch: Batch, workers: int, progress: Progress) -> Results:
    """Segment the scans in several processes, and yield the index and the result of each as soon as it is complete.

    A process that is lost, because memory ran out or someone ended it, costs its scan and is replaced. If the caller
    stops early, all processes end, and no file is left incomplete.

    Args:
        model: folder of the model, which each process loads.
        batch: the scans.
        workers: number of processes.
        progress: called in this process.
    """
    waiting = deque(range(len(batch.scans)))
    busy: dict[Any, _Worker] = {}  # by the connection to it
    idle: list[_Worker] = []
    try:
        while waiting or busy:
            while waiting and len(busy) < workers:
                worker = idle.pop() if idle else _Worker(model, batch)
                worker.start_scan(waiting.popleft())
                busy[worker.connection] = worker
            for connection in wait(list(busy)):
                worker = busy[connection]
                message = worker.receive()
                if isinstance(message, tuple):
                    progress(*message)
                    continue
                del busy[connection]
                if message is None:
                    message = batch.report_failure(worker.index, worker.describe_loss())
                else:
                    idle.append(worker)
                yield worker.index, message
    finally:
        remaining = [*busy.values(), *idle]
        for worker in remaining:
            worker.stop()
        for worker in remaining:
            worker.wait()


class _Worker:
    """A process that segments one scan at a time, with one thread.

    Args:
        model: folder of the model.
        batch: the scans.

    Attributes:
        connection: the connection to the process.
        index: index of its current scan.
    """

    def __init__(self, model: Path, batch: Batch) -> None:
        # Spawned, not forked: a fork of a process in which torch has threads can hang.
        context = get_context("spawn")
        self.connection, other = context.Pipe()
        self.index = -1
        self._process = context.Process(target=_work, args=(other, model, batch), daemon=True)
        with _prepare_start():
            self._process.start()
        other.close()  # so that the connection ends with the process

    def start_scan(self, index: int) -> None:
        """Send the index of the next scan."""
        self.index = index
        with suppress(OSError):  # the process is lost, and `receive` says so
            self.connection.send(index)

    def receive(self) -> "Result | tuple[int, float, str] | None":
        """Return the result of the scan, or its progress; None if the process is lost."""
        try:
            return self.connection.recv()
        except (EOFError, OSError):
            return None

    def describe_loss(self) -> str:
        """Return the error message for the scan of a process that is lost."""
        self._process.join(_PATIENCE)
        code = self._process.exitcode
        if code is not None and code < 0:
            return (
                f"its process was ended by signal {-code}, perhaps because memory ran out: each process needs about "
                "1.2 GB, more for voxels below 1 mm; segment it again with fewer --workers"
            )
        return f"its process ended with exit code {code}; segment it again without --workers to see why"

    def stop(self) -> None:
        """Ask the process to end: it removes its temporary files first."""
        self.connection.close()
        self._process.terminate()

    def wait(self) -> None:
        """Wait until the process has ended."""
        self._process.join(_PATIENCE)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


_PATIENCE = 20.0  # seconds; one step inside of scipy takes a few of them
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


@contextmanager
def _prepare_start() -> Iterator[None]:
    """Start processes with one thread, and without Ctrl-C, which a terminal sends to all processes."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))  # read when numpy and torch are imported
    has_mask = hasattr(signal, "pthread_sigmask")  # Windows has none
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if has_mask else set()
    try:
        yield
    finally:
        if has_mask:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _work(connection: Connection, model: Path, batch: Batch) -> None:
    """Segment the scans whose indices are received, until the connection is closed; runs in another process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that temporary files are removed
    from hardmax.applications.segmentation.segmenter import Segmenter

    segmenter = Segmenter.load(model)
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):  # the other end is closed, or its process has ended
        while True:
            index = connection.recv()
            connection.send(batch.segment(segmenter, index, lambda *progress: connection.send(progress)))
