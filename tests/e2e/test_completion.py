"""Completion on the command line, in a subprocess: photos of all kinds, whose visible pixels stay as they were."""

import json
import subprocess
import sys

import numpy as np
import pytest
from e2e.commands import hardmax
from PIL import Image

from hardmax.cli.main import main
from hardmax.data import load


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run on the embedded pictures; grey, 28x28."""
    folder = tmp_path_factory.mktemp("runs") / "completion"
    options = ["--mask", "any", "--components", 3, "--latent", 8, "--hidden", 50, "--epochs", 2, "--batch-size", 250]
    said = hardmax("train", "--model", "completion", "--data", "sample", *options, "--out", folder)
    assert "3 components of 8 dimensions" in said
    assert "PSNR" in said
    return folder


@pytest.fixture(scope="module")
def colour(tmp_path_factory):
    """A run on colour pictures of 40x40, convolutional."""
    folder = tmp_path_factory.mktemp("runs")
    generator = np.random.default_rng(0)
    images = generator.integers(0, 60, (120, 40, 40, 3))
    images[:, :, :20] += generator.integers(0, 2, (120, 1, 1, 3)) * 150
    np.savez(folder / "colour.npz", images=images.astype(np.uint8))
    options = ["--components", 2, "--latent", 4, "--hidden", 30, "--epochs", 1, "--mask", "centre"]
    told = ["train", "--model", "completion", "--data", folder / "colour.npz", *options, "--out", folder / "run"]
    assert main([*map(str, told)]) == 0
    return folder / "run"


@pytest.fixture(scope="module")
def photo():
    return load("sample").test[7, 0].numpy()


def made(out, name, count):
    return [np.asarray(Image.open(out / f"{name}-{i}.png")) for i in range(1, count + 1)]


def test_a_photo_of_the_models_size(run, photo, tmp_path):
    Image.fromarray(photo).save(tmp_path / "shoe.png")
    mask = np.zeros((28, 28), np.uint8)
    mask[10:20, 8:22] = 255
    Image.fromarray(mask).save(tmp_path / "mask.png")
    options = ["--mask", tmp_path / "mask.png", "--model", run, "--count", 3]
    said = hardmax("complete", tmp_path / "shoe.png", *options, "--out", tmp_path / "out")
    assert "28x28 L): 3 completions" in said
    found = made(tmp_path / "out", "shoe", 3)
    for picture in found:
        assert (picture == photo)[mask == 0].all()
    assert (found[0] != found[1]).any()
    with Image.open(tmp_path / "out" / "shoe-sheet.png") as sheet:
        assert sheet.width > 4 * 64
    assert main(["complete", str(tmp_path / "shoe.png"), *map(str, options), "--out", str(tmp_path / "again")]) == 0
    assert (made(tmp_path / "again", "shoe", 1)[0] == found[0]).all()


def test_a_large_colour_photo_by_a_grey_model(run, photo, tmp_path, here):
    large = np.kron(photo, np.ones((5, 5), np.uint8))
    colours = np.stack([large, large // 2, 255 - large], -1)
    Image.fromarray(np.pad(colours, ((0, 0), (20, 20), (0, 0)))).save(tmp_path / "wide.jpg", quality=90)
    before = np.asarray(Image.open(tmp_path / "wide.jpg"))
    said = hardmax(
        "complete", tmp_path / "wide.jpg", "--mask", "centre", "--model", run, "--count", 1, "--out", tmp_path
    )
    assert "seen in 140x140 around its centre" in said
    assert "the hole is drawn in grey" in said
    (after,) = made(tmp_path, "wide", 1)
    hidden = np.zeros(before.shape[:2], bool)
    hidden[35:105, 45:135] = True
    assert after.shape == before.shape
    assert (after == before)[~hidden].all()
    assert (after != before)[hidden].any()


def test_a_transparent_photo_is_its_own_mask(run, photo, tmp_path):
    alpha = np.full((28, 28), 255, np.uint8)
    alpha[14:] = 0
    Image.fromarray(np.stack([photo] * 3 + [alpha], -1)).save(tmp_path / "cut.png")
    assert main(["complete", str(tmp_path / "cut.png"), "--model", str(run), "--count=2", f"--out={tmp_path}"]) == 0
    for picture in made(tmp_path, "cut", 2):
        assert picture.shape == (28, 28, 4)
        assert (picture[:14, :, 0] == photo[:14]).all()
        assert (picture[..., 3] == 255).all()


def test_sixteen_bits_stay_sixteen_bits(run, photo, tmp_path, here):
    deep = photo.astype(np.uint16) * 257 + (photo < 250) * np.uint16(3)
    Image.fromarray(deep).save(tmp_path / "deep.png")
    said = here("complete", tmp_path / "deep.png", "--mask", "half", "--model", run, "--count", 1, "--out", tmp_path)
    assert "16 bits" in said
    (after,) = made(tmp_path, "deep", 1)
    assert after.dtype == np.uint16
    assert (after[:14] == deep[:14]).all()
    assert (after[14:] != deep[14:]).any()


def test_colour(colour, tmp_path):
    pixels = np.random.default_rng(1).integers(0, 255, (40, 40, 3)).astype(np.uint8)
    Image.fromarray(pixels).save(tmp_path / "c.png")
    assert main(["complete", str(tmp_path / "c.png"), "--mask=centre", f"--model={colour}", f"--out={tmp_path}"]) == 0
    found = made(tmp_path, "c", 8)
    assert found[0].shape == (40, 40, 3)
    assert (found[0][:10] == pixels[:10]).all()
    assert main(["report", str(colour)]) == 0


def test_what_cannot_be_completed(run, photo, tmp_path, failing):
    path = tmp_path / "shoe.png"
    Image.fromarray(photo).save(path)

    def mask(size, value):
        Image.fromarray(np.full(size, value, np.uint8)).save(tmp_path / "mask.png")
        return "--mask", tmp_path / "mask.png"

    told = ["complete", path, "--model", run]
    assert "has no transparent pixel, so say what is hidden with --mask" in failing(*told)
    assert "hides no pixel" in failing(*told, *mask((28, 28), 0))
    assert "hides every pixel" in failing(*told, *mask((28, 28), 255))
    assert "is 20x28 (width x height), but the picture it is for is 28x28" in failing(*told, *mask((28, 20), 255))
    assert "did you mean centre?" in failing(*told, "--mask", "center")
    assert "count must be at least 1" in failing(*told, "--mask", "half", "--count", 0)
    assert "temperature must be above 0, got 0" in failing(*told, "--mask", "half", "--temperature", 0)
    assert "cannot be read as a picture" in failing("complete", tmp_path / "none.png", "--mask", "half", "--model", run)
    assert "holds no run" in failing("complete", path, "--mask", "half", "--model", tmp_path)
    wide = tmp_path / "wide.png"
    Image.fromarray(np.zeros((28, 60), np.uint8)).save(wide)
    assert "the hole reaches out of what the model sees" in failing("complete", wide, "--mask", "half", "--model", run)
    assert "--judge is not for runs" not in failing("evaluate", run, "--judge", 0)


def test_evaluate(run, failing):
    said = json.loads(hardmax("evaluate", run, "--json", "--images", 100, "--samples", 4, "--judge", 1))
    assert said["images"] == 100
    assert said["nll"] < -said["elbo"]
    assert said["psnr"] < min(said["psnr_best"], said["psnr_best_half"])
    assert said["ssim"] < min(said["ssim_best"], said["ssim_best_half"]) <= 1
    assert said["diversity"] > 0
    assert 1 <= said["distinct"] <= 10
    assert said["frechet"] > 0
    assert 1 <= said["components"] <= 3
    assert "--refine is not for runs of --model completion" in failing("evaluate", run, "--refine")


def test_sample(run, here, failing):
    assert "3 test pictures with 8 completions of each" in here("sample", run, "--count", 3)
    with Image.open(run / "figures" / "samples.png") as sheet:
        assert sheet.width > 10 * 84
    assert "--vary is not for runs of --model completion" in failing("sample", run, "--vary", "red")


def test_report(run, here):
    here("report", run)
    page = (run / "report.html").read_text()
    assert "a mixture of 3 Gaussians over 8 dimensions" in page
    assert page.count("<figure") > 8 * 10
    assert "one of all these, drawn anew for every picture" in page


def test_help_needs_no_torch():
    code = (
        "import sys; from hardmax.cli.main import main\n"
        "try: main(sys.argv[1:])\nexcept SystemExit: pass\n"
        "assert 'torch' not in sys.modules"
    )
    for words, example in (
        (["complete", "--help"], "--mask mask.png --model runs/faces --count 8"),
        (["train", "--model", "completion", "--help"], "quadrants-1"),
    ):
        done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
        assert example in " ".join(done.stdout.split())


def test_the_experiment_is_declared(here):
    said = here("reproduce", "completion", "--list")
    assert "mnist-1-quadrant-k-8" in said
    assert "fashion-mnist-centre-published" in said
