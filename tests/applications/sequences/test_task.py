"""Training of the sequence GAN: it learns, updates are separate, and runs are stopped and resumed."""

from dataclasses import replace

import pytest
import torch

import hardmax as hm
from hardmax.applications.runs import train
from hardmax.applications.sequences import SequenceGAN
from hardmax.applications.sequences.config import SequenceGANConfig
from hardmax.applications.sequences.evaluation import evaluate
from hardmax.applications.sequences.task import SequenceGANTask
from hardmax.data import load_sequences
from hardmax.errors import ArgumentError
from hardmax.training.loop import Observer
from hardmax.training.processes import Group
from hardmax.training.run_folder import read_rows
from hardmax.training.state import State


@pytest.fixture(scope="module")
def language(tmp_path_factory):
    """Six sentences: the second token depends on the first one."""
    path = tmp_path_factory.mktemp("data") / "pairs.grammar"
    path.write_text("s -> a x | b y | c\nx -> u | v\ny -> w w | v | u\n")
    return str(path)


def config_of(language, out="run", **options):
    small = {"length": 3, "epochs": 3, "hidden": 32, "discriminator_hidden": 32, "lr": 1e-2, "evaluate_draws": 200}
    return SequenceGANConfig(data=language, out=str(out), **{**small, **options})


@pytest.mark.parametrize(
    "options",
    [{"penalty": 0.0, "epochs": 5}, {"estimator": "reinmax", "epochs": 5}],  # machines round differently
    ids=["averaged-direct", "reinmax"],
)
def test_a_small_language_is_learned(options, language, tmp_path):
    rows = []
    assert train(config_of(language, tmp_path / "run", **options), Observer(on_epoch=rows.append))
    last = rows[-1][2]
    assert last["validity"] > 0.9
    assert last["coverage"] > 0.9
    assert last["nll"] < 2.1  # log 6 is 1.79
    assert last["divergence"] < 0.06
    assert rows[-1][0]["discriminator_loss"] == pytest.approx(2 * 0.6931, abs=0.1)  # both look the same to it


def test_likelihood_first(language, tmp_path):
    rows = []
    assert train(config_of(language, tmp_path / "run", epochs=3, pretrain_epochs=2), Observer(on_epoch=rows.append))
    assert rows[1][2]["validity"] > 0.9
    assert [row[0]["reward"] is None for row in rows] == [True, True, False]
    assert all(row[0]["discriminator_loss"] is not None for row in rows)  # it is trained, too


def state_of(language, group=None, **options):
    config = config_of(language, **options)
    return State(SequenceGANTask.build(config, SequenceGANTask.load_data(config), 0, group or Group()))


@pytest.mark.parametrize("steps", [1, 3])
def test_each_update_changes_only_its_own_network(steps, language):
    state = state_of(language, discriminator_steps=steps)
    model, calls, (discriminator, generator) = state.task.model, [], state.updates
    for update in (discriminator, generator):
        inner = update.add_gradients

        def add_gradients(index, epoch, step, inner=inner, update=update):
            calls.append(update)
            assert all(p.requires_grad == (update is discriminator) for p in model.discriminator.parameters())
            assert all(p.requires_grad == (update is generator) for p in model.generator.parameters())
            sums = inner(index, epoch, step)
            idle = model.generator if update is discriminator else model.discriminator
            assert all(p.grad is None for p in idle.parameters())
            return sums

        object.__setattr__(update, "add_gradients", add_gradients)
    sums, stop = state.make_step(state.begin_epoch()[0])
    assert calls == [discriminator] * steps + [generator]
    assert not stop
    assert sums[-1] == 100  # sequences, counted once
    assert 0.5 < sums[1] / 100 < 3  # the discriminator's loss, a mean over its updates
    assert all(p.requires_grad for p in model.parameters())
    counts = {int(state.optimizer.state[p]["step"]) for p in model.discriminator.parameters()}
    assert counts == {steps}
    assert {int(state.optimizer.state[p]["step"]) for p in model.generator.parameters()} == {1}


