"""A `config.json` of a run with wrong values is one error; jaxtyping's hook would reject some of them first."""

import json

import pytest

from hardmax.applications.discrete_vae.config import DiscreteConfig
from hardmax.applications.runs import read_config
from hardmax.cli.main import main
from hardmax.errors import DataError

pytestmark = pytest.mark.plain  # without shape checks

DAMAGES = [
    {"hidden": "300"}, {"hidden": 1.5}, {"hidden": None}, {"hidden": True}, {"epochs": 2.5}, {"epochs": [3]},
    {"lr": "fast"}, {"lr": {}}, {"seed": None}, {"hard": 1}, {"hard": "yes"}, {"estimator": "magic"}, {"estimator": 3},
    {"model": []}, {"model": 3}, {"model": None}, {"data": None}, {"data": 7}, {"size": [28]}, {"unknown": 1},
]  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES, ids=str)
def test_a_value_of_the_wrong_type(tmp_path, capsys, damage):
    (tmp_path / "config.json").write_text(json.dumps({"config": DiscreteConfig().to_dict() | damage}))
    with pytest.raises(DataError, match=r"config.json is not the configuration of a run"):
        read_config(tmp_path)
    for command in (["train", "--resume", "--out"], ["evaluate"], ["report"], ["sample"]):
        assert main([*command, str(tmp_path)]) == 2
        error = capsys.readouterr().err
        assert error.startswith("hardmax: error: ")
        assert error.count("\n") == 1


def test_values_that_are_valid(tmp_path):
    options = DiscreteConfig().to_dict() | {"lr": 1, "epsilon": 2, "size": None, "clip": 0.5}
    (tmp_path / "config.json").write_text(json.dumps({"config": options}))
    assert read_config(tmp_path)[0].lr == 1
