"""The loop from within: randomness, observers, devices, evaluation."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

import hardmax as hm
from hardmax.applications.discrete_vae.config import DiscreteConfig
from hardmax.applications.discrete_vae.task import evaluate
from hardmax.applications.runs import load_run, train
from hardmax.data import load
from hardmax.training import loop
from hardmax.training.loop import Observer
from hardmax.training.task import prepare_split


@pytest.fixture
def pictures(tmp_path):
    """Four patterns with noise, as a file."""
    generator = np.random.default_rng(0)
    patterns = generator.integers(0, 2, (4, 8, 8))
    noise = generator.random((600, 8, 8)) < 0.05
    path = tmp_path / "patterns.npy"
    np.save(path, ((patterns[generator.integers(0, 4, 600)] ^ noise) * 255).astype(np.uint8))
    return str(path)


def config_of(pictures, tmp_path, **options):
    return DiscreteConfig(
        data=pictures, out=str(tmp_path / "run"), **{"epochs": 3, "lr": 1e-2, "hidden": 32, **options}
    )


def test_it_learns_and_leaves_global_randomness_alone(pictures, tmp_path):
    before = torch.get_rng_state()
    rows = []
    config = config_of(pictures, tmp_path, epochs=30, categories=4)
    assert train(config, Observer(rows=rows.append))
    assert torch.equal(torch.get_rng_state(), before)
    assert -rows[-1][2]["elbo"] < 25 < -rows[0][2]["elbo"]
    assert len(rows) == 30


def test_seeds(pictures, tmp_path):
    texts = []
    for name, seed in [("a", 0), ("b", 0), ("c", 1)]:
        out = tmp_path / name
        train(DiscreteConfig(data=pictures, out=str(out), epochs=2, hidden=32, seed=seed))
        texts.append((out / "metrics.jsonl").read_text())
    assert texts[0] == texts[1] != texts[2]


def test_an_observer_can_stop_it_and_it_goes_on_as_if_nothing_had_happened(pictures, tmp_path):
    whole = DiscreteConfig(data=pictures, out=str(tmp_path / "whole"), hidden=32, epochs=3, binarize="stochastic")
    train(whole)
    count = 0

    def stop():
        nonlocal count
        count += 1
        return count == 7

    parts = DiscreteConfig(data=pictures, out=str(tmp_path / "parts"), hidden=32, epochs=3, binarize="stochastic")
    assert not train(parts, Observer(stop=stop))
    assert train(DiscreteConfig(out=parts.out, resume=True, epochs=3))
    assert (tmp_path / "parts" / "metrics.jsonl").read_text() == (tmp_path / "whole" / "metrics.jsonl").read_text()
    first, second = load_run(tmp_path / "whole").model, load_run(tmp_path / "parts").model
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))


def test_evaluate_against_brute_force(pictures, tmp_path):
    config = config_of(pictures, tmp_path, space="binary", variables=4)
    train(config)
    restored = load_run(config.out)
    x = prepare_split(config, load(pictures), "test")
    found = evaluate(restored.model, x, batch_size=7)
    bounds = restored.model.bounds(x)
    assert found["elbo"] == pytest.approx(bounds.elbo.mean().item(), abs=1e-4)
    assert found["nll"] == pytest.approx(-bounds.log_likelihood.mean().item(), abs=1e-4)
    assert 0 <= found["active"] <= 4


def test_sampled_bounds_where_z_cannot_be_enumerated(pictures, tmp_path):
    config = config_of(pictures, tmp_path, space="binary", variables=30, epochs=1)
    train(config)
    model = load_run(config.out).model
    assert not model.enumerable
    x = prepare_split(config, load(pictures), "test")
    few, many = (evaluate(model, x, samples=s) for s in (10, 1000))
    assert many["nll"] < few["nll"] < -few["elbo"] + 1


def test_the_best_checkpoint_is_the_best_by_validation(pictures, tmp_path):
    config = config_of(pictures, tmp_path, epochs=12, lr=0.1, lr_schedule="constant")
    rows = []
    train(config, Observer(rows=rows.append))
    best = max(range(12), key=lambda epoch: rows[epoch][1]["elbo"])
    found = evaluate(load_run(config.out).model, prepare_split(config, load(pictures), "validation"))
    assert found["elbo"] == pytest.approx(rows[best][1]["elbo"], abs=1e-4)
    kept = sorted(path.name for path in (tmp_path / "run").glob("checkpoint-*"))
    assert len(kept) <= 2


def test_config_json(pictures, tmp_path):
    config = config_of(pictures, tmp_path)
    train(config)
    said = json.loads((tmp_path / "run" / "config.json").read_text())
    assert said["data"]["shape"] == [1, 8, 8]
    assert said["config"]["lr"] == 1e-2


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("mixed_precision", [False, True])
def test_on_a_gpu(pictures, tmp_path, mixed_precision):
    config = config_of(pictures, tmp_path, device="cuda", mixed_precision=mixed_precision)
    assert train(config)
    assert np.isfinite(evaluate(load_run(config.out).model, prepare_split(config, load(pictures), "test"))["elbo"])


def test_restore_without_a_checkpoint(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"config": DiscreteConfig().to_dict()}))
    with pytest.raises(hm.DataError, match="no checkpoint yet"):
        load_run(tmp_path)


@pytest.mark.parametrize("moment", ["append_rows", "save_checkpoint"])
@pytest.mark.parametrize("call", range(1, 7))
def test_killed_before_any_write(pictures, tmp_path, monkeypatch, moment, call):
    """Killed just before the n-th write of rows or of a checkpoint; checkpoints fall on the ends of epochs, too."""
    options = {"data": pictures, "hidden": 8, "epochs": 2, "batch_size": 60, "checkpoint_every": 4}
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
    """Train, and return the learning rate of every step, and what was said."""
    rates, said = [], []
    step = torch.optim.Adam.step
    monkeypatch.setattr(
        torch.optim.Adam, "step", lambda self: (rates.append(self.param_groups[0]["lr"]), step(self))[1]
    )
    assert train(config, Observer(say=said.append))
    monkeypatch.undo()
    return rates, [line for line in said if line.startswith("learning rate")]


def test_a_finished_schedule_is_extended_at_a_tenth_of_the_rate(pictures, tmp_path, monkeypatch):
    config = config_of(pictures, tmp_path, epochs=2)
    assert rates_of(config, monkeypatch)[1] == []
    rates, said = rates_of(DiscreteConfig(out=config.out, resume=True, epochs=6), monkeypatch)
    assert max(rates) == pytest.approx(config.learning_rate / 10)  # not what the first step had
    assert rates[-1] < rates[0]
    assert len(said) == 1
    assert "2 epochs had brought it down to 0; with 6 it goes on at 0.001, instead of jumping back to 0.01" in said[0]


def test_an_extended_schedule_never_rises(pictures, tmp_path, monkeypatch):
    config, count = config_of(pictures, tmp_path, epochs=8), 0

    def stop():  # after three quarters, where half of the rate is left
        nonlocal count
        count += 1
        return count > 30

    assert not train(config, Observer(stop=stop))
    rates, said = rates_of(DiscreteConfig(out=config.out, resume=True, epochs=24), monkeypatch)
    assert 0.1 < max(rates) / config.learning_rate < 1
    assert rates == sorted(rates, reverse=True)
    assert len(said) == 1


def test_a_schedule_that_has_not_come_down_is_only_stretched(pictures, tmp_path, monkeypatch):
    config, count = config_of(pictures, tmp_path, epochs=8), 0

    def stop():
        nonlocal count
        count += 1
        return count > 2

    assert not train(config, Observer(stop=stop))
    rates, said = rates_of(DiscreteConfig(out=config.out, resume=True, epochs=16), monkeypatch)
    assert max(rates) == config.learning_rate
    assert said == []


def test_an_extended_run_that_is_killed_goes_on_as_if_it_had_not_been(pictures, tmp_path):
    for name in ("whole", "parts"):
        assert train(replace(config_of(pictures, tmp_path, epochs=2), out=str(tmp_path / name)))
    assert train(DiscreteConfig(out=str(tmp_path / "whole"), resume=True, epochs=4))
    count = 0

    def stop():
        nonlocal count
        count += 1
        return count == 2

    parts = DiscreteConfig(out=str(tmp_path / "parts"), resume=True, epochs=4)
    assert not train(parts, Observer(stop=stop))
    assert train(parts)
    assert (tmp_path / "parts" / "metrics.jsonl").read_text() == (tmp_path / "whole" / "metrics.jsonl").read_text()
