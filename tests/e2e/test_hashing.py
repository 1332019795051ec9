"""Hash encoders on the command line, in a subprocess: train, evaluate, index, search, report."""

import json
import subprocess
import sys

import numpy as np
import pytest
from e2e.commands import hardmax
from PIL import Image

from hardmax.data import load_images


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run on the embedded images."""
    folder = tmp_path_factory.mktemp("runs") / "codes"
    options = ["--bits", 32, "--epochs", 1, "--hidden", 200, "--evaluate-images", 200]
    output = hardmax("train", "--model", "hashing", "--data", "sample", *options, "--out", folder)
    assert "32 bits from pairs with 20 nearest neighbours by pixels" in output
    assert "test precision@100" in output
    return folder


@pytest.fixture(scope="module")
def index(run):
    """An index of all embedded images."""
    path = run.parent / "index.npz"
    output = hardmax("index", run, "sample", "--out", path)
    assert f"6,000 codes of 32 bits, 48,000 bytes, and their images in {path}" in output
    return path


@pytest.fixture(scope="module")
def photo(tmp_path_factory):
    """A test image, enlarged and in colour."""
    path = tmp_path_factory.mktemp("photos") / "shoe.png"
    image = Image.fromarray(load_images("sample").test[7, 0].numpy())
    image.resize((112, 112), Image.Resampling.NEAREST).convert("RGB").save(path)
    return path


def test_evaluate(run, run_here):
    numbers = json.loads(run_here("evaluate", run, "--json", "--images", 100))
    assert numbers["searched"] == 4500
    assert numbers["bits"] == 32
    assert set(numbers["precision"]) == {"1", "10", "100", "1000"}
    assert numbers["precision"]["100"] > 0.4  # a tenth by chance
    assert 0.5 < numbers["precision_of_pixels"]["100"] < 0.7
    assert 0.3 < numbers["mean_average_precision"] < numbers["precision"]["100"]
    assert 0.3 < numbers["mean_average_precision_of_pixels"] < numbers["precision_of_pixels"]["100"]


def test_search_finds_the_image_itself_and_its_like(index, photo, tmp_path, run_here):
    sheet = tmp_path / "sheet.png"
    result = json.loads(hardmax("search", index, photo, "--count", 5, "--out", sheet, "--json"))
    assert result["searched"] == 6000
    distances = [match["distance"] for match in result["nearest"]]
    assert len(distances) == 5
    assert distances == sorted(distances)
    assert distances[0] == 0  # the image itself is in the index
    with Image.open(sheet) as drawn:
        assert drawn.width > 6 * 84
    listed = run_here("search", index, photo, "--count", 200, "--out", sheet)
    assert "6,000 codes of 32 bits searched in" in listed
    assert "112x112 RGB, resized to 28x28" in listed
    assert "0 bits  sample test 7" in listed


def test_several_images_on_one_sheet(index, photo, tmp_path, run_here):
    out = tmp_path / "new" / "sheet.png"
    output = run_here("search", index, photo, photo, "--count", 3, "--out", out)
    assert output.count("searched in") == 2
    with Image.open(out) as drawn:
        assert drawn.height > 2 * 84


def test_an_index_of_a_folder(run, tmp_path, run_here):
    folder = tmp_path / "photos"
    folder.mkdir()
    images = load_images("sample").test[:6, 0].numpy()
    for i, image in enumerate(images):
        Image.fromarray(image).resize((56 + i, 56)).save(folder / f"{i}.png")
    path = tmp_path / "own.npz"
    output = run_here("index", run, folder, "--out", path)
    assert "6 of other sizes were cropped and resized" in output
    with np.load(path) as arrays:
        assert arrays["codes"].shape == (6, 1)
        assert arrays["names"][3].endswith("3.png")
    result = json.loads(run_here("search", path, folder / "3.png", "--json", "--out", tmp_path / "s.png"))
    assert len(result["nearest"]) == 6
    assert result["nearest"][0] == {"image": str(folder / "3.png"), "distance": 0}
    assert set(result) == {"image", "searched", "bits", "nearest"}


def test_report(run, run_here):
    assert "report is in" in run_here("report", run)
    assert 'id="nearest"' in (run / "report.html").read_text()


def test_errors(run, index, photo, tmp_path, failing):
    assert "count must be at least 1" in failing("search", index, photo, "--count", 0)
    assert "cannot be read" in failing("search", index, tmp_path / "no.png")
    assert "not an index of images" in failing("search", _other(tmp_path), photo)
    assert "say where it is now with --run" in failing("search", _write_moved_index(index, tmp_path), photo)
    assert "has other weights" in failing(
        "search", _write_moved_index(index, tmp_path, weights="0"), photo, "--run", run
    )
    assert "--split is for data sets" in failing("index", run, tmp_path, "--split", "test")
    assert "holds no images" in failing("index", run, _empty(tmp_path))
    assert "training images are what is searched" in failing("evaluate", run, "--split", "train")
    assert "--refine is not for runs of --model hashing" in failing("evaluate", run, "--refine")
    assert "hardmax sample is for runs of --model discrete or mixed" in failing("sample", run)
    assert "needs distortions" in failing("train", "--model", "hashing", "--pairs", "distorted")
    small = tmp_path / "small.npz"
    np.savez(small, images=np.zeros((30, 8, 8), dtype=np.uint8))
    assert "reads images of 28x28, but those of small are 8x8" in failing("index", run, small)


def _other(tmp_path):
    np.savez(tmp_path / "other.npz", images=np.zeros(3))
    return tmp_path / "other.npz"


def _empty(tmp_path):
    (tmp_path / "empty").mkdir()
    return tmp_path / "empty"


def _write_moved_index(index, tmp_path, weights=None):
    """Write an index whose run is missing, or has other weights."""
    with np.load(index) as arrays:
        kept = dict(arrays)
    _, checkpoint, before = kept["made_by"].tolist()
    np.savez(tmp_path / "moved.npz", **{**kept, "made_by": np.array(["/nowhere", checkpoint, weights or before])})
    return tmp_path / "moved.npz"


@pytest.mark.parametrize("command", ["index", "search"])
def test_help_needs_no_torch(command):
    code = f"import sys; from hardmax.cli.main import main\ntry:\n    main(['{command}', '--help'])\nexcept SystemExit:\n    pass\nassert 'torch' not in sys.modules"  # noqa: E501
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert f"hardmax {command}" in output
