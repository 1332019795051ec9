"""Training of hash encoders: the pairs, the metrics, and runs that are stopped and resumed."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from hardmax.applications.hashing import HashEncoder
from hardmax.applications.hashing.config import HashingConfig
from hardmax.applications.hashing.pairs import ClassPairs, NeighbourPairs, find_nearest_images
from hardmax.applications.hashing.task import HashingTask, measure_bit_usage
from hardmax.applications.registry import find_application
from hardmax.applications.runs import load_run, train
from hardmax.errors import ArgumentError
from hardmax.training.loop import Observer
from hardmax.training.processes import Group

PATTERNS = np.random.default_rng(0).integers(0, 2, (4, 8, 8))


@pytest.fixture(scope="module")
def patterns(tmp_path_factory):
    """Four patterns with noise; the label is the number of the pattern."""
    generator = np.random.default_rng(1)
    labels = np.arange(400) % 4
    noise = generator.random((400, 8, 8)) < 0.15
    path = tmp_path_factory.mktemp("data") / "patterns.npz"
    np.savez(path, images=((PATTERNS[labels] ^ noise) * 255).astype(np.uint8), labels=labels)
    return str(path)


def config_of(data, out, **options):
    small = {"bits": 16, "hidden": 30, "epochs": 3, "batch_size": 40, "neighbours": 5, "lr": 3e-3}
    return HashingConfig(data=data, out=str(out), **{**small, **options})


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"pairs": "labels", "estimator": "reinmax"},
        {"pairs": "distorted", "augment": "shift", "estimator": "gumbel-softmax"},
        {"contrast": "triplet", "estimator": "local-expectation"},
        {"walk": 4, "neighbours": 3, "searched": "rest"},
    ],
    ids=["neighbours", "labels", "distorted", "triplet", "walks"],
)
def test_it_learns(options, patterns, tmp_path):
    rows = []
    assert train(config_of(patterns, tmp_path / "run", **options), Observer(on_epoch=rows.append))
    training, validation, test = rows[-1]
    assert training["objective"] > rows[0][0]["objective"]
    assert validation["objective"] is not None
    assert test["precision"] > (0.25 if options.get("pairs") == "distorted" else 0.7)  # a quarter by chance
    assert test["mean_average_precision"] > (0.25 if options.get("pairs") == "distorted" else 0.6)
    assert 0.8 < test["balance"] <= 1
    assert 0 <= test["correlation"] < 1


def test_labels_affect_only_the_precision(patterns, tmp_path):
    """With the labels shuffled, every number but precision is the same."""
    plain = config_of(patterns, tmp_path / "plain", epochs=1)
    with np.load(patterns) as arrays:
        shuffled = tmp_path / "shuffled.npz"
        np.savez(shuffled, images=arrays["images"], labels=np.random.default_rng(3).permutation(arrays["labels"]))
    rows = []
    for config in (plain, replace(plain, data=str(shuffled), out=str(tmp_path / "other"))):
        train(config, Observer(on_epoch=rows.append))
    # The split depends on the seed, not on labels, so both runs have the same splits.
    for name in ("objective", "balance", "correlation"):
        assert [row[name] for row in rows[0]] == [row[name] for row in rows[1]]
    assert rows[0][2]["precision"] != rows[1][2]["precision"]


def test_a_stopped_and_resumed_run_equals_an_uninterrupted_one(patterns, tmp_path):
    whole = config_of(patterns, tmp_path / "whole", epochs=2, augment="affine")
    train(whole)
    parts, calls = replace(whole, out=str(tmp_path / "parts")), 0

    def stop():
        nonlocal calls
        calls += 1
        return calls == 5

    assert not train(parts, Observer(should_stop=stop))
    assert train(replace(parts, resume=True))
    assert (tmp_path / "whole" / "metrics.jsonl").read_text() == (tmp_path / "parts" / "metrics.jsonl").read_text()
    first, second = (load_run(tmp_path / name, "latest").model.state_dict() for name in ("whole", "parts"))
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_the_best_is_kept_by_the_objective(patterns, tmp_path):
    rows = []
    config = config_of(patterns, tmp_path / "run", epochs=2, starts=2, start_epochs=1)
    assert train(config, Observer(on_epoch=rows.append))
    assert find_application("hashing").metrics.criterion == "objective"
    best = max(rows, key=lambda epoch: epoch[1]["objective"])[1]["step"]
    assert load_run(config.out, kind=HashEncoder).checkpoint == f"checkpoint-{best}"
    assert "objective" in (tmp_path / "run" / "starts.jsonl").read_text()


def test_several_processes_cannot_share_a_batch(patterns, tmp_path):
    config = config_of(patterns, tmp_path)
    assert HashingTask.couples_examples(config)
    with pytest.raises(ArgumentError, match="depends on other images in it"):
        Group(0, 2, 2).check_config(replace(config, devices=2), couples_examples=True)


def test_neighbours_are_the_nearest_and_not_oneself():
    left = torch.tensor([0.05, 0.2, 0.5, 0.9])
    images = torch.stack([left, 1 - left], 1).view(4, 1, 1, 2)
    assert find_nearest_images(images, images, 2, same=True).tolist() == [[1, 2], [0, 2], [1, 3], [2, 1]]
    dark = 0.1 * images[2:3]  # the same image, less bright
    assert find_nearest_images(dark, images, 9).tolist() == [[2, 1, 3, 0]]
    assert find_nearest_images(torch.zeros(1, 1, 1, 2), images, 1).shape == (1, 1)


def test_walks_follow_neighbours():
    """Each image has one neighbour here, so that the end of a walk is determined by its number of steps."""
    brightness = torch.tensor([0.02, 0.5, 0.1, 0.25, 0.9])  # the nearest of 0.02 is 0.1, of that 0.02, ...
    images = torch.stack([brightness, 1 - brightness], 1).view(5, 1, 1, 2)
    index, generator = torch.arange(5), torch.Generator().manual_seed(0)
    nearest = find_nearest_images(images, images, 1, same=True).squeeze(1)
    for steps in (1, 2, 3):
        pairs = NeighbourPairs({"train": images, "test": images}, 1, steps)
        expected = nearest
        for _ in range(steps - 1):
            expected = nearest[expected]
        assert torch.equal(pairs.draw_partners(index, generator), expected)
        # The nearest training image of a test image is itself here; only later steps leave it.
        expected = index if steps == 1 else (nearest if steps == 2 else nearest[nearest])
        assert torch.equal(pairs.draw_split_partners("test", generator), expected)


def test_partners_of_a_class():
    labels = torch.tensor([0, 1, 0, 1, -1])
    pairs = ClassPairs({"train": labels, "test": torch.tensor([1, 2])})
    generator = torch.Generator().manual_seed(0)
    index = torch.tensor([4, 1, 0, 3])
    partners = torch.stack([pairs.draw_partners(index, generator) for _ in range(50)])
    assert set(partners[:, 0].tolist()) == {4}  # its class is unknown: it is its own partner
    assert set(partners[:, 1].tolist()) == {1, 3}
    assert set(partners[:, 2].tolist()) == {0, 2}
    expected = ~torch.eye(4, dtype=torch.bool)
    expected[1, 3] = expected[3, 1] = False
    assert torch.equal(pairs.negative_mask("train", index), expected)
    assert {int(labels[pairs.draw_split_partners("test", generator)[0]]) for _ in range(20)} == {1}


def test_usage_of_bits():
    codes = torch.tensor([[0.0, 0, 0, 1], [0, 0, 1, 1], [1, 1, 0, 1], [1, 1, 1, 1]])
    usage = measure_bit_usage(codes)
    assert usage["balance"] == pytest.approx(3 / 4)  # the last bit is always one
    assert usage["correlation"] == pytest.approx(2 / 12)  # the first two are the same


def test_images_without_classes(tmp_path):
    path = tmp_path / "plain.npz"
    np.savez(path, images=np.random.default_rng(0).integers(0, 256, (60, 6, 6)).astype(np.uint8))
    with pytest.raises(ArgumentError, match="has no labels"):
        train(config_of(str(path), tmp_path / "labels", pairs="labels"))
    rows = []
    assert train(config_of(str(path), tmp_path / "run", epochs=1), Observer(on_epoch=rows.append))
    assert rows[0][2]["precision"] is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pairs": "distorted"}, "needs distortions"),
        ({"bits": 0}, "bits must be at least 1"),
        ({"walk": 0}, "walk must be at least 1"),
        ({"temperature": 0.0}, "temperature must be positive"),
        ({"gain": -1.0}, "gain must be positive"),
    ],
)
def test_options_that_do_not_fit(options, message):
    with pytest.raises(ArgumentError, match=message):
        HashingConfig(**options)
