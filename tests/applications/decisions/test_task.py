"""Decision models: options, training, processes that share a step, metrics, and saved models."""

from dataclasses import replace

import pytest
import torch

import hardmax as hm
from hardmax.applications.decisions import DecisionModel, measure_regret
from hardmax.applications.decisions import problems as problems_module
from hardmax.applications.decisions.config import DecisionsConfig
from hardmax.applications.decisions.task import DecisionsTask
from hardmax.applications.runs import load_model, read_run, render_report, train
from hardmax.errors import ArgumentError, DataError, ShapeError
from hardmax.training.loop import Observer
from hardmax.training.processes import Group
from hardmax.training.run_folder import read_rows
from hardmax.training.state import State

SMALL = {"grid": 3, "items": 6, "examples": 100, "validation_examples": 20, "test_examples": 30, "epochs": 2}


def config_of(out="run", **options):
    return DecisionsConfig(out=str(out), **{**SMALL, **options})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"noise": 1.5}, "noise must be between 0 and 1.* got 1.5"),
        ({"grid": 1}, "grid must be at least 2, got 1"),
        ({"capacity": 3.0}, "capacity must be at least 8"),
        ({"hidden": -1}, "hidden must not be negative"),
        ({"degree": 0}, "degree must be at least 1"),
        ({"validation_examples": 0}, "validation-examples must be at least 1"),
        ({"step": 0.0}, "step must be positive"),
        ({"temperature_end": -1.0}, "temperature-end must be positive"),
        ({"share": 0.0}, "share must be above 0"),
    ],
)
def test_invalid_options(options, message):
    with pytest.raises(ArgumentError, match=message):
        DecisionsConfig(**options)


def test_defaults_by_loss():
    assert DecisionsConfig().learning_rate == 1e-2
    assert DecisionsConfig(loss="direct").noise_samples is None
    assert DecisionsConfig(loss="direct", samples=2).noise_samples == 2
    assert DecisionsConfig(loss="fenchel-young").noise_samples == 3
    assert DecisionsConfig(loss="spo-plus").noise_samples is None
    assert DecisionsConfig(loss="spo-plus", samples=5).noise_samples == 5
    assert DecisionsConfig(loss="blackbox", samples=5).noise_samples is None
    assert DecisionsConfig(loss="implicit-mle").slope_step == 10
    unused = DecisionsConfig(loss="blackbox").unused_options
    assert {"epsilon", "samples", "temperature", "items", "capacity"} <= unused
    assert not {"step", "grid"} & unused


def test_temperature():
    cooled = DecisionsConfig(loss="gibbs", temperature=4.0, temperature_end=1.0)
    assert [cooled.choose_temperature(progress) for progress in (0, 0.5, 1)] == [4, 2, 1]
    assert DecisionsConfig(loss="gibbs").choose_temperature(1.0) == pytest.approx(0.3)
    assert DecisionsConfig(loss="likelihood", temperature=2.0).choose_temperature(1.0) == 2


@pytest.mark.parametrize("options", [{"loss": "fenchel-young"}, {"loss": "gibbs", "data": "knapsack", "hidden": 4}])
def test_a_stopped_and_resumed_run_equals_an_uninterrupted_one(options, tmp_path):
    whole, cut = (config_of(tmp_path / name, **options) for name in ("whole", "cut"))
    assert train(whole)
    answers = iter([False] * 5 + [True])
    assert not train(cut, Observer(should_stop=lambda: next(answers, False)))
    assert train(replace(cut, resume=True))
    assert read_rows(tmp_path / "whole/metrics.jsonl") == read_rows(tmp_path / "cut/metrics.jsonl")
    for name in ("model", "training"):
        files = [tmp_path / run / "checkpoint-8" / f"{name}.safetensors" for run in ("whole", "cut")]
        assert files[0].read_bytes() == files[1].read_bytes()


def test_another_seed_is_other_data(tmp_path):
    config = config_of(tmp_path / "run", epochs=1)
    assert train(config)
    path = tmp_path / "run" / "config.json"
    path.write_text(path.read_text().replace('"degree": 4', '"degree": 2'))
    with pytest.raises(DataError, match="the data have changed since the run was started: test costs, "):
        train(DecisionsConfig(out=config.out, resume=True, epochs=2))


