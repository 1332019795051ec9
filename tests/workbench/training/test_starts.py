"""Several starts: the best one on the validation images is trained; no start is repeated after a stop or a kill."""

import json
from dataclasses import replace
from itertools import product

import pytest

from hardmax.applications.discrete_vae.config import DiscreteConfig
from hardmax.applications.discrete_vae.task import DiscreteTask
from hardmax.applications.registry import find_application
from hardmax.applications.runs import train
from hardmax.data import load_images
from hardmax.errors import ArgumentError, DataError
from hardmax.training.loop import Observer, choose_start
from hardmax.training.run_folder import read_rows

_COUNT = 3


@pytest.fixture
def config(tmp_path):
    return DiscreteConfig(
        out=str(tmp_path / "run"), epochs=3, hidden=16, starts=_COUNT, start_epochs=1, evaluate_images=100
    )


def test_the_run_repeats_its_best_start(config, tmp_path):
    train(config)
    tried = read_rows(tmp_path / "run" / "starts.jsonl")
    assert [row["start"] for row in tried] == list(range(_COUNT))
    assert len({row["elbo"] for row in tried}) == _COUNT
    first = read_rows(tmp_path / "run" / "metrics.jsonl")[1]
    assert (first["split"], first["epoch"]) == ("validation", 1)
    assert first["elbo"] == max(row["elbo"] for row in tried)


def test_one_start_is_the_first_of_several(config, tmp_path):
    train(config)
    train(replace(config, starts=1, out=str(tmp_path / "one")))
    assert not (tmp_path / "one" / "starts.jsonl").exists()
    first = read_rows(tmp_path / "one" / "metrics.jsonl")[1]
    assert first["elbo"] == read_rows(tmp_path / "run" / "starts.jsonl")[0]["elbo"]


def test_a_better_start_is_chosen_by_the_written_results(config, tmp_path):
    messages: list[str] = []
    for best, other in product(range(_COUNT), [-100.0, float("nan")]):  # a start that has diverged is NaN
        rows = [{"start": i, "elbo": -99.0 if i == best else other} for i in range(_COUNT)]
        (tmp_path / "starts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        images = load_images(config.data)
        discrete = find_application("discrete")
        arguments = (config, discrete.load_task(), discrete.metrics, images, tmp_path)
        assert choose_start(*arguments, on_message=messages.append, should_stop=lambda: False) == best
    assert messages == []  # no start was tried again


def test_stopped_while_it_tries_and_resumed(config, tmp_path):
    folders = [tmp_path / "whole", tmp_path / "run"]
    train(replace(config, out=str(folders[0])))
    steps = 0

    def stop() -> bool:
        nonlocal steps
        steps += 1
        return steps == 60  # within the second start

    assert not train(config, Observer(should_stop=stop))
    assert len(read_rows(tmp_path / "run" / "starts.jsonl")) == 1
    assert train(DiscreteConfig(out=config.out, resume=True, epochs=3))
    assert (tmp_path / "run" / "metrics.jsonl").read_text() == (tmp_path / "whole" / "metrics.jsonl").read_text()
    tried = [[(row["start"], row["elbo"]) for row in read_rows(run / "starts.jsonl")] for run in folders]
    assert tried[0] == tried[1]


def test_starts_differ(config):
    images = load_images(config.data)
    weights = [next(DiscreteTask.build(config, images, start).model.parameters()) for start in (0, 0, 1)]
    assert weights[0].equal(weights[1])
    assert not weights[0].equal(weights[2])


@pytest.mark.parametrize("name", ["starts", "start_epochs"])
def test_refusals(name):
    with pytest.raises(ArgumentError, match=f"{name.replace('_', '-')} must be at least 1, got 0"):
        DiscreteConfig(**{name: 0})


def choose(config, folder):
    """Choose a start by the results that are written in a folder."""
    discrete = find_application("discrete")
    arguments = (config, discrete.load_task(), discrete.metrics, load_images(config.data), folder)
    return choose_start(*arguments, on_message=lambda text: None, should_stop=lambda: False)


@pytest.mark.parametrize("line", [
    "{}", '{"start": 0}', '{"elbo": -1.0}', '{"start": 1, "elbo": -1.0}', '{"start": 0, "elbo": "high"}', "3",
    "[" * 9999,
], ids=lambda line: line[:30])  # fmt: skip
def test_results_that_are_broken(config, tmp_path, line):
    (tmp_path / "starts.jsonl").write_text(line + "\n")
    with pytest.raises(DataError, match=r"line 1 of .*starts.jsonl is broken"):
        choose(config, tmp_path)


def test_a_kill_while_a_result_is_written(config, tmp_path):
    """The incomplete result is measured again, on a line of its own."""
    config = replace(config, starts=2)
    expected = choose(config, tmp_path)
    text = (tmp_path / "starts.jsonl").read_text()
    values = [row["elbo"] for row in read_rows(tmp_path / "starts.jsonl")]
    (tmp_path / "starts.jsonl").write_text(text[: text.index("\n") + 20])
    assert choose(config, tmp_path) == expected
    assert [row["elbo"] for row in read_rows(tmp_path / "starts.jsonl")] == values
