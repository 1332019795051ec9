"""Mixed VAEs on the command line, in a subprocess: few labels, attributes turned on and off."""

import json

import numpy as np
import pytest
from e2e.commands import hardmax
from PIL import Image
from squares import save_squares, squares

from hardmax.cli.main import main


@pytest.fixture(scope="module")
def classes(tmp_path_factory):
    """A run on the embedded images, a hundred of them labelled."""
    folder = tmp_path_factory.mktemp("runs") / "classes"
    options = ["--labels", 100, "--head-epochs", 1, "--epochs", 2, "--batch-size", 200, "--lr", 3e-3]
    output = hardmax("train", "--model", "mixed", "--data", "sample", *options, "--out", folder)
    assert "100 labels" in output
    return folder


@pytest.fixture(scope="module")
def attributes(tmp_path_factory):
    """A run on red and blue squares that has learned which are red and which are on the right."""
    folder = tmp_path_factory.mktemp("runs")
    options = ["--labels", 40, "--continuous", 4, "--epochs", 20, "--batch-size", 50, "--augment", "none"]
    names = ["--attributes", "red,on_the_right", "--binarize", "none", "--lr", 3e-3]
    data = save_squares(folder / "squares.npz")
    hardmax("train", "--model", "mixed", "--data", data, *options, *names, "--out", folder / "squares")
    return folder / "squares"


@pytest.fixture(scope="module")
def discrete(tmp_path_factory):
    """A run of the other model."""
    folder = tmp_path_factory.mktemp("runs") / "discrete"
    assert main(["train", "--epochs=1", "--hidden=20", "--batch-size=500", f"--out={folder}"]) == 0
    return folder


@pytest.fixture(scope="module")
def photo(tmp_path_factory):
    """A blue square on the left, larger than the model's images, with margins on both sides, in mode RGBA."""
    images, bits = squares(seed=1)
    blue = images[(bits == [0, 0]).all(1)][0]
    wide = np.pad(blue, ((0, 0), (4, 4), (0, 0)), constant_values=45)
    path = tmp_path_factory.mktemp("photos") / "blue.png"
    Image.fromarray(wide).resize((72, 48), Image.Resampling.NEAREST).convert("RGBA").save(path)
    return path


def measure_redness(path):
    """Return how much redder than blue the brightest part of an image is."""
    pixels = np.asarray(Image.open(path).convert("RGB")).astype(float)
    return np.abs(pixels[..., 0] - pixels[..., 2]).max() * np.sign((pixels[..., 0] - pixels[..., 2]).sum())


class TestEvaluate:
    def test_classes(self, classes):
        metrics = json.loads(hardmax("evaluate", classes, "--json", "--samples", 5, "--images", 200))
        assert metrics["images"] == 200
        assert metrics["samples"] == 5
        assert metrics["elbo"] == pytest.approx(metrics["reconstruction"] - metrics["kl"], abs=1e-3)
        assert metrics["nll"] < -metrics["elbo"]
        assert 0.2 < metrics["accuracy"] <= 1
        assert 0.1 < metrics["accuracy_sampled"] <= metrics["accuracy"] + 0.05
        assert "attributes" not in metrics

    @pytest.mark.slow
    def test_attributes_one_by_one(self, attributes):
        metrics = json.loads(hardmax("evaluate", attributes, "--json", "--samples", 2))
        assert set(metrics["attributes"]) == {"red", "on_the_right"}
        assert all(row["accuracy"] > 0.9 for row in metrics["attributes"].values())
        mean = sum(row["accuracy"] for row in metrics["attributes"].values()) / 2
        assert metrics["accuracy"] == pytest.approx(mean)
        table = hardmax("evaluate", attributes)
        assert "-log p(x), at most (100 samples)" in table
        assert f"{metrics['attributes']['on_the_right']['accuracy']:.2%}" in table

    @pytest.mark.parametrize("option", ["--refine", "--perturb-and-map"])
    def test_options_of_discrete_models_only(self, classes, option, failing):
        message = failing("evaluate", classes, option)
        assert f"{option} is not for runs of --model mixed" in message

    def test_no_samples(self, classes, failing):
        assert "samples must be at least 1" in failing("evaluate", classes, "--samples", 0)


