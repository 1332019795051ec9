"""The report of k-means."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hardmax.report.curves import Curves, draw, lines_of_run, lines_of_runs
from hardmax.report.run import Measured, Run
from hardmax.report.sections import AbstractReport, Tiles, tile, trained_on
from hardmax.report.tables import Fact, Quantity
from hardmax.training.task import held_out


@dataclass(frozen=True)
class KMeansMeasured(Measured):
    """A row of k-means."""

    distance: float | None
    used: int | None


@dataclass(frozen=True)
class Sections:
    """What the template shows."""

    centres: Tiles


class KMeansReport(AbstractReport[Run]):
    """The centres, and how far images are from them."""

    row = KMeansMeasured
    quantities = (Quantity("Distance", "to the centre of the cluster", lambda row: row.distance, "lower"),)
    kept_by = "smallest distance"
    sections = {"centres": "Centres"}  # noqa: RUF012

    def pictures(self, config: Any, images: Any) -> Any:
        return held_out(config, images, "test")

    def subject(self, run: Run) -> str:
        return f"{run.config.clusters} clusters, {trained_on(run)}."

    def method(self, run: Run) -> str:
        return "The exact gradient of the expected distance."

    def measurement(self, run: Run) -> str:
        return f"Means over {len(run.pictures):,} test pictures."

    def facts(self, run: Run) -> list[Fact]:
        return [Fact("Clusters in use", "Used", "by test pictures", str(run.best.used), str(run.last.used))]

    def curves_of_run(self, run: Run) -> list[Curves]:
        lines = lines_of_run(run, lambda row: row.distance)
        return [draw("distance", "Distance by epoch", "epoch", "distance", lines)]

    def curves_of_runs(self, runs: Sequence[Run], names: Sequence[str]) -> list[Curves]:
        lines = lines_of_runs(runs, names, lambda row: row.distance)
        return [draw("distance", "Test distance by epoch", "epoch", "distance", lines)]

    def told(self, run: Run, index: int) -> Sections:
        centres = run.model.centres.detach().view(-1, *run.images.shape)
        return Sections(Tiles("", [("", [tile(centre[None], f"centre {k}") for k, centre in enumerate(centres)])]))
