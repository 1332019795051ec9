"""The folder of a table: its rows, the record of its experiment, and published numbers."""

import json
from pathlib import Path

from hardmax.applications.discrete_vae.config import DiscreteConfig
from hardmax.experiments.rows import hash_options, identify_run, read_results, seal_row
from hardmax.experiments.runner.locks import claim_folder
from hardmax.experiments.tables.declaration import Cell, Experiment, PlannedRun, Quick
from tools.fuzz.corpus.target import Target

_TINY = Experiment(
    name="tiny",
    title="Tiny",
    claim="small",
    setting="Nothing.",
    options={"epochs": 2},
    cells=(Cell("bits", "direct", "ours", 1e-3, {"estimator": "direct"}),),
    quick=Quick({"epochs": 1}, "one epoch"),
    seeds=(0, 1),
)


def make_targets(folder: Path) -> list[Target]:
    """Write the files; return the targets."""
    folder.mkdir(parents=True)
    path, kind = folder / "results.jsonl", folder / "experiment.json"
    path.write_text("".join(json.dumps(seal_row(_make_row(seed))) + "\n" for seed in (0, 1)))
    old = folder / "old" / "results.jsonl"
    old.parent.mkdir()
    old.write_text("".join(json.dumps(_make_row(seed)) + "\n" for seed in (0, 1)))
    claim_folder(folder, "tiny", quick=False)

    def read_kind() -> None:
        claim_folder(folder, "tiny", quick=False)

    return [
        Target("rows", path, lambda: read_results(path, PlannedRun.fields)),
        Target("rows without checksum", old, lambda: read_results(old, PlannedRun.fields)),
        Target("experiment.json", kind, read_kind),
    ]


def _make_row(seed: int) -> dict[str, object]:
    config = identify_run(DiscreteConfig(seed=seed, epochs=2, estimator="direct", lr=1e-3))
    epochs = [{"epoch": epoch, "negative_elbo": 100.0 - epoch, "nll": 99.0 - epoch} for epoch in (1, 2)]
    return {
        "experiment": "tiny", "quick": False, "cell": _TINY.cells[0].name, "seed": seed, "hash": hash_options(config),
        "config": config, "command": "hardmax train", "commit": None, "versions": {}, "seconds_per_epoch": 1.0,
        "seconds": [1.0, 1.0], "processor_seconds": [1.0, 1.0], "starts": [], "evaluations": 1.0, "test": epochs,
        "validation": epochs,
    }  # fmt: skip
