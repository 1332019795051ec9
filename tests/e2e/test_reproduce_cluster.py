"""`hardmax reproduce --cluster`: on a real Dask cluster and a real Ray, whatever is killed on the way."""

from importlib.util import find_spec

import pytest
from e2e.clusters import dask_cluster, ray_cluster
from e2e.sweeps import RUNS, clean_up, finish, finished, kill, met, results, start

needs_dask = pytest.mark.skipif(find_spec("distributed") is None, reason="distributed is not installed")
needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed")


@pytest.fixture(autouse=True)
def nothing_is_left():
    yield
    clean_up()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The rows as one process makes them."""
    out = tmp_path_factory.mktemp("whole")
    assert finished(finish(start(out))) == RUNS
    return results(out)


@pytest.mark.slow
@needs_dask
def test_dask(whole, tmp_path):
    with dask_cluster(tmp_path / "dask") as address:
        _killed(tmp_path / "worker", ["--cluster", address], {}, whole)
        _left_alone(tmp_path / "runner", ["--cluster", address.replace("tcp", "dask")], {}, whole)


@pytest.mark.slow
@needs_ray
def test_ray(whole, tmp_path):
    with ray_cluster() as (environment, address):
        finish(start(tmp_path / "far", "--quick", "--cluster", address, **environment))
        assert len(results(tmp_path / "far")) == 2
        said = _killed(tmp_path / "worker", ["--cluster", "ray://auto"], environment, whole)
        assert said.count("its process was lost; it goes on from its last checkpoint") == 1
        _left_alone(tmp_path / "runner", ["--cluster", "ray://auto"], environment, whole)


def _killed(out, options, environment, whole):
    """A worker is killed in the middle of a run."""
    program = start(out, *options, **environment)
    _, process = met(out, program)
    kill(process)
    said = finish(program)
    assert sorted(finished(said)) == sorted(RUNS)
    assert results(out) == whole
    return said


def _left_alone(out, options, environment, whole):
    """The runner is killed in the middle of runs, and started again."""
    program = start(out, *options, **environment)
    met(out, program)
    kill(program.pid)
    program.communicate()
    finish(start(out, *options, **environment))
    assert results(out) == whole


@needs_dask
def test_nobody_answers(tmp_path):
    said = finish(start(tmp_path / "out", "--cluster", "dask://127.0.0.1:1", SECONDS="1"), code=2)
    assert "hardmax: error: no Dask scheduler answers at tcp://127.0.0.1:1 within 1 seconds" in said
    assert said.count("\n") == 1


@needs_ray
def test_no_ray(tmp_path):
    said = finish(start(tmp_path / "out", "--cluster", "ray://127.0.0.1:1"), code=2)
    assert "hardmax: error: no Ray cluster answers at ray://127.0.0.1:1 within 30 seconds" in said
    assert said.count("\n") == 1


@pytest.mark.slow
@needs_dask
@pytest.mark.parametrize(("workers", "threads", "words"), [
    (0, 1, "got no worker within 3 seconds; start some with dask worker"),
    (1, 2, "has 2 threads, and runs of one process would share one torch; start workers with --nthreads 1"),
])  # fmt: skip
def test_a_dask_that_cannot_work(workers, threads, words, tmp_path):
    with dask_cluster(tmp_path / "dask", workers, threads) as address:
        said = finish(start(tmp_path / "out", "--cluster", address, SECONDS="3"), code=2)
    assert words in said
    assert said.count("\n") == 1


@pytest.mark.slow
@needs_dask
def test_the_scheduler_is_lost(tmp_path):
    with dask_cluster(tmp_path / "dask") as address:
        program = start(tmp_path / "out", "--cluster", address)
        met(tmp_path / "out", program)
    assert "no longer answers; once it is back, the same command goes on" in finish(program, code=2)
