"""The folder of a segmentation model: its parts, parts saved before each had a separate folder, and broken ones."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from hardmax.applications.segmentation.atlas.atlas import Atlas
from hardmax.applications.segmentation.model_folder import ATLAS, ENCODER, VAE, has_part, load_part
from hardmax.applications.segmentation.segmenter import Segmenter
from hardmax.applications.segmentation.vae.image_encoder import ImageEncoder
from hardmax.applications.segmentation.vae.label_vae import LabelVAE
from hardmax.errors import DataError

PARTS = {ATLAS: Atlas, VAE: LabelVAE, ENCODER: ImageEncoder}
SAVED = (
    Path(__file__).parents[2] / "compatibility" / "saved" / "segmentation"
)  # by the code that saved parts side by side


@pytest.fixture(scope="module")
def expected():
    return load_file(SAVED / "expected.safetensors")


@pytest.fixture
def model(tmp_path):
    """The same model, saved as it is now."""
    for name, kind in PARTS.items():
        load_part(kind, SAVED, name).save_pretrained(tmp_path / name)
    return tmp_path


@pytest.mark.parametrize("saved", ["before", "now"])
def test_the_numbers_are_those_of_the_code_that_saved_it(saved, model, expected):
    folder = SAVED if saved == "before" else model
    assert all(has_part(folder, name) for name in PARTS)
    atlas, vae, encoder = (load_part(kind, folder, name) for name, kind in PARTS.items())
    # Probabilities are saved in 255ths that may not sum to 255; loading normalises them, saving rounds them again.
    torch.testing.assert_close(
        atlas.probabilities, expected["probabilities"], rtol=0, atol=0 if saved == "before" else 1 / 255
    )
    assert torch.equal(atlas.maps, expected["maps"])
    assert atlas.kept == (0, 1, 7)
    with torch.no_grad():
        torch.testing.assert_close(vae.log_prior(expected["z"]), expected["log_prior"], rtol=1e-6, atol=1e-6)
        mean, log_variance = encoder(expected["x"], expected["mask"])
    torch.testing.assert_close(mean, expected["mean"], rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(log_variance, expected["log_variance"], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("saved", ["before", "now"])
def test_a_segmenter_of_either(saved, model):
    segmenter = Segmenter.load(SAVED if saved == "before" else model)
    assert segmenter.trained is not None
    assert isinstance(segmenter.trained[0], LabelVAE)
    assert isinstance(segmenter.trained[1], ImageEncoder)


def test_a_prior_without_an_encoder(model):
    shutil.rmtree(model / ENCODER)
    assert Segmenter.load(model).trained is None


def test_what_is_saved_now_is_what_was_saved(model):
    """The configuration names the kind of model, and has all keys that it had before."""
    for name, kind in PARTS.items():
        before, now = load_file(SAVED / f"{name}.safetensors"), load_file(model / name / "model.safetensors")
        assert before.keys() == now.keys()
        assert name == ATLAS or all(torch.equal(before[key], now[key]) for key in before)
        config = json.loads((model / name / "config.json").read_text())
        assert config == {"model": kind.kind, **json.loads((SAVED / f"{name}.json").read_text())}


@pytest.mark.parametrize("name", PARTS)
def test_missing_broken_and_foreign_files(name, model):
    command = "hardmax segment prior" if name == ATLAS else "hardmax segment train"
    other = VAE if name == ATLAS else ATLAS

    def assert_refused(words):
        with pytest.raises(DataError, match=rf"{words}(?s:.*); make it again with {command}, or give another folder"):
            load_part(PARTS[name], model, name)

    shutil.copy(model / other / "config.json", model / name / "config.json")
    assert_refused(f"kind '{PARTS[other].kind}', not '{PARTS[name].kind}'")
    (model / name / "config.json").write_text(f'{{"model": "{PARTS[name].kind}"}}')
    assert_refused("does not hold (an atlas|the configuration of a)")
    (model / name / "model.safetensors").write_bytes(b"nothing")
    assert_refused("cannot read")
    (model / name / "config.json").unlink()
    assert_refused(r"config\.json is missing")


@pytest.mark.parametrize("name", PARTS)
def test_broken_files_of_before(name, tmp_path):
    shutil.copytree(SAVED, tmp_path, dirs_exist_ok=True)
    (tmp_path / f"{name}.safetensors").unlink()
    with pytest.raises(DataError, match=rf"no saved {name}: {name}\.safetensors is missing; make it again with"):
        load_part(PARTS[name], tmp_path, name)
    (tmp_path / f"{name}.safetensors").write_bytes(b"nothing")
    with pytest.raises(DataError, match=rf"cannot read the {name}"):
        Segmenter.load(tmp_path)


def test_a_folder_without_a_model(tmp_path):
    with pytest.raises(DataError, match=r"atlas holds no saved atlas: .* make it again with hardmax segment prior"):
        Segmenter.load(tmp_path)
