"""Find the scans and label maps among the paths that a user gives, and the true label map of each scan."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hardmax.applications.segmentation.volumes.dicom import describe_conversion, has_dicom_files, is_dicom
from hardmax.applications.segmentation.volumes.reading import SUFFIXES, strip_suffix
from hardmax.errors import DataError

# Endings of file names that stand for the kind of file: label maps, other files that are not scans, and scans.
_MAPS = ("labels", "label", "seg", "dseg", "aseg", "synthseg", "segmentation", "truth", "gt", "parc", "aparc+aseg")
_MASKS = ("mask", "brainmask")
_OTHERS = ("posterior", "posteriors", *_MASKS)
_SCANS = ("t1", "t1w", "t2", "t2w", "pd", "pdw", "flair", "scan", "image", "img", "orig", "norm", "brain", "mri")
_SEPARATORS = re.compile(r"[_.\-]")


@dataclass(frozen=True)
class Scan:
    """A scan to segment.

    Attributes:
        path: its file.
        name: name of the file without its suffix, also used for the results.
    """

    path: Path
    name: str


def find_scans(given: Sequence[Path]) -> list[Scan]:
    """Return the scans among files and folders, in order.

    For a folder, these are the files in it with the suffix of a scan, except label maps, posteriors and masks, which
    are recognised by the endings of their names (`_labels`, `_seg`, `_mask`, ...). A file that is given is always
    included.

    Raises:
        DataError: a missing file or folder, a folder without scans, or two scans with the same name of results.
    """
    scans = [Scan(path, strip_suffix(path)) for path in _collect_files(given, maps=False)]
    check_names(scans)
    return scans


def check_names(scans: Sequence[Scan]) -> None:
    """Check that no two scans have the same name of results.

    Raises:
        DataError: two have.
    """
    paths: dict[str, Path] = {}
    for scan in scans:
        if scan.name in paths:
            raise DataError(
                f"{paths[scan.name]} and {scan.path} would both be written as {scan.name}_labels.nii.gz; rename one, "
                "or segment them in two runs with different --out"
            )
        paths[scan.name] = scan.path


def find_maps(given: Sequence[Path]) -> list[Path]:
    """Return the label maps among files and folders, in order.

    For a folder, these are the files with the name of a label map (`_labels`, `_seg`, ...), or else all files.

    Raises:
        DataError: a missing file or folder, or a folder without label maps.
    """
    return _collect_files(given, maps=True)


def find_truths(scans: Sequence[Scan], given: Path) -> dict[str, Path]:
    """Return the true label map of each scan, by the scan's name; a scan without one is left out.

    A single file is the map of the single scan. In a folder, a map belongs to the scan of the same name, apart from
    endings such as `_t1` and `_labels`: `17_labels.nii.gz` belongs to `17_t1.nii.gz`.

    Raises:
        DataError: a missing file or folder, one file for several scans, no map for any scan, or two for one.
    """
    if not given.is_dir():
        _check_exists(given)
        if len(scans) > 1:
            raise DataError(
                f"{given} is one label map, but there are {len(scans)} scans; give a folder with a map for each"
            )
        strip_suffix(given)
        return {scans[0].name: given}
    # The scans themselves may be in the same folder.
    files = [path for path in _list_files(given) if all(path.resolve() != scan.path.resolve() for scan in scans)]
    truths: dict[str, Path] = {}
    for scan in scans:
        matches = [path for path in files if _remove_endings(strip_suffix(path)) == _remove_endings(scan.name)]
        matches = (
            [path for path in matches if _find_ending(strip_suffix(path)) in _MAPS]
            or [path for path in matches if strip_suffix(path) == scan.name]
            or [path for path in matches if _find_ending(strip_suffix(path)) not in _SCANS]
        )
        if len(matches) > 1:
            raise DataError(describe_ambiguity(given, scan, matches))
        if matches:
            truths[scan.name] = matches[0]
    if not truths:
        raise DataError(
            f"{given} has no label map for any of the scans; for {scans[0].path.name}, expected "
            f"{_remove_endings(scans[0].name)}_labels.nii.gz, or the scan's own name"
        )
    return truths


def find_masks(scans: Sequence[Scan], given: Path) -> dict[str, Path]:
    """Return the brain mask of each scan, by the scan's name.

    A single file is the mask of the single scan. In a folder, a mask belongs to the scan of the same name, apart from
    endings: `17_mask.nii.gz` or `17_brainmask.nii.gz` belongs to `17_t1.nii.gz`.

    Raises:
        DataError: a missing file or folder, one file for several scans, or not one mask for each scan.
    """
    if not given.is_dir():
        _check_exists(given)
        if len(scans) > 1:
            raise DataError(f"{given} is one mask, but there are {len(scans)} scans; give a folder of masks")
        strip_suffix(given)
        return {scans[0].name: given}
    files = [path for path in _list_files(given) if _find_ending(strip_suffix(path)) in _MASKS]
    masks: dict[str, Path] = {}
    for scan in scans:
        wanted = _remove_endings(scan.name)
        matches = [path for path in files if _remove_endings(_remove_last(strip_suffix(path))) == wanted]
        if len(matches) != 1:
            raise DataError(
                f"{given} has {len(matches)} masks for {scan.path.name}, expected one, such as {wanted}_mask.nii.gz"
            )
        masks[scan.name] = matches[0]
    return masks


def describe_ambiguity(folder: Path, scan: Scan, maps: Sequence[Path]) -> str:
    """Return the error message for several true label maps of one scan."""
    names = ", ".join(path.name for path in maps)
    return f"{folder} has {len(maps)} label maps for {scan.path.name}: {names}; keep one of them"


def _collect_files(given: Sequence[Path], *, maps: bool) -> list[Path]:
    out: list[Path] = []
    for path in given:
        if path.is_dir():
            candidates = _list_files(path)
            if maps:
                chosen = [file for file in candidates if _find_ending(strip_suffix(file)) in _MAPS] or candidates
            else:
                chosen = [file for file in candidates if _find_ending(strip_suffix(file)) not in _MAPS + _OTHERS]
            if not chosen and not candidates and has_dicom_files(path):
                raise DataError(describe_conversion(path))
            if not chosen:
                raise DataError(_describe_missing(path, "label maps" if maps else "scans", len(candidates)))
            out += chosen
        else:
            _check_exists(path)
            if not path.name.lower().endswith(SUFFIXES) and is_dicom(path):
                raise DataError(describe_conversion(path))
            strip_suffix(path)
            out.append(path)
    unique = {path.resolve(): path for path in reversed(out)}
    return [path for path in dict.fromkeys(out) if unique[path.resolve()] == path]


def _list_files(folder: Path) -> list[Path]:
    try:
        files = sorted(folder.iterdir())
    except OSError as error:
        raise DataError(f"{folder} cannot be read: {error.strerror}") from error
    return [
        path
        for path in files
        if path.name.lower().endswith(SUFFIXES) and not path.name.startswith(".") and path.is_file()
    ]


def _describe_missing(folder: Path, kind: str, left_out: int) -> str:
    inside = sum(1 for path in folder.glob("*/*") if path.name.lower().endswith(SUFFIXES))
    hint = f"; its folders do: give them instead, as {folder}/*/" if inside else ""
    others = f" ({left_out} are left out, as label maps or masks by their names)" if left_out else ""
    return f"{folder} holds no {kind}{others}: expected files that end in {', '.join(SUFFIXES)}{hint}"


def _check_exists(path: Path) -> None:
    if not path.exists():
        raise DataError(f"{path} does not exist")


def _find_ending(name: str) -> str:
    return _SEPARATORS.split(name)[-1].lower()


def _remove_last(name: str) -> str:
    """Return a name without its last part and the separator before it."""
    return name[: -len(_find_ending(name)) - 1]


def _remove_endings(name: str) -> str:
    """Return the name of a file without the endings that stand for its kind."""
    while _find_ending(name) in _MAPS + _SCANS and len(_SEPARATORS.split(name)) > 1:
        name = _remove_last(name)
    return name
