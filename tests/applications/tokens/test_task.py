"""Training of dVAEs and of priors over their tokens: schedules, results, and runs that are stopped and resumed."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from hardmax.applications.runs import load_run, train
from hardmax.applications.tokens.config import (
    DvaeConfig,
    TokenPriorConfig,
    is_revival_step,
    kl_weight_at,
    resolve_estimator,
)
from hardmax.applications.tokens.model import TokenVAE
from hardmax.applications.tokens.task import DvaeTask, evaluate
from hardmax.errors import ArgumentError
from hardmax.training.estimators import choose_estimator
from hardmax.training.loop import Observer
from hardmax.training.run_folder import read_rows

SMALL = DvaeConfig(codes=8, grid=4, dimensions=4, width=8, epochs=6, batch_size=40, revive_every=5, lr=1e-2)


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """Images made of four kinds of patches, arranged at random: a token per patch describes them."""
    generator = np.random.default_rng(0)
    patches = generator.integers(0, 256, (4, 2, 2))
    grids = generator.integers(0, 4, (500, 4, 4))
    pixels = patches[grids].transpose(0, 1, 3, 2, 4).reshape(500, 8, 8)
    path = tmp_path_factory.mktemp("data") / "patches.npy"
    np.save(path, np.clip(pixels + generator.normal(0, 5, pixels.shape), 0, 255).astype(np.uint8))
    return str(path)


def train_model(config, images, out):
    rows = []
    assert train(replace(config, data=images, out=str(out)), Observer(on_epoch=rows.append))
    return [row[2] for row in rows]


@pytest.fixture(scope="module")
def run(images, tmp_path_factory):
    """The folder of a trained dVAE."""
    out = tmp_path_factory.mktemp("runs") / "dvae"
    train_model(SMALL, images, out)
    return out


OPTIONS = {
    "auto": {},
    "gumbel-softmax": {"estimator": "gumbel-softmax"},
    "hard": {"estimator": "gumbel-softmax", "hard": True},
    "shortlist-direct": {"estimator": "shortlist-direct", "shortlist": 3},
    "nearest": {"quantize": "nearest"},
    "rotate": {"quantize": "rotate"},
    "average": {"quantize": "average"},
    "linear": {"quantize": "linear"},
    "finite": {"quantize": "finite"},
    "bernoulli": {"binarize": "threshold"},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_it_learns_the_patches(name, images, tmp_path):
    rows = train_model(replace(SMALL, **OPTIONS[name]), images, tmp_path)
    assert rows[-1]["elbo"] > rows[0]["elbo"] + 5
    assert rows[-1]["mse"] < rows[0]["mse"]
    assert 1 < rows[-1]["perplexity"] <= 8
    assert 0 < rows[-1]["alive"] <= 1
    assert rows[-1]["psnr"] > rows[0]["psnr"]
    assert rows[0]["ssim"] < rows[-1]["ssim"] < 1


def test_the_weight_of_the_kl_rises_to_its_own():
    config = DvaeConfig(kl_weight=3.0, kl_warmup=0.2)
    assert [kl_weight_at(config, step, 100) for step in (0, 10, 20, 99)] == [0.0, 1.5, 3.0, 3.0]
    assert kl_weight_at(replace(config, kl_warmup=0.0), 0, 100) == 3.0


def test_the_temperature_falls_to_its_floor_and_only_where_there_is_one():
    assert resolve_estimator(DvaeConfig(), 1000).estimator == "reinmax"
    config = resolve_estimator(DvaeConfig(estimator="gumbel-softmax"), 1000)
    space = TokenVAE.build((1, 4, 4), 3, longest=2).space
    taus = [choose_estimator(config, space, 0, step).tau for step in (0, 375, 750, 1000)]
    assert taus[0] == 1.0
    assert 0.49 < taus[1] < 0.52
    assert taus[2:] == pytest.approx([0.25, 0.25])
    relaxed = DvaeConfig(estimator="gumbel-softmax")
    for kept in (DvaeConfig(), replace(relaxed, anneal=1e-3), replace(relaxed, tau=0.2)):
        assert resolve_estimator(kept, 1000).anneal == kept.anneal


def test_codes_are_moved_only_in_the_first_half():
    config = DvaeConfig(revive_every=10)
    assert [step for step in range(100) if is_revival_step(config, step, 100)] == [10, 20, 30, 40]
    assert not any(is_revival_step(replace(config, revive_below=0.0), step, 100) for step in range(100))


def test_unused_codes_come_to_life(images, tmp_path, monkeypatch):
    """Codes that start far from everything stay dead, unless they are moved."""

    def initialize(self, e, generator=None):
        with torch.no_grad():
            self.vectors[2:] = 50.0

    monkeypatch.setattr("hardmax.nn.codebook.Codebook.initialize", initialize)
    config = replace(SMALL, quantize="nearest", epochs=8, lr=3e-3)
    dead = train_model(replace(config, revive_below=0.0), images, tmp_path / "dead")[-1]
    alive = train_model(config, images, tmp_path / "alive")[-1]
    assert dead["alive"] <= 0.25
    assert alive["alive"] >= 0.5
    assert alive["mse"] < dead["mse"]


def test_numbers_of_codes_that_are_no_product_of_levels(images, tmp_path):
    with pytest.raises(ArgumentError, match=r"a product of levels from 3 to 8, such as 1,000; got 11"):
        train_model(replace(SMALL, quantize="finite", codes=11), images, tmp_path)


def test_running_means_stop_and_resume(images, tmp_path):
    """The codes and their mass are buffers, which are stored as the parameters are."""
    config, count = replace(SMALL, data=images, quantize="average", epochs=2), iter(range(1000))
    assert train(replace(config, out=str(tmp_path / "whole")))
    assert not train(replace(config, out=str(tmp_path / "parts")), Observer(should_stop=lambda: next(count) == 7))
    assert train(replace(config, out=str(tmp_path / "parts"), resume=True))
    assert len({(tmp_path / name / "metrics.jsonl").read_text() for name in ("whole", "parts")}) == 1


def test_a_stopped_and_resumed_run_equals_an_uninterrupted_one(images, run, tmp_path):
    """Also the moved codes and the counts of their usage."""
    config, steps = replace(SMALL, data=images, out=str(tmp_path / "again")), 0

    def stop():
        nonlocal steps
        steps += 1
        return steps == 13

    assert not train(config, Observer(should_stop=stop))
    assert train(replace(config, resume=True))
    assert read_rows(tmp_path / "again" / "metrics.jsonl") == read_rows(run / "metrics.jsonl")
    first, second = (load_run(folder, "latest").model.state_dict() for folder in (run, tmp_path / "again"))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert first["decoder.codebook.used"].sum() > 0


def test_what_was_measured_can_be_measured_again(run, images):
    restored = load_run(run, "latest", kind=TokenVAE)
    task = DvaeTask.build(restored.config, restored.load_data())
    numbers = evaluate(restored.model, task.held_out["test"], restored.config, batch_size=500)
    row = read_rows(run / "metrics.jsonl")[-1]
    for name in ("elbo", "kl", "mse", "perplexity", "alive"):
        assert numbers[name] == pytest.approx(row[name], rel=1e-5)


def test_a_prior_learns_what_goes_together(run, images, tmp_path):
    config = TokenPriorConfig(tokenizer=str(run), epochs=8, batch_size=40, width=16, layers=1, heads=2, lr=1e-2)
    rows = []
    assert train(replace(config, out=str(tmp_path / "prior")), Observer(on_epoch=rows.append))
    first, last = rows[0][2], rows[-1][2]
    model = load_run(tmp_path / "prior").model
    assert last["kl"] < first["kl"]
    assert last["kl"] < model.tokenizer.space.log_size  # less than without a prior
    assert last["bits"] == pytest.approx(last["kl"] / 16 / np.log(2))
    assert model.tokenizer.fingerprint == load_run(run).model.fingerprint  # it is not trained
    stopped = replace(config, out=str(tmp_path / "again"), epochs=8)
    count = iter(range(1000))
    assert not train(stopped, Observer(should_stop=lambda: next(count) == 5))
    assert train(replace(stopped, resume=True))
    names = ("prior", "again")
    assert len({(tmp_path / name / "metrics.jsonl").read_text() for name in names}) == 1


@pytest.mark.parametrize(
    ("kind", "wrong", "message"),
    [
        (DvaeConfig, {"codes": 1}, "codes must be at least 2, got 1"),
        (DvaeConfig, {"kl_weight": -1.0}, "kl-weight must not be negative"),
        (DvaeConfig, {"kl_warmup": 2.0}, "kl-warmup must be from 0 to 1"),
        (DvaeConfig, {"commitment": -1.0}, "commitment must not be negative"),
        (DvaeConfig, {"grid": 0}, "grid must be at least 1"),
        (TokenPriorConfig, {"width": 10, "heads": 4}, "width must be a multiple of --heads 4, got 10"),
    ],
)
def test_options_that_make_no_sense(kind, wrong, message):
    with pytest.raises(ArgumentError, match=message):
        kind(**wrong)


def test_a_resumed_prior_keeps_its_tokenizer(run, images, tmp_path):
    """The run of the tokenizer has other weights by then."""
    tokenizer = shutil.copytree(run, tmp_path / "dvae")
    config = TokenPriorConfig(tokenizer=str(tokenizer), out=str(tmp_path / "prior"), epochs=1, batch_size=40, width=16)
    config = replace(config, layers=1, heads=2, lr_schedule="constant")
    assert train(config)
    whole = replace(config, out=str(shutil.copytree(config.out, tmp_path / "whole")), resume=True, epochs=2)
    assert train(whole)
    checkpoint = tokenizer / (tokenizer / "best").read_text().strip()
    model = TokenVAE.from_pretrained(checkpoint)
    torch.nn.init.normal_(next(model.encoder.parameters()), generator=torch.Generator().manual_seed(0))
    model.save_pretrained(checkpoint)
    assert train(replace(config, resume=True, epochs=2))
    texts = [(Path(out) / "metrics.jsonl").read_text() for out in (config.out, whole.out)]
    assert texts[0] == texts[1]


def test_a_prior_without_tokens(tmp_path):
    with pytest.raises(ArgumentError, match="--tokenizer RUN"):
        train(TokenPriorConfig(out=str(tmp_path)))
