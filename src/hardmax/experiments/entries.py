"""What the tables of experiments share: names, and means as entries with the best in bold."""

import math
from collections.abc import Sequence

from hardmax.experiments.declaration import Experiment
from hardmax.experiments.page import Entry
from hardmax.experiments.summary import Mean

METRICS = {"negative_elbo": "−ELBO", "nll": "−log p(x)"}
SECONDS = "Seconds are of training alone, on one thread."


def marked(means: Sequence[Mean | None]) -> list[Entry]:
    """Return numbers, the lowest as the best where there are several, dashes for what is not there."""
    known = [mean.value for mean in means if mean is not None and math.isfinite(mean.value)]
    best = f"{min(known):.2f}" if len(known) > 1 else None
    return [Entry("–") if mean is None else Entry(str(mean), best=f"{mean.value:.2f}" == best) for mean in means]


def plain(value: float | None) -> Entry:
    """Return a number that is not compared, a dash for what is not there."""
    return Entry("–" if value is None else f"{value:.1f}")


def what_means_are(experiment: Experiment, *, quick: bool) -> str:
    """Return a sentence on seeds; nothing where there is but one."""
    count = len(experiment.quick.seeds if quick else experiment.seeds)
    return "" if count == 1 else f" Means over {count} seeds, with the standard error where more than one has run."
