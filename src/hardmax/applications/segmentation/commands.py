"""The commands `hardmax segment run`, `segment prior` and `segment train`."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from hardmax.applications.segmentation.config import EncoderOptions, PriorOptions, SegmentOptions
from hardmax.applications.segmentation.results.tables import Result, Summary
from hardmax.applications.segmentation.volumes.labels import LabelTable
from hardmax.console import print_line
from hardmax.errors import DataError, HardmaxError
from hardmax.files import expand_path
from hardmax.names import escape_control_characters

if TYPE_CHECKING:
    from hardmax.applications.segmentation.results.outputs import AbstractSegmenter
    from hardmax.applications.segmentation.volumes.scans import Scan


def segment_scans(options: SegmentOptions) -> int:
    """Segment scans, and print where the results are; return the exit code, 1 if some of several scans failed."""
    from hardmax.applications.segmentation.model_folder import find_model
    from hardmax.applications.segmentation.volumes.scans import find_scans, find_truths
    from hardmax.files import make_folder

    # All errors of the command are raised before any work is done.
    scans = find_scans([expand_path(path) for path in options.scans])
    truths = find_truths(scans, expand_path(options.compare)) if options.compare else {}
    model, out = find_model(options.model), expand_path(options.out)
    _check_targets(scans, out)
    make_folder(out)
    from hardmax.applications.segmentation.results.records import check_records
    from hardmax.applications.segmentation.segmenter import Segmenter
    from hardmax.applications.segmentation.volumes.labels import STRUCTURES

    segmenter = Segmenter.load(model)
    table = getattr(segmenter, "table", STRUCTURES)
    check_records(out, scans, table)
    results = _segment_all(segmenter, scans, truths, out, table, options)
    _print_results(results, table, out, without_truth=len(scans) - len(truths) if truths else 0)
    return 1 if any(result.error for result in results) else 0


def _segment_all(
    segmenter: "AbstractSegmenter",
    scans: list["Scan"],
    truths: dict[str, Path],
    out: Path,
    table: "LabelTable",
    options: SegmentOptions,
) -> list["Result"]:
    """Segment scan after scan; the tables are complete after each scan, and the page is written even after Ctrl-C.

    Both contain the scans of earlier calls with the same folder.
    """
    from hardmax.applications.segmentation.results.outputs import OutputOptions, segment_scan
    from hardmax.applications.segmentation.results.page import write_page
    from hardmax.applications.segmentation.results.records import read_records, write_record
    from hardmax.applications.segmentation.results.tables import DICE, VOLUMES, write_dice, write_volumes
    from hardmax.console import make_console
    from hardmax.files import write_output
    from hardmax.progress_bar import show_bar

    results: list[Result] = []
    model = "the default prior" if options.model is None else f"the model {options.model}"
    outputs = OutputOptions(options.posteriors, options.smooth)
    error_console = make_console(stderr=True)
    try:
        with show_bar(total=len(scans), console=error_console) as bar:
            for number, scan in enumerate(scans):
                place = f"{number + 1} of {len(scans)}: " if len(scans) > 1 else ""

                def progress(part: float, doing: str, number: int = number, name: str = f"{place}{scan.name}") -> None:
                    bar.update(number + min(part, 1.0), description=f"{name}: {doing}")

                progress(0.0, "reading")
                try:
                    result = segment_scan(
                        segmenter,
                        scan,
                        out,
                        table,
                        options=outputs,
                        model=model,
                        truth=truths.get(scan.name),
                        progress=progress,
                    )
                except HardmaxError as error:
                    if len(scans) == 1:
                        raise
                    result = Result(scan, error=" ".join(str(error).split()), model=model)
                results.append(result)
                if not error_console.is_terminal:  # a log shows no bar, but needs the progress
                    state = "failed" if result.error else f"{result.seconds:.0f} s"
                    name = escape_control_characters(scan.name)
                    error_console.print(f"{number + 1} of {len(scans)}: {name}, {state}", soft_wrap=True)
                write_record(out, result, table)
                all_results = read_records(out, table)
                write_volumes(out / VOLUMES, all_results, table)
                if any(result.agreement is not None for result in all_results):
                    write_dice(out / DICE, all_results)
    finally:
        if results:
            write_page(out / "index.html", read_records(out, table), table)
            with write_output(out / "colours.txt", "folder") as temporary:
                temporary.write_text(table.to_colour_table(), encoding="utf-8")
    return results


def _check_targets(scans: list["Scan"], out: Path) -> None:
    """Check that no file is overwritten that hardmax did not write, such as a manual label map."""
    from hardmax.applications.segmentation.results.outputs import label_map_path
    from hardmax.applications.segmentation.volumes.writing import is_made_by_hardmax

    for scan in scans:
        target = label_map_path(out, scan)
        if target.exists() and not is_made_by_hardmax(target):
            raise DataError(
                f"{target} exists already, and was not made by hardmax segment; choose another folder with --out"
            )


def _print_results(results: list["Result"], table: "LabelTable", out: Path, without_truth: int) -> None:
    from hardmax.applications.segmentation.results.records import QUALITY, read_records
    from hardmax.applications.segmentation.results.tables import DICE, VOLUMES, summarise_agreement
    from hardmax.console import make_console

    console = make_console()
    console.print(make_scan_table(results, table))
    if summaries := summarise_agreement(results):
        console.print(make_agreement_table(summaries, sum(result.agreement is not None for result in results)))
    if without_truth:
        console.print(f"{without_truth} of {len(results)} scans have no true map")
    for result in results:
        for message in (result.error, *result.flags, *result.notes):
            if message:
                print_line(f"{result.scan.name}: {message}")
    names = [VOLUMES, *([DICE] if summaries else []), "index.html", f"{QUALITY}/", "colours.txt"]
    successes = sum(not result.error for result in results)
    maps = f"{results[0].scan.name}_labels.nii.gz" if len(results) == 1 else f"{successes} label maps"
    earlier = len(read_records(out, table)) - len(results)
    more = f"; the tables and the page also list {earlier} scan{'s' * (earlier > 1)} of earlier calls"
    print_line(f"the results are in {out}: {maps}, {', '.join(names)}{more if earlier > 0 else ''}")
    if successes < len(results):
        print_line(f"hardmax: error: {len(results) - successes} of {len(results)} scans failed", error=True)


def make_prior(options: PriorOptions) -> None:
    """Build the prior, and print its folder."""
    from hardmax.applications.segmentation.model_folder import find_default_folder
    from hardmax.applications.segmentation.volumes.scans import find_maps

    maps = find_maps([expand_path(path) for path in options.maps])
    out = expand_path(options.out) if options.out else find_default_folder()
    from hardmax.files import write_folder
    from hardmax.progress_bar import show_bar

    with write_folder(out) as folder, show_bar(f"{len(maps)} label maps", 1) as bar:
        from hardmax.applications.segmentation.atlas.atlas import build_prior

        build_prior(maps, folder, lambda part, doing: bar.update(part, description=doing))
    use = "" if options.out is None else f" --model {out}"
    print_line(
        f"the prior of {len(maps)} label maps is in {out}; segment with: hardmax segment run SCAN --out result{use}"
    )


def make_encoder(options: EncoderOptions) -> None:
    """Train an encoder of scans, and print the folder of the model."""
    from hardmax.applications.segmentation.model_folder import find_model
    from hardmax.applications.segmentation.volumes.scans import find_scans

    scans = [scan.path for scan in find_scans([expand_path(path) for path in options.scans])]
    prior, out = find_model(options.prior), expand_path(options.out)
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
            phase = "synthetic scans" if done <= options.pretraining else "scans"
            bar.update(done, description=f"{phase}, step {number} of {steps}, loss {loss:.3f}")

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
    print_line(f"the model is in {out}; segment with: hardmax segment run SCAN --out result --model {out}")


def make_scan_table(results: Sequence[Result], table: LabelTable) -> Table:
    """Return a table with a line for each scan."""
    has_truth = any(result.agreement is not None for result in results)
    out = Table(box=None, pad_edge=False, header_style="dim")
    out.add_column("scan")
    headings = [*(["mean Dice", "distance, mm"] if has_truth else []), "brain, ml", "log-likelihood", "seconds"]
    for heading in headings:
        out.add_column(heading, justify="right")
    out.add_column("")
    for result in results:
        cells = []
        if has_truth:
            agreement = result.agreement
            cells += (
                ["", ""]
                if agreement is None
                else [_format_number(agreement.mean_dice, 3), _format_number(agreement.mean_distance, 2)]
            )
        size = "" if result.volumes is None else f"{result.volumes[table.judged_indices].sum() / 1000:,.0f}"
        state = "failed" if result.error else "doubtful" if result.flags else ""
        cells += [size, _format_number(result.log_likelihood, 2), _format_number(result.seconds, 0)]
        out.add_row(escape_control_characters(result.scan.name), *cells, Text(state, style="bold red"))
    return out


def make_agreement_table(summaries: Sequence[Summary], scans: int) -> Table:
    """Return a table with a line for each structure and their mean; with several scans, also the worst one."""
    out = Table(box=None, pad_edge=False, header_style="dim")
    out.add_column("structure")
    out.add_column("Dice", justify="right")
    if scans > 1:
        out.add_column("worst", justify="right")
        out.add_column("in")
    out.add_column("95 % distance, mm", justify="right")
    for summary in summaries:
        worst = [_format_number(summary.worst, 3), escape_control_characters(summary.worst_scan)] if scans > 1 else []
        is_mean = summary.name == "mean"
        out.add_row(
            summary.name.replace("_", " "),
            _format_number(summary.dice, 3),
            *worst,
            _format_number(summary.distance, 2),
            style="bold" if is_mean else "",
        )
    return out


def _format_number(value: float, digits: int) -> str:
    return "–" if math.isnan(value) else f"{value:.{digits}f}"
