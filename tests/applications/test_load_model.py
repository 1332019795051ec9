"""Loading a model from a folder: the folder defines its kind, and nothing is unpickled."""

import json

import pytest
import torch

import hardmax as hm
from hardmax.applications.mixed_vae import MixedVAE


def save_model(folder, kind):
    kind.build(hm.Binary(3), (1, 4, 4), hidden=8).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("kind", [hm.DiscreteVAE, MixedVAE])
def test_the_saved_kind(kind, tmp_path):
    model = hm.load_model(save_model(tmp_path, kind))
    assert type(model) is kind
    assert model.space == hm.Binary(3)
    assert json.loads((tmp_path / "config.json").read_text())["model"] == kind.kind


def test_all_files_have_the_same_permissions(tmp_path):
    save_model(tmp_path, hm.DiscreteVAE)
    assert len({file.stat().st_mode for file in tmp_path.iterdir()}) == 1


def test_another_kind(tmp_path):
    save_model(tmp_path, MixedVAE)
    with pytest.raises(hm.DataError, match=r"'mixed-vae', not 'discrete-vae'.*load_model"):
        hm.DiscreteVAE.from_pretrained(tmp_path)
    with pytest.raises(hm.DataError, match="'mixed-vae', not 'discrete-vae'"):
        hm.DiscreteVAE.from_pretrained(tmp_path, hm.DiscreteVAE.build(hm.Binary(3), (1, 4, 4), hidden=8))


@pytest.mark.parametrize("kind", ["flow", None, ["mixed-vae"]])
def test_an_unknown_kind(kind, tmp_path):
    save_model(tmp_path, MixedVAE)
    (tmp_path / "config.json").write_text(json.dumps({"model": kind}))
    with pytest.raises(hm.DataError, match=r"unknown kind.*completion, decision-model, discrete-vae, gaussian-vae"):
        hm.load_model(tmp_path)


@pytest.mark.parametrize("text", ["[]", "3", "{", ""])
def test_no_configuration(text, tmp_path):
    save_model(tmp_path, MixedVAE)
    (tmp_path / "config.json").write_text(text)
    for load in (hm.load_model, MixedVAE.from_pretrained):
        with pytest.raises(hm.DataError, match=r"cannot read the model|not the configuration"):
            load(tmp_path)


def test_a_configuration_that_is_not_text(tmp_path):
    save_model(tmp_path, MixedVAE)
    (tmp_path / "config.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(hm.DataError, match="cannot read the model"):
        hm.load_model(tmp_path)


def test_missing_and_broken_files(tmp_path):
    with pytest.raises(hm.DataError, match=r"config\.json is missing"):
        hm.load_model(tmp_path)
    file = save_model(tmp_path, MixedVAE) / "model.safetensors"
    torch.save({"trunk": torch.zeros(3)}, file)
    with pytest.raises(hm.DataError, match="cannot read the model"):
        hm.load_model(tmp_path)
    file.unlink()
    with pytest.raises(hm.DataError, match=r"model\.safetensors is missing"):
        hm.load_model(tmp_path)
