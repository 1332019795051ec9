"""Training with every structured space, from a configuration to a folder and back."""

from dataclasses import replace

import pytest
import torch

import hardmax as hm
from hardmax.applications.discrete_vae.config import DiscreteConfig
from hardmax.applications.discrete_vae.task import (
    DiscreteTask,
    evaluate,
    evaluate_greedy_bound,
    evaluate_perturb_and_map,
)
from hardmax.applications.runs import load_run, train
from hardmax.data import load_images
from hardmax.training.run_folder import read_rows
from hardmax.training.task import prepare_split


@pytest.mark.parametrize(
    "options",
    [
        {"space": "pairwise", "variables": 6},
        {"space": "pairwise", "variables": 6, "supermodular": True, "estimator": "direct", "kl": "none"},
        {"space": "pairwise", "variables": 30, "graph": "chain"},
        {"space": "subset", "variables": 6, "chosen": 2},
        {"space": "chain", "variables": 3, "categories": 4},
        {"space": "permutation", "variables": 4, "estimator": "direct"},
        {"space": "spanning-tree", "variables": 4, "estimator": "reinforce", "samples": 4},
    ],
    ids=str,
)
def test_train_and_evaluate(options, tmp_path):
    config = DiscreteConfig(
        epochs=1, batch_size=500, hidden=20, evaluate_images=50, out=str(tmp_path / "run"), lr=0.01, **options
    )
    assert train(config)
    rows = read_rows(tmp_path / "run" / "metrics.jsonl")
    assert all(row["nll"] <= -row["elbo"] + 1e-3 for row in rows if row["split"] != "train")
    restored = load_run(tmp_path / "run")
    images = prepare_split(config, restored.load_data(), "test")[:50]
    metrics = evaluate(restored.model, images, samples=20)
    assert metrics["nll"] <= -metrics["elbo"] + 1e-3
    if options["space"] == "pairwise":
        # Upper bounds of -log p(x), which itself is sampled at n = 30.
        assert metrics["nll"] - 2 <= evaluate_greedy_bound(restored.model, images)
        assert metrics["nll"] - 2 <= evaluate_perturb_and_map(restored.model, images, samples=20)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"space": "subset", "variables": 3, "chosen": 5}, hm.ArgumentError, "5"),
        ({"space": "spanning-tree"}, hm.ArgumentError, "1"),
        ({"widths": (8, 0)}, hm.ArgumentError, "widths must be at least 1, got 8 0"),
        ({"widths": (8, 4), "encoder_layers": 2}, hm.ArgumentError, "leave out encoder-layers"),
        ({"architecture": "conv", "activation": "leaky-relu"}, hm.ArgumentError, "for the architecture 'mlp'"),
        ({"space": "pairwise", "variables": 4, "estimator": "local-expectation"}, hm.NotExactError, "independent"),
        ({"space": "spanning-tree", "variables": 4, "estimator": "direct"}, hm.NotExactError, "single changes"),
    ],
    ids=str,
)
def test_invalid_options(options, error, message, tmp_path):
    with pytest.raises(error, match=message):
        train(DiscreteConfig(out=str(tmp_path / "run"), **options))


def test_widths_activation_and_the_optimizer(tmp_path):
    options = {"widths": (16, 8), "activation": "leaky-relu", "optimizer": "radam", "categories": 4, "variables": 3}
    config = DiscreteConfig(epochs=1, batch_size=500, evaluate_images=50, out=str(tmp_path / "run"), **options)
    assert train(config)
    model = load_run(tmp_path / "run").model
    shapes = [[list(p.shape) for p in m.parameters() if p.dim() > 1] for m in (model.encoder, model.decoder)]
    assert shapes == [[[16, 784], [8, 16], [12, 8]], [[8, 12], [16, 8], [784, 16]]]
    assert isinstance(model.encoder.layers[1], torch.nn.LeakyReLU)
    assert model.encoder.layers[1].negative_slope == 0.3
    with pytest.raises(hm.ArgumentError, match="--widths"):
        train(replace(config, resume=True, widths=(16,)), typed=["widths"])


def test_radam_makes_other_steps_than_adam(tmp_path):
    rows = {}
    for name in ("adam", "radam"):
        train(DiscreteConfig(epochs=1, batch_size=500, hidden=8, out=str(tmp_path / name), optimizer=name))
        rows[name] = read_rows(tmp_path / name / "metrics.jsonl")[0]["elbo"]
    assert rows["adam"] != rows["radam"]


def test_train_on_validation():
    images = load_images("sample")
    task = DiscreteTask.build(DiscreteConfig(train_on_validation=True, hidden=4), images)
    assert task.count == len(images.train) + len(images.validation)
    assert torch.equal(task.train_images[-1].flatten(), (images.validation[-1] > 127).float().flatten())
    assert DiscreteTask.build(DiscreteConfig(hidden=4), images).count == len(images.train)
