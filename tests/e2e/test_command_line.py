"""The command line in a subprocess, as a user runs it."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from e2e.commands import hardmax
from PIL import Image

from hardmax.applications.registry import list_trained

COMMANDS = [
    "demo",
    "train",
    "evaluate",
    "sample",
    "edit",
    "report",
    "diagnose",
    "reproduce",
    "segment",
    "data",
    "doctor",
]


def one_line(message):
    assert message.startswith("hardmax: error: ")
    assert message.count("\n") == 1
    return message


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A finished run of two epochs on the embedded images."""
    folder = tmp_path_factory.mktemp("runs") / "first"
    output = hardmax("train", "--epochs", 2, "--out", folder)
    assert "posterior direct" in output
    assert str(folder) in output
    return folder


@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS)], ids=str)
def test_help_is_there_and_quick(command):
    begin = os.times()
    output = hardmax(*command, "--help")
    seconds = os.times()
    used = seconds.children_user - begin.children_user  # processor time: other processes do not count
    assert "xample" in output
    assert used < 0.5


def test_help_imports_no_torch():
    code = (
        "import sys\nfrom hardmax.applications.registry import list_commands\n"
        "from hardmax.cli.main import COMMANDS, GROUPS, main\n"
        "for name in [*COMMANDS, *GROUPS, *list_commands()]:\n"
        "    try: main([*name.split(), '--help'])\n"
        "    except SystemExit: pass\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_help_of_train_names_all_models():
    output = hardmax("train", "--help")
    assert "hardmax train --model NAME --help" in output
    for application in list_trained():
        assert f"  {application.name} " in output
        assert application.help in output
    output = hardmax("train", "--model", "mixed", "--help")
    assert "usage: hardmax train --model mixed" in output
    assert "--labelled-batch INT" in output


def test_a_run_s_folder(run):
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [(row["epoch"], row["split"]) for row in rows] == [
        (epoch, split) for epoch in (1, 2) for split in ("train", "validation", "test")
    ]
    assert set(rows[0]) == {"epoch", "step", "split", "elbo", "nll", "kl", "reconstruction", "active", "evaluations"}
    assert rows[-1]["elbo"] == pytest.approx(rows[-1]["reconstruction"] - rows[-1]["kl"], abs=1e-3)
    assert rows[-1]["nll"] <= -rows[-1]["elbo"]
    output = json.loads((run / "config.json").read_text())
    assert output["config"]["estimator"] == "auto"
    assert output["versions"]["torch"]
    assert {path.name for path in run.iterdir()} >= {"latest", "best", "timing.jsonl"}
    assert not list(run.rglob("*.tmp"))


def test_evaluate(run):
    table = hardmax("evaluate", run)
    assert "-log p(x)" in table
    output = json.loads(hardmax("evaluate", run, "--json"))
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    best = max((row for row in rows if row["split"] == "validation"), key=lambda row: row["elbo"])
    test = next(row for row in rows if row["split"] == "test" and row["epoch"] == best["epoch"])
    assert output["exact"]
    assert output["images"] == 1000
    assert output["elbo"] == pytest.approx(test["elbo"], abs=1e-4)


def test_sample(run, tmp_path):
    output = hardmax("sample", run, "--count", 10, "--out", tmp_path / "grid.png")
    assert "grid.png" in output
    with Image.open(tmp_path / "grid.png") as image:
        assert image.size[0] > 28
    hardmax("sample", run, "--count", 3)
    assert (run / "figures" / "samples.png").exists()


def test_report(run, tmp_path):
    hardmax("report", run, "--out", tmp_path / "page.html")
    assert "<html" in (tmp_path / "page.html").read_text()


def test_doctor():
    output = hardmax("doctor")
    assert "torch" in output
    assert "HARDMAX_DATA" in output


@pytest.mark.parametrize("options", [
    ["--space", "binary", "--variables", 8],
    ["--categories", 4, "--variables", 3],
    ["--estimator", "gumbel-softmax", "--hard", "--anneal", "1e-3", "--anneal-every", 10],
    ["--estimator", "straight-through"],
    ["--estimator", "reinforce", "--baseline", "leave-one-out", "--samples", 2],
    ["--estimator", "local-expectation"],
    ["--estimator", "exact", "--prior", "learned", "--clip", 1.0],
    ["--estimator", "direct", "--kl", "none", "--two-sided", "--epsilon", 0.5],
    ["--likelihood", "gaussian", "--binarize", "none"],
    ["--binarize", "stochastic", "--architecture", "conv", "--hidden", 50],
], ids=lambda options: " ".join(map(str, options)))  # fmt: skip
def test_every_option_trains(options, tmp_path, run_here):
    images = tmp_path / "images.npy"
    np.save(images, np.random.default_rng(0).integers(0, 256, (300, 12, 12), dtype=np.uint8))
    run_here("train", "--data", images, "--epochs", 2, "--out", tmp_path / "run", *options)
    output = json.loads(run_here("evaluate", tmp_path / "run", "--json"))
    assert np.isfinite(output["elbo"])


@pytest.mark.slow
def test_pairwise_bits_train_and_are_evaluated(tmp_path):
    folder = tmp_path / "run"
    options = ["--space", "pairwise", "--variables", 6, "--supermodular", "--hidden", 20, "--batch-size", 500]
    hardmax("train", "--epochs", 1, "--out", folder, *options)
    flags = ["--refine", "--perturb-and-map", "--images", 50, "--samples", 20]
    bounds = json.loads(hardmax("evaluate", folder, "--json", *flags))
    assert bounds["nll"] <= -bounds["elbo"]
    assert bounds["nll"] <= bounds["refined"]
    assert bounds["nll"] <= bounds["perturb_and_map"]
    assert "refined by greedy changes" in hardmax("evaluate", folder, *flags)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--space", "pairwise", "--variables", 5, "--solver", "simplex"], "branch-and-bound"),
        (["--space", "binary", "--supermodular"], "--space pairwise"),
        (["--space", "pairwise", "--variables", 30, "--estimator", "gibbs-covariance"], "needs draw"),
    ],
    ids=str,
)
def test_invalid_structures(options, message, tmp_path):
    assert message in one_line(hardmax("train", "--out", tmp_path / "run", *options, check=2))


