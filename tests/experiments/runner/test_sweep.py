"""Runs are submitted, submitted again if their process is lost, and skipped while other runners make them."""

import json
import time
from collections import Counter
from concurrent.futures import Future
from dataclasses import replace
from functools import partial

import pytest
from filelock import FileLock

from hardmax.errors import ArgumentError, ClusterError, DataError
from hardmax.experiments.rows import hash_options, identify_run
from hardmax.experiments.runner import results_folder
from hardmax.experiments.runner import sweep as module
from hardmax.experiments.runner.executors import AbstractExecutor
from hardmax.experiments.runner.job import Outcome, run_job
from hardmax.experiments.runner.locks import lock_path
from hardmax.experiments.runner.progress import ProgressCallbacks
from hardmax.experiments.runner.reproduce import reproduce
from hardmax.experiments.runner.worker_check import collect_versions, inspect_worker
from hardmax.experiments.tables.declaration import Cell, Experiment, Quick
from hardmax.training.locks import try_lock

TINY = Experiment(
    name="tiny",
    title="Tiny",
    claim="Small is beautiful.",
    setting="The embedded images.",
    options={"data": "sample", "epochs": 2, "batch_size": 2000, "hidden": 4, "evaluate_images": 20},
    cells=tuple(
        Cell(f"{k} categories", "exact", "ours", 1e-3, {"categories": k, "estimator": "exact"}) for k in (2, 3, 4)
    ),
    quick=Quick({"epochs": 1}, "one epoch"),
    figures=(),
)
NAMES = [f"{k}-categories-exact-seed0" for k in (2, 3, 4)]


class StubExecutor(AbstractExecutor):
    """Calls a function of the test for each job, two at a time; each future is done when it is returned."""

    size = 2

    def __init__(self, act):
        self._act = act
        self.submitted = Counter()

    def submit(self, job):
        self.submitted[job.planned.name] += 1
        future = Future()
        try:
            future.set_result(self._act(job, self.submitted[job.planned.name]))
        except OSError as error:
            future.set_exception(error)
        return future

    def call_everywhere(self, function, *arguments):
        return [function(*arguments)]

    def check_alive(self):
        pass

    def close(self, *, at_once):
        pass


def row_of(job):
    """Return a row such as the run would leave."""
    config = identify_run(job.planned.config)
    epoch = {"epoch": 1, "negative_elbo": 100.0, "nll": 90.0, "kl": 1.0, "active": 2}
    return {
        "experiment": job.experiment,
        "quick": job.quick,
        "cell": job.planned.cell.name,
        "seed": job.planned.seed,
        "hash": hash_options(config),
        "config": config,
        "command": "hardmax train",
        "seconds": [1.0, 1.0],
        "seconds_per_epoch": 1.0,
        "test": [epoch, epoch],
        "validation": [epoch, epoch],
    }


def make_outcome(job, time):
    return Outcome("made", row_of(job))


@pytest.fixture(autouse=True)
def hurry(monkeypatch):
    monkeypatch.setattr(module, "_SECONDS", 0.01)


@pytest.fixture
def messages():
    return []


@pytest.fixture
def run(tmp_path, messages):
    return partial(reproduce, TINY, tmp_path, callbacks=ProgressCallbacks(messages.append))


def rows(out):
    return [json.loads(line)["cell"] + "-seed0" for line in (out / "results.jsonl").read_text().splitlines()]


def test_a_lost_process_costs_no_run(run, messages, tmp_path):
    def act(job, time):
        if job.planned.name == NAMES[1] and time < 3:
            raise OSError("killed")
        return make_outcome(job, time)

    executor = StubExecutor(act)
    assert run(executor=executor).failed == {}
    assert sorted(rows(tmp_path)) == NAMES
    assert executor.submitted == {NAMES[0]: 1, NAMES[1]: 3, NAMES[2]: 1}
    assert messages == [f"{NAMES[1]}: its process was lost; it is resumed from its last checkpoint"] * 2


