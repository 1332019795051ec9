"""Submit missing runs to an executor until all have a row; other runners may work in the same folder."""

import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait

from hardmax.applications.registry import find_application
from hardmax.experiments.rows import Row
from hardmax.experiments.runner.executors import AbstractExecutor, ThisProcess
from hardmax.experiments.runner.job import Job, Outcome
from hardmax.experiments.runner.locks import RunnerLock
from hardmax.experiments.runner.progress import ProgressCallbacks, ReproduceResult, SweepStatus
from hardmax.experiments.runner.results_folder import ResultsFolder
from hardmax.experiments.runner.worker_check import check_workers, inspect_worker
from hardmax.experiments.tables.declaration import PlannedRun
from hardmax.training.locks import is_free

_SECONDS = 1.0  # between two checks of the runs of other runners, and of the stop callback
_CHECKS = 100.0  # checks of the runner's lock per second, by all of its workers


def run_missing(
    folder: ResultsFolder,
    wanted: Sequence[PlannedRun],
    callbacks: ProgressCallbacks,
    *,
    executor: AbstractExecutor | None = None,
) -> ReproduceResult:
    """Make the runs that have no row, and render the page as rows arrive.

    Args:
        folder: gets their rows.
        wanted: the runs; at least one has no row.
        callbacks: observe it.
        executor: makes the runs; default: this process.

    Raises:
        ArgumentError: the executor cannot work in the folder.
        DataError: data cannot be read.
        ClusterError: the cluster is lost.
    """
    executor = executor or ThisProcess(callbacks.stop)
    missing = [planned.config for planned in wanted if folder.find_row(planned) is None]
    configs = {(config.model, config.data, config.data_dir): config for config in missing}
    with RunnerLock(folder.out) as lock:
        check_workers(executor.call_everywhere(inspect_worker, lock.path, [*configs.values()]), lock.path)

        def make_job(planned: PlannedRun) -> Job:
            seconds = max(1.0, executor.size / _CHECKS)
            return Job(folder.experiment.name, folder.quick, planned, folder.out, lock.path, seconds, folder.offset)

        sweep = Sweep(wanted, make_job, executor, folder, callbacks)
        completed = sweep.run(lock.release)
    return ReproduceResult(stopped=not completed, failed=sweep.failed)


