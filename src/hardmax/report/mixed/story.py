"""What a page tells of a mixed VAE."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from hardmax.data import Images
from hardmax.random import stream
from hardmax.report.curves import Curves, Line, bound_of_run, bounds_by_epoch, draw, lines_of_run, lines_of_runs
from hardmax.report.mixed import describe
from hardmax.report.mixed.confusion import Confusion, confusion
from hardmax.report.mixed.meaning import meaning_of
from hardmax.report.mixed.predictions import predict
from hardmax.report.mixed.run import MixedMeasured, MixedRun
from hardmax.report.mixed.tiles import reconstructions, samples
from hardmax.report.numbers import BOUND, Fact, Quantity, number
from hardmax.report.story import AbstractStory
from hardmax.report.tiles import Tiles
from hardmax.training.mixed.config import MixedConfig
from hardmax.training.mixed.pictures import Seen, seen


@dataclass(frozen=True)
class Told:
    """Its pictures, and what it takes for what."""

    samples: Tiles
    reconstructions: Tiles
    confusion: Confusion | None


def _percent(share: float | None) -> str:
    return number(share) if share is None or math.isnan(share) else f"{100 * share:.2f} %"


@final
class MixedStory(AbstractStory[MixedRun]):
    """How well it predicts labels, what it draws for each, what it makes of pictures."""

    row = MixedMeasured
    quantities = (
        BOUND,
        Quantity("−log p(x)", "at most; what −ELBO is an upper bound of", lambda row: row.nll, "lower"),
        Quantity("Reconstruction", "−log p(x | z), averaged over q(z | x)", lambda row: row.error),
        Quantity("KL", "from q(z | x) to the prior, of both latents", lambda row: row.kl),
        Quantity("Accuracy", "labels that the arg max has right", lambda row: row.accuracy, "higher", _percent),
        Quantity(
            "Accuracy, sampled",
            "labels that a drawn z has right",
            lambda row: row.accuracy_sampled,
            "higher",
            _percent,
        ),
    )
    sections = {  # noqa: RUF012
        "samples": "Samples",
        "reconstructions": "Reconstructions",
        "predictions": "Predictions",
    }
    template = "mixed/sections.html.j2"
    styles = ("mixed/style.css",)

    def pictures(self, config: MixedConfig, images: Images) -> Seen:
        """Return the test pictures that were evaluated after each epoch, with their labels."""
        return seen(config, images, "test")[: config.evaluate_images]

    def subject(self, run: MixedRun) -> str:
        """Say what the latents are, and what was trained on."""
        return describe.subject(run, meaning_of(run.config, run.model.space, run.said))

    def method(self, run: MixedRun) -> str:
        """Say what taught it."""
        return describe.method(run)

    def measurement(self, run: MixedRun) -> str:
        """Say what the numbers are means over, and what is exact in them."""
        return describe.measurement(run)

    def facts(self, run: MixedRun) -> list[Fact]:
        """Return how many labels were used."""
        used = f"{run.config.labels:,} of {len(run.images.train):,}"
        return [Fact("Labels", "Labels", "training pictures whose label was used", used, used)]

    def curves_of_run(self, run: MixedRun) -> list[Curves]:
        """Draw the bound and the accuracy by epoch."""
        return [bound_of_run(run), *_accuracy(lines_of_run(run, _of), "Accuracy by epoch", run.best_epoch)]

    def curves_of_runs(self, runs: Sequence[MixedRun], names: Sequence[str]) -> list[Curves]:
        """Draw the test bound and the test accuracy of several runs by epoch."""
        return [bounds_by_epoch(runs, names), *_accuracy(lines_of_runs(runs, names, _of), "Test accuracy by epoch")]

    def told(self, run: MixedRun, index: int) -> Told:
        """Return its pictures, and what it takes for what."""
        meaning = meaning_of(run.config, run.model.space, run.said)
        predictions = predict(run.model, meaning, run.pictures)
        return Told(
            samples=samples(run, meaning, stream(run.config.seed, "report", "samples")),
            reconstructions=reconstructions(run, meaning, predictions),
            confusion=confusion(meaning, predictions, f"confusion-{index}"),
        )


def _of(row: MixedMeasured) -> float | None:
    return None if row.accuracy is None else 100 * row.accuracy


def _accuracy(lines: Sequence[Line], title: str, mark: int | None = None) -> list[Curves]:
    """Draw accuracies, where there are any."""
    if all(math.isnan(value) for line in lines for value in line.y):
        return []
    note = "Of the arg max." if mark is None else "Of the arg max; not measured on the training pictures."
    return [draw("accuracy", title, "epoch", "accuracy (%)", lines, mark=mark, note=note)]
