"""The files of a folder of results: those of single scans, or those of a BIDS data set. No torch here."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from hardmax.applications.segmentation.results.derivatives import (
    check_description,
    is_derivative,
    write_description,
    write_mask_sidecar,
    write_participant_volumes,
    write_sidecar,
)
from hardmax.applications.segmentation.results.records import QUALITY
from hardmax.applications.segmentation.results.tables import DICE, VOLUMES, Result, write_dice, write_volumes
from hardmax.applications.segmentation.volumes.bids import BidsName
from hardmax.applications.segmentation.volumes.labels import LabelTable
from hardmax.applications.segmentation.volumes.scans import Scan
from hardmax.applications.segmentation.volumes.writing import is_made_by_hardmax
from hardmax.errors import DataError
from hardmax.files import write_output


@dataclass(frozen=True)
class AbstractLayout(ABC):
    """Interface of layouts: where the files of each scan are, and which files describe all of them.

    Args:
        out: folder of the results.

    Attributes:
        volumes: name of the table of volumes.
        descriptions: names of the files that describe labels and folder.
    """

    out: Path
    volumes: ClassVar[str]
    descriptions: ClassVar[tuple[str, ...]]

    @abstractmethod
    def label_map_path(self, scan: Scan) -> Path:
        """Return the path of the label map of a scan."""

    @abstractmethod
    def mask_path(self, scan: Scan) -> Path:
        """Return the path of the brain mask of a scan."""

    @abstractmethod
    def posterior_path(self, scan: Scan) -> Path:
        """Return the path of the probabilities of the labels of a scan."""

    @abstractmethod
    def list_sidecars(self, scan: Scan) -> dict[Path, Path]:
        """Return the file that describes each file of a scan, by that file."""

    @abstractmethod
    def write_sidecar(self, path: Path, scan: Scan, table: LabelTable) -> None:
        """Write the file that describes a label map, or the probabilities, of a scan."""

    @abstractmethod
    def check_folder(self) -> None:
        """Check that the folder has no results of another layout, nor files of another program that would be lost.

        Raises:
            DataError: it has.
        """

    @abstractmethod
    def write_descriptions(self, table: LabelTable) -> None:
        """Write the files that describe labels and folder.

        Raises:
            DataError: a file cannot be written.
        """

    @abstractmethod
    def write_volumes(self, results: Sequence[Result], table: LabelTable) -> None:
        """Write the table of volumes."""

    def write_tables(self, results: Sequence[Result], table: LabelTable) -> None:
        """Write the tables of all scans of the folder.

        Raises:
            DataError: a file cannot be written.
        """
        self.write_volumes(results, table)
        dice = self.out / DICE
        if any(result.agreement is not None for result in results):
            write_dice(dice, results)
        else:
            dice.unlink(missing_ok=True)  # of scans that were replaced

    def remove_files(self, scan: Scan, keep: Sequence[Path] = ()) -> None:
        """Remove the files of an earlier result of a scan, except some; files of other origin stay."""
        for path in (self.label_map_path(scan), self.mask_path(scan), self.posterior_path(scan)):
            if path not in keep and path.exists() and is_made_by_hardmax(path):
                path.unlink(missing_ok=True)
                if sidecar := self.list_sidecars(scan).get(path):
                    sidecar.unlink(missing_ok=True)


class PlainFolder(AbstractLayout):
    """A folder with the label maps of all scans, `volumes.csv` and a table of colours."""

    volumes = VOLUMES
    descriptions = ("colours.txt",)

    def label_map_path(self, scan: Scan) -> Path:
        """Return NAME_labels.nii.gz."""
        return self.out / f"{scan.name}_labels.nii.gz"

    def mask_path(self, scan: Scan) -> Path:
        """Return NAME_mask.nii.gz."""
        return self.out / f"{scan.name}_mask.nii.gz"

    def posterior_path(self, scan: Scan) -> Path:
        """Return NAME_posteriors.nii.gz."""
        return self.out / f"{scan.name}_posteriors.nii.gz"

    def list_sidecars(self, scan: Scan) -> dict[Path, Path]:
        """Return nothing: the headers of the files say enough."""
        return {}

    def write_sidecar(self, path: Path, scan: Scan, table: LabelTable) -> None:
        """Write nothing."""

    def check_folder(self) -> None:
        """Check that the folder is not a derivative of a data set."""
        if is_derivative(self.out):
            raise DataError(
                f"{self.out} has the results of a BIDS data set, to which single scans cannot be added; choose another "
                "folder with --out"
            )

    def write_descriptions(self, table: LabelTable) -> None:
        """Write the table of colours."""
        with write_output(self.out / "colours.txt", "folder") as temporary:
            temporary.write_text(table.to_colour_table(), encoding="utf-8")

    def write_volumes(self, results: Sequence[Result], table: LabelTable) -> None:
        """Write volumes.csv."""
        write_volumes(self.out / VOLUMES, results, table)


@dataclass(frozen=True)
class DerivativeFolder(AbstractLayout):
    """A BIDS derivative: a folder for each participant, `volumes.tsv`, and files that describe labels and data set.

    Args:
        out: folder of the results.
        source: the data set; None to read results.
    """

    source: Path | None = None
    volumes = "volumes.tsv"
    descriptions = ("dseg.tsv", "dataset_description.json")

    def label_map_path(self, scan: Scan) -> Path:
        """Return sub-XX/anat/sub-XX_..._space-orig_dseg.nii.gz."""
        return self._make_path(scan, "dseg")

    def mask_path(self, scan: Scan) -> Path:
        """Return sub-XX/anat/sub-XX_..._space-orig_desc-brain_mask.nii.gz."""
        return self._make_path(scan, "mask", "brain")

    def posterior_path(self, scan: Scan) -> Path:
        """Return sub-XX/anat/sub-XX_..._space-orig_probseg.nii.gz."""
        return self._make_path(scan, "probseg")

    def list_sidecars(self, scan: Scan) -> dict[Path, Path]:
        """Return a file of JSON for each file."""
        paths = (self.label_map_path(scan), self.mask_path(scan), self.posterior_path(scan))
        return {path: path.with_name(path.name.replace(".nii.gz", ".json")) for path in paths}

    def write_sidecar(self, path: Path, scan: Scan, table: LabelTable) -> None:
        """Write the file of JSON."""
        sidecar = self.list_sidecars(scan)[path]
        if path == self.mask_path(scan):
            write_mask_sidecar(sidecar, scan)
        else:
            write_sidecar(sidecar, scan, table.names if path == self.posterior_path(scan) else None)

    def check_folder(self) -> None:
        """Check that the folder is new, or a derivative of the same data set."""
        assert self.source is not None
        check_description(self.out, self.source)
        if (self.out / VOLUMES).exists() or ((self.out / QUALITY).is_dir() and not is_derivative(self.out)):
            raise DataError(
                f"{self.out} has results of single scans, and {self.source} is a BIDS data set; choose another folder "
                "with --out"
            )

    def write_descriptions(self, table: LabelTable) -> None:
        """Write the descriptions of the derivative and of its labels."""
        assert self.source is not None
        write_description(self.out, self.source, table)

    def write_volumes(self, results: Sequence[Result], table: LabelTable) -> None:
        """Write volumes.tsv."""
        write_participant_volumes(self.out / self.volumes, results, table, self.label_map_path)

    def _make_path(self, scan: Scan, suffix: str, description: str = "") -> Path:
        name = BidsName.parse(scan.name)
        if name is None:
            raise DataError(f"{scan.name} is not a name of BIDS; expected one like sub-01_T1w")
        # Label maps of scans of two kinds would have the same name.
        kind = "" if name.suffix == "T1w" else name.suffix
        changed = name.change(suffix, space=name.get("space") or "orig", desc=name.get("desc") + description + kind)
        return self.out / name.folder / f"{changed}.nii.gz"


def find_layout(out: Path) -> AbstractLayout:
    """Return the layout of a folder that has results."""
    return DerivativeFolder(out) if is_derivative(out) else PlainFolder(out)
