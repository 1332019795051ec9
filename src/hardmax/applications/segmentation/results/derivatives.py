"""The files of a BIDS derivative that describe it: data set, labels, volumes and sources. No torch here."""

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hardmax.applications.segmentation.results.tables import DICE, Result, format_volumes, list_volume_columns
from hardmax.applications.segmentation.volumes.bids import DESCRIPTION, BidsName
from hardmax.applications.segmentation.volumes.labels import LabelTable
from hardmax.applications.segmentation.volumes.scans import Scan
from hardmax.errors import DataError
from hardmax.files import write_output
from hardmax.json_files import read_json
from hardmax.names import escape_control_characters
from hardmax.version import __version__

_VERSION = "1.10.0"  # of BIDS
_MAKER = "hardmax"
# Files that BIDS does not know; a validator skips them.
_IGNORED = ("volumes.tsv", "volumes.json", DICE, "index.html", "qc/")


def is_derivative(out: Path) -> bool:
    """Return whether a folder is a BIDS derivative that hardmax wrote."""
    path = out / DESCRIPTION
    if not path.is_file():
        return False
    try:
        makers = read_json(path).get("GeneratedBy")
    except DataError:  # not ours
        return False
    return isinstance(makers, list) and any(isinstance(one, dict) and one.get("Name") == _MAKER for one in makers)


def check_description(out: Path, source: Path) -> None:
    """Check that a folder is not the data set itself, one that another program wrote, nor that of another data set.

    Raises:
        DataError: it is.
    """
    if (out / DESCRIPTION).exists() and not is_derivative(out):
        raise DataError(
            f"{out} is a data set that hardmax did not write: its {DESCRIPTION} would be overwritten; choose another "
            f"folder with --out, such as {source / 'derivatives' / _MAKER}"
        )
    if out.resolve() == source.resolve():
        raise DataError(
            f"the results cannot be written into the data set itself; choose --out {source / 'derivatives' / _MAKER}"
        )
    earlier = read_json(out / DESCRIPTION).get("DatasetLinks") if is_derivative(out) else None
    if isinstance(earlier, dict) and earlier.get("raw") != _make_link(out, source):
        raise DataError(
            f"{out} has the results of another data set, {earlier.get('raw')}; choose another folder with --out"
        )


def write_description(out: Path, source: Path, table: LabelTable) -> None:
    """Write the description of a derivative: where it comes from, its labels and its tables.

    Args:
        out: folder of the derivative.
        source: the data set that is segmented.
        table: the labels.

    Raises:
        DataError: a file cannot be written.
    """
    link = _make_link(out, source)
    known = _read_source(source)
    sources = {"URL": link} | {new: known[old] for old, new in (("DatasetDOI", "DOI"),) if old in known}
    description = {
        "Name": f"hardmax segmentation of {known.get('Name') or source.resolve().name}",
        "BIDSVersion": _VERSION,
        "DatasetType": "derivative",
        "GeneratedBy": [{"Name": _MAKER, "Version": __version__, "Description": "hardmax segment run"}],
        "SourceDatasets": [sources],
        "DatasetLinks": {"raw": link},
    }
    _write_json(out / DESCRIPTION, description)
    lines = ["index\tname\tcolor"]
    lines += [f"{label.number}\t{label.name}\t#{bytes(label.colour).hex()}" for label in table.labels]
    _write_lines(out / "dseg.tsv", lines)
    _write_lines(out / ".bidsignore", _IGNORED)
    columns = {
        "participant_id": {"Description": "Participant"},
        "session_id": {"Description": "Session"},
        "label_map": {"Description": "Label map whose volumes these are, relative to this file"},
        **{name: _describe_column(name) for name in list_volume_columns(table)},
        "log_likelihood": {
            "Description": "Log-likelihood of the scan with its tissues where the atlas has them, minus that with the "
            "same tissues anywhere, in nats per voxel; a value near 0 means that the scan is not of a brain"
        },
        "flag": {"Description": "Reasons to doubt the result, or why there is none"},
    }
    _write_json(out / "volumes.json", columns)


