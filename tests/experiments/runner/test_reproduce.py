"""Runs are made once, go on after a stop, and render as they come."""

import json
import math
from dataclasses import replace

import pytest

from hardmax.applications.discrete_vae.config import DiscreteConfig
from hardmax.errors import ArgumentError, DataError
from hardmax.experiments.rows import find_row, hash_options, identify_run, read_results, seal_row
from hardmax.experiments.runner.progress import ProgressCallbacks
from hardmax.experiments.runner.reproduce import reproduce
from hardmax.experiments.tables.declaration import Cell, Experiment, PlannedRun, Quick
from hardmax.experiments.tables.metrics import BOUND, Mean
from hardmax.training.config import PLACES

TINY = Experiment(
    name="tiny",
    title="Tiny",
    claim="small is beautiful",
    setting="The embedded images.",
    options={"data": "sample", "epochs": 2, "batch_size": 1000, "hidden": 8, "evaluate_images": 50},
    cells=(
        Cell("bits", "direct", "the paper's", 1e-3, {"space": "binary", "variables": 3, "estimator": "direct"}),
        Cell("categories", "exact", "ours", 3e-3, {"categories": 4, "estimator": "exact"}),
    ),
    quick=Quick({"epochs": 1}, "one epoch"),
    seeds=(0, 1),
)


class Log:
    """Observes an experiment, and may stop it after it has been polled so often."""

    def __init__(self, asks=math.inf):
        self.began, self.finished, self.messages, self.asks = [], [], [], asks

    def callbacks(self):
        return ProgressCallbacks(
            say=self.messages.append,
            status=self.status,
            finished=lambda name, result: self.finished.append(name),
            stop=self.stop,
        )

    def status(self, status):
        for planned in status.running:
            if planned.name not in [name for name, *_ in self.began]:
                self.began.append((planned.name, status.done, status.total))

    def stop(self):
        self.asks -= 1
        return self.asks < 0


def make(*arguments, **options):
    """Reproduce; return whether it came to its end."""
    result = reproduce(*arguments, **options)
    assert result.failed == {}
    return not result.stopped


@pytest.fixture(scope="module")
def complete(tmp_path_factory):
    """The tiny experiment, made in one go."""
    out = tmp_path_factory.mktemp("complete")
    log = Log()
    assert make(TINY, out, callbacks=log.callbacks())
    return out, log


def rows(out):
    return [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]


def results(out):
    """Return the rows without what depends on when they were made."""
    moment = ("seconds", "seconds_per_epoch", "processor_seconds", "commit", "checksum")
    return [{key: value for key, value in row.items() if key not in moment} for row in rows(out)]


def copy(complete, tmp_path):
    """Return a folder with the rows and no runs."""
    for name in ("results.jsonl", "experiment.json"):
        (tmp_path / name).write_text((complete[0] / name).read_text())
    return tmp_path


def test_every_cell_and_seed_has_a_row(complete):
    out, log = complete
    names = ["bits-direct-seed0", "categories-exact-seed0", "bits-direct-seed1", "categories-exact-seed1"]
    assert log.finished == names
    assert log.began == [(name, i, 4) for i, name in enumerate(names)]
    all_rows = rows(out)
    assert [(row["cell"], row["seed"]) for row in all_rows] == [
        (cell.name, seed) for seed in (0, 1) for cell in TINY.cells
    ]
    for row in all_rows:
        assert row["experiment"] == "tiny"
        assert row["quick"] is False
        assert row["hash"] == hash_options(row["config"])
        assert row["config"] == identify_run(DiscreteConfig(**{**row["config"], "widths": ()}))
        assert not row["config"].keys() & set(PLACES)
        assert row["command"].startswith(f"hardmax train --out runs/{row['cell']}-seed{row['seed']} ")
        assert row["versions"]["torch"]
        assert "commit" in row
        assert len(row["seconds"]) == 2
        assert min(row["seconds"]) <= row["seconds_per_epoch"] <= max(row["seconds"])
        for split in ("test", "validation"):
            assert [epoch["epoch"] for epoch in row[split]] == [1, 2]
            keys = {"epoch", "negative_elbo", "nll", "kl", "active"}
            assert set(row[split][0]) == (keys | {"train_negative_elbo"} if split == "test" else keys)