@pytest.mark.parametrize("loss", ["spo-plus", "fenchel-young", "implicit-mle", "gibbs"])
def test_processes_share_a_step(loss):
    """The gradients of two processes add up to those of one."""

    def gradients(group):
        config = config_of(loss=loss)
        state = State(DecisionsTask.build(config, DecisionsTask.load_data(config), 0, group))
        sums = state.task.add_gradients(state.begin_epoch()[0][:7], 0, 0)  # halves of different size
        return [sums, *(parameter.grad for parameter in state.task.model.parameters())]

    both = zip(gradients(Group(0, 2)), gradients(Group(1, 2)), strict=True)
    for expected, (first, second) in zip(gradients(Group()), both, strict=True):
        torch.testing.assert_close(first + second, expected, rtol=1e-4, atol=1e-6)


def test_more_processes_than_examples():
    config = config_of()
    state = State(DecisionsTask.build(config, DecisionsTask.load_data(config), 0, Group(0, 5)))
    assert state.task.add_gradients(torch.arange(3), 0, 0).tolist() == [0, 0, 0]


def test_adaptive_steps_cannot_be_shared():
    assert DecisionsTask.couples_examples(config_of(loss="adaptive-implicit-mle"))
    assert not DecisionsTask.couples_examples(config_of(loss="implicit-mle"))


def test_metrics_equal_a_loop():
    config = config_of(data="knapsack")
    task = DecisionsTask.build(config, DecisionsTask.load_data(config))
    features, costs, _ = task.examples["test"][:]
    members, total, best_total, optimal = task.space.enumerate(dtype=torch.float64), 0.0, 0.0, 0
    for x, cost in zip(features, costs.double(), strict=True):
        chosen = float(task.model.decide(x[None])[0].double() @ cost)
        best = float((members @ cost).min())
        total, best_total, optimal = total + chosen - best, best_total + abs(best), optimal + (chosen == best)
    assert task.evaluate("test") == {"regret": pytest.approx(total / best_total), "optimal": optimal / len(features)}


def test_regret_of_the_best_decisions_is_zero():
    costs = torch.randn(5, 4)
    space = hm.Categorical(4)
    best = space.argmax(-costs)
    assert measure_regret(best, costs, best, space) == {"regret": 0.0, "optimal": 1.0}
    assert measure_regret(space.argmax(costs), costs, best, space)["regret"] > 0  # planted: the worst ones


def test_a_loss_that_the_problem_does_not_offer(monkeypatch, tmp_path):
    """The run fails before anything is written."""
    problem = replace(
        problems_module.PROBLEMS["path"],
        build_space=lambda parameters, noise: hm.GridPath(3, 3, monotone=False),
    )
    monkeypatch.setitem(problems_module.PROBLEMS, "path", problem)
    with pytest.raises(ArgumentError, match="loss gibbs needs sums over all decisions"):
        train(config_of(tmp_path / "run", loss="gibbs"))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("hidden", [0, 3])
def test_models_are_saved_with_their_problem(hidden, tmp_path):
    parameters = {"weights": [[2, 3, 4]], "capacity": [6]}
    model, x = DecisionModel("knapsack", parameters, [2], hidden), torch.randn(5, 2)
    model.save_pretrained(tmp_path)
    loaded = load_model(tmp_path)
    assert isinstance(loaded, DecisionModel)
    assert loaded.space == model.space == hm.Knapsack([[2, 3, 4]], [6])
    assert torch.equal(loaded(x), model(x))
    assert torch.equal(loaded.decide(x), model.space.argmax(model(x)))


def test_invalid_models():
    with pytest.raises(ArgumentError, match="no problem 'chess'; there are: path, knapsack"):
        DecisionModel("chess", {}, [5])
    with pytest.raises(ArgumentError, match="features must be a shape"):
        DecisionModel("path", {"grid": [3, 3]}, [])
    with pytest.raises(ArgumentError, match="at most 65,536 cells"):
        DecisionModel("path", {"grid": [1000, 1000]}, [5])
    with pytest.raises(ShapeError, match=r"features have shape \[3, 4\], but the model has learned \[N, 5\]"):
        DecisionModel("path", {"grid": [3, 3]}, [5])(torch.zeros(3, 4))


@pytest.mark.parametrize("data", ["path", "knapsack"])
def test_the_report(data, tmp_path):
    assert train(config_of(tmp_path / "run", data=data))
    page = render_report([read_run(tmp_path / "run")])
    assert "lowest regret of the validation examples" in page
    assert "Regret by epoch" in page
    assert ("the model&#39;s path (orange)" in page) == (data == "path")
    assert (">best value<" in page) == (data == "knapsack")
    assert "test images" not in page
