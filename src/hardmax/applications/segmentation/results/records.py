"""The record of each segmented scan, `qc/NAME.json`: tables and page are made of all records of a folder.

So several calls with the same folder add to it, also at the same time. No torch here.
"""

import csv
import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hardmax.applications.segmentation.results.tables import VOLUMES, Result
from hardmax.applications.segmentation.volumes.agreement import Agreement
from hardmax.applications.segmentation.volumes.labels import STRUCTURES, LabelTable
from hardmax.applications.segmentation.volumes.scans import Scan
from hardmax.errors import DataError
from hardmax.files import write_output
from hardmax.json_files import read_json
from hardmax.names import escape_control_characters, quote_formula

QUALITY = "qc"
_ARRAYS = ("dice", "distance", "volume", "true_volume")


def quality_image_path(out: Path, name: str) -> Path:
    """Return the path of the quality image of a scan."""
    return out / QUALITY / f"{name}.png"


def _record_path(out: Path, name: str) -> Path:
    return out / QUALITY / f"{name}.json"


_MOST_VISITED = 10_000  # files and folders


def find_result_folders(root: Path, depth: int = 3) -> list[Path]:
    """Return the folder and those below it that hold results of `hardmax segment run`, in order.

    Symbolic links are not followed, and of a very large tree only the beginning is searched.

    Args:
        root: the folder.
        depth: number of levels below it that are searched.

    Raises:
        DataError: the folder cannot be read.
    """
    out, visited = [], 0
    level = [root]
    for remaining in range(depth, -1, -1):
        below: list[Path] = []
        for folder in level:
            try:
                with os.scandir(folder) as entries:
                    names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
            except OSError as error:
                if folder == root:
                    raise DataError(f"cannot read {folder}: {error.strerror or error}") from error
                continue  # a folder that may not be entered
            visited += 1
            if QUALITY in names and any((folder / QUALITY).glob("*.json")):
                out.append(folder)
            below += [folder / name for name in names if not name.startswith(".") and name != QUALITY]
            if visited > _MOST_VISITED:
                return sorted(out)
        level = below if remaining else []
    return sorted(out)


def write_record(out: Path, result: Result, table: LabelTable) -> None:
    """Write the record of a scan; it replaces an earlier one of the same name.

    Raises:
        DataError: the file cannot be written.
    """
    agreement = result.agreement
    record = {
        "scan": str(result.scan.path.absolute()),
        "model": result.model,
        "error": result.error,
        "volumes": None if result.volumes is None else dict(zip(table.names, result.volumes.tolist(), strict=True)),
        "log_likelihood": _store_number(result.log_likelihood),
        "seconds": _store_number(result.seconds),
        "flags": list(result.flags),
        "notes": list(result.notes),
        "agreement": None
        if agreement is None
        else {
            "names": agreement.names,
            **{name: [_store_number(value) for value in getattr(agreement, name)] for name in _ARRAYS},
            "notes": list(agreement.notes),
        },
    }
    with write_output(_record_path(out, result.scan.name), "folder") as temporary:
        temporary.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def read_records(out: Path, table: LabelTable) -> list[Result]:
    """Read the records of all scans of a folder, in the order of their names.

    Args:
        out: folder of the results.
        table: the labels that all of them must have.

    Raises:
        DataError: a record is broken, or has other labels.
    """
    results = []
    for path in sorted((out / QUALITY).glob("*.json")):
        record = read_json(path)
        try:
            results.append(_parse_record(record, path.stem, out, table))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise DataError(
                f"{path} is not the record of a scan: {error}; choose another folder with --out, or remove the file"
            ) from error
    return results


def check_records(out: Path, scans: Sequence[Scan], table: LabelTable) -> None:
    """Check that scans can be added to the results in a folder without the loss of others.

    Raises:
        DataError: a record is broken or has other labels, another scan of the same name is in the folder, or a scan is
            in its table but has no record.
    """
    results = {result.scan.name: result for result in read_records(out, table)}
    for scan in scans:
        earlier = results[scan.name].scan.path if scan.name in results else scan.path
        if os.path.exists(earlier) and not earlier.samefile(scan.path):
            raise DataError(
                f"{scan.name} in {out} is the result of another scan, {earlier}; choose another folder with --out, or "
                f"rename {scan.path}"
            )
    known = {quote_formula(escape_control_characters(name)) for name in (*results, *(scan.name for scan in scans))}
    if missing := [name for name in _list_table_scans(out / VOLUMES) if name not in known]:
        names = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
        raise DataError(
            f"{out / VOLUMES} lists {names} without a record in {out / QUALITY}, as earlier versions of hardmax did: "
            "these lines would be lost; choose another folder with --out, or segment all scans again"
        )


def _list_table_scans(path: Path) -> list[str]:
    """Return the first column of a table; an unreadable table lists nothing."""
    if not path.is_file():
        return []
    try:
        with path.open(newline="", encoding="utf-8") as file:
            return [line[0] for line in list(csv.reader(file))[1:] if line]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"cannot read {path}: {error}; choose another folder with --out, or remove the file") from error


def _parse_record(record: Mapping[str, Any], name: str, out: Path, table: LabelTable) -> Result:
    image = quality_image_path(out, name)
    error, volumes, stored = _check_text(record["error"]), record["volumes"], record["agreement"]
    if volumes is not None and list(volumes) != table.names:
        raise ValueError("it has other structures than this call (see --labels): they do not fit into one table")
    return Result(
        Scan(Path(_check_text(record["scan"])), name),
        error=error,
        model=_check_text(record["model"]),
        volumes=None if volumes is None else np.array([_read_number(size) for size in volumes.values()]),
        log_likelihood=_read_number(record["log_likelihood"]),
        seconds=_read_number(record["seconds"]),
        flags=_read_texts(record["flags"]),
        notes=_read_texts(record["notes"]),
        agreement=None if stored is None else _parse_agreement(stored, table),
        image=image if volumes is not None and image.is_file() else None,
    )


def _parse_agreement(stored: Mapping[str, Any], table: LabelTable) -> Agreement:
    names = list(stored["names"])
    # The true map of labels with sides may have left and right merged.
    if names not in [[one.names[index] for index in one.judged_indices] for one in (table, STRUCTURES)]:
        raise ValueError("its Dice is that of other structures than the model has")
    arrays = [np.array([_read_number(value) for value in stored[name]], dtype=np.float64) for name in _ARRAYS]
    if any(len(array) != len(names) for array in arrays):
        raise ValueError("it does not have one number for each structure")
    return Agreement(names, *arrays, notes=_read_texts(stored["notes"]))


def _store_number(value: float) -> float | None:
    """Return a number for JSON, which has no NaN."""
    return float(value) if math.isfinite(value) else None


def _read_number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | None):
        raise TypeError(f"expected a number, got {value!r:.80}")
    return math.nan if value is None else float(value)


def _read_texts(values: Any) -> tuple[str, ...]:
    if not isinstance(values, list):
        raise TypeError(f"expected a list of texts, got {values!r:.80}")
    return tuple(map(_check_text, values))


def _check_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a text, got {value!r:.80}")
    return value
