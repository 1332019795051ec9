"""Completion on the command line, in a subprocess: photos of all kinds, whose visible pixels are unchanged."""

import json
import subprocess
import sys

import numpy as np
import pytest
from e2e.commands import hardmax
from PIL import Image

from hardmax.cli.main import main
from hardmax.data import load_images


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run on the embedded images; grey, 28x28."""
    folder = tmp_path_factory.mktemp("runs") / "completion"
    options = ["--mask", "any", "--components", 3, "--latent", 8, "--hidden", 50, "--epochs", 2, "--batch-size", 250]
    output = hardmax("train", "--model", "completion", "--data", "sample", *options, "--out", folder)
    assert "3 components of 8 dimensions" in output
    assert "PSNR" in output
    return folder


@pytest.fixture(scope="module")
def colour(tmp_path_factory):
    """A run on colour images of 40x40, convolutional."""
    folder = tmp_path_factory.mktemp("runs")
    generator = np.random.default_rng(0)
    images = generator.integers(0, 60, (120, 40, 40, 3))
    images[:, :, :20] += generator.integers(0, 2, (120, 1, 1, 3)) * 150
    np.savez(folder / "colour.npz", images=images.astype(np.uint8))
    options = ["--components", 2, "--latent", 4, "--hidden", 30, "--epochs", 1, "--mask", "centre"]
    words = ["train", "--model", "completion", "--data", folder / "colour.npz", *options, "--out", folder / "run"]
    assert main([*map(str, words)]) == 0
    return folder / "run"


@pytest.fixture(scope="module")
def photo():
    return load_images("sample").test[7, 0].numpy()


def read_completions(out, name, count):
    return [np.asarray(Image.open(out / f"{name}-{i}.png")) for i in range(1, count + 1)]


def test_a_photo_of_the_models_size(run, photo, tmp_path):
    Image.fromarray(photo).save(tmp_path / "shoe.png")
    mask = np.zeros((28, 28), np.uint8)
    mask[10:20, 8:22] = 255
    Image.fromarray(mask).save(tmp_path / "mask.png")
    options = ["--mask", tmp_path / "mask.png", "--model", run, "--count", 3]
    output = hardmax("complete", tmp_path / "shoe.png", *options, "--out", tmp_path / "out")
    assert "28x28 L): 3 completions" in output
    images = read_completions(tmp_path / "out", "shoe", 3)
    for image in images:
        assert (image == photo)[mask == 0].all()
    assert (images[0] != images[1]).any()
    with Image.open(tmp_path / "out" / "shoe-sheet.png") as sheet:
        assert sheet.width > 4 * 64
    assert main(["complete", str(tmp_path / "shoe.png"), *map(str, options), "--out", str(tmp_path / "again")]) == 0
    assert (read_completions(tmp_path / "again", "shoe", 1)[0] == images[0]).all()


def test_a_large_colour_photo_by_a_grey_model(run, photo, tmp_path, run_here):
    large = np.kron(photo, np.ones((5, 5), np.uint8))
    colours = np.stack([large, large // 2, 255 - large], -1)
    Image.fromarray(np.pad(colours, ((0, 0), (20, 20), (0, 0)))).save(tmp_path / "wide.jpg", quality=90)
    before = np.asarray(Image.open(tmp_path / "wide.jpg"))
    output = hardmax(
        "complete", tmp_path / "wide.jpg", "--mask", "centre", "--model", run, "--count", 1, "--out", tmp_path
    )
    assert "the model uses 140x140 around its centre" in output
    assert "the hole is filled in grey" in output
    (after,) = read_completions(tmp_path, "wide", 1)
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
    for image in read_completions(tmp_path, "cut", 2):
        assert image.shape == (28, 28, 4)
        assert (image[:14, :, 0] == photo[:14]).all()
        assert (image[..., 3] == 255).all()


def test_sixteen_bits_stay_sixteen_bits(run, photo, tmp_path, run_here):
    deep = photo.astype(np.uint16) * 257 + (photo < 250) * np.uint16(3)
    Image.fromarray(deep).save(tmp_path / "deep.png")
    output = run_here(
        "complete", tmp_path / "deep.png", "--mask", "half", "--model", run, "--count", 1, "--out", tmp_path
    )
    assert "16 bits" in output
    (after,) = read_completions(tmp_path, "deep", 1)
    assert after.dtype == np.uint16
    assert (after[:14] == deep[:14]).all()
    assert (after[14:] != deep[14:]).any()


def test_colour(colour, tmp_path):
    pixels = np.random.default_rng(1).integers(0, 255, (40, 40, 3)).astype(np.uint8)
    Image.fromarray(pixels).save(tmp_path / "c.png")
    assert main(["complete", str(tmp_path / "c.png"), "--mask=centre", f"--model={colour}", f"--out={tmp_path}"]) == 0
    images = read_completions(tmp_path, "c", 8)
    assert images[0].shape == (40, 40, 3)
    assert (images[0][:10] == pixels[:10]).all()
    assert main(["report", str(colour)]) == 0


def test_invalid_photos_and_masks(run, photo, tmp_path, failing):
    path = tmp_path / "shoe.png"
    Image.fromarray(photo).save(path)

    def mask(size, value):
        Image.fromarray(np.full(size, value, np.uint8)).save(tmp_path / "mask.png")
        return "--mask", tmp_path / "mask.png"

    words = ["complete", path, "--model", run]
    assert "has no transparent pixel; give the hidden pixels with --mask" in failing(*words)
    assert "hides no pixel" in failing(*words, *mask((28, 28), 0))
    assert "hides every pixel" in failing(*words, *mask((28, 28), 255))
    assert "is 20x28 (width x height), but the image it is for is 28x28" in failing(*words, *mask((28, 20), 255))
    assert "did you mean centre?" in failing(*words, "--mask", "center")
    assert "count must be at least 1" in failing(*words, "--mask", "half", "--count", 0)
    assert "temperature must be above 0, got 0" in failing(*words, "--mask", "half", "--temperature", 0)
    assert "cannot be read as an image" in failing("complete", tmp_path / "none.png", "--mask", "half", "--model", run)
    assert "holds no run" in failing("complete", path, "--mask", "half", "--model", tmp_path)
    wide = tmp_path / "wide.png"
    Image.fromarray(np.zeros((28, 60), np.uint8)).save(wide)
    hole = np.zeros((28, 60), np.uint8)
    hole[:, :5] = 255
    Image.fromarray(hole).save(tmp_path / "hole.png")
    words = ["complete", wide, "--mask", tmp_path / "hole.png", "--model", run]
    assert "the hole extends beyond the part of" in failing(*words)
    assert "--judge is not for runs" not in failing("evaluate", run, "--judge", 0)


def test_evaluate(run, failing):
    metrics = json.loads(hardmax("evaluate", run, "--json", "--images", 100, "--samples", 4, "--judge", 1))
    assert metrics["images"] == 100
    assert metrics["nll"] < -metrics["elbo"]
    assert metrics["psnr"] < min(metrics["psnr_best"], metrics["psnr_best_half"])
    assert metrics["ssim"] < min(metrics["ssim_best"], metrics["ssim_best_half"]) <= 1
    assert metrics["diversity"] > 0
    assert 1 <= metrics["distinct"] <= 10
    assert metrics["frechet"] > 0
    assert 1 <= metrics["components"] <= 3
    assert "--refine is not for runs of --model completion" in failing("evaluate", run, "--refine")


def test_sample(run, run_here, failing):
    assert "3 test images with 8 completions of each" in run_here("sample", run, "--count", 3)
    with Image.open(run / "figures" / "samples.png") as sheet:
        assert sheet.width > 10 * 84
    assert "--vary is not for runs of --model completion" in failing("sample", run, "--vary", "red")


def test_report(run, run_here):
    run_here("report", run)
    page = (run / "report.html").read_text()
    assert "a mixture of 3 Gaussians over 8 dimensions" in page
    assert page.count("<figure") > 8 * 10
    assert "one of all these masks at random" in page


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


def test_the_experiment_is_declared(run_here):
    output = run_here("reproduce", "completion", "--list")
    assert "mnist-1-quadrant-k-8" in output
    assert "fashion-mnist-centre-published" in output