def _describe_column(name: str) -> dict[str, str]:
    """Return the description of a column of volumes or asymmetries."""
    structure = name.removeprefix("asymmetry_").replace("_", " ")
    if name.startswith("asymmetry_"):
        return {"Description": f"200 (left - right) / (left + right) of the volumes of {structure}", "Units": "%"}
    return {"Description": f"Volume of {structure}", "Units": "mm^3"}


def write_sidecar(path: Path, scan: Scan, frames: Sequence[str] | None) -> None:
    """Write the file of JSON that describes a label map, or a volume of probabilities.

    Args:
        path: the file of JSON.
        scan: the scan.
        frames: names of the labels of the frames, if there are several.

    Raises:
        DataError: the file cannot be written.
    """
    kind = "Anatomical structure of each voxel" if frames is None else "Probability of each structure, one per frame"
    content = {"Description": kind, **_describe_source(scan), "Manual": False}
    _write_json(path, content if frames is None else content | {"LabelMap": list(frames)})


def write_mask_sidecar(path: Path, scan: Scan) -> None:
    """Write the file of JSON that describes the brain mask of a scan.

    Raises:
        DataError: the file cannot be written.
    """
    _write_json(path, {"Description": "Mask of the brain", "Type": "Brain", **_describe_source(scan)})


def _describe_source(scan: Scan) -> dict[str, Any]:
    """Return the scan that a file comes from, and whose voxels it has."""
    name = BidsName.parse(scan.name)
    assert name is not None
    source = f"bids:raw:{(name.folder / scan.path.name).as_posix()}"
    return {"Sources": [source], "SpatialReference": source}


def write_participant_volumes(
    path: Path, results: Sequence[Result], table: LabelTable, find_map: Callable[[Scan], Path]
) -> None:
    """Write a line for each scan, as tables of BIDS: separated by tabs, with n/a for values that are missing.

    Args:
        path: path of the table.
        results: results of all scans of the derivative.
        table: the labels.
        find_map: function that returns the path of the label map of a scan.

    Raises:
        DataError: the file cannot be written.
    """
    rows = [["participant_id", "session_id", "label_map", *list_volume_columns(table), "log_likelihood", "flag"]]
    for result in results:
        name = BidsName.parse(result.scan.name)
        assert name is not None
        session = f"ses-{name.get('ses')}" if name.get("ses") else "n/a"
        label_map = "n/a" if result.error else find_map(result.scan).relative_to(path.parent).as_posix()
        sizes = format_volumes(result, table, missing="n/a")
        likelihood = "n/a" if math.isnan(result.log_likelihood) else f"{result.log_likelihood:.4f}"
        flag = f"failed: {result.error}" if result.error else " ".join(result.flags)
        rows.append([f"sub-{name.get('sub')}", session, label_map, *sizes, likelihood, flag or "n/a"])
    _write_lines(path, ["\t".join(escape_control_characters(cell) for cell in row) for row in rows])


def _read_source(source: Path) -> Mapping[str, Any]:
    """Return the description of the data set; a missing or broken one says nothing."""
    try:
        return read_json(source / DESCRIPTION)
    except DataError:
        return {}


def _make_link(out: Path, source: Path) -> str:
    """Return where a data set is: relative if the derivative is in it, so that both can be moved."""
    inner, outer = out.resolve(), source.resolve()
    return Path(os.path.relpath(outer, inner)).as_posix() if outer in inner.parents else outer.as_uri()


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    _write_lines(path, [json.dumps(content, indent=2)])


def _write_lines(path: Path, lines: Sequence[str]) -> None:
    with write_output(path, "folder") as temporary:
        temporary.write_text("\n".join([*lines, ""]), encoding="utf-8", newline="\n")
