"""`hardmax reproduce --workers`: the same numbers, whatever is killed or stopped on the way."""

import os
import shutil
import signal
import subprocess
import sys

import pytest
from e2e.sweeps import RUNS, clean_up, finish, finished, holder, kill, met, results, start, until


@pytest.fixture(autouse=True)
def nothing_is_left():
    yield
    clean_up()


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """The quick form as one process makes it."""
    out = tmp_path_factory.mktemp("quick")
    assert finished(finish(start(out, "--quick"))) == RUNS[:2]
    return out


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The rows of the full form as one process makes it."""
    out = tmp_path_factory.mktemp("whole")
    assert finished(finish(start(out))) == RUNS
    return results(out)


def test_two_workers_give_the_same_numbers_bit_for_bit(quick, tmp_path):
    said = finish(start(tmp_path, "--quick", "--workers", 2))
    assert sorted(finished(said)) == RUNS[:2]
    assert results(tmp_path) == results(quick)
    assert (tmp_path / "results.md").read_text().count("hardmax train") == 2
    assert not list(tmp_path.glob("locks/runner-*"))
    assert "2 of 2 runs are there already" in finish(start(tmp_path, "--quick", "--workers", 2))


def test_rows_of_another_folder(quick, tmp_path):
    rows = shutil.copy(quick / "results.jsonl", tmp_path / "rows.jsonl")
    said = finish(start(tmp_path / "out", "--quick", "--rows", rows))
    assert "2 runs are taken from other folders" in said
    assert results(tmp_path / "out") == results(quick)
    said = finish(start(tmp_path / "full", "--rows", rows, tmp_path / "nothing.jsonl"), code=2)
    assert f"there is no file of rows {tmp_path / 'nothing.jsonl'}" in said
    rows.write_text(rows.read_text() + "{}\n")
    assert "1 lines of it are no finished run" in finish(start(tmp_path / "full", "--rows", rows), code=2)


@pytest.mark.slow
def test_a_worker_is_killed(whole, tmp_path):
    program = start(tmp_path, "--workers", 2)
    run, process = met(tmp_path, program)
    kill(process)
    said = finish(program)
    assert f"{run}: its process was lost; it goes on from its last checkpoint" in said
    assert said.count("was lost") == 1  # the other worker is not touched
    assert results(tmp_path) == whole


@pytest.mark.slow
def test_the_runner_is_killed(whole, tmp_path):
    program = start(tmp_path, "--workers", 2)
    run, process = met(tmp_path, program)
    kill(program.pid)
    program.communicate()
    again = start(tmp_path, "--workers", 2)
    until(lambda: holder(tmp_path, run) != process)  # the worker that was left alone has let go
    finish(again)
    assert results(tmp_path) == whole
    until(lambda: not os.path.exists(f"/proc/{process}"))


@pytest.mark.slow
def test_a_run_that_its_processes_die_of(whole, tmp_path):
    program = start(tmp_path, "--workers", 2)
    deadly = RUNS[1]
    killed = set()
    while program.poll() is None:
        process = until(lambda: holder(tmp_path, deadly) or program.poll() is not None)
        if process is not True and process not in killed:
            kill(process)
            killed.add(process)
    said, wrong = program.communicate()
    assert program.returncode == 1, wrong
    assert len(killed) == 3
    assert f"{deadly} failed: its process was lost, 3 times; TerminatedWorkerError: " in said
    assert wrong == f"hardmax: error: 1 runs failed: {deadly}; the same command tries again\n"
    assert results(tmp_path) == {name: row for name, row in whole.items() if name != deadly}
    finish(start(tmp_path, "--workers", 2))
    assert results(tmp_path) == whole


@pytest.mark.slow
def test_interrupted(whole, tmp_path):
    program = start(tmp_path, "--workers", 2)
    met(tmp_path, program)
    os.killpg(program.pid, signal.SIGINT)  # to all processes, as a terminal does
    said, wrong = program.communicate()
    assert program.returncode == 130, wrong
    assert "stopped and saved; the same command goes on" in said
    assert wrong == ""
    assert len(finished(said)) < len(RUNS)
    assert not list(tmp_path.glob("locks/runner-*"))
    finish(start(tmp_path))  # also in another way
    assert results(tmp_path) == whole


@pytest.mark.slow
def test_interrupted_twice(whole, tmp_path):
    program = start(tmp_path, "--workers", 2)
    _, process = met(tmp_path, program)
    os.kill(process, signal.SIGSTOP)  # so that it cannot save
    os.killpg(program.pid, signal.SIGINT)
    until(lambda: "saving" in program.stdout.readline())
    os.killpg(program.pid, signal.SIGINT)
    assert finish(program, code=130) == "hardmax: error: interrupted\n"
    until(lambda: not os.path.exists(f"/proc/{process}"))
    finish(start(tmp_path, "--workers", 2))
    assert results(tmp_path) == whole


@pytest.mark.slow
def test_two_runners_at_the_same_moment(whole, tmp_path):
    programs = [start(tmp_path, "--workers", 1), start(tmp_path)]
    told = [finished(finish(program)) for program in programs]
    assert all(sorted(each) == sorted(RUNS) for each in told)  # both wait for all
    assert results(tmp_path) == whole
    for run in RUNS:  # no epoch was made twice
        assert len((tmp_path / run / "timing.jsonl").read_text().splitlines()) == 30


@pytest.mark.parametrize(("arguments", "words"), [
    (["figure3", "--workers", "0"], "workers must be at least 1, got 0"),
    (["figure3", "--workers", "2", "--cluster", "ray://auto"], "either --workers, for this machine, or --cluster"),
    (["figure3", "--cluster", "host:8786"], "'host:8786' is no address; give dask://HOST:PORT"),
    (["figure1", "--workers", "2"], "figure1 is one training with measurements on the way: --workers is for"),
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
