"""`hardmax segment run`, `segment prior` and `segment train`."""

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from hardmax.applications.segmentation.config import EncoderOptions, PriorOptions, SegmentOptions
from hardmax.applications.segmentation.results.tables import Result, Summary
from hardmax.applications.segmentation.volumes.labels import LabelTable
from hardmax.errors import DataError, HardmaxError

if TYPE_CHECKING:
    from rich.console import Console

    from hardmax.applications.segmentation.results.outputs import AbstractSegmenter
    from hardmax.applications.segmentation.volumes.scans import Scan


def segment_scans(options: SegmentOptions) -> int:
    """Segment, and say where the results are; the exit code is 1 if some of several scans could not be segmented."""
    from hardmax.applications.segmentation.model_folder import find_model
    from hardmax.applications.segmentation.volumes.scans import find_scans, find_truths
    from hardmax.files import make_folder

    # All that can be wrong with the command is found before any work is done.
    scans = find_scans([Path(path).expanduser() for path in options.scans])
    truths = find_truths(scans, Path(options.compare).expanduser()) if options.compare else {}
    model, out = find_model(options.model), Path(options.out).expanduser()
    _check_targets(scans, out)
    make_folder(out)
    from rich.console import Console

    from hardmax.applications.segmentation.segmenter import Segmenter
    from hardmax.applications.segmentation.volumes.labels import STRUCTURES

    console = Console(highlight=False)
    segmenter = Segmenter.load(model)
    table = getattr(segmenter, "table", STRUCTURES)
    results = _segment_all(segmenter, scans, truths, out, table, options)
    _print_results(console, results, table, out, without=len(scans) - len(truths) if truths else 0)
    return 1 if any(result.error for result in results) else 0


def _segment_all(
    segmenter: "AbstractSegmenter",
    scans: list["Scan"],
    truths: dict[str, Path],
    out: Path,
    table: "LabelTable",
    options: SegmentOptions,
) -> list["Result"]:
    """Segment scan after scan; the tables are whole after each of them, and the page is written even after Ctrl-C."""
    from rich.console import Console

    from hardmax.applications.segmentation.results.outputs import OutputOptions, segment_scan
    from hardmax.applications.segmentation.results.page import write_page
    from hardmax.applications.segmentation.results.tables import write_dice, write_volumes
    from hardmax.files import write_output
    from hardmax.progress_bar import show_bar

    results: list[Result] = []
    wanted = OutputOptions(options.posteriors, options.smooth)
    watched = Console(stderr=True, highlight=False)
    try:
        with show_bar(total=len(scans), console=watched) as bar:
            for number, scan in enumerate(scans):
                place = f"{number + 1} of {len(scans)}: " if len(scans) > 1 else ""

                def progress(part: float, doing: str, number: int = number, name: str = f"{place}{scan.name}") -> None:
                    bar.update(number + min(part, 1.0), description=f"{name}: {doing}")

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
            write_page(out / "index.html", results, table, title=title, model=_describe_model(options))
            with write_output(out / "colours.txt", "folder") as temporary:
                temporary.write_text(table.colour_table(), encoding="utf-8")
    return results


def _describe_model(options: SegmentOptions) -> str:
    return "the default prior" if options.model is None else f"the model {options.model}"


def _check_targets(scans: list["Scan"], out: Path) -> None:
    """See to it that no file is written over that was not made here: a manual label map, say."""
    from hardmax.applications.segmentation.results.outputs import label_file
    from hardmax.applications.segmentation.volumes.writing import is_made_by_hardmax

    for scan in scans:
        target = label_file(out, scan)
        if target.exists() and not is_made_by_hardmax(target):
            raise DataError(
                f"{target} is there already, and was not made by hardmax segment; choose another folder with --out"
            )


def _print_results(console: "Console", results: list["Result"], table: "LabelTable", out: Path, without: int) -> None:
    from hardmax.applications.segmentation.results.tables import summarise

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


def make_prior(options: PriorOptions) -> None:
    """Make the prior, and say where it is."""
    from hardmax.applications.segmentation.model_folder import default_folder
    from hardmax.applications.segmentation.volumes.scans import find_maps

    maps = find_maps([Path(path).expanduser() for path in options.maps])
    out = Path(options.out).expanduser() if options.out else default_folder()
    from hardmax.files import write_folder
    from hardmax.progress_bar import show_bar

    with write_folder(out) as folder, show_bar(f"{len(maps)} label maps", 1) as bar:
        from hardmax.applications.segmentation.atlas.atlas import build_prior

        build_prior(maps, folder, lambda part, doing: bar.update(part, description=doing))
    use = "" if options.out is None else f" --model {out}"
    print(f"the prior of {len(maps)} label maps is in {out}; segment with: hardmax segment run SCAN --out result{use}")


def make_encoder(options: EncoderOptions) -> None:
    """Train an encoder of scans, and say where the model is."""
    from hardmax.applications.segmentation.model_folder import find_model
    from hardmax.applications.segmentation.volumes.scans import find_scans

    scans = [scan.path for scan in find_scans([Path(path).expanduser() for path in options.scans])]
    prior, out = find_model(options.prior), Path(options.out).expanduser()
    from hardmax.files import write_folder
    from hardmax.progress_bar import show_bar

    with (
        write_folder(out) as folder,
        show_bar(f"aligning {len(scans)} scans", options.pretraining + options.steps) as bar,
    ):
        from hardmax.applications.segmentation.segmenter import Segmenter
        from hardmax.applications.segmentation.vae.encoder_training import train_encoder
        from hardmax.applications.segmentation.vae.pca import prepare_vae

        done = 0

        def progress(number: int, steps: int, loss: float) -> None:
            nonlocal done
            done += 1
            made = "made scans" if done <= options.pretraining else "scans"
            bar.update(done, description=f"{made}, step {number} of {steps}, loss {loss:.3f}")

        segmenter = Segmenter.load(prior)
        train_encoder(
            scans,
            prepare_vae(prior, folder),
            folder,
            align=segmenter.align,
            mixing=segmenter.mixing,
            pretraining=options.pretraining,
            steps=options.steps,
            seed=options.seed,
            progress=progress,
        )
    print(f"the model is in {out}; segment with: hardmax segment run SCAN --out result --model {out}")


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
