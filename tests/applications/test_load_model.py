"""Models from a folder: the kind is told by the folder, and nothing is unpickled."""

import json

import pytest
import torch

import hardmax as hm
from hardmax.applications.mixed_vae import MixedVAE


def saved(folder, kind):
    kind.build(hm.Binary(3), (1, 4, 4), hidden=8).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("kind", [hm.DiscreteVAE, MixedVAE])
def test_the_kind_that_was_saved(kind, tmp_path):
    model = hm.load_model(saved(tmp_path, kind))
    assert type(model) is kind
    assert model.space == hm.Binary(3)
    assert json.loads((tmp_path / "config.json").read_text())["model"] == kind.kind


def test_whoever_may_read_the_configuration_may_read_the_weights(tmp_path):
    saved(tmp_path, hm.DiscreteVAE)
    assert len({file.stat().st_mode for file in tmp_path.iterdir()}) == 1


def test_another_kind(tmp_path):
    saved(tmp_path, MixedVAE)
    with pytest.raises(hm.DataError, match=r"'mixed-vae', not 'discrete-vae'.*load_model"):
        hm.DiscreteVAE.from_pretrained(tmp_path)
    with pytest.raises(hm.DataError, match="'mixed-vae', not 'discrete-vae'"):
        hm.DiscreteVAE.from_pretrained(tmp_path, hm.DiscreteVAE.build(hm.Binary(3), (1, 4, 4), hidden=8))


@pytest.mark.parametrize("said", ["flow", None, ["mixed-vae"]])
def test_an_unknown_kind(said, tmp_path):
    saved(tmp_path, MixedVAE)
    (tmp_path / "config.json").write_text(json.dumps({"model": said}))
    with pytest.raises(hm.DataError, match=r"unknown kind.*completion, discrete-vae, gaussian-vae"):
        hm.load_model(tmp_path)


@pytest.mark.parametrize("text", ["[]", "3", "{", ""])
def test_no_configuration(text, tmp_path):
    saved(tmp_path, MixedVAE)
    (tmp_path / "config.json").write_text(text)
    for load in (hm.load_model, MixedVAE.from_pretrained):
        with pytest.raises(hm.DataError, match=r"cannot read the model|not the configuration"):
            load(tmp_path)


def test_a_configuration_that_is_no_text(tmp_path):
    saved(tmp_path, MixedVAE)
    (tmp_path / "config.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(hm.DataError, match="cannot read the model"):
        hm.load_model(tmp_path)


def test_missing_and_broken_files(tmp_path):
    with pytest.raises(hm.DataError, match=r"config\.json is missing"):
        hm.load_model(tmp_path)
    file = saved(tmp_path, MixedVAE) / "model.safetensors"
    torch.save({"trunk": torch.zeros(3)}, file)
    with pytest.raises(hm.DataError, match="cannot read the model"):
        hm.load_model(tmp_path)
    file.unlink()
    with pytest.raises(hm.DataError, match=r"model\.safetensors is missing"):
        hm.load_model(tmp_path)