class Sweep:
    """Scheduler of the missing runs: submits each one until it has a row or fails.

    A run whose lock is held is skipped and checked again, until it has a row or its lock is free. A run whose process
    was lost is submitted again, a few times. A run that fails is reported, and the other runs continue.

    Args:
        wanted: the runs.
        make_job: returns the job of a run.
        executor: makes them.
        folder: gets their rows.
        callbacks: observe it.

    Attributes:
        failed: reasons of the failed runs, by name.
    """

    def __init__(
        self,
        wanted: Sequence[PlannedRun],
        make_job: Callable[[PlannedRun], Job],
        executor: AbstractExecutor,
        folder: ResultsFolder,
        callbacks: ProgressCallbacks,
    ) -> None:
        self._make_job, self._executor, self._folder, self._callbacks = make_job, executor, folder, callbacks
        self._waiting = deque(planned for planned in wanted if folder.find_row(planned) is None)
        self._done = len(wanted) - len(self._waiting)
        self._running: dict[Future[Outcome], PlannedRun] = {}
        self._elsewhere: list[PlannedRun] = []
        self._tries: Counter[str] = Counter()
        self._failed: list[PlannedRun] = []
        self.failed: dict[str, str] = {}

    def run(self, release: Callable[[], None]) -> bool:
        """Make all runs; return False if a callback stopped it before the end.

        Args:
            release: called when a callback stops it; makes the workers save and stop.
        """
        while self._waiting or self._running or self._elsewhere:
            if self._callbacks.stop():
                release()
                self._wait_for_jobs()
                return False
            self._submit()
            self._collect()
            self._check_elsewhere()
            self._folder.render_if_due()
        return True

    def _submit(self) -> None:
        for _ in range(min(len(self._waiting), self._executor.size - len(self._running))):
            if self._callbacks.stop():
                return
            planned = self._waiting.popleft()
            self._report_status(planned)
            self._tries[planned.name] += 1
            self._running[self._executor.submit(self._make_job(planned))] = planned

    def _collect(self) -> None:
        """Handle the outcomes of finished jobs, after a second at most."""
        self._executor.check_alive()
        self._report_status()
        if not self._running:
            time.sleep(_SECONDS)  # other runners hold all remaining runs, or the executor is empty
            return
        for future in wait(self._running, timeout=_SECONDS, return_when="FIRST_COMPLETED").done:
            planned = self._running.pop(future)
            if (error := _get_error(future)) is None:
                self._handle_outcome(planned, future.result())
            else:
                self._executor.check_alive()
                self._submit_again(planned, "its process was lost", f"{type(error).__name__}: {error}")

    def _submit_again(self, planned: PlannedRun, event: str, reason: str) -> None:
        """Resume a run from its last checkpoint, unless it has reached the number of tries."""
        tries = self._tries[planned.name]
        if tries < self._executor.tries:
            self._callbacks.say(f"{planned.name}: {event}; it is resumed from its last checkpoint")
            self._waiting.appendleft(planned)
        else:
            self._fail(planned, f"{event}{f', {tries} times' if tries > 1 else ''}; {reason}")

    def _handle_outcome(self, planned: PlannedRun, outcome: Outcome) -> None:
        for line in outcome.messages:
            self._callbacks.say(line)
        if outcome.kind == "failed":
            self._fail(planned, outcome.reason)
        elif outcome.kind == "held":
            self._tries[planned.name] -= 1
            self._elsewhere.append(planned)
            self._callbacks.say(f"{planned.name} is being made by another runner")
        elif outcome.row is None:
            if not self._callbacks.stop():
                self._submit_again(planned, "it stopped by itself", "it did not find the lock of its runner held")
        else:
            self._folder.add_row(planned, outcome.row)
            self._finish(planned, outcome.row)

    def _check_elsewhere(self) -> None:
        """Check whether other runners have made the runs that they hold, or released them."""
        if not self._elsewhere:
            return
        self._folder.read_new_rows()
        held, self._elsewhere = self._elsewhere, []
        for planned in held:
            if (row := self._folder.find_row(planned)) is not None:
                self._finish(planned, row)
            elif is_free(self._make_job(planned).lock):
                self._waiting.append(planned)
            else:
                self._elsewhere.append(planned)

    def _wait_for_jobs(self) -> None:
        """Wait until all running jobs are saved; runs that finish meanwhile count."""
        while self._running:
            for future in wait(self._running, timeout=_SECONDS).done:
                planned = self._running.pop(future)
                if _get_error(future) is None:
                    self._handle_outcome(planned, future.result())
            self._executor.check_alive()

    def _finish(self, planned: PlannedRun, row: Row) -> None:
        self._done += 1
        self._callbacks.finished(planned.name, summarize_row(row, planned.config.model))

    def _fail(self, planned: PlannedRun, reason: str) -> None:
        self._failed.append(planned)
        self.failed[planned.name] = reason = " ".join(reason.split())
        self._callbacks.say(f"{planned.name} failed: {reason}")

    def _report_status(self, *submitted: PlannedRun) -> None:
        self._callbacks.status(
            SweepStatus(
                self._done,
                (*self._running.values(), *submitted),
                tuple(self._waiting),
                tuple(self._elsewhere),
                tuple(self._failed),
                self._executor.size,
            )
        )


def _get_error(future: "Future[Outcome]") -> BaseException | None:
    """Return the error that a lost process leaves, or None."""
    try:
        future.result()
    except Exception as error:
        return error
    return None


def summarize_row(row: Row, model: str) -> str:
    """Return the numbers of a finished run that its application shows, in one line."""
    test = row["test"][-1]
    numbers = [
        f"{metric.label} {test[metric.key]:{metric.format}}"
        for metric in find_application(model).summary
        if metric.key in test
    ]
    return "  ".join([*numbers, f"{row['seconds_per_epoch']:.1f} s per epoch"])