def test_what_is_rendered(complete):
    out, _ = complete
    page = (out / "results.md").read_text()
    lines = [line for line in page.splitlines() if line.startswith("| ")]
    assert lines[0] == "| | group | lr | epoch 1 | epoch 2 | −log p(x) | evaluations | s per epoch | seeds |"
    assert len(lines) == 3
    cell_rows = [row for row in rows(out) if row["cell"] == "categories-exact"]
    last = BOUND.format_mean(Mean.from_values([row["test"][-1]["negative_elbo"] for row in cell_rows]))
    assert last in lines[2]
    assert " ± " in last
    assert lines[2].endswith("| 2 of 2 |")
    assert "small is beautiful" in page
    assert page.count("hardmax train") == 2
    assert (out / "tiny.svg").read_text().startswith("<?xml")
    assert (out / "tiny.png").read_bytes().startswith(b"\x89PNG")
    assert not list(out.glob("*.tmp"))


def test_what_is_finished_is_not_made_again(complete, tmp_path):
    out = copy(complete, tmp_path)
    log = Log()
    assert make(TINY, out, callbacks=log.callbacks())
    assert log.began == []
    assert log.messages == ["4 of 4 runs are finished already"]
    assert (out / "results.md").read_text() == (complete[0] / "results.md").read_text()
    assert (out / "tiny.svg").read_text() == (complete[0] / "tiny.svg").read_text()


def test_another_configuration_is_made_again(complete, tmp_path):
    out = copy(complete, tmp_path)
    changed = replace(TINY, cells=(TINY.cells[0], replace(TINY.cells[1], lr=2e-3)), seeds=(0,))
    log = Log()
    assert make(changed, out, callbacks=log.callbacks())
    assert log.finished == ["categories-exact-seed0"]
    assert rows(out)[-1]["config"]["lr"] == 2e-3
    log = Log()  # and once more: the folder now holds the other run, which is replaced
    assert make(replace(changed, cells=(replace(TINY.cells[1], lr=4e-3),)), out, callbacks=log.callbacks())
    assert log.finished == ["categories-exact-seed0"]
    assert "made again" in log.messages[0]


def test_an_option_that_came_later_is_no_other_configuration(tmp_path):
    planned = TINY.plan(tmp_path)[0]
    options = identify_run(planned.config)
    del options["mixed_precision"]  # as if the row were older than the option
    row = {"cell": planned.cell.name, "seed": 0, "config": options}
    assert find_row([row], planned) is row
    assert find_row([row], replace(planned, config=replace(planned.config, epochs=3))) is None
    assert find_row([row], replace(planned, config=replace(planned.config, out="b", data_dir="c"))) is row


@pytest.mark.parametrize("asks", [6, 20])  # within an epoch of the first run, after one of the second
def test_goes_on_after_a_stop(complete, tmp_path, asks):
    log = Log(asks)
    assert not make(TINY, tmp_path, callbacks=log.callbacks())
    before = log.finished
    assert len(before) == (asks == 20)
    assert not list(tmp_path.glob("locks/runner-*"))
    log = Log()
    assert make(TINY, tmp_path, callbacks=log.callbacks())
    assert not set(before) & set(log.finished)
    assert results(tmp_path) == results(complete[0])


def test_a_kill_between_the_run_and_its_row(complete, tmp_path):
    assert make(TINY, tmp_path, only=["bits-direct"])
    (tmp_path / "results.jsonl").unlink()
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/latest")}
    log = Log()
    assert make(TINY, tmp_path, only=["bits-direct"], callbacks=log.callbacks())
    assert len(log.finished) == 2
    assert len(before) == 2
    assert all(path.stat().st_mtime_ns == moment for path, moment in before.items())  # nothing is trained again
    assert results(tmp_path) == [row for row in results(complete[0]) if row["cell"] == "bits-direct"]


