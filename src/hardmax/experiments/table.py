"""Results as Markdown: a table, and the command behind every cell."""

import math
from collections.abc import Mapping, Sequence

from hardmax.experiments.declaration import Experiment
from hardmax.experiments.summary import Mean, Summary

METRICS = {"negative_elbo": "−ELBO", "nll": "−log p(x)"}


def table(experiment: Experiment, found: Mapping[str, Summary], *, quick: bool) -> str:
    """Return a page: what the paper claims, what we found so far, and how to find it again.

    Args:
        experiment: what was made.
        found: what its cells came to, by name; those that have not run leave a dash.
        quick: whether this is the quick form.
    """
    last = max((len(summary.metric) for summary in found.values()), default=0)
    epochs = [epoch for epoch in experiment.epochs if epoch < last] + ([last] if last else [])
    parts = [
        f"# {experiment.title}",
        experiment.claim,
        experiment.setting,
    ]
    if quick:
        parts.append(f"**This is the quick form** ({experiment.quick.note}). It shows that all works, and no more.")
    parts += [
        f"Test {METRICS[experiment.metric]} in nats after epochs, lower is better; the best of a column is bold. "
        f"{_seeds(experiment, quick)}Seconds are of training alone; evaluations are of log p(x | z), for each "
        "picture and step.",
        "\n".join(_lines(experiment, found, epochs)),
        f"![{experiment.title}]({experiment.name}.svg)",
        "## Commands",
        "One for each cell, with its first seed:",
        "\n".join(["```", *(summary.command for summary in found.values()), "```"]),
    ]
    return "\n\n".join(parts) + "\n"


def _seeds(experiment: Experiment, quick: bool) -> str:
    count = len(experiment.quick.seeds if quick else experiment.seeds)
    return "" if count == 1 else f"Means over {count} seeds, with the standard error where more than one has run. "


def _lines(experiment: Experiment, found: Mapping[str, Summary], epochs: Sequence[int]) -> list[str]:
    heads = [*(f"epoch {epoch}" for epoch in epochs), "−log p(x)", "evaluations", "s per epoch"]
    columns: list[list[Mean | None]] = [
        [_at(found.get(cell.name), epoch) for cell in experiment.cells] for epoch in epochs
    ]
    columns.append([found[cell.name].nll if cell.name in found else None for cell in experiment.cells])
    texts = [_marked(column) for column in columns]
    summaries = [found.get(cell.name) for cell in experiment.cells]
    texts.append(["–" if one is None or one.evaluations is None else f"{one.evaluations:.1f}" for one in summaries])
    texts.append(["–" if one is None else f"{one.seconds_per_epoch:.1f}" for one in summaries])
    lines = ["| | whose | lr | " + " | ".join(heads) + " | seeds |", "|---|---|---" + "|---:" * len(heads) + "|---|"]
    for i, cell in enumerate(experiment.cells):
        summary = found.get(cell.name)
        seeds = "not run" if summary is None else f"{summary.seeds[0]} of {summary.seeds[1]}"
        values = " | ".join(column[i] for column in texts)
        lines.append(f"| {cell.label} | {cell.group} | {cell.lr:g} | {values} | {seeds} |")
    return lines


def _at(summary: Summary | None, epoch: int) -> Mean | None:
    return summary.metric[epoch - 1] if summary is not None and len(summary.metric) >= epoch else None


def _marked(column: Sequence[Mean | None]) -> list[str]:
    """Return the numbers as text, the lowest in bold where there are several."""
    known = [mean.value for mean in column if mean is not None and math.isfinite(mean.value)]
    best = f"{min(known):.2f}" if len(known) > 1 else None
    return ["–" if mean is None else f"**{mean}**" if f"{mean.value:.2f}" == best else str(mean) for mean in column]