def test_early_stopping(tmp_path):
    images = tmp_path / "noise.npy"
    np.save(images, np.random.default_rng(0).integers(0, 256, (200, 8, 8), dtype=np.uint8))
    output = hardmax(
        "train", "--data", images, "--epochs", 200, "--lr", 0.02, "--patience", 2, "--out", tmp_path / "run"
    )
    assert "no better bound" in output


def test_a_folder_of_mixed_images(tmp_path):
    """500 images of mixed sizes and modes, as users have them."""
    generator = np.random.default_rng(0)
    folder = tmp_path / "mine"
    folder.mkdir()
    for number in range(500):
        mode = ["L", "RGB", "RGBA", "P", "1"][number % 5]
        size = (40, 40) if number % 3 else tuple(int(i) for i in generator.integers(20, 60, 2))
        Image.fromarray(generator.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)).convert(mode).save(
            folder / f"{number}.png"
        )
    output = hardmax("train", "--data", folder, "--epochs", 1, "--binarize", "none", "--out", tmp_path / "run")
    assert "40" in output  # the size that was inferred is reported
    shape = json.loads((tmp_path / "run" / "config.json").read_text())["data"]["shape"]
    assert shape == [3, 40, 40]


class TestBadInput:
    @pytest.mark.parametrize(("arguments", "words"), [
        (["trian"], "did you mean train"),
        (["nothing"], "there are: demo"),
        (["train", "--data", "fashon-mnist", "--out", "OUT"], "fashion-mnist"),
        (["train", "--epsilon", "0", "--out", "OUT"], "epsilon must be positive"),
        (["train", "--categories", "0", "--out", "OUT"], "categories must be at least 1"),
        (["train", "--mixed-precision", "--out", "OUT"], "needs a GPU"),
        (["train", "--device", "gpu", "--out", "OUT"], "device 'gpu' cannot be used"),
        (["train", "--resume", "--out", "OUT"], "holds no run"),
        (["train", "--space", "binary", "--variables", "40", "--estimator", "exact", "--out", "OUT"], "members"),
        (["evaluate", "OUT"], "holds no run"),
        (["sample", "OUT"], "holds no run"),
        (["report", "OUT"], "holds no run"),
        (["sample", "OUT", "--count", "0"], "count must be at least 1"),
        (["demo", "--epochs", "0"], "epochs must be at least 1"),
        (["demo", "--epochs", "many"], "--epochs must be a whole number, got 'many'"),
        (["doctor", "me"], "hardmax doctor takes options alone, got 'me' too"),
        (["report"], "hardmax report needs RUNS (one or more); see hardmax report --help"),
        (["evaluate"], "hardmax evaluate needs RUN; see hardmax evaluate --help"),
        (["evaluate", "OUT", "b"], "hardmax evaluate takes RUN alone, got 'b' too"),
        (["edit", "OUT", "photo.png"], "hardmax edit needs --set, a text; see hardmax edit --help"),
        (["segment", "rnu"], "did you mean run?"),
    ])  # fmt: skip
    def test_one_clear_line(self, arguments, words, tmp_path, failing):
        assert words in failing(*[tmp_path / "none" if word == "OUT" else word for word in arguments])

    def test_options_that_do_not_exist_or_do_not_fit(self):
        assert "did you mean --epochs?" in one_line(hardmax("train", "--epoch", "3", check=2))
        assert "did you mean direct?" in one_line(hardmax("train", "--estimator", "dircet", check=2))
        assert "hardmax train --model mixed has no option --bits" in one_line(
            hardmax("train", "--model=mixed", "--bits", "3", check=2)
        )

    def test_a_run_is_not_overwritten(self, run):
        assert "--resume" in one_line(hardmax("train", "--out", run, check=2))

    def test_a_broken_model(self, run, tmp_path):
        broken = tmp_path / "broken"
        shutil.copytree(run, broken)
        for file in broken.glob("checkpoint-*/model.safetensors"):
            file.write_bytes(file.read_bytes()[:1000])
        assert "cannot read the model" in one_line(hardmax("evaluate", broken, check=2))


def test_ctrl_c_saves_and_says_how_to_resume(tmp_path):
    out = tmp_path / "run"
    command = [sys.executable, "-m", "hardmax.cli.main", "train", "--epochs", "500", "--out", str(out)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (out / "latest").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 130
    assert f"hardmax train --resume --out {out}" in " ".join(output.split())
    steps = json.loads((out / (out / "latest").read_text().strip() / "training.json").read_text())["step"]
    epochs = steps // 45 + 1
    assert f"step {steps}" in hardmax("train", "--resume", "--out", out, f"--epochs={epochs}")


def test_version():
    assert hardmax("--version").startswith("hardmax ")