def test_broken_rows_are_made_again(complete, tmp_path):
    out = copy(complete, tmp_path)
    lines = (out / "results.jsonl").read_text().splitlines()
    lines[1] = lines[1].replace('"lr": 0.003', '"lr": 0.004')  # no longer what the hash is of
    (out / "results.jsonl").write_text("\n".join(lines)[:-40])
    assert read_results(out / "results.jsonl", PlannedRun.fields)[1] == [
        "line 2 was altered: its configuration does not have its hash",
        "line 4 is cut off or not a row",
    ]
    log = Log()
    assert make(TINY, out, callbacks=log.callbacks())
    assert "2 broken lines" in log.messages[0]
    assert log.finished == ["categories-exact-seed0", "categories-exact-seed1"]
    assert read_results(out / "results.jsonl", PlannedRun.fields)[1] == []
    assert sorted(map(str, results(out))) == sorted(map(str, results(complete[0])))


def test_an_altered_result_is_noticed_and_made_again(complete, tmp_path):
    out = copy(complete, tmp_path)
    text = (out / "results.jsonl").read_text()
    value = rows(out)[2]["test"][-1]["negative_elbo"]
    assert text.count(repr(value)) == 1
    (out / "results.jsonl").write_text(text.replace(repr(value), repr(value - 1)))
    log = Log()
    assert make(TINY, out, callbacks=log.callbacks())
    start = f"1 broken lines of {out / 'results.jsonl'} were removed, and their runs are made"
    assert log.messages[0].startswith(start)
    assert "line 3 was altered after it was written: its content does not have its checksum" in log.messages[0]
    assert log.finished == [f"{rows(complete[0])[2]['cell']}-seed1"]
    assert sorted(map(str, results(out))) == sorted(map(str, results(complete[0])))


@pytest.mark.parametrize("field", ["seconds", "command", "versions", "validation", "starts", "checksum"])
def test_no_field_of_a_row_is_changed_unnoticed(complete, tmp_path, field):
    row = rows(complete[0])[0]
    value = row[field]
    row[field] = value[::-1] if isinstance(value, str) else [*value, 1] if isinstance(value, list) else {}
    (tmp_path / "results.jsonl").write_text(json.dumps(row) + "\n")
    assert read_results(tmp_path / "results.jsonl", PlannedRun.fields)[0] == []
    (tmp_path / "results.jsonl").write_text(json.dumps(seal_row(row)) + "\n")
    assert read_results(tmp_path / "results.jsonl", PlannedRun.fields) == ([seal_row(row)], [])


def test_rows_without_a_checksum_are_valid_and_get_one_when_they_are_copied(complete, tmp_path):
    old = [{key: value for key, value in row.items() if key != "checksum"} for row in rows(complete[0])]
    old[0]["test"][-1]["negative_elbo"] = float("nan")  # of a run that diverged
    path = tmp_path / "old.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in old))
    log = Log()
    assert make(TINY, tmp_path / "new", rows=[path], callbacks=log.callbacks())
    assert log.finished == []
    assert all("checksum" in row for row in rows(tmp_path / "new"))
    assert len(read_results(tmp_path / "new" / "results.jsonl", PlannedRun.fields)[0]) == 4


def test_partial_results_render(tmp_path):
    assert make(TINY, tmp_path, quick=True, only=["categories-exact"])
    page = (tmp_path / "results.md").read_text()
    assert "quick form" in page
    assert "| bits, direct | the paper's | 0.001 | – | – | – | – | not run |" in page
    assert "1 of 1" in page
    assert (tmp_path / "tiny.svg").exists()


def test_patterns_and_seeds_choose_runs(tmp_path):
    log = Log()
    assert make(TINY, tmp_path, only=["*-exact"], seeds=[1], callbacks=log.callbacks())
    assert log.finished == ["categories-exact-seed1"]


def test_nothing_is_left_by_a_seed_that_does_not_exist(tmp_path):
    with pytest.raises(ArgumentError, match="tiny has no seed 7; its seeds are: 0, 1"):
        reproduce(TINY, tmp_path / "out", seeds=[0, 7])
    assert not (tmp_path / "out").exists()


def test_nothing_is_left_by_a_cell_that_does_not_exist(tmp_path):
    with pytest.raises(ArgumentError, match="its cells are: bits-direct, categories-exact"):
        reproduce(TINY, tmp_path / "out", only=["nothing"])
    assert not (tmp_path / "out").exists()


def test_a_folder_is_for_one_thing(complete, tmp_path):
    with pytest.raises(ArgumentError, match=r"holds the full form of tiny; choose another folder with --out"):
        reproduce(TINY, complete[0], quick=True)
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="cannot use the folder"):
        reproduce(TINY, tmp_path / "file")
