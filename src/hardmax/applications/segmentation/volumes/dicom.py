"""Recognise DICOM files, the form in which scanners store images; hardmax reads NIfTI. No torch here."""

import shlex
from pathlib import Path

_SUFFIXES = (".dcm", ".ima", ".dicom")
_MARK, _PLACE = b"DICM", 128  # these bytes follow the 128 bytes of the preamble
_MOST_VISITED = 200  # files; a folder of one scan has hundreds


def is_dicom(path: Path) -> bool:
    """Return whether a file is a DICOM file, or the list of contents of a DICOM disk."""
    try:
        if not path.is_file():
            return False
        if path.name.lower().endswith(_SUFFIXES) or path.name.upper() == "DICOMDIR":
            return True
        with path.open("rb") as file:
            file.seek(_PLACE)
            return file.read(len(_MARK)) == _MARK
    except OSError:  # a file that cannot be read is an error elsewhere
        return False


def has_dicom_files(folder: Path) -> bool:
    """Return whether there are DICOM files in a folder or at most three levels below it."""
    level, visited = [folder], 0
    for _ in range(4):
        below: list[Path] = []
        for current in level:
            try:
                entries = sorted(current.iterdir())
            except OSError:  # a folder that may not be entered
                continue
            for entry in entries:
                if entry.is_dir():
                    below.append(entry)
                    continue
                visited += 1
                if is_dicom(entry):
                    return True
                if visited > _MOST_VISITED:
                    return False
        level = below
    return False


def describe_conversion(path: Path) -> str:
    """Return the error message for a DICOM file or a folder of them: how to convert it."""
    folder = shlex.quote(str(path if path.is_dir() else path.parent))
    kind = "has DICOM files" if path.is_dir() else "is a DICOM file"
    return (
        f"{path} {kind}, and scans are read from NIfTI or MGH files; convert it first, for example with dcm2niix: "
        f"mkdir nifti && dcm2niix -z y -o nifti {folder}; then strip the skull, and segment the files in nifti"
    )
