"""The training loop: randomness, observers, devices, evaluation."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

import hardmax as hm
from hardmax.applications.discrete_vae.config import DiscreteConfig
from hardmax.applications.discrete_vae.task import DiscreteTask, evaluate
from hardmax.applications.registry import find_application
from hardmax.applications.runs import load_run, train
from hardmax.data import load_images
from hardmax.training import loop
from hardmax.training.loop import Observer, train_task
from hardmax.training.processes import Group
from hardmax.training.task import prepare_split


@pytest.fixture
def images(tmp_path):
    """Return the path of a file with four patterns with noise."""
    generator = np.random.default_rng(0)
    patterns = generator.integers(0, 2, (4, 8, 8))
    noise = generator.random((600, 8, 8)) < 0.05
    path = tmp_path / "patterns.npy"
    np.save(path, ((patterns[generator.integers(0, 4, 600)] ^ noise) * 255).astype(np.uint8))
    return str(path)


def config_of(images, tmp_path, **options):
    return DiscreteConfig(data=images, out=str(tmp_path / "run"), **{"epochs": 3, "lr": 1e-2, "hidden": 32, **options})


def test_it_learns_and_does_not_change_global_randomness(images, tmp_path):
    before = torch.get_rng_state()
    rows = []
    config = config_of(images, tmp_path, epochs=30, categories=4)
    assert train(config, Observer(on_epoch=rows.append))
    assert torch.equal(torch.get_rng_state(), before)
    assert -rows[-1][2]["elbo"] < 25 < -rows[0][2]["elbo"]
    assert len(rows) == 30


def test_seeds(images, tmp_path):
    texts = []
    for name, seed in [("a", 0), ("b", 0), ("c", 1)]:
        out = tmp_path / name
        train(DiscreteConfig(data=images, out=str(out), epochs=2, hidden=32, seed=seed))
        texts.append((out / "metrics.jsonl").read_text())
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.parametrize(
    "options",
    [{"hidden": 32, "binarize": "stochastic"}, {"optimizer": "radam", "widths": (32, 16), "activation": "leaky-relu"}],
    ids=["adam", "radam"],
)
def test_an_observer_can_stop_it_and_it_goes_on_as_if_nothing_had_happened(images, tmp_path, options):
    whole = DiscreteConfig(data=images, out=str(tmp_path / "whole"), epochs=3, **options)
    train(whole)
    count = 0

    def stop():
        nonlocal count
        count += 1
        return count == 7

    parts = DiscreteConfig(data=images, out=str(tmp_path / "parts"), epochs=3, **options)
    assert not train(parts, Observer(should_stop=stop))
    assert train(DiscreteConfig(out=parts.out, resume=True, epochs=3))
    assert (tmp_path / "parts" / "metrics.jsonl").read_text() == (tmp_path / "whole" / "metrics.jsonl").read_text()
    first, second = load_run(tmp_path / "whole").model, load_run(tmp_path / "parts").model
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))


def test_evaluate_against_brute_force(images, tmp_path):
    config = config_of(images, tmp_path, space="binary", variables=4)
    train(config)
    restored = load_run(config.out)
    x = prepare_split(config, load_images(images), "test")
    metrics = evaluate(restored.model, x, batch_size=7)
    bounds = restored.model.bounds(x)
    assert metrics["elbo"] == pytest.approx(bounds.elbo.mean().item(), abs=1e-4)
    assert metrics["nll"] == pytest.approx(-bounds.log_likelihood.mean().item(), abs=1e-4)
    assert 0 <= metrics["active"] <= 4


def test_sampled_bounds_where_z_cannot_be_enumerated(images, tmp_path):
    config = config_of(images, tmp_path, space="binary", variables=30, epochs=1)
    train(config)
    model = load_run(config.out).model
    assert not model.is_enumerable
    x = prepare_split(config, load_images(images), "test")
    few, many = (evaluate(model, x, samples=s) for s in (10, 1000))
    assert many["nll"] < few["nll"] < -few["elbo"] + 1


def test_the_best_checkpoint_is_the_best_by_validation(images, tmp_path):
    config = config_of(images, tmp_path, epochs=12, lr=0.1, lr_schedule="constant")
    rows = []
    train(config, Observer(on_epoch=rows.append))
    best = max(range(12), key=lambda epoch: rows[epoch][1]["elbo"])
    metrics = evaluate(load_run(config.out).model, prepare_split(config, load_images(images), "validation"))
    assert metrics["elbo"] == pytest.approx(rows[best][1]["elbo"], abs=1e-4)
    kept = sorted(path.name for path in (tmp_path / "run").glob("checkpoint-*"))
    assert len(kept) <= 2


def test_config_json(images, tmp_path):
    config = config_of(images, tmp_path)
    train(config)
    facts = json.loads((tmp_path / "run" / "config.json").read_text())
    assert facts["data"]["shape"] == [1, 8, 8]
    assert facts["config"]["lr"] == 1e-2


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("mixed_precision", [False, True])
def test_on_a_gpu(images, tmp_path, mixed_precision):
    config = config_of(images, tmp_path, device="cuda", mixed_precision=mixed_precision)
    assert train(config)
    assert np.isfinite(evaluate(load_run(config.out).model, prepare_split(config, load_images(images), "test"))["elbo"])


def test_restore_without_a_checkpoint(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"config": DiscreteConfig().to_dict()}))
    with pytest.raises(hm.DataError, match="no checkpoint yet"):
        load_run(tmp_path)


@pytest.mark.parametrize("moment", ["append_rows", "save_checkpoint"])
@pytest.mark.parametrize("call", range(1, 7))
def test_killed_before_any_write(images, tmp_path, monkeypatch, moment, call):
    """Killed just before the n-th write of rows or of a checkpoint; some checkpoints are at the end of an epoch."""
    options = {"data": images, "hidden": 8, "epochs": 2, "batch_size": 60, "checkpoint_every": 4}
    whole, parts = (DiscreteConfig(out=str(tmp_path / name), **options) for name in ("whole", "parts"))
    train(whole)
    original, count = getattr(loop, moment), 0

    def killed(*arguments, **named):
        nonlocal count
        count += 1
        if count == call:
            raise KeyboardInterrupt
        return original(*arguments, **named)

    monkeypatch.setattr(loop, moment, killed)
    try:
        train(parts)
    except KeyboardInterrupt:
        monkeypatch.undo()
        train(DiscreteConfig(out=parts.out, resume=True, epochs=2))
    assert (tmp_path / "parts" / "metrics.jsonl").read_text() == (tmp_path / "whole" / "metrics.jsonl").read_text()
    a, b = load_run(whole.out, "latest"), load_run(parts.out, "latest")
    assert a.checkpoint == b.checkpoint
    assert all(torch.equal(p, q) for p, q in zip(a.model.parameters(), b.model.parameters(), strict=True))


def rates_of(config, monkeypatch):
    """Train; return the learning rate of every step, and the messages about it."""
    rates, messages = [], []
    step = torch.optim.Adam.step
    monkeypatch.setattr(
        torch.optim.Adam, "step", lambda self: (rates.append(self.param_groups[0]["lr"]), step(self))[1]
    )
    assert train(config, Observer(on_message=messages.append))
    monkeypatch.undo()
    return rates, [line for line in messages if line.startswith("learning rate")]


def test_a_finished_schedule_is_extended_at_a_tenth_of_the_rate(images, tmp_path, monkeypatch):
    config = config_of(images, tmp_path, epochs=2)
    assert rates_of(config, monkeypatch)[1] == []
    rates, messages = rates_of(DiscreteConfig(out=config.out, resume=True, epochs=6), monkeypatch)
    assert max(rates) == pytest.approx(config.learning_rate / 10)  # not the rate of the first step
    assert rates[-1] < rates[0]
    assert len(messages) == 1
    assert (
        "2 epochs had brought it down to 0; with 6 it goes on at 0.001, instead of jumping back to 0.01" in messages[0]
    )


def test_an_extended_schedule_never_rises(images, tmp_path, monkeypatch):
    config, count = config_of(images, tmp_path, epochs=8), 0

    def stop():  # after three quarters, at half of the rate
        nonlocal count
        count += 1
        return count > 30

    assert not train(config, Observer(should_stop=stop))
    rates, messages = rates_of(DiscreteConfig(out=config.out, resume=True, epochs=24), monkeypatch)
    assert 0.1 < max(rates) / config.learning_rate < 1
    assert rates == sorted(rates, reverse=True)
    assert len(messages) == 1


def test_a_schedule_that_has_not_decayed_is_only_extended(images, tmp_path, monkeypatch):
    config, count = config_of(images, tmp_path, epochs=8), 0

    def stop():
        nonlocal count
        count += 1
        return count > 2

    assert not train(config, Observer(should_stop=stop))
    rates, messages = rates_of(DiscreteConfig(out=config.out, resume=True, epochs=16), monkeypatch)
    assert max(rates) == config.learning_rate
    assert messages == []


def test_an_extended_run_that_is_killed_goes_on_as_if_it_had_not_been(images, tmp_path):
    for name in ("whole", "parts"):
        assert train(replace(config_of(images, tmp_path, epochs=2), out=str(tmp_path / name)))
    assert train(DiscreteConfig(out=str(tmp_path / "whole"), resume=True, epochs=4))
    count = 0

    def stop():
        nonlocal count
        count += 1
        return count == 2

    parts = DiscreteConfig(out=str(tmp_path / "parts"), resume=True, epochs=4)
    assert not train(parts, Observer(should_stop=stop))
    assert train(parts)
    assert (tmp_path / "parts" / "metrics.jsonl").read_text() == (tmp_path / "whole" / "metrics.jsonl").read_text()


def test_a_task_written_with_former_names_trains(images, tmp_path):
    with pytest.warns(DeprecationWarning, match="is deprecated") as warnings:

        class FormerTask(DiscreteTask):
            start = DiscreteTask.__dict__["build"]
            explain = DiscreteTask.__dict__["describe_training"]
            learned = DiscreteTask.__dict__["extra_parameters"]

    new_names = ("build", "describe_training", "extra_parameters")
    assert [str(warning.message).rsplit(maxsplit=1)[-1] for warning in warnings] == [
        f"FormerTask.{new}" for new in new_names
    ]
    assert all(vars(FormerTask)[new] is vars(DiscreteTask)[new] for new in new_names)
    assert train_task(config_of(images, tmp_path), FormerTask, find_application("discrete").metrics)
    with pytest.warns(DeprecationWarning, match="DiscreteTask.start is deprecated .* use DiscreteTask.build"):
        assert DiscreteTask.start == DiscreteTask.build
    with pytest.warns(DeprecationWarning, match="Group.part is deprecated .* use Group.own_slice"):
        assert Group(1, 2).part(4) == slice(2, 4)