def test_a_run_that_processes_die_of_is_given_up(run, messages, tmp_path):
    def act(job, time):
        if job.planned.name == NAMES[0]:
            raise OSError("out of\nmemory")
        return make_outcome(job, time)

    executor = StubExecutor(act)
    result = run(executor=executor)
    assert not result.stopped
    assert result.failed == {NAMES[0]: "its process was lost, 3 times; OSError: out of memory"}
    assert executor.submitted[NAMES[0]] == 3
    assert sorted(rows(tmp_path)) == NAMES[1:]
    assert "not run" in (tmp_path / "results.md").read_text()


def test_a_run_that_fails_stops_no_other(run, messages, tmp_path):
    executor = StubExecutor(
        lambda job, time: Outcome("failed", reason="no") if job.planned.name == NAMES[0] else make_outcome(job, time)
    )
    assert run(executor=executor).failed == {NAMES[0]: "no"}
    assert executor.submitted[NAMES[0]] == 1
    assert sorted(rows(tmp_path)) == NAMES[1:]
    assert run(executor=StubExecutor(make_outcome)).failed == {}
    assert sorted(rows(tmp_path)) == NAMES


def test_a_run_that_stops_by_itself_is_given_up(run, tmp_path):
    executor = StubExecutor(lambda job, time: Outcome("stopped"))
    assert set(run(executor=executor).failed) == set(NAMES)
    assert set(executor.submitted.values()) == {3}


def test_a_lost_cluster_ends_it(run):
    class Lost(StubExecutor):
        def check_alive(self):
            if self.submitted:
                raise ClusterError("gone")

    with pytest.raises(ClusterError, match="gone"):
        run(executor=Lost(make_outcome))


def test_stopped(run, tmp_path):
    asked = iter([False, False, True, True, True, True])
    result = run(executor=StubExecutor(make_outcome), callbacks=ProgressCallbacks(stop=lambda: next(asked)))
    assert result.stopped
    assert rows(tmp_path) == NAMES[:1]


def test_runs_of_another_runner_are_waited_for(run, messages, tmp_path):
    """The other runner finishes one run and releases another: the first row is copied, the second run is made."""
    held = {}

    def act(job, time):
        if job.planned.name == NAMES[2] or time == 2:
            return make_outcome(job, time)
        held[job.planned.name] = job, FileLock(job.lock)
        held[job.planned.name][1].acquire()
        return Outcome("held")

    def release(status):
        if len(status.elsewhere) == 2 and held:
            with (tmp_path / "results.jsonl").open("a") as file:
                file.write(json.dumps(row_of(held[NAMES[0]][0])) + "\n")
            for _, lock in held.values():
                lock.release()
            held.clear()

    executor = StubExecutor(act)
    finished = []
    callbacks = ProgressCallbacks(messages.append, status=release, finished=lambda name, result: finished.append(name))
    assert run(executor=executor, callbacks=callbacks).failed == {}
    assert executor.submitted == {NAMES[0]: 1, NAMES[1]: 2, NAMES[2]: 1}
    assert sorted(finished) == NAMES
    assert sorted(rows(tmp_path)) == NAMES
    assert sorted(messages) == [f"{name} is being made by another runner" for name in NAMES[:2]]


def test_a_row_that_came_meanwhile_is_not_doubled(run, tmp_path):
    def act(job, time):
        with (tmp_path / "results.jsonl").open("a") as file:
            file.write(json.dumps(row_of(job)) + "\n")  # another runner was faster
        return make_outcome(job, time)

    assert run(executor=StubExecutor(act)).failed == {}
    assert sorted(rows(tmp_path)) == NAMES


def test_half_a_row_spoils_no_other(run, tmp_path):
    def act(job, time):
        if job.planned.name == NAMES[0]:
            with (tmp_path / "results.jsonl").open("a") as file:
                file.write(json.dumps(row_of(job))[:50])  # another runner was killed as it wrote
        return make_outcome(job, time)

    assert run(executor=StubExecutor(act)).failed == {}
    messages = []
    executor = StubExecutor(make_outcome)
    assert run(executor=executor, callbacks=ProgressCallbacks(messages.append)).failed == {}
    assert messages == ["3 of 3 runs are finished already"]  # the next row has replaced the half one
    assert not executor.submitted
    assert sorted(rows(tmp_path)) == NAMES


