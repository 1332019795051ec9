"""Results of segmented scans: reasons for doubt, and the tables volumes.csv and dice.csv. No torch here."""

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import numpy as np
from jaxtyping import Float

from hardmax.applications.segmentation.volumes.agreement import Agreement
from hardmax.applications.segmentation.volumes.labels import LabelTable
from hardmax.applications.segmentation.volumes.scans import Scan
from hardmax.applications.segmentation.volumes.sides import FREESURFER, measure_asymmetry
from hardmax.files import write_output
from hardmax.names import escape_control_characters, quote_formula

VOLUMES, DICE = "volumes.csv", "dice.csv"
# Brains of adults have about 900 to 1,700 ml without the surrounding fluid; children and illness widen this range.
_LEAST, _MOST = 500.0, 2200.0
_MISSING = 0.25  # fraction of the structures


def list_doubts(
    sizes: Float[np.ndarray, "M"], table: LabelTable, log_likelihood: float, least: float | None
) -> tuple[str, ...]:
    """Return the reasons why a result is doubtful, as sentences; empty if there are none.

    Args:
        sizes: `[M]`, mm^3 of each label.
        table: the labels.
        log_likelihood: log-likelihood of the scan under the fitted model, per voxel.
        least: lowest log-likelihood of scans of brains; None if unknown.

    Example:
        >>> import numpy as np
        >>> from hardmax.applications.segmentation.volumes.labels import STRUCTURES
        >>> sizes = np.full(19, 70_000.0)
        >>> list_doubts(sizes, STRUCTURES, log_likelihood=-2.1, least=-3.0)
        ()
        >>> list_doubts(sizes / 10, STRUCTURES, log_likelihood=-5.2, least=-3.0)[0]
        'Low likelihood (-5.20 per voxel, expected at least -3.00): this may not be the scan of a brain.'
    """
    out = []
    if math.isnan(log_likelihood) or (least is not None and log_likelihood < least):
        expected = "" if least is None else f", expected at least {least:.2f}"
        out.append(f"Low likelihood ({log_likelihood:.2f} per voxel{expected}): this may not be the scan of a brain.")
    brain = float(sizes[table.judged_indices].sum()) / 1000
    if not _LEAST <= brain <= _MOST:
        out.append(f"The brain has {brain:,.0f} ml, expected {_LEAST:,.0f} to {_MOST:,.0f}.")
    missing = [table.names[index] for index in table.judged_indices if not sizes[index]]
    if len(missing) > _MISSING * len(table.judged_indices):
        out.append(f"{len(missing)} of {len(table.judged_indices)} structures were not found: {', '.join(missing)}.")
    return tuple(out)


@dataclass(frozen=True, eq=False)
class Result:
    """Result of one scan.

    Attributes:
        scan: the scan.
        error: reason why it could not be segmented; all other fields are then empty.
        model: description of the model that segmented it.
        volumes: `[M]`, mm^3 of each label.
        log_likelihood: log-likelihood per voxel.
        seconds: duration.
        flags: sentences on why the result is doubtful.
        notes: sentences that the user should read.
        agreement: agreement with the true label map, if there is one.
        files: written files, the label map first.
        image: path of the quality image.
    """

    scan: Scan
    error: str = ""
    model: str = ""
    volumes: Float[np.ndarray, "M"] | None = None
    log_likelihood: float = math.nan
    seconds: float = math.nan
    flags: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    agreement: Agreement | None = None
    files: tuple[Path, ...] = ()
    image: Path | None = None


@dataclass(frozen=True)
class Summary:
    """Agreement of a structure with the true maps, over all scans that have one.

    Attributes:
        name: name of the structure; "mean" for the mean over all structures.
        dice: mean over the scans.
        worst: lowest Dice.
        worst_scan: name of the scan with the lowest Dice.
        distance: mean of the 95 % surface distance in mm.
    """

    name: str
    dice: float
    worst: float
    worst_scan: str
    distance: float


