"""Reading the folder of a run, including one that is broken or still in training."""

import json
import shutil

import pytest

from hardmax.applications.runs import read_run, render_report
from hardmax.errors import DataError


@pytest.fixture
def copy(trained, tmp_path):
    """Return a copy of a run, for tests that damage it."""
    return shutil.copytree(trained("categorical"), tmp_path / "run")


def test_contents_of_a_run(trained):
    run = read_run(trained("categorical"))
    assert run.name == "categorical"
    assert [len(rows) for rows in run.rows.values()] == [2, 2, 2]
    assert run.best_epoch == max(run.rows["validation"], key=lambda row: row.elbo).epoch
    assert run.last.epoch == 2
    assert len(run.test_examples) == 100
    assert run.test_examples.unique().tolist() == [0, 1]
    assert run.best.gap == pytest.approx(-run.best.elbo - run.best.nll)
    assert run.rows["train"][0].gap is None
    seconds = run.list_elapsed_seconds()
    assert seconds[2] == pytest.approx(sum(row.train for row in run.timing))
    bounds = run.model.bounds(run.test_examples)
    assert bounds.elbo.mean().item() == pytest.approx(run.best.elbo, rel=1e-5)


def test_images_are_the_evaluated_ones(trained):
    """Also where pixels are sampled: the bound of the best model on them equals the one in the log."""
    run = read_run(trained("rgb-categorical"))
    assert run.model.bounds(run.test_examples).elbo.mean().item() == pytest.approx(run.best.elbo, rel=1e-5)


def test_no_run(tmp_path, trained):
    with pytest.raises(DataError, match="there is no such folder"):
        read_run(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"config.json is missing; make one with hardmax train --out"):
        read_run(tmp_path)
    (tmp_path / "run.log").touch()
    with pytest.raises(DataError, match="it is not a folder"):
        read_run(tmp_path / "run.log")
    with pytest.raises(DataError, match=r"its sub-folders do: hardmax report .*/\*/"):
        read_run(trained("categorical").parent)


def test_no_finished_epoch(copy):
    (copy / "metrics.jsonl").unlink()
    with pytest.raises(DataError, match=r"no finished epoch yet.*hardmax train --resume --out"):
        read_run(copy)


def test_no_checkpoint(copy):
    (copy / "best").unlink()
    (copy / "latest").unlink()
    with pytest.raises(DataError, match="no finished epoch yet"):
        read_run(copy)


@pytest.mark.parametrize("line", ["{", "[]", '{"epoch": 1}', '"text"', "", "null"])
def test_broken_line(copy, line):
    lines = (copy / "metrics.jsonl").read_text().splitlines()
    lines[1] = line
    (copy / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    with pytest.raises(DataError, match=r"line 2 of .*metrics.jsonl is broken.*remove the line"):
        read_run(copy)


def test_a_value_that_is_not_a_number(copy):
    text = (copy / "metrics.jsonl").read_text()
    first = json.loads(text.splitlines()[0])
    (copy / "metrics.jsonl").write_text(json.dumps(first | {"elbo": "low"}) + "\n" + text)
    with pytest.raises(DataError, match="line 1 of"):
        read_run(copy)


def test_broken_timing(copy):
    (copy / "timing.jsonl").write_text("?\n")
    with pytest.raises(DataError, match=r"line 1 of .*timing.jsonl is broken"):
        read_run(copy)
    (copy / "timing.jsonl").write_bytes(b"\xff\xfe\n")
    with pytest.raises(DataError, match=r"cannot read .*timing.jsonl"):
        read_run(copy)


def test_an_incomplete_last_line_is_ignored(copy):
    """The run was killed, or is just writing."""
    with (copy / "metrics.jsonl").open("a") as file:
        file.write('{"epoch": 3, "st')
    assert read_run(copy).last.epoch == 2


def test_rows_after_the_checkpoint_do_not_matter(copy):
    """Rows are written before the checkpoint that belongs to them."""
    rows = [json.loads(line) for line in (copy / "metrics.jsonl").read_text().splitlines()]
    before = read_run(copy).best_epoch
    with (copy / "metrics.jsonl").open("a") as file:
        file.writelines(json.dumps(row | {"epoch": 3, "step": 999}) + "\n" for row in rows[-3:])
    run = read_run(copy)
    assert run.best_epoch == before
    assert run.last.epoch == 3


def test_broken_model(copy):
    for path in copy.glob("checkpoint-*/model.safetensors"):
        path.write_bytes(b"nothing")
    with pytest.raises(DataError, match=r"checkpoint-\d+ cannot be read"):
        read_run(copy)


def test_images_that_are_missing_or_elsewhere(copy, tmp_path, colours):
    facts = json.loads((copy / "config.json").read_text())
    facts["config"]["data"] = "gone/away.npz"
    (copy / "config.json").write_text(json.dumps(facts))
    with pytest.raises(DataError, match=r"cannot load the run's images: .*--data or --data-dir"):
        read_run(copy)
    assert len(read_run(copy, data="sample").test_examples) == 100
    with pytest.raises(DataError, match=r"trained on images of \[1, 28, 28\], but those of .* are \[3, 8, 10\]"):
        read_run(copy, data=str(colours))


def test_a_run_whose_bound_was_never_a_number(copy):
    rows = [json.loads(line) for line in (copy / "metrics.jsonl").read_text().splitlines()]
    broken = [row | {"elbo": float("nan"), "nll": float("nan"), "kl": float("inf")} for row in rows]
    (copy / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in broken))
    (copy / "best").unlink()
    run = read_run(copy)
    assert run.best_epoch == 2
    assert "not finite" in render_report([run])
    assert "not finite" in render_report([run, run])


def test_without_times(copy):
    (copy / "timing.jsonl").unlink()
    run = read_run(copy)
    assert run.seconds_per_epoch is None
    assert "–" in render_report([run, run])
    assert "Seconds per epoch" in render_report([run])
