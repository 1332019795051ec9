"""What the tables of experiments share: means as entries with the best in bold, and what is said above them."""

import math
from collections.abc import Sequence

from hardmax.experiments.declaration import Experiment
from hardmax.experiments.metrics import Mean, Metric
from hardmax.experiments.page import Entry

SECONDS = "Seconds are of training alone, on one thread."


def marked(means: Sequence[Mean | None], metric: Metric) -> list[Entry]:
    """Return numbers, the best in bold where there are several, dashes for what is not there."""
    known = [mean.value for mean in means if mean is not None and math.isfinite(mean.value)]
    best = metric.best(known) if len(known) > 1 else None
    bold = None if best is None else metric.write(best)
    return [
        Entry("–") if mean is None else Entry(metric.write_mean(mean), best=metric.write(mean.value) == bold)
        for mean in means
    ]


def plain(value: float | None) -> Entry:
    """Return a number that is not compared, a dash for what is not there."""
    return Entry("–" if value is None else f"{value:.1f}")


def what_means_are(experiment: Experiment, *, quick: bool) -> str:
    """Return a sentence on seeds; nothing where there is but one."""
    count = len(experiment.quick.seeds if quick else experiment.seeds)
    return "" if count == 1 else f" Means over {count} seeds, with the standard error where more than one has run."
