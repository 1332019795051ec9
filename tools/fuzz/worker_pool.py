"""Processes that run numbered cases until the time is up; a case that ends or blocks its process is a defect."""

import faulthandler
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from tools.fuzz.limits import SECONDS, limit_memory
from tools.fuzz.record import Defect, Result, Tally

_CASES_PER_PROCESS = 5000  # then another process takes over, so that what one leaks does not count against later cases
_REPORT_EVERY = 50
_PATIENCE = 3 * SECONDS  # a call that Python cannot interrupt is killed after this time

RunCase = Callable[[int], Result]


@dataclass(frozen=True)
class Plan:
    """What all workers have to do.

    Attributes:
        prepare: called by each process with a folder of its own; returns the function that runs a case by its number.
        workers: number of processes; worker i has the cases i, i + workers, ...
        scratch: folder for the folders of the workers.
        deadline: moment of `time.monotonic` at which they stop.
        most: number of cases at which they stop.
    """

    prepare: Callable[[Path], RunCase]
    workers: int
    scratch: Path
    deadline: float
    most: int | None


class WorkerPool:
    """The processes, and the case that each of them is at."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._context = multiprocessing.get_context("fork")
        self._current = self._context.RawArray("d", 2 * plan.workers)  # for each worker: its case, and when it began
        self._running: dict[Any, tuple[int, Any]] = {}

    def run(self, tally: Tally) -> None:
        """Run the cases, and add their results."""
        for worker in range(self._plan.workers):
            self._start(worker, worker)
        while self._running:
            for pipe in wait(list(self._running), timeout=1):
                self._receive(pipe, tally)
            for worker, process in self._running.values():
                began = self._current[2 * worker + 1]
                if began and time.monotonic() - began > _PATIENCE:
                    os.kill(process.pid, signal.SIGKILL)

    def _start(self, worker: int, case: int) -> None:
        ours, theirs = self._context.Pipe(duplex=False)
        self._current[2 * worker], self._current[2 * worker + 1] = case, 0
        process = self._context.Process(target=_work, args=(self._plan, theirs, self._current, worker, case))
        process.start()
        theirs.close()
        self._running[ours] = (worker, process)

    def _receive(self, pipe: Any, tally: Tally) -> None:
        """Add the results of a worker; if it has ended, start its successor."""
        worker, process = self._running[pipe]
        try:
            results, following = pipe.recv()
        except EOFError:
            process.join()
            del self._running[pipe]
            self._report_end(worker, process.exitcode, tally)
            return
        for result in results:
            tally.add_result(result)
        if following is not None:
            process.join()
            del self._running[pipe]
            self._start(worker, following)

    def _report_end(self, worker: int, code: int, tally: Tally) -> None:
        """Add a defect if a process did not end by itself, and go on with the next case."""
        if code == 0:
            return
        case, log = int(self._current[2 * worker]), _log_path(self._plan, worker).read_text(errors="replace")
        if not self._current[2 * worker + 1]:
            raise RuntimeError(f"a worker ended with {code} before its first case: {log[-4000:]}")
        tally.add_case(str(case), 0.0)
        tally.add_defect(Defect(str(case), f"the process ended with {code}\n{log[-4000:]}", f"end {code}"))
        self._start(worker, case + self._plan.workers)


def _work(plan: Plan, pipe: Any, current: Any, worker: int, case: int) -> None:
    """Run one case after the other in this process, and report their results."""
    folder = plan.scratch / str(worker)
    folder.mkdir(parents=True, exist_ok=True)
    log = os.open(_log_path(plan, worker), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)  # libraries write about broken files to the terminal
    os.dup2(log, 2)
    faulthandler.disable()  # pytest's would write to its terminal
    run_case = plan.prepare(folder / "corpus")
    limit_memory()
    results: list[Result] = []
    for _ in range(_CASES_PER_PROCESS):
        if time.monotonic() > plan.deadline or (plan.most is not None and case >= plan.most):
            pipe.send((results, None))
            return
        current[2 * worker], current[2 * worker + 1] = case, time.monotonic()
        results.append(run_case(case))
        if len(results) == _REPORT_EVERY or results[-1][-1] is not None:
            pipe.send((results, None))
            results = []
        case += plan.workers
    pipe.send((results, case))


def _log_path(plan: Plan, worker: int) -> Path:
    return plan.scratch / str(worker) / "log"
