"""Tensors and JSON in a folder: written completely or not at all, readable by all users, errors of hardmax."""

import pytest
import torch

from hardmax.errors import DataError
from hardmax.models.pretrained import MODEL_FILES, read_tensors, write_tensors


def test_both_files_may_be_read_by_the_same_people(tmp_path):
    write_tensors(tmp_path, {"half": torch.arange(6.0)[::2]}, {"labels": 3})
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(MODEL_FILES)
    assert len({(tmp_path / name).stat().st_mode for name in MODEL_FILES}) == 1
    tensors, facts = read_tensors(tmp_path)
    assert tensors["half"].tolist() == [0, 2, 4]
    assert facts == {"labels": 3}


def test_files_of_other_names(tmp_path):
    names = ("training.safetensors", "training.json")
    write_tensors(tmp_path / "new" / "folder", {"a": torch.ones(2, 3).T}, {}, names)
    assert sorted(path.name for path in (tmp_path / "new" / "folder").iterdir()) == sorted(names)
    assert read_tensors(tmp_path / "new" / "folder", names=names)[0]["a"].shape == (3, 2)


def test_tensors_that_share_memory(tmp_path):
    both = torch.arange(4.0)
    write_tensors(tmp_path, {"full": both, "part": both[:2]}, {})
    assert read_tensors(tmp_path)[0]["part"].tolist() == [0, 1]


def test_a_failure_leaves_what_was_there(tmp_path, monkeypatch):
    write_tensors(tmp_path, {"a": torch.zeros(1)}, {"version": 1})

    def fail(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(DataError, match=r"cannot write to .*: No space left on device; choose another folder"):
        write_tensors(tmp_path, {"a": torch.ones(1)}, {"version": 2})
    monkeypatch.undo()
    assert read_tensors(tmp_path) == ({"a": torch.zeros(1)}, {"version": 1})
    assert not list(tmp_path.glob("*.tmp"))


def test_missing_and_broken_files(tmp_path):
    with pytest.raises(DataError, match=r"holds no saved atlas: config\.json is missing"):
        read_tensors(tmp_path, "atlas")
    write_tensors(tmp_path, {"a": torch.zeros(1)}, {})
    weights, config = (tmp_path / name for name in MODEL_FILES)
    weights.write_bytes(b"nothing")
    with pytest.raises(DataError, match="cannot read the atlas"):
        read_tensors(tmp_path, "atlas")
    for text, words in (("{", "cannot read the atlas"), ("[]", "not a JSON object: it is a list")):
        config.write_text(text)
        with pytest.raises(DataError, match=words):
            read_tensors(tmp_path, "atlas")
    weights.unlink()
    with pytest.raises(DataError, match=r"model\.safetensors is missing"):
        read_tensors(tmp_path)
