"""The folder of a training run: configuration, rows, pointers and checkpoints, as reports and `--resume` read them."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from hardmax.applications.discrete_vae.config import DiscreteConfig
from hardmax.applications.registry import find_application
from hardmax.applications.runs import load_run, read_config, read_run, train
from hardmax.training.checkpoint import load_checkpoint
from hardmax.training.processes import SINGLE_PROCESS
from hardmax.training.run_folder import remove_rows_after
from hardmax.training.state import State
from tools.fuzz.corpus.target import Target


def make_targets(folder: Path) -> list[Target]:
    """Train a run; return the targets."""
    folder = folder.absolute()
    folder.mkdir(parents=True)
    data, run = folder / "images.npz", folder / "run"
    np.savez_compressed(data, images=np.random.default_rng(0).integers(0, 256, (30, 6, 6)).astype(np.uint8))
    config = DiscreteConfig(
        data=str(data), out=str(run), epochs=2, starts=2, start_epochs=1, hidden=3, categories=3, batch_size=10,
        estimator="direct",
    )  # fmt: skip
    assert train(config)
    rows = [{"epoch": epoch, "step": 3 * epoch, "train": 0.5, "evaluate": 0.5, "processor": 0.5} for epoch in (1, 2)]
    (run / "timing.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))  # the same in every corpus
    task = find_application("discrete").load_task()
    images = task.load_data(config)

    def resume() -> None:
        began = read_config(run)[0]
        state = State(task.build(config, images, 0, SINGLE_PROCESS))
        load_checkpoint(run, state)
        assert began.model == "discrete"

    def resume_training() -> None:
        train(replace(config, resume=True))

    checkpoint = run / (run / "latest").read_text().strip()
    targets = [
        Target("run config.json", run / "config.json", lambda: load_run(run).load_data()),
        Target("run config.json read", run / "config.json", lambda: read_run(run)),
        Target("run metrics.jsonl", run / "metrics.jsonl", lambda: read_run(run)),
        Target(
            "run metrics.jsonl cut", run / "metrics.jsonl", lambda: remove_rows_after(run / "metrics.jsonl", 1), run
        ),
        Target("run metrics.jsonl resumed", run / "metrics.jsonl", resume_training, run),
        Target("run starts.jsonl resumed", run / "starts.jsonl", resume_training, run),
        Target("run latest resumed", run / "latest", resume_training, run),
        Target("run timing.jsonl", run / "timing.jsonl", lambda: read_run(run)),
        Target("run latest", run / "latest", lambda: load_run(run, "latest")),
        Target("run best", run / "best", lambda: load_run(run)),
        Target("run data", data, lambda: load_run(run).load_data()),
    ]
    for path in sorted(checkpoint.iterdir()):
        targets.append(Target(f"checkpoint {path.name}", path, resume))
        targets.append(Target(f"checkpoint {path.name} of a report", path, lambda: read_run(run)))
    return targets
