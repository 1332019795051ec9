"""`hardmax data`: list, get and check."""

import dataclasses
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from hardmax.cli.data import check_sets, get_sets, list_sets
from hardmax.cli.main import main
from hardmax.data.datasets import SETS
from hardmax.errors import DataError


@pytest.fixture
def offered(server, monkeypatch):
    """Replace the files of mnist by two small ones from the server."""
    files = tuple(server.offer(name, name.encode()) for name in ("a.gz", "b.gz"))
    monkeypatch.setitem(SETS, "mnist", dataclasses.replace(SETS["mnist"], files=files))
    return server


def test_list(offered, cache, capsys):
    assert list_sets([]) == 0
    lines = capsys.readouterr().out
    for entry in SETS.values():
        assert entry.summary in lines
        assert entry.licence in lines
    assert lines.count("part of hardmax") == 1
    assert "not here, and cannot be downloaded: expected list_attr_celeba.txt" in lines
    assert "not here: hardmax data get mnist" in lines
    assert f"downloads go to {cache}" in lines
    get_sets(["mnist"])
    (cache / "omniglot").mkdir()
    (cache / "omniglot" / "images_background.zip").touch()
    list_sets([])
    lines = capsys.readouterr().out
    assert f"found: {cache / 'mnist'}" in lines
    assert f"not here (1 of 2 files found in {cache / 'omniglot'}): hardmax data get omniglot" in lines


def test_list_and_help_need_no_torch(tmp_path):
    for arguments in (["list"], ["--help"], *([name, "--help"] for name in ("list", "get", "check"))):
        code = (
            "import sys\nfrom hardmax.cli.main import main\n"
            f"try: main(['data', *{arguments}])\nexcept SystemExit: pass\nassert 'torch' not in sys.modules"
        )
        subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_get(offered, cache, capsys):
    assert get_sets(["mnist", "sample"]) == 0
    output = capsys.readouterr()
    assert f"mnist: {cache / 'mnist'}\n" in output.out
    assert "sample: part of hardmax" in output.out
    assert (cache / "mnist" / "b.gz").read_bytes() == b"b.gz"


def test_get_into_a_folder(offered, cache, tmp_path, capsys):
    get_sets(["mnist"])
    assert get_sets(["mnist", "--data-dir", str(tmp_path / "new")]) == 0
    assert sorted(path.name for path in (tmp_path / "new" / "mnist").iterdir()) == ["a.gz", "b.gz"]
    assert f"mnist: {tmp_path / 'new' / 'mnist'}\n" in capsys.readouterr().out


def test_get_that_fails(offered):
    offered.files.clear()
    with pytest.raises(DataError, match=r"could not download a\.gz .*404"):
        get_sets(["mnist"])
    with pytest.raises(DataError, match="did you mean 'mnist'"):
        get_sets(["mnist", "minst"])


def test_check(offered, cache, capsys):
    assert check_sets([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(SETS)
    assert lines[0].startswith("sample         ok: 4,500 + 500 + 1,000 images of 1x28x28")
    assert "not here: hardmax data get mnist" in lines[1]
    assert check_sets(["mnist"]) == 1
    get_sets(["mnist"])
    (cache / "mnist" / "b.gz").write_bytes(b"damaged")
    capsys.readouterr()
    assert check_sets(["mnist", "sample"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("mnist          BROKEN: ")
    assert "b.gz has md5" in lines[0]
    assert lines[1].startswith("sample         ok")


def test_check_half_a_set(offered, cache, capsys):
    get_sets(["mnist"])
    (cache / "mnist" / "b.gz").unlink()
    assert check_sets([]) == 1
    assert "BROKEN: not here (1 of 2 files found" in capsys.readouterr().out


def test_check_images_of_ones_own(tmp_path, capsys):
    np.savez(tmp_path / "mine.npz", images=np.zeros((30, 8, 8), np.uint8))
    assert check_sets([str(tmp_path / "mine.npz")]) == 0
    assert "ok: 24 + 3 + 3 images of 1x8x8" in capsys.readouterr().out
    (tmp_path / "mine.npz").write_bytes(b"PK junk")
    assert check_sets([str(tmp_path / "mine.npz")]) == 1
    assert "BROKEN" in capsys.readouterr().out
    with pytest.raises(DataError, match="no data set 'nothing'"):
        check_sets(["nothing"])


def test_sets_without_download(cache, tmp_path, capsys):
    with pytest.raises(DataError, match=r"'faces' is not in .*cannot be downloaded; expected one \.npz"):
        get_sets(["faces"])
    assert check_sets(["faces"]) == 1
    (tmp_path / "faces").mkdir()
    attributes = np.arange(60).reshape(30, 2) % 2
    images = np.zeros((30, 8, 8, 3), np.uint8)
    np.savez(tmp_path / "faces" / "mine.npz", images=images, attributes=attributes, attribute_names=["male", "smiling"])
    assert get_sets(["faces", "--data-dir", str(tmp_path)]) == 0
    assert list_sets(["--data-dir", str(tmp_path)]) == 0
    assert capsys.readouterr().out.count(str(tmp_path / "faces")) == 2
    assert check_sets(["faces", "--data-dir", str(tmp_path)]) == 0
    assert "ok: 24 + 3 + 3 images of 3x8x8, attributes male, smiling; " in capsys.readouterr().out


def test_wrong_files_on_the_command_line(tmp_path):
    """Each error is one line that says what is wrong and where, without a traceback."""

    def hardmax(*arguments):
        code = "import sys; from hardmax.cli.main import main; sys.exit(main())"
        return subprocess.run([sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True)

    result = hardmax("data", "get", "celeba")
    assert result.returncode == 2
    assert result.stderr.startswith("hardmax: error: the set 'celeba' is not in")
    assert "cannot be downloaded; expected list_attr_celeba.txt" in result.stderr
    for i in range(20):
        Image.new("L", (4, 4), i).save(tmp_path / f"{i}.png")
    (tmp_path / "attributes.csv").write_text("image,smiling\n3.png,1\n4.pgn,0\n")
    result = hardmax("data", "check", tmp_path)
    assert result.returncode == 1
    assert "attributes.csv, line 3: there is no image '4.pgn'" in result.stdout
    assert "did you mean '4.png'?" in result.stdout
    assert "Traceback" not in result.stdout + result.stderr


@pytest.mark.data
def test_check_published(published, capsys):
    names = [name for name, entry in SETS.items() if not entry.instructions]
    assert check_sets([*names, "--data-dir", str(published)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all("ok: " in line for line in lines)
    assert sum("md5 of 4 files as published" in line for line in lines) == 2


def test_no_command(capsys):
    assert main(["data"]) == 2
    assert "usage: hardmax data list|get|check" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["get"], "hardmax data get needs NAMES (one or more); see hardmax data get --help"),
        (["remove", "mnist"], "no command 'data remove'; there are: list, get, check"),
        (["chekc"], "no command 'data chekc'; did you mean check?"),
        (["list", "mnist"], "hardmax data list takes options alone, got 'mnist' too; see hardmax data list --help"),
        (["get", "mnist", "--datadir", "x"], "hardmax data get has no option --datadir; did you mean --data-dir?"),
    ],
)
def test_wrong_arguments(arguments, message, capsys):
    assert main(["data", *arguments]) == 2
    assert capsys.readouterr().err == f"hardmax: error: {message}\n"