def summarise_agreement(results: Sequence[Result]) -> list[Summary]:
    """Return a summary for each judged structure, and last the mean; empty if no scan was compared."""
    scans = [result.scan.name for result in results if result.agreement is not None]
    agreements = [result.agreement for result in results if result.agreement is not None]
    if not agreements:
        return []
    columns = []
    # A true map may have left and right apart or merged: a structure that it does not have is undefined.
    for name in dict.fromkeys(name for agreement in agreements for name in agreement.names):
        places = [agreement.names.index(name) if name in agreement.names else None for agreement in agreements]
        pairs = list(zip(agreements, places, strict=True))
        overlaps = [math.nan if i is None else agreement.dice[i] for agreement, i in pairs]
        columns.append((name, overlaps, [math.nan if i is None else agreement.distance[i] for agreement, i in pairs]))
    means = [agreement.mean_dice for agreement in agreements]
    columns.append(("mean", means, [agreement.mean_distance for agreement in agreements]))
    out = []
    for name, overlaps, distances in columns:
        defined = [(float(value), scan) for value, scan in zip(overlaps, scans, strict=True) if not math.isnan(value)]
        worst, where = min(defined, default=(math.nan, ""))
        out.append(Summary(name, _mean(overlaps), worst, where, _mean(distances)))
    return out


def write_volumes(path: Path, results: Sequence[Result], table: LabelTable) -> None:
    """Write a line for each scan: mm^3 of each structure, asymmetries, the log-likelihood per voxel, and the flags.

    Raises:
        DataError: the file cannot be written.
    """
    rows: list[list[str]] = [["scan", *list_volume_columns(table), "log_likelihood", "flag"]]
    for result in results:
        flag = f"failed: {result.error}" if result.error else " ".join(result.flags)
        sizes = format_volumes(result, table, missing="")
        rows.append([result.scan.name, *sizes, _format_number(result.log_likelihood, 4), flag])
    _write_csv(path, rows)


def list_volume_columns(table: LabelTable) -> list[str]:
    """Return the names of the columns of volumes, and of the asymmetries if the table has left and right."""
    return [*table.names[1:], *(f"asymmetry_{name}" for name in _list_pairs(table))]


def format_volumes(result: Result, table: LabelTable, missing: str) -> list[str]:
    """Return the cells of the columns of `list_volume_columns`.

    Args:
        result: the result of a scan.
        table: the labels.
        missing: the cell of a value that is undefined.
    """
    if result.volumes is None:
        return [missing] * len(list_volume_columns(table))
    values = measure_asymmetry(result.volumes).values() if _list_pairs(table) else ()
    asymmetries = [missing if math.isnan(value) else f"{value:.2f}" for value in values]
    return [*(f"{size:.1f}" for size in result.volumes[1:]), *asymmetries]


def _list_pairs(table: LabelTable) -> list[str]:
    """Return the structures that both sides have, in a table with sides."""
    return list(measure_asymmetry(np.zeros(len(table)))) if table.names == FREESURFER.names else []


def write_dice(path: Path, results: Sequence[Result]) -> None:
    """Write a line for each scan and structure, and one for the mean over the structures of a scan.

    Undefined values are left empty: the Dice of a structure that neither map has, and the distance of a structure that
    a map lacks.

    Raises:
        DataError: the file cannot be written.
    """
    rows: list[list[str]] = [["scan", "structure", "dice", "distance_95_mm", "volume_mm3", "true_volume_mm3"]]
    for result in results:
        if (agreement := result.agreement) is None:
            continue
        for i, name in enumerate(agreement.names):
            measured = [_format_number(agreement.dice[i], 4), _format_number(agreement.distance[i], 3)]
            rows.append(
                [result.scan.name, name, *measured, f"{agreement.volume[i]:.1f}", f"{agreement.true_volume[i]:.1f}"]
            )
        rows.append(
            [
                result.scan.name,
                "mean",
                _format_number(agreement.mean_dice, 4),
                _format_number(agreement.mean_distance, 3),
                "",
                "",
            ]
        )
    _write_csv(path, rows)


def _mean(values: Sequence[float]) -> float:
    defined = [float(value) for value in values if not math.isnan(value)]
    return fmean(defined) if defined else math.nan


def _format_number(value: float, digits: int) -> str:
    return "" if math.isnan(value) else f"{value:.{digits}f}"


def _write_csv(path: Path, rows: Sequence[Sequence[str]]) -> None:
    """Write a table for people: a scan whose name looks like a formula is not calculated by a spreadsheet."""
    text = io.StringIO(newline="")
    cells = [[quote_formula(escape_control_characters(cell)) for cell in row] for row in rows]
    csv.writer(text, lineterminator="\n").writerows(cells)
    with write_output(path, "folder") as temporary:
        temporary.write_text(text.getvalue(), encoding="utf-8", newline="")
