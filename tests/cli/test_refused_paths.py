"""A path that the operating system refuses, or that names an unknown user, gives one line of error."""

import json

import pytest

from hardmax.applications.runs import load_model, load_run, read_config
from hardmax.cli.main import main
from hardmax.data import load_images, load_sequences
from hardmax.errors import DataError

LONG = "a" * 300  # a name has at most 255 bytes
COMMANDS = (
    "train --data {}",
    "train --data mnist --data-dir {}",
    "train --model sequence-gan --data {}",
    "train --model token-prior --tokenizer {}",
    "train --resume --out {}",
    "data check {}",
    "evaluate {}",
    "sample {}",
    "report {}",
    "diagnose {}",
    "index {0} {0}",
    "search {0} {0}",
    "tokenize {0} {0}",
    "detokenize {0} {0}",
    "edit {0} {0} --set a=1",
    "complete {} --model x",
    "complete x.png --model {}",
    "segment run {}",
    "segment prior {} --out x",
)


@pytest.mark.parametrize("path", [LONG, "~nobody-of-this-name/images"], ids=["long", "unknown user"])
@pytest.mark.parametrize("command", COMMANDS)
def test_commands(command, path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(command.format(path).split()) == 2
    error = capsys.readouterr().err
    assert error.startswith("hardmax: error: ")
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["train --out {}", "train --resume --out {}", "demo --out {}"])
def test_output_folders(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(command.format(LONG).split()) == 2
    assert "File name too long" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("read", [load_images, load_sequences, read_config, load_run, load_model])
def test_readers(read):
    with pytest.raises(DataError, match=r"cannot read a+.*: File name too long"):
        read(LONG)


def test_names_in_the_files_of_a_run(tmp_path):
    """The pointer names a checkpoint whose name is too long, and the configuration data."""
    (tmp_path / "config.json").write_text(json.dumps({"config": {"model": "discrete", "data": f"/tmp/{LONG}"}}))
    config = read_config(tmp_path)[0].make_paths_absolute()
    assert config.data == f"/tmp/{LONG}"
    with pytest.raises(DataError, match="File name too long"):
        load_images(config.data)
    (tmp_path / "latest").write_text(f"checkpoint-{'1' * 300}\n")
    with pytest.raises(DataError, match="latest does not name a checkpoint"):
        load_run(tmp_path)
