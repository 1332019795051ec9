"""JSON from anyone: one line of error with the name of the file, wherever hardmax reads it."""

import json
import time

import pytest
import torch

from hardmax.applications.segmentation.volumes.labels import STRUCTURES, LabelTable
from hardmax.errors import DataError
from hardmax.experiments.rows import read_results
from hardmax.experiments.runner.locks import claim_folder
from hardmax.json_files import check_finite, parse_json, read_json
from hardmax.models.pretrained import read_saved_config, write_tensors
from hardmax.training.checkpoint import load_progress
from hardmax.training.run_folder import read_facts, read_rows

HOSTILE = {
    "nested lists": "[" * 100_000 + "]" * 100_000,
    "nested objects": '{"a": ' * 100_000 + "1" + "}" * 100_000,
    "nested below Python's limit": '{"config": ' * 300 + "1" + "}" * 300,
    "huge integer": '{"config": {"epochs": ' + "9" * 5000 + "}}",
    "twice": '{"config": {"epochs": 1, "epochs": 2}}',
    "a list": "[1, 2]",
    "a number": "3",
    "null": "null",
    "empty": "",
    "cut": '{"config": {"epochs": 1',
    "two objects": "{} {}",
}


def _read_model_config(tmp_path, text):
    write_tensors(tmp_path, {"a": torch.zeros(1)}, {})
    (tmp_path / "config.json").write_text(text)
    read_saved_config(tmp_path)


def _read_run_config(tmp_path, text):
    (tmp_path / "config.json").write_text(text)
    read_facts(tmp_path)


def _read_metrics(tmp_path, text):
    (tmp_path / "metrics.jsonl").write_text(f"{text}\n")
    assert read_rows(tmp_path / "metrics.jsonl")


def _claim_folder(tmp_path, text):
    (tmp_path / "experiment.json").write_text(text)
    claim_folder(tmp_path, "table1", quick=True)


def _read_progress(tmp_path, text):
    (tmp_path / "checkpoint-1").mkdir()
    (tmp_path / "latest").write_text("checkpoint-1\n")
    (tmp_path / "checkpoint-1" / "training.json").write_text(text)
    load_progress(tmp_path)


def _read_label_table(tmp_path, text):
    LabelTable.from_json(text)


PLACES = {
    "config of a model": (_read_model_config, r"config\.json"),
    "config of a run": (_read_run_config, r"config\.json"),
    "metrics": (_read_metrics, r"line 1 of .*metrics\.jsonl|'metrics.jsonl'"),
    "experiment": (_claim_folder, r"experiment\.json"),
    "progress": (_read_progress, r"training\.json"),
    "table of labels": (_read_label_table, "not a table of labels"),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", HOSTILE)
def test_every_reader_refuses_hostile_json_in_one_line(place, name, tmp_path):
    if (place, name) == ("metrics", "empty"):
        pytest.skip("an empty file of rows is valid")
    read, source = PLACES[place]
    with pytest.raises(DataError, match=source) as caught:
        read(tmp_path, HOSTILE[name])
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_line_is_a_broken_row(name, tmp_path):
    path = tmp_path / "results.jsonl"
    path.write_text(f"{HOSTILE[name]}\n")
    rows, reasons = read_results(path, frozenset({"config", "hash"}))
    assert rows == []
    assert len(reasons) == (name != "empty") or reasons == ["line 1 is cut off or not a row"]


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(DataError, match=r"cannot read .*config\.json: No such file"):
        read_json(tmp_path / "config.json")
    with pytest.raises(DataError, match="is not a file"):
        read_json(tmp_path)
    (tmp_path / "config.json").write_bytes(b'{"a": "\xff"}')
    with pytest.raises(DataError, match=r"config\.json is not a JSON object: it is not text in UTF-8"):
        read_json(tmp_path / "config.json")
    with (tmp_path / "config.json").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(DataError, match=r"config\.json is not a JSON object: it has more than 64 MB"):
        read_json(tmp_path / "config.json")
    with pytest.raises(DataError, match="or 4,000,000 values"):
        parse_json('{"a": [' + "[]," * 4_000_000 + "[]]}", "text")


def test_a_repeated_key_among_many_is_seen_at_once():
    text = json.dumps({str(number): 0 for number in range(200_000)})[:-1] + ', "199999": 1}'
    begin = time.perf_counter()
    with pytest.raises(DataError, match="the key '199999' occurs twice"):
        parse_json(text, "text")
    assert time.perf_counter() - begin < 10  # comparing all pairs of keys takes minutes


def test_what_hardmax_writes_is_read():
    content = {"a": [1, -2.5, None, True, "ü"], "b": {"c": {}, "d": []}, "best": float("-inf")}
    assert parse_json(json.dumps(content), "text") == content
    assert LabelTable.from_json(STRUCTURES.to_json()) == STRUCTURES
    with pytest.raises(DataError, match="text holds the number -inf; expected finite numbers"):
        check_finite(content, "text")
    check_finite({"a": [1, 2.5, None, "nan"]}, "text")
