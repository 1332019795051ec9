"""`hardmax reproduce --workers` gives the same numbers when processes are killed or stopped."""

import os
import shutil
import signal
import subprocess
import sys

import pytest
from e2e.sweeps import (
    RUNS,
    clean_up,
    find_holder,
    finish,
    kill,
    list_finished,
    results,
    start,
    wait_for_run,
    wait_until,
)


@pytest.fixture(autouse=True)
def nothing_is_left():
    yield
    clean_up()


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """The quick form as one process makes it."""
    out = tmp_path_factory.mktemp("quick")
    assert list_finished(finish(start(out, "--quick"))) == RUNS[:2]
    return out


@pytest.fixture(scope="module")
def complete(tmp_path_factory):
    """The rows of the full form as one process makes it."""
    out = tmp_path_factory.mktemp("complete")
    assert list_finished(finish(start(out))) == RUNS
    return results(out)


def test_two_workers_give_the_same_numbers_bit_for_bit(quick, tmp_path):
    output = finish(start(tmp_path, "--quick", "--workers", 2))
    assert sorted(list_finished(output)) == RUNS[:2]
    assert results(tmp_path) == results(quick)
    assert (tmp_path / "results.md").read_text().count("hardmax train") == 2
    assert not list(tmp_path.glob("locks/runner-*"))
    assert "2 of 2 runs are finished already" in finish(start(tmp_path, "--quick", "--workers", 2))


@pytest.mark.slow
def test_rows_of_another_folder(quick, tmp_path):
    rows = shutil.copy(quick / "results.jsonl", tmp_path / "rows.jsonl")
    output = finish(start(tmp_path / "out", "--quick", "--rows", rows))
    assert "2 runs are copied from other folders" in output
    assert results(tmp_path / "out") == results(quick)
    output = finish(start(tmp_path / "full", "--rows", rows, tmp_path / "nothing.jsonl"), code=2)
    assert f"there is no file of rows {tmp_path / 'nothing.jsonl'}" in output
    rows.write_text(rows.read_text() + "{}\n")
    assert "1 of its lines are not finished runs" in finish(start(tmp_path / "full", "--rows", rows), code=2)


@pytest.mark.slow
def test_a_worker_is_killed(complete, tmp_path):
    program = start(tmp_path, "--workers", 2)
    run, process = wait_for_run(tmp_path, program)
    kill(process)
    output = finish(program)
    assert f"{run}: its process was lost; it is resumed from its last checkpoint" in output
    assert output.count("was lost") == 1  # the other worker is not touched
    assert results(tmp_path) == complete


@pytest.mark.slow
def test_the_runner_is_killed(complete, tmp_path):
    program = start(tmp_path, "--workers", 2)
    run, process = wait_for_run(tmp_path, program)
    kill(program.pid)
    program.communicate()
    again = start(tmp_path, "--workers", 2)
    wait_until(lambda: find_holder(tmp_path, run) != process)  # the worker without a runner has released the run
    finish(again)
    assert results(tmp_path) == complete
    wait_until(lambda: not os.path.exists(f"/proc/{process}"))


@pytest.mark.slow
def test_a_run_that_its_processes_die_of(complete, tmp_path):
    program = start(tmp_path, "--workers", 2)
    deadly = RUNS[1]
    killed = set()
    while program.poll() is None:
        process = wait_until(lambda: find_holder(tmp_path, deadly) or program.poll() is not None)
        if process is not True and process not in killed:
            kill(process)
            killed.add(process)
    output, errors = program.communicate()
    assert program.returncode == 1, errors
    assert len(killed) == 3
    assert f"{deadly} failed: its process was lost, 3 times; TerminatedWorkerError: " in output
    assert errors == f"hardmax: error: 1 runs failed: {deadly}; the same command tries again\n"
    assert results(tmp_path) == {name: row for name, row in complete.items() if name != deadly}
    finish(start(tmp_path, "--workers", 2))
    assert results(tmp_path) == complete


@pytest.mark.slow
def test_interrupted(complete, tmp_path):
    program = start(tmp_path, "--workers", 2)
    wait_for_run(tmp_path, program)
    os.killpg(program.pid, signal.SIGINT)  # to all processes, as a terminal does
    output, errors = program.communicate()
    assert program.returncode == 130, errors
    assert "stopped and saved; the same command goes on" in output
    assert errors == ""
    assert len(list_finished(output)) < len(RUNS)
    assert not list(tmp_path.glob("locks/runner-*"))
    finish(start(tmp_path))  # also in another way
    assert results(tmp_path) == complete


@pytest.mark.slow
def test_interrupted_twice(complete, tmp_path):
    program = start(tmp_path, "--workers", 2)
    _, process = wait_for_run(tmp_path, program)
    os.kill(process, signal.SIGSTOP)  # so that it cannot save
    os.killpg(program.pid, signal.SIGINT)
    wait_until(lambda: "saving" in program.stdout.readline())
    os.killpg(program.pid, signal.SIGINT)
    assert finish(program, code=130) == "hardmax: error: interrupted\n"
    wait_until(lambda: not os.path.exists(f"/proc/{process}"))
    finish(start(tmp_path, "--workers", 2))
    assert results(tmp_path) == complete


@pytest.mark.slow
def test_two_runners_at_the_same_moment(complete, tmp_path):
    programs = [start(tmp_path, "--workers", 1), start(tmp_path)]
    reports = [list_finished(finish(program)) for program in programs]
    assert all(sorted(runs) == sorted(RUNS) for runs in reports)  # both wait for all
    assert results(tmp_path) == complete
    for run in RUNS:  # no epoch was made twice
        assert len((tmp_path / run / "timing.jsonl").read_text().splitlines()) == 30


@pytest.mark.parametrize(("arguments", "words"), [
    (["figure3", "--workers", "0"], "workers must be at least 1, got 0"),
    (["figure3", "--workers", "2", "--cluster", "ray://auto"], "either --workers, for this machine, or --cluster"),
    (["figure3", "--cluster", "host:8786"], "'host:8786' is not an address; give dask://HOST:PORT"),
    (["figure1", "--workers", "2"], "figure1 is one training run with measurements: --workers is for"),
    (["figure1", "--cluster", "ray://auto"], "--cluster is for"),
    (["figure1", "--rows", "rows.jsonl"], "--rows is for"),
])  # fmt: skip
def test_one_clear_line(arguments, words, tmp_path):
    command = [sys.executable, "-m", "hardmax.cli.main", "reproduce", *arguments, "--out", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("hardmax: error: ")
    assert done.stderr.count("\n") == 1
    assert words in done.stderr
    assert not (tmp_path / "out").exists()
