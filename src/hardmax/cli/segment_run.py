"""`hardmax segment run`."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from hardmax.cli.options import parse
from hardmax.errors import ArgumentError, DataError, HardmaxError

if TYPE_CHECKING:
    from rich.console import Console

    from hardmax.segmentation.results.outputs import AbstractSegmenter
    from hardmax.segmentation.results.results import Result
    from hardmax.segmentation.volumes.labels import LabelTable
    from hardmax.segmentation.volumes.scans import Scan


@dataclass(frozen=True)
class Options:
    """Segment scans of brains, of any contrast, orientation and voxel size, with the skull taken off.

    Writes, into the folder OUT, for each scan NAME_labels.nii.gz in the scan's own voxels and header and a picture to
    judge it by, qc/NAME.png; and volumes.csv (mm^3), index.html, and colours.txt for viewers of label maps. For
    research; not for clinical use.

    Example: hardmax segment run scan.nii.gz --out result
    """

    scans: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="SCANS...")]
    """Scans (.nii, .nii.gz, .mgh, .mgz), or folders of them."""
    out: str = "segmented"
    """Folder to write to."""
    model: str | None = None
    """Folder of a model or prior; default: the one that comes with hardmax, or was made by hardmax segment prior."""
    posteriors: bool = False
    """Write the probability of each label too: NAME_posteriors.nii.gz, 4-D, in bytes (255ths)."""
    compare: Annotated[str | None, tyro.conf.arg(metavar="TRUTH")] = None
    """True label map, or a folder of them (17_labels.nii.gz belongs to 17_t1.nii.gz): prints Dice and 95 % surface
    distance, and writes dice.csv."""
    smooth: float = 0.0
    """Strength, in nats, of a bond between neighbours that smooths the labels (Potts, by min-cuts); 0 is none."""

    def __post_init__(self) -> None:
        if not self.smooth >= 0:
            raise ArgumentError(f"smooth must be at least 0, got {self.smooth}")


def run(arguments: list[str]) -> int:
    """Segment, and say where the results are; the exit code is 1 if some of several scans could not be segmented."""
    options = parse(Options, "segment run", arguments)
    if not options.scans:
        raise ArgumentError("name the scans to segment: files, or folders of them")
    from hardmax.segmentation.model_folder import find_model
    from hardmax.segmentation.volumes.scans import find_scans, find_truths
    from hardmax.writing import make_folder

    # All that can be wrong with the command is found before any work is done.
    scans = find_scans([Path(path).expanduser() for path in options.scans])
    truths = find_truths(scans, Path(options.compare).expanduser()) if options.compare else {}
    model, out = find_model(options.model), Path(options.out).expanduser()
    _check_targets(scans, out)
    make_folder(out)
    from rich.console import Console

    from hardmax.segmentation.segmenter import Segmenter
    from hardmax.segmentation.volumes.labels import STRUCTURES

    console = Console(highlight=False)
    segmenter = Segmenter.load(model)
    table = getattr(segmenter, "table", STRUCTURES)
    results = _segment_all(segmenter, scans, truths, out, table, options)
    _tell(console, results, table, out, without=len(scans) - len(truths) if truths else 0)
    return 1 if any(result.error for result in results) else 0


def _segment_all(
    segmenter: "AbstractSegmenter",
    scans: list["Scan"],
    truths: dict[str, Path],
    out: Path,
    table: "LabelTable",
    options: Options,
) -> list["Result"]:
    """Segment scan after scan; the tables are whole after each of them, and the page is written even after Ctrl-C."""
    from rich.console import Console

    from hardmax.cli.segment_progress import show_progress
    from hardmax.segmentation.results.outputs import Wanted, segment_scan
    from hardmax.segmentation.results.page import write_page
    from hardmax.segmentation.results.results import Result, write_dice, write_volumes
    from hardmax.writing import replacing

    results: list[Result] = []
    wanted = Wanted(options.posteriors, options.smooth)
    watched = Console(stderr=True, highlight=False)
    try:
        with show_progress(watched, len(scans)) as step:
            for number, scan in enumerate(scans):

                def progress(part: float, doing: str, number: int = number, scan: "Scan" = scan) -> None:
                    step(number, part, f"{scan.name}: {doing}")

                progress(0.0, "reading")
                try:
                    found = segment_scan(
                        segmenter, scan, out, table, wanted=wanted, truth=truths.get(scan.name), progress=progress
                    )
                except HardmaxError as error:
                    if len(scans) == 1:
                        raise
                    found = Result(scan, error=" ".join(str(error).split()))
                results.append(found)
                if not watched.is_terminal:  # no bar there, but a log wants to know
                    state = "failed" if found.error else f"{found.seconds:.0f} s"
                    watched.print(f"{number + 1} of {len(scans)}: {scan.name}, {state}", markup=False, soft_wrap=True)
                write_volumes(out / "volumes.csv", results, table)
                if truths:
                    write_dice(out / "dice.csv", results)
    finally:
        if results:
            title = results[0].scan.name if len(results) == 1 else f"{len(results)} scans"
            write_page(out / "index.html", results, table, title=title, model=_called(options))
            with replacing(out / "colours.txt", "folder") as temporary:
                temporary.write_text(table.colour_table(), encoding="utf-8")
    return results


def _called(options: Options) -> str:
    return "the default prior" if options.model is None else f"the model {options.model}"


def _check_targets(scans: list["Scan"], out: Path) -> None:
    """See to it that no file is written over that was not made here: a manual label map, say."""
    from hardmax.segmentation.results.outputs import label_file
    from hardmax.segmentation.volumes.writing import is_ours

    for scan in scans:
        target = label_file(out, scan)
        if target.exists() and not is_ours(target):
            raise DataError(
                f"{target} is there already, and was not made by hardmax segment; choose another folder with --out"
            )


def _tell(console: "Console", results: list["Result"], table: "LabelTable", out: Path, without: int) -> None:
    from hardmax.cli.segment_tables import agreement_table, scan_table
    from hardmax.segmentation.results.results import summarise

    console.print(scan_table(results, table))
    if summaries := summarise(results):
        console.print(agreement_table(summaries, sum(result.agreement is not None for result in results)))
    if without:
        console.print(f"{without} of {len(results)} scans have no true map")
    for result in results:
        for said in (result.error, *result.flags, *result.notes):
            if said:
                console.print(f"{result.scan.name}: {said}", markup=False, soft_wrap=True)
    names = ["volumes.csv", *(["dice.csv"] if summaries else []), "index.html", "qc/", "colours.txt"]
    made = sum(not result.error for result in results)
    maps = f"{results[0].scan.name}_labels.nii.gz" if len(results) == 1 else f"{made} label maps"
    console.print(f"the results are in {out}: {maps}, {', '.join(names)}", markup=False, soft_wrap=True)
    if made < len(results):
        print(f"hardmax: error: {len(results) - made} of {len(results)} scans failed", file=sys.stderr)
