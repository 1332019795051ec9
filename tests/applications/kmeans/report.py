"""The report of k-means."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hardmax.report.curves import Curves, draw_curves, make_lines, make_lines_of_runs
from hardmax.report.run import Measured, Run
from hardmax.report.sections import AbstractReport, Tiles, describe_data, make_tile
from hardmax.report.tables import Fact, Quantity
from hardmax.training.task import prepare_split


@dataclass(frozen=True)
class KMeansMeasured(Measured):
    """A row of k-means."""

    distance: float | None
    used: int | None


@dataclass(frozen=True)
class Content:
    """What the template shows."""

    centres: Tiles


class KMeansReport(AbstractReport[Run]):
    """The centres, and how far images are from them."""

    row = KMeansMeasured
    quantities = (Quantity("Distance", "to the centre of the cluster", lambda row: row.distance, "lower"),)
    kept_by = "smallest distance"
    sections = {"centres": "Centres"}  # noqa: RUF012

    def pictures(self, config: Any, images: Any) -> Any:
        return prepare_split(config, images, "test")

    def subject(self, run: Run) -> str:
        return f"{run.config.clusters} clusters, {describe_data(run)}."

    def method(self, run: Run) -> str:
        return "The exact gradient of the expected distance."

    def measurement(self, run: Run) -> str:
        return f"Means over {len(run.pictures):,} test pictures."

    def facts(self, run: Run) -> list[Fact]:
        return [Fact("Clusters in use", "Used", "by test pictures", str(run.best.used), str(run.last.used))]

    def curves_of_run(self, run: Run) -> list[Curves]:
        lines = make_lines(run, lambda row: row.distance)
        return [draw_curves("distance", "Distance by epoch", "epoch", "distance", lines)]

    def curves_of_runs(self, runs: Sequence[Run], names: Sequence[str]) -> list[Curves]:
        lines = make_lines_of_runs(runs, names, lambda row: row.distance)
        return [draw_curves("distance", "Test distance by epoch", "epoch", "distance", lines)]

    def build_content(self, run: Run, index: int) -> Content:
        centres = run.model.centres.detach().view(-1, *run.images.shape)
        return Content(Tiles("", [("", [make_tile(centre[None], f"centre {k}") for k, centre in enumerate(centres)])]))