def test_pages_are_not_made_for_every_row(run, tmp_path, monkeypatch):
    moments = []
    render = results_folder.render

    def counted(*arguments, **options):
        moments.append(len(arguments[2]))
        render(*arguments, **options)

    monkeypatch.setattr(results_folder, "render", counted)
    run(executor=StubExecutor(make_outcome))
    assert moments[-1] == 3  # the last page has all
    assert len(moments) == 2  # the first comes at once, the next only after some seconds, or at the end


class TestWork:
    """What a process does with a job."""

    @pytest.fixture
    def job(self, run):
        jobs = []
        run(
            only=[NAMES[0].removesuffix("-seed0")],
            executor=StubExecutor(lambda job, time: jobs.append(job) or Outcome("failed")),
        )
        return jobs[0]

    def test_a_run_that_another_process_is_at(self, job):
        with try_lock(job.lock) as held:
            assert held
            assert run_job(job, lambda: False) == Outcome("held")

    def test_a_runner_that_is_gone(self, job):
        begin = time.monotonic()
        assert run_job(job).kind == "stopped"  # nobody holds the lock that its runner held
        assert time.monotonic() - begin < 5
        assert not (job.out / NAMES[0] / "latest").exists()

    def test_a_runner_that_is_there(self, job):
        with FileLock(job.runner_lock):
            outcome = run_job(job)
        assert outcome.kind == "made"
        assert len(outcome.row["test"]) == 2
        assert run_job(job, lambda: False).row == outcome.row  # from the folder, not once more

    def test_a_row_that_another_runner_has_added(self, job):
        (job.out / "results.jsonl").write_text(json.dumps(row_of(job)) + "\n")
        assert run_job(job, lambda: False) == Outcome("made", row_of(job))
        assert not (job.out / NAMES[0]).exists()

    def test_errors_are_reported(self, job):
        def fails():
            raise RuntimeError("broken")

        assert run_job(job, fails) == Outcome("failed", reason="RuntimeError: broken")
        config = replace(job.planned.config, data="nowhere/at/all")
        outcome = run_job(replace(job, planned=replace(job.planned, config=config)), lambda: False)
        assert outcome.kind == "failed"
        assert "nowhere/at/all" in outcome.reason

    def test_another_version(self, job):
        outcome = run_job(replace(job, versions={**job.versions, "torch": "0.1"}), lambda: False)
        assert outcome.kind == "failed"
        assert (
            f"a worker has torch {collect_versions()['torch']}, the runner has torch 0.1; install the same"
            in outcome.reason
        )


@pytest.mark.parametrize(("change", "error", "words"), [
    ({"versions": {**collect_versions(), "Python": "2.7", "torch": "1.0"}}, ArgumentError,
     "far: a worker has torch 1.0, Python 2.7, the runner has torch"),
    ({"sees_folder": False, "respects_locks": False}, ArgumentError,
     "a worker on far does not see .*; choose with --out a folder"),
    ({"respects_locks": False}, ArgumentError,
     "a worker on far could lock a file that is locked on .* no locks between"),
    ({"data_error": "no images"}, DataError, "far: no images"),
])  # fmt: skip
def test_workers_that_cannot_do_the_work_are_refused(run, tmp_path, change, error, words):
    class Far(StubExecutor):
        def call_everywhere(self, function, *arguments):
            assert function is inspect_worker
            here = inspect_worker(*arguments)
            assert here.sees_folder
            assert here.respects_locks
            return [here, replace(here, host="far", **change)]

    executor = Far(make_outcome)
    with pytest.raises(error, match=words):
        run(executor=executor)
    assert not executor.submitted
    assert not list(tmp_path.glob("locks/runner-*"))


def test_missing_data_end_it_before_any_run_is_submitted(run, tmp_path):
    executor = StubExecutor(make_outcome)
    broken = replace(TINY, options={**TINY.options, "data": "mnist"})
    with pytest.raises(DataError, match="nowhere"):
        reproduce(broken, tmp_path, data_dir=str(tmp_path / "nowhere"), executor=executor)
    assert not executor.submitted


def test_files_of_killed_runners_are_removed(run, tmp_path):
    run(executor=StubExecutor(make_outcome), only=[NAMES[0].removesuffix("-seed0")])
    left, live = lock_path(tmp_path, "runner-left"), lock_path(tmp_path, "runner-live")
    left.touch()
    with FileLock(live):
        run(executor=StubExecutor(make_outcome))
    assert not left.exists()
    assert live.exists()
