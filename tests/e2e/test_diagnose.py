"""`hardmax diagnose`, in a subprocess, on a tiny run."""

import json
import shlex

import pytest
from e2e.commands import hardmax
from PIL import Image

SMALL = ["--images", 4, "--draws", 16]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """One epoch of three categoricals on the embedded images."""
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    options = ["--categories", 3, "--variables", 3, "--hidden", 20, "--batch-size", 500]
    hardmax("train", "--epochs", 1, "--out", folder, *options)
    return folder


def test_table_advice_and_files(run):
    output = hardmax("diagnose", run, *SMALL, environment={"COLUMNS": "80"})
    for name in ("local-expectation, roulette", "direct, epsilon 0.05", "gumbel-softmax, tau 1", "straight-through"):
        assert name in output
    assert "recommended: " in output
    assert "for direct: epsilon " in output
    assert "for gumbel-softmax: tau " in output
    assert max(map(len, output[: output.index("Relative to")].splitlines())) <= 80
    # With few draws, the best two estimators may differ between versions of torch; the files may not.
    diagnosis = json.loads((run / "figures" / "diagnosis.json").read_text())
    assert diagnosis["draws"] == 16
    assert diagnosis["examples"] == 4
    assert diagnosis["batch"] == 500
    assert diagnosis["source"] == "enumeration"
    assert all(row["evaluations"] <= 1.1 * diagnosis["evaluations"] for row in diagnosis["rows"])
    with Image.open(run / "figures" / "diagnosis.png") as image:
        assert image.size[0] > 1000
    assert str(run / "figures" / "diagnosis.png") in output


def test_what_it_recommends_can_be_pasted(run):
    """The command trains: with the estimator, epsilon or tau that was recommended."""
    output = hardmax("diagnose", run, "--estimators", "direct", *SMALL)
    command = next(line for line in output.splitlines() if line.strip().startswith("hardmax train")).strip()
    words = shlex.split(command)
    diagnosis = json.loads((run / "figures" / "diagnosis.json").read_text())
    best = min(diagnosis["rows"], key=lambda row: row["error"])
    assert words[words.index("--epsilon") + 1] == best["name"].split()[-1]
    assert diagnosis["command"] == command
    out = words[words.index("--out") + 1]
    assert out.endswith("tiny-direct")
    hardmax(*words[1:])
    config = json.loads((run.parent / "tiny-direct" / "config.json").read_text())["config"]
    assert (config["estimator"], config["hidden"], config["categories"]) == ("direct", 20, 3)
    assert config["epsilon"] == float(best["name"].split()[-1])


def test_json_and_out(run, tmp_path):
    options = ["--estimators", "reinforce", "straight-through", "--evaluations", 5, "--out", tmp_path, "--json"]
    diagnosis = json.loads(hardmax("diagnose", run, *options, *SMALL))
    assert [row["name"] for row in diagnosis["rows"]] == ["reinforce, leave-one-out", "straight-through"]
    assert [row["evaluations"] for row in diagnosis["rows"]] == [5, 5]
    assert diagnosis["files"] == [str(tmp_path / "diagnosis.json"), str(tmp_path / "diagnosis.png")]
    assert {path.name for path in tmp_path.iterdir()} == {"diagnosis.json", "diagnosis.png"}
    again = json.loads(hardmax("diagnose", run, *options, *SMALL))
    assert [row["bias"] for row in diagnosis["rows"]] == [row["bias"] for row in again["rows"]]


@pytest.mark.slow
def test_more_z_than_can_be_enumerated(tmp_path):
    folder = tmp_path / "large"
    options = ["--space", "binary", "--variables", 20, "--hidden", 20, "--batch-size", 500]
    hardmax("train", "--epochs", 1, "--out", folder, *options)
    diagnosis = json.loads(hardmax("diagnose", folder, "--estimators", "local-expectation", "--json", *SMALL))
    assert diagnosis["source"] == "64 draws of LocalExpectation"
    assert 0 < diagnosis["source_error"] < 0.5
    assert diagnosis["options"][:2] == ["--estimator", "local-expectation"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "holds no run"),
        (["RUN", "--estimators", "dircet"], "there are: local-expectation"),
        (["RUN", "--images", 0], "images must be at least 1"),
        (["RUN", "--draws", 1], "draws must be at least 2"),
        (["RUN", "--evaluations", 0], "evaluations must be at least 1"),
        (["RUN", "--split", "rest"], "validation"),
        (["RUN", "--device", "gpu"], "cannot be used"),
    ],
    ids=str,
)
def test_bad_input(run, arguments, words, failing):
    assert words in failing("diagnose", *(run if word == "RUN" else word for word in arguments))


def test_help_has_an_example():
    assert "Example: hardmax diagnose" in hardmax("diagnose", "--help")
