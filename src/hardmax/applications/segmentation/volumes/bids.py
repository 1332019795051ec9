"""Find scans in a BIDS data set: which participants, sessions and kinds of scan it has. No torch here.

BIDS (brain imaging data structure) says how folders and files of a study are named:
`sub-01/ses-2/anat/sub-01_ses-2_run-1_T1w.nii.gz` has the entities sub, ses and run, and the suffix T1w.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from hardmax.applications.segmentation.volumes.reading import SUFFIXES, strip_suffix
from hardmax.applications.segmentation.volumes.scans import Scan, check_names, describe_ambiguity
from hardmax.errors import DataError
from hardmax.files import report_read_error

DESCRIPTION = "dataset_description.json"
# Entities that differ between a scan and a label map of it.
_OF_MAPS = ("space", "atlas", "seg", "scale", "res", "desc", "label")
_NAME = re.compile(r"sub-[A-Za-z0-9]+(_[A-Za-z]+-[A-Za-z0-9+]+)*_[A-Za-z0-9]+")
_OWN_SPACES = ("orig", "individual", "native", "T1w", "T2w")


@dataclass(frozen=True)
class BidsName:
    """The name of a file of a BIDS data set.

    Args:
        entities: keys and values in the order of the name, such as `(("sub", "01"), ("run", "1"))`.
        suffix: the kind of file, such as T1w.

    Example:
        >>> name = BidsName.parse("sub-01_run-1_T1w")
        >>> name.suffix, name.folder.as_posix(), str(name.change("dseg", space="orig"))
        ('T1w', 'sub-01/anat', 'sub-01_run-1_space-orig_dseg')
    """

    entities: tuple[tuple[str, str], ...]
    suffix: str

    @classmethod
    def parse(cls, name: str) -> "BidsName | None":
        """Return the parts of a file name without its extension; None if it is not a name of BIDS."""
        if not _NAME.fullmatch(name):
            return None
        *entities, suffix = name.split("_")
        pairs = [entity.split("-", 1) for entity in entities]
        return cls(tuple((key, value) for key, value in pairs), suffix)

    def __str__(self) -> str:
        return "_".join([*(f"{key}-{value}" for key, value in self.entities), self.suffix])

    @property
    def folder(self) -> Path:
        """Folder of the file in its data set."""
        session = self.get("ses")
        return Path(f"sub-{self.get('sub')}", *([f"ses-{session}"] if session else []), "anat")

    def get(self, key: str) -> str:
        """Return the value of an entity; empty if the name does not have it."""
        return dict(self.entities).get(key, "")

    def drop(self, keys: Collection[str]) -> tuple[tuple[str, str], ...]:
        """Return the entities except some."""
        return tuple((key, value) for key, value in self.entities if key not in keys)

    def change(self, suffix: str, **entities: str) -> "BidsName":
        """Return the name with another suffix and other entities, in the order that BIDS wants: these come last."""
        kept = self.drop(_OF_MAPS)
        changed = {key: self.get(key) for key in _OF_MAPS} | entities
        return BidsName((*kept, *((key, value) for key, value in changed.items() if value)), suffix)


def is_bids_data_set(folder: Path) -> bool:
    """Return whether a folder is a BIDS data set: it has participants, and a description or anatomical scans.

    A folder that has scans itself is a plain folder, unless it has a description.
    """
    with report_read_error(folder):
        participants = _list_folders(folder, "sub-")
        if not participants:
            return False
        if (folder / DESCRIPTION).is_file():
            return True
        scans = any(path.name.lower().endswith(SUFFIXES) for path in folder.iterdir())
        return not scans and any(_list_anatomical(participant, ()) for participant in participants)


def find_bids_scans(
    folder: Path, *, participants: Sequence[str] = (), sessions: Sequence[str] = (), suffixes: Sequence[str] = ("T1w",)
) -> tuple[list[Scan], list[str]]:
    """Return the scans of a BIDS data set, in the order of their names, and notes on participants without any.

    Copies of a scan in another space (`space-MNI152...`), which derivatives of other programs hold, are left out, and
    so are phases and other parts of complex images.

    Args:
        folder: the data set.
        participants: labels of participants, with or without `sub-`; empty for all.
        sessions: labels of sessions, with or without `ses-`; empty for all.
        suffixes: kinds of scans. All scans of these kinds are returned, also several of one session.

    Raises:
        DataError: an unknown participant, or no such scan.
    """
    with report_read_error(folder):
        chosen = _choose(_list_folders(folder, "sub-"), "sub-", participants, "participant")
        scans: list[Scan] = []
        notes: list[str] = []
        others: set[str] = set()
        for participant in chosen:
            before = len(scans)
            for anatomical in _list_anatomical(participant, [session.removeprefix("ses-") for session in sessions]):
                for path, name in _list_names(anatomical):
                    if name.get("sub") != participant.name.removeprefix("sub-") or not _is_original(name):
                        continue
                    if name.suffix in suffixes:
                        scans.append(Scan(path, str(name)))
                    else:
                        others.add(name.suffix)
            if len(scans) == before:
                notes.append(f"{participant.name} has no {' or '.join(suffixes)} scan")
    if not scans:
        asked = f" of the session {' or '.join(sessions)}" if sessions else ""
        hint = f"; it has {', '.join(sorted(others))}: choose with --suffix" if others else ""
        raise DataError(
            f"{folder} has no {' or '.join(suffixes)} scan{asked}: expected sub-*/[ses-*/]anat/*_{suffixes[0]}.nii.gz"
            f"{hint}"
        )
    check_names(scans)
    return scans, notes


def find_bids_truths(scans: Sequence[Scan], folder: Path) -> dict[str, Path]:
    """Return the true label map of each scan, a `dseg` file with the same entities, by the scan's name.

    Entities of label maps (space, seg, desc, ...) do not count.

    Raises:
        DataError: no map for any scan, or two for one.
    """
    maps: dict[tuple[tuple[str, str], ...], list[Path]] = {}
    with report_read_error(folder):
        for participant in _list_folders(folder, "sub-"):
            for anatomical in _list_anatomical(participant, ()):
                for path, name in _list_names(anatomical):
                    if name.suffix == "dseg" and _is_original(name):
                        maps.setdefault(name.drop(_OF_MAPS), []).append(path)
    truths = {}
    for scan in scans:
        name = BidsName.parse(scan.name)
        matches = maps.get(name.drop(_OF_MAPS), []) if name else []
        if len(matches) > 1:
            raise DataError(describe_ambiguity(folder, scan, matches))
        if matches:
            truths[scan.name] = matches[0]
    if not truths:
        raise DataError(
            f"{folder} has no label map for any of the scans; for {scans[0].name}, expected a file of the same "
            "entities with the suffix dseg"
        )
    return truths


def _is_original(name: BidsName) -> bool:
    """Whether a file has the voxels of the scanner, and magnitudes if the scan is complex."""
    return name.get("space") in ("", *_OWN_SPACES) and name.get("part") in ("", "mag")


def _list_names(folder: Path) -> list[tuple[Path, BidsName]]:
    """Return the scans and label maps of a folder that have names of BIDS, in order."""
    paths = [path for path in sorted(folder.iterdir()) if path.name.lower().endswith(SUFFIXES) and path.is_file()]
    names = [(path, BidsName.parse(strip_suffix(path))) for path in paths if not path.name.startswith(".")]
    return [(path, name) for path, name in names if name is not None]


def _list_anatomical(participant: Path, sessions: Collection[str]) -> list[Path]:
    """Return the folders of anatomical scans of a participant, in all sessions or in some."""
    with_sessions = [
        session for session in _list_folders(participant, "ses-")
        if not sessions or session.name.removeprefix("ses-") in sessions
    ]  # fmt: skip
    parents = with_sessions if sessions else [participant, *with_sessions]
    return [parent / "anat" for parent in parents if (parent / "anat").is_dir()]


def _list_folders(folder: Path, start: str) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if path.name.startswith(start) and path.is_dir())


def _choose(folders: list[Path], start: str, labels: Sequence[str], kind: str) -> list[Path]:
    """Return the folders of the labels, or all of them."""
    known = {folder.name.removeprefix(start): folder for folder in folders}
    wanted = [label.removeprefix(start) for label in labels]
    if unknown := [label for label in wanted if label not in known]:
        shown = ", ".join(list(known)[:20]) + (", ..." if len(known) > 20 else "")
        raise DataError(f"there is no {kind} {', '.join(unknown)} in {folders[0].parent}; there are: {shown}")
    return [folder for label, folder in known.items() if not wanted or label in wanted]