class TestSample:
    def test_a_column_for_each_class(self, classes):
        output = hardmax("sample", classes, "--count", 3)
        path = classes / "figures" / "samples.png"
        assert f"3 rows of 10 images, each row with one continuous latent, in {path}" in output
        with Image.open(path) as sheet:
            assert sheet.width > 10 * 84
            assert sheet.height > 3 * 84

    def test_columns_are_settings_of_attributes(self, attributes, tmp_path):
        path = tmp_path / "two.png"
        output = hardmax("sample", attributes, "--attributes", "red=1,on_the_right=0", "--vary", "red", "--out", path)
        assert "8 rows of 2 images" in output
        pixels = np.asarray(Image.open(path)).astype(float)
        blue, red = pixels[30:, -8 - 64 - 4 - 64 : -8 - 64 - 4], pixels[30:, -8 - 64 : -8]
        assert (red[..., 0] - red[..., 2]).mean() > 5 + (blue[..., 0] - blue[..., 2]).mean()

    def test_seeds(self, attributes, tmp_path):
        for name, seed in (("a", 0), ("b", 0), ("c", 1)):
            assert main(["sample", str(attributes), "--count=2", f"--seed={seed}", f"--out={tmp_path / name}"]) == 0
        first, same, other = ((tmp_path / name).read_bytes() for name in "abc")
        assert first == same
        assert first != other

    @pytest.mark.parametrize(("options", "message"), [
        (["--vary", "rad"], "did you mean 'red'?"),
        (["--attributes", "red=2"], "red must be 0 (off) or 1 (on), got '2'"),
        (["--attributes", "red"], "expected NAME=VALUE"),
        (["--count", "0"], "count must be at least 1"),
    ])  # fmt: skip
    def test_invalid_attributes(self, attributes, options, message, failing):
        assert message in failing("sample", attributes, *options)

    def test_runs_without_attributes(self, classes, discrete, failing):
        message = failing("sample", classes, "--vary", "red")
        assert "its columns are the 10 values of 'class'" in message
        assert "--vary is not for runs of --model discrete" in failing("sample", discrete, "--vary", "red")


class TestEdit:
    def test_one_photo(self, attributes, photo, tmp_path):
        before = photo.read_bytes()
        output = hardmax("edit", attributes, photo, "--set", "red=1", "--out", tmp_path / "red.png")
        assert "72x48 RGBA, cut around its centre, resized to 16x16" in output
        assert "recognised as red=0 on_the_right=0, edited to red=1, written to" in output
        assert main(["edit", str(attributes), str(photo), "--set=red=0", f"--out={tmp_path / 'blue.png'}"]) == 0
        assert measure_redness(tmp_path / "red.png") > 20
        assert measure_redness(tmp_path / "blue.png") < -20
        with Image.open(tmp_path / "red.png") as edited, Image.open(tmp_path / "red-sheet.png") as sheet:
            assert edited.size == (16, 16)
            assert sheet.width > 3 * 64
        assert photo.read_bytes() == before

    def test_several_photos(self, attributes, photo, tmp_path):
        other = tmp_path / photo.name
        Image.open(photo).convert("L").save(other)
        output = hardmax("edit", attributes, photo, other, "--set", "red=1,on_the_right=1", "--out", tmp_path / "out")
        assert "grey as RGB" in output
        names = sorted(path.name for path in (tmp_path / "out").iterdir())
        assert names == ["blue-edited-2.png", "blue-edited.png", "sheet.png"]

    def test_a_class(self, classes, photo):
        output = hardmax("edit", classes, photo, "--set", "class=Ankle boot")
        assert "edited to class=ankle boot" in output
        assert "made grey, pixels rounded to zeros and ones" in output
        assert {"blue-edited.png", "sheet.png"} == {path.name for path in (classes / "figures" / "edited").iterdir()}

    @pytest.mark.parametrize(("options", "message"), [
        (["PHOTO", "--set", "smiling=1"], "there is no attribute 'smiling': the attributes are red, on_the_right"),
        (["PHOTO", "--set", "red=x"], "red must be 0 (off) or 1 (on), got 'x'"),
        (["PHOTO", "--set", "red=1", "--out", "PHOTO"], "is the photo itself"),
        (["PHOTO", "PHOTO", "--set", "red=1", "--out", "new.png"], "there are 2 photos; give a folder"),
        ([__file__, "--set", "red=1"], "cannot be read as an image: it is not in an image's format"),
        (["nowhere.png", "--set", "red=1"], "nowhere.png cannot be read as an image: No such file"),
        (["--set", "red=1"], "hardmax edit needs PHOTOS"),
        (["PHOTO"], "--set"),
    ])  # fmt: skip
    def test_invalid_options(self, attributes, photo, options, message, failing):
        options = [photo if word == "PHOTO" else word for word in options]
        assert message in failing("edit", attributes, *options)

    def test_other_runs(self, classes, discrete, photo, tmp_path, failing):
        assert "there is no class 'sneakers': did you mean 'sneaker'" in failing(
            "edit", classes, photo, "--set", "class=sneakers"
        )
        assert "from 0 to 9, got '10'" in failing("edit", classes, photo, "--set", "class=10")
        assert "is for runs of --model mixed" in failing("edit", discrete, photo, "--set", "class=1")
        assert "holds no run" in failing("edit", tmp_path, photo, "--set", "class=1")


def test_report(classes, attributes, discrete, tmp_path, failing):
    hardmax("report", classes, attributes, "--out", tmp_path / "both.html")
    text = (tmp_path / "both.html").read_text(encoding="utf-8")
    assert "Predictions" in text
    assert "do not compare from run to run" in text
    assert "a page is about runs of one model" in failing("report", classes, discrete)


def test_help_has_examples_of_both_models():
    for command, example in [("sample", "--vary smiling"), ("edit", "--set class=3"), ("report", "runs/100-labels")]:
        assert example in " ".join(hardmax(command, "--help").split())
