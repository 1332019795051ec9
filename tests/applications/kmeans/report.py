"""The report of k-means."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hardmax.report.curves import Curves, draw_curves, make_lines, make_lines_of_runs
from hardmax.report.run import MetricsRow, Run
from hardmax.report.sections import AbstractReport, Tiles, describe_data, make_tile
from hardmax.report.tables import Fact, Quantity
from hardmax.training.task import prepare_split


@dataclass(frozen=True)
class KMeansRow(MetricsRow):
    """A row of k-means."""

    distance: float | None
    used: int | None


@dataclass(frozen=True)
class Content:
    """The contents of the section of one run."""

    centres: Tiles


class KMeansReport(AbstractReport[Run]):
    """The centres, and how far images are from them."""

    row = KMeansRow
    quantities = (Quantity("Distance", "to the centre of the cluster", lambda row: row.distance, "lower"),)
    criterion = "smallest distance"
    sections = {"centres": "Centres"}  # noqa: RUF012

    def prepare_test_examples(self, config: Any, images: Any) -> Any:
        return prepare_split(config, images, "test")

    def describe_model(self, run: Run) -> str:
        return f"{run.config.clusters} clusters, {describe_data(run)}."

    def describe_training(self, run: Run) -> str:
        return "The exact gradient of the expected distance."

    def describe_measurement(self, run: Run) -> str:
        return f"Means over {len(run.test_examples):,} test images."

    def list_facts(self, run: Run) -> list[Fact]:
        return [Fact("Clusters in use", "Used", "by test images", str(run.best.used), str(run.last.used))]

    def draw_run_curves(self, run: Run) -> list[Curves]:
        lines = make_lines(run, lambda row: row.distance)
        return [draw_curves("distance", "Distance by epoch", "epoch", "distance", lines)]

    def draw_comparison_curves(self, runs: Sequence[Run], names: Sequence[str]) -> list[Curves]:
        lines = make_lines_of_runs(runs, names, lambda row: row.distance)
        return [draw_curves("distance", "Test distance by epoch", "epoch", "distance", lines)]

    def build_content(self, run: Run, index: int) -> Content:
        centres = run.model.centres.detach().view(-1, *run.images.shape)
        return Content(Tiles("", [("", [make_tile(centre[None], f"centre {k}") for k, centre in enumerate(centres)])]))
