"""Readings: one estimator measured after one epoch, and its row in `results.jsonl`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from hardmax.applications.runs import read_config
from hardmax.diagnosis import Diagnosis
from hardmax.experiments.runner.rows import Row, fingerprint, identity, same_run
from hardmax.experiments.tables.measurement import Entrant, Measurement, Part
from hardmax.report.tables import command
from hardmax.training.config import TrainConfig

FIELDS = frozenset({
    "experiment", "part", "epoch", "name", "config", "hash", "norm", "samples", "bias", "floor", "biased", "deviation",
    "cosine", "evaluations", "seconds",
})  # fmt: skip


@dataclass(frozen=True)
class Reading:
    """A measurement to be made, or made already.

    Attributes:
        epoch: after which.
        part: under which conditions.
        entrant: of which estimator.
        training: what the model comes from; `training.out` is its folder.
        draws: independent estimates.
        pictures: number of validation pictures.
    """

    epoch: int
    part: Part
    entrant: Entrant
    training: TrainConfig
    draws: int
    pictures: int

    @property
    def name(self) -> str:
        """What a reader sees while it is made."""
        return f"epoch {self.epoch}, {self.part.name}, {self.entrant.name}"

    @property
    def terms(self) -> dict[str, Any]:
        """All that it depends on but the training."""
        return {
            "estimator": self.entrant.name,
            "epoch": self.epoch,
            "objective": self.part.objective,
            "kl": self.entrant.kl if self.part.objective == "bound" else None,
            "evaluations": self.part.evaluations,
            "samples": self.part.samples,
            "draws": self.draws,
            "pictures": self.pictures,
        }


# All that is wanted, with the rows of what is there.
Found = Sequence[tuple[Reading, Row | None]]


def select(found: Found, epoch: int, part: Part) -> list[tuple[Reading, Row | None]]:
    """Return what belongs to a part after an epoch."""
    return [(reading, row) for reading, row in found if (reading.epoch, reading.part) == (epoch, part)]


def readings(form: Measurement, parts: Sequence[Part], training: TrainConfig) -> list[Reading]:
    """Return all that parts of a measurement want, epoch by epoch."""
    return [
        Reading(epoch, part, entrant, training, form.draws, form.pictures)
        for epoch in form.epochs
        for part in parts
        for entrant in form.entrants(part)
    ]


def row_of(experiment: str, reading: Reading, found: Diagnosis, *, quick: bool) -> Row:
    """Return the row of a reading, from what was measured and from the folder of its run."""
    (quality,) = found.rows
    _, said = read_config(reading.training.out)
    config = {"training": identity(reading.training), **reading.terms}
    return {
        "experiment": experiment,
        "quick": quick,
        "part": reading.part.name,
        "epoch": reading.epoch,
        "hash": fingerprint(config),
        "config": config,
        "command": command(replace(reading.training, out=f"runs/{experiment}", data_dir=None)),
        "commit": said.get("commit"),
        "versions": said.get("versions"),
        "norm": found.norm,
        "notes": list(found.notes),
        **quality.to_dict(),
    }


def find_reading(rows: Sequence[Row], reading: Reading) -> Row | None:
    """Return the newest row of this very reading, or None."""
    for row in reversed(rows):
        training = row["config"].get("training", {})
        terms = {key: value for key, value in row["config"].items() if key != "training"}
        if row["part"] == reading.part.name and terms == reading.terms and same_run(training, reading.training):
            return row
    return None
