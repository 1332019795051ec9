"""Reading a run's folder, also one that is broken or still in training."""

import json
import shutil

import pytest

from hardmax.applications.runs import read_run, render_report
from hardmax.errors import DataError


@pytest.fixture
def copy(trained, tmp_path):
    """Return a copy of a run, to be broken."""
    return shutil.copytree(trained("categorical"), tmp_path / "run")


def test_what_is_read(trained):
    run = read_run(trained("categorical"))
    assert run.name == "categorical"
    assert [len(rows) for rows in run.measured.values()] == [2, 2, 2]
    assert run.best_epoch == max(run.measured["validation"], key=lambda row: row.elbo).epoch
    assert run.last.epoch == 2
    assert len(run.pictures) == 100
    assert run.pictures.unique().tolist() == [0, 1]
    assert run.best.gap == pytest.approx(-run.best.elbo - run.best.nll)
    assert run.measured["train"][0].gap is None
    seconds = run.seconds()
    assert seconds[2] == pytest.approx(sum(row.train for row in run.timed))
    bounds = run.model.bounds(run.pictures)
    assert bounds.elbo.mean().item() == pytest.approx(run.best.elbo, rel=1e-5)


def test_pictures_are_those_that_were_evaluated(trained):
    """Also where pixels were drawn: then the best model's bound on them is the one in the log."""
    run = read_run(trained("rgb-categorical"))
    assert run.model.bounds(run.pictures).elbo.mean().item() == pytest.approx(run.best.elbo, rel=1e-5)


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


def test_number_that_is_none(copy):
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


def test_half_a_line_at_the_end_is_passed_over(copy):
    """A kill, or a look at a run that is just writing."""
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


def test_pictures_are_gone_or_elsewhere(copy, tmp_path, colours):
    said = json.loads((copy / "config.json").read_text())
    said["config"]["data"] = "gone/away.npz"
    (copy / "config.json").write_text(json.dumps(said))
    with pytest.raises(DataError, match=r"cannot load the run's pictures: .*--data or --data-dir"):
        read_run(copy)
    assert len(read_run(copy, data="sample").pictures) == 100
    with pytest.raises(DataError, match=r"trained on pictures of \(1, 28, 28\), but those of .* are \(3, 8, 10\)"):
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
