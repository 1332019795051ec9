"""Broken checkpoints are refused before they are loaded; jaxtyping's hook would reject some of them first."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from hardmax.applications.runs import load_run, train
from hardmax.errors import DataError

pytestmark = pytest.mark.plain  # without shape checks


@pytest.mark.parametrize("pointer", ["latest", "best"])
@pytest.mark.parametrize("text", [b"\xff\xfe", b"", b"../elsewhere", b"checkpoint-8/../..", b"checkpoint-"])
def test_a_pointer_that_names_no_checkpoint(config, pointer, text):
    folder = Path(config.out)
    path = folder / "checkpoint-8" / "training.json"
    progress = json.loads(path.read_text())
    progress.pop("best_checkpoint", None)
    path.write_text(json.dumps(progress))
    (folder / pointer).write_bytes(text)
    with pytest.raises(DataError, match=rf"run/{pointer} does not name a checkpoint"):
        load_run(folder, pointer)


def change(folder, name, edit):
    """Change the tensors of a file of the latest checkpoint."""
    path = Path(folder) / "checkpoint-8" / name
    tensors = load_file(path)
    edit(tensors)
    save_file(tensors, path)


def replace_by(name, make):
    return lambda tensors: tensors.update({name: make(tensors[name])})


MOMENT = "optimizer/0/exp_avg"
DAMAGES = {
    "a smaller moment": replace_by(MOMENT, lambda tensor: tensor.flatten()[:1].clone()),
    "an empty moment": replace_by("optimizer/1/exp_avg_sq", lambda tensor: tensor[:0].clone()),
    "a transposed moment": replace_by(MOMENT, lambda tensor: tensor.mT.contiguous()),
    "a moment of another type": replace_by(MOMENT, lambda tensor: tensor.to(torch.float16)),
    "a step of several numbers": replace_by("optimizer/0/step", lambda tensor: tensor.repeat(3)),
    "no moments": lambda tensors: [tensors.pop(name) for name in [*tensors] if name.startswith("optimizer/")],
    "a missing moment": lambda tensors: tensors.pop(MOMENT),
    "another moment": lambda tensors: tensors.update({"optimizer/0/momentum": torch.zeros(3)}),
    "a parameter that does not exist": lambda tensors: tensors.update({"optimizer/99/step": torch.zeros(())}),
    "a negative parameter": lambda tensors: tensors.update({"optimizer/-1/step": torch.zeros(())}),
    "a name of another kind": lambda tensors: tensors.update({"something": torch.zeros(3)}),
    "too long a name": lambda tensors: tensors.update({"optimizer/0/exp_avg/more": torch.zeros(3)}),
    "a short generator": replace_by("generator/0/noise", lambda tensor: tensor[:-8].clone()),
    "a generator of another type": replace_by("generator/0/noise", lambda tensor: tensor.to(torch.int16)),
    "a missing generator": lambda tensors: tensors.pop("generator/0/noise"),
    "a broken generator": replace_by("generator/0/noise", lambda tensor: torch.full_like(tensor, 255)),
    "another generator": lambda tensors: tensors.update({"generator/0/more": torch.zeros(3, dtype=torch.uint8)}),
    "an estimator of another shape": replace_by("estimator/0/value", lambda tensor: tensor.repeat(2, 2)),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_training_state_that_does_not_fit(config, damage):
    """Fused Adam would read past the end of a moment that is too small."""
    change(config.out, "training.safetensors", DAMAGES[damage])
    before = {path: path.read_bytes() for path in Path(config.out).glob("*.json*")}
    with pytest.raises(DataError, match=r"checkpoint-8 .*(does not fit|is broken)"):
        train(config)
    assert {path: path.read_bytes() for path in Path(config.out).glob("*.json*")} == before


@pytest.mark.parametrize("make", [lambda t: t[..., :1].clone(), lambda t: t.double(), None])
def test_weights_that_do_not_fit(config, make):
    name = next(iter(load_run(config.out, "latest").model.state_dict()))
    edit = (lambda tensors: tensors.pop(name)) if make is None else replace_by(name, make)
    change(config.out, "model.safetensors", edit)
    with pytest.raises(DataError, match=r"do(es)? not fit"):
        train(config)


@pytest.mark.parametrize("damage", [
    {"epoch": "2"}, {"epoch": -1}, {"step": 7}, {"step": None}, {"position": 1.5}, {"best": "high"}, {"totals": [1.0]},
    {"totals": 3}, {"epochs": "many"}, {"rate_limit": None}, {"unknown": 1}, {"best_checkpoint": 8}, {"totals": ["a"]},
])  # fmt: skip
def test_a_progress_that_does_not_fit(config, damage):
    path = Path(config.out) / "checkpoint-8" / "training.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | damage))
    with pytest.raises(DataError, match="checkpoint-8"):
        train(config)


@pytest.mark.parametrize("text", ["[" * 100_000, "1" * 5000, "[]", "{", "null"])
def test_a_progress_that_is_not_an_object(config, text):
    (Path(config.out) / "checkpoint-8" / "training.json").write_text(text)
    with pytest.raises(DataError, match="checkpoint-8"):
        train(config)