def test_learning_rates_of_generator_and_discriminator(language):
    state = state_of(language, discriminator_rate=0.5, momentum=0.25)
    state.make_step(state.begin_epoch()[0])
    assert [group["lr"] for group in state.optimizer.param_groups] == [0.005, 0.01]
    assert {group["betas"] for group in state.optimizer.param_groups} == {(0.25, 0.99)}


@pytest.mark.parametrize("estimator", ["straight-through", "rebar"])
def test_a_stopped_and_resumed_run_equals_an_uninterrupted_one(estimator, language, tmp_path):
    options = {"epochs": 2, "estimator": estimator, "penalty": 0.1, "discriminator_steps": 2, "batch_size": 500}
    whole, cut = (config_of(language, tmp_path / name, **options) for name in ("whole", "cut"))
    assert train(whole)
    answers = iter([False] * 13 + [True])
    assert not train(cut, Observer(should_stop=lambda: next(answers, False)))
    assert train(replace(cut, resume=True))
    assert read_rows(tmp_path / "whole/metrics.jsonl") == read_rows(tmp_path / "cut/metrics.jsonl")
    for name in ("model", "training"):
        files = [tmp_path / run / "checkpoint-20" / f"{name}.safetensors" for run in ("whole", "cut")]
        assert files[0].read_bytes() == files[1].read_bytes()


@pytest.mark.parametrize("estimator", ["exact", "gumbel-softmax"])
def test_processes_share_a_step(estimator, language):
    """The gradients of two processes add up to those of one, in both updates."""

    def gradients(group):
        state = state_of(language, group, estimator=estimator, penalty=0.3)
        index = state.begin_epoch()[0][:7]  # halves of different size
        tensors = []
        for update in state.updates:
            with state._freeze_others(update):
                state.optimizer.zero_grad()
                sums = update.add_gradients(index, 0, 0)
                tensors += [sums, *(parameter.grad.clone() for parameter in update.parameters)]
        return tensors

    whole = gradients(Group())
    for expected, first, second in zip(whole, gradients(Group(0, 2)), gradients(Group(1, 2)), strict=True):
        torch.testing.assert_close(first + second, expected, rtol=1e-4, atol=1e-6)


def test_more_processes_than_sequences(language):
    state = state_of(language, Group(0, 5))
    index = state.begin_epoch()[0][:3]
    for update in state.updates:
        assert update.add_gradients(index, 0, 0).tolist() == [0, 0, 0, 0]


def test_the_metrics_of_an_untrained_generator(language):
    data = load_sequences(language, length=3)
    model = SequenceGAN.build(data.symbols, 3, hidden=4)
    numbers = evaluate(model, data, data.test, draws=500)
    log_prob = model.generator.log_prob(data.one_hot(data.language)).double().detach()
    assert numbers["validity"] == pytest.approx(float(log_prob.exp().sum()), rel=1e-6)
    assert numbers["elbo"] == -numbers["nll"]
    assert numbers["entropy"] == pytest.approx(3 * 2.0, abs=0.6)  # almost uniform over 8 tokens
    assert 0 < numbers["divergence"] < 0.6932


def test_text_has_no_validity(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("the quick brown fox jumps over the lazy dog. " * 6)
    rows = []
    config = config_of(str(path), tmp_path / "run", length=6, epochs=1)
    assert train(config, Observer(on_epoch=rows.append))
    assert rows[0][2]["validity"] is None
    assert rows[0][2]["divergence"] > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"discriminator_steps": 0}, "discriminator-steps must be at least 1, got 0"),
        ({"penalty": -1.0}, "penalty must not be negative, got -1.0"),
        ({"momentum": 1.0}, "momentum must be at least 0 and below 1"),
        ({"discriminator_rate": 0.0}, "discriminator-rate must be positive"),
        ({"estimator": "reinforce", "baseline": "leave-one-out"}, "--samples 2"),
    ],
)
def test_invalid_options(options, message):
    with pytest.raises(ArgumentError, match=message):
        SequenceGANConfig(**options)


def test_an_estimator_that_is_not_for_tokens(language, tmp_path):
    with pytest.raises(hm.HardmaxError):
        train(config_of(language, tmp_path / "run", estimator="arm"))
    assert not (tmp_path / "run").exists()
