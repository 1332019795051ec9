"""`hardmax reproduce --cluster` on real Dask and Ray clusters gives the same rows when processes are killed."""

from importlib.util import find_spec

import pytest
from e2e.clusters import dask_cluster, ray_cluster
from e2e.sweeps import RUNS, clean_up, finish, kill, list_finished, results, start, wait_for_run

needs_dask = pytest.mark.skipif(find_spec("distributed") is None, reason="distributed is not installed")
needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed")


@pytest.fixture(autouse=True)
def nothing_is_left():
    yield
    clean_up()


@pytest.fixture(scope="module")
def complete(tmp_path_factory):
    """The rows as one process makes them."""
    out = tmp_path_factory.mktemp("complete")
    assert list_finished(finish(start(out))) == RUNS
    return results(out)


@pytest.mark.slow
@needs_dask
def test_dask(complete, tmp_path):
    with dask_cluster(tmp_path / "dask") as address:
        _kill_worker(tmp_path / "worker", ["--cluster", address], {}, complete)
        _kill_runner(tmp_path / "runner", ["--cluster", address.replace("tcp", "dask")], {}, complete)


@pytest.mark.slow
@needs_ray
def test_ray(complete, tmp_path):
    with ray_cluster() as (environment, address):
        finish(start(tmp_path / "far", "--quick", "--cluster", address, **environment))
        assert len(results(tmp_path / "far")) == 2
        output = _kill_worker(tmp_path / "worker", ["--cluster", "ray://auto"], environment, complete)
        assert output.count("its process was lost; it is resumed from its last checkpoint") == 1
        _kill_runner(tmp_path / "runner", ["--cluster", "ray://auto"], environment, complete)


def _kill_worker(out, options, environment, complete):
    """A worker is killed in the middle of a run."""
    program = start(out, *options, **environment)
    _, process = wait_for_run(out, program)
    kill(process)
    output = finish(program)
    assert sorted(list_finished(output)) == sorted(RUNS)
    assert results(out) == complete
    return output


def _kill_runner(out, options, environment, complete):
    """The runner is killed in the middle of runs, and started again."""
    program = start(out, *options, **environment)
    wait_for_run(out, program)
    kill(program.pid)
    program.communicate()
    finish(start(out, *options, **environment))
    assert results(out) == complete


@needs_dask
def test_nobody_answers(tmp_path):
    output = finish(start(tmp_path / "out", "--cluster", "dask://127.0.0.1:1", SECONDS="1"), code=2)
    assert "hardmax: error: no Dask scheduler answers at tcp://127.0.0.1:1 within 1 seconds" in output
    assert output.count("\n") == 1


@needs_ray
def test_no_ray(tmp_path):
    output = finish(start(tmp_path / "out", "--cluster", "ray://127.0.0.1:1"), code=2)
    assert "hardmax: error: no Ray cluster answers at ray://127.0.0.1:1 within 30 seconds" in output
    assert output.count("\n") == 1


@pytest.mark.slow
@needs_dask
@pytest.mark.parametrize(("workers", "threads", "words"), [
    (0, 1, "has no worker after 3 seconds; start some with dask worker"),
    (1, 2, "has 2 threads, and runs in one process would share torch; start workers with --nthreads 1"),
])  # fmt: skip
def test_a_dask_that_cannot_work(workers, threads, words, tmp_path):
    with dask_cluster(tmp_path / "dask", workers, threads) as address:
        output = finish(start(tmp_path / "out", "--cluster", address, SECONDS="3"), code=2)
    assert words in output
    assert output.count("\n") == 1


@pytest.mark.slow
@needs_dask
def test_the_scheduler_is_lost(tmp_path):
    with dask_cluster(tmp_path / "dask") as address:
        program = start(tmp_path / "out", "--cluster", address)
        wait_for_run(tmp_path / "out", program)
    assert "no longer answers; once it is back, the same command resumes" in finish(program, code=2)
