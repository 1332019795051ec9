"""The tables that `hardmax segment run` prints."""

import math
from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from hardmax.segmentation.results.results import Result, Summary
from hardmax.segmentation.volumes.labels import LabelTable


def scan_table(results: Sequence[Result], table: LabelTable) -> Table:
    """Return a line for each scan."""
    compared = any(result.agreement is not None for result in results)
    out = Table(box=None, pad_edge=False, header_style="dim")
    out.add_column("scan")
    headings = [*(["mean Dice", "distance, mm"] if compared else []), "brain, ml", "log-likelihood", "seconds"]
    for heading in headings:
        out.add_column(heading, justify="right")
    out.add_column("")
    for result in results:
        cells = []
        if compared:
            found = result.agreement
            cells += ["", ""] if found is None else [_number(found.mean_dice, 3), _number(found.mean_distance, 2)]
        size = "" if result.volumes is None else f"{result.volumes[table.judged].sum() / 1000:,.0f}"
        state = "failed" if result.error else "doubtful" if result.flags else ""
        cells += [size, _number(result.log_likelihood, 2), _number(result.seconds, 0)]
        out.add_row(Text(result.scan.name), *cells, Text(state, style="bold red"))
    return out


def agreement_table(summaries: Sequence[Summary], scans: int) -> Table:
    """Return a line for each structure, and one for their mean; with several scans, the worst of them too."""
    out = Table(box=None, pad_edge=False, header_style="dim")
    out.add_column("structure")
    out.add_column("Dice", justify="right")
    if scans > 1:
        out.add_column("worst", justify="right")
        out.add_column("in")
    out.add_column("95 % distance, mm", justify="right")
    for found in summaries:
        worst = [_number(found.worst, 3), Text(found.worst_scan)] if scans > 1 else []
        last = found.name == "mean"
        out.add_row(
            found.name.replace("_", " "),
            _number(found.dice, 3),
            *worst,
            _number(found.distance, 2),
            style="bold" if last else "",
        )
    return out


def _number(value: float, digits: int) -> str:
    return "–" if math.isnan(value) else f"{value:.{digits}f}"
