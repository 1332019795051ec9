"""How far runs are and when they will be done, from what they write; what a reader sees of it."""

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

from hardmax.applications.discrete_vae.config import DiscreteConfig
from hardmax.cli import live
from hardmax.experiments.runner.progress import Pace, Progress, ProgressCallbacks, SweepStatus, read_progress
from hardmax.experiments.tables.declaration import Cell, PlannedRun


@pytest.fixture
def planned(tmp_path):
    """Return runs by name, with as many epochs of ten behind them as asked for."""

    def make(name, epochs=0, seconds=2.0):
        run = tmp_path / name
        run.mkdir()
        if epochs:
            splits = ("train", "validation", "test")
            rows = [
                {"epoch": epoch, "split": split, "elbo": -200.0 + epoch + 100 * (split == "validation")}
                for epoch in range(1, epochs + 1)
                for split in splits
            ]
            (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
            timing = {"epoch": 1, "train": 0.75 * seconds, "evaluate": 0.25 * seconds}
            (run / "timing.jsonl").write_text((json.dumps(timing) + "\n") * epochs)
        return PlannedRun(Cell("a", name, "ours", 1e-3), DiscreteConfig(epochs=10, out=str(run)))

    return make


def test_of_a_run(planned):
    assert read_progress(planned("new")) == Progress(0, 10, None, 0.0)
    assert read_progress(planned("old", 4)) == Progress(4, 10, 96.0, 8.0)
    broken = planned("broken", 4)
    with open(f"{broken.config.out}/metrics.jsonl", "r+") as file:
        file.write("....")
    assert read_progress(broken) == Progress(0, 10, None, 0.0)


def test_time_left(planned):
    pace = Pace()
    waiting = (planned("w1"), planned("w2"))
    status = SweepStatus(3, (planned("r0"),), waiting, size=2)
    assert pace.seconds_left(status, pace.update(status)) is None
    status = replace(status, running=(planned("r1", 4), planned("r2", 9, seconds=4.0)))
    running = pace.update(status)
    each = (4 * 2 + 9 * 4) / 13
    assert pace.seconds_left(status, running) == pytest.approx((6 * 2 + 1 * 4 + 20 * each) / 2)
    last = replace(status, running=(planned("r3", 2, seconds=100.0),), waiting=(), size=8)
    assert pace.seconds_left(last, pace.update(last)) == pytest.approx(800)  # one run is not faster with more workers


def test_what_a_reader_sees(planned):
    display = live.SweepDisplay()
    display.update(
        SweepStatus(
            3, (planned("r1", 4), planned("r2")), (planned("w"),), (planned("e"),), (planned("f"), planned("g"))
        )
    )
    console = Console(file=io.StringIO(), width=130)
    console.print(display)
    output = console.file.getvalue()
    assert "3 of 9 done, 2 running, 1 waiting, 1 with other runners, 2 failed; 0:00:00, about 0:00:52 left" in output
    assert "r1  epoch 5/10  −ELBO 96.00" in output
    assert "r2  epoch 1/10" in output


def test_many_runs_are_not_all_shown(planned):
    display = live.SweepDisplay()
    display.update(SweepStatus(0, tuple(planned(f"r{i}") for i in range(live._LINES + 5)), size=100))
    console = Console(file=io.StringIO(), width=100)
    console.print(display)
    assert "and 5 more" in console.file.getvalue()


def test_without_a_terminal_a_line_now_and_then(planned, monkeypatch):
    output = []
    with live.show_runs(Console(file=io.StringIO()), ProgressCallbacks(output.append)) as callbacks:
        callbacks.status(SweepStatus(1, waiting=(planned("w"),)))
        assert output == []
        later = live.time.monotonic() + 61
        monkeypatch.setattr(live.time, "monotonic", lambda: later)
        callbacks.status(SweepStatus(1, waiting=(planned("v"),)))
        callbacks.status(SweepStatus(1, waiting=(planned("u"),)))
    assert output == ["1 of 2 done, 0 running, 1 waiting; 0:01:01"]
