"""The commands `hardmax segment run`, `segment prior` and `segment train`."""

import math
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from hardmax.applications.segmentation.config import EncoderOptions, PriorOptions, SegmentOptions
from hardmax.applications.segmentation.results.tables import Result, Summary
from hardmax.applications.segmentation.volumes.labels import LabelTable
from hardmax.console import print_line
from hardmax.errors import ArgumentError, DataError
from hardmax.files import expand_path
from hardmax.names import escape_control_characters

if TYPE_CHECKING:
    from hardmax.applications.segmentation.batch import Batch
    from hardmax.applications.segmentation.results.layouts import AbstractLayout
    from hardmax.applications.segmentation.results.outputs import AbstractSegmenter
    from hardmax.applications.segmentation.volumes.scans import Scan


def segment_scans(options: SegmentOptions) -> int:
    """Segment scans, and print where the results are; return the exit code, 1 if some of several scans failed."""
    from hardmax.applications.segmentation.model_folder import find_model
    from hardmax.applications.segmentation.volumes.scans import find_masks
    from hardmax.files import make_folder

    # All errors of the command are raised before any work is done.
    given = _find_input(options)
    for note in given.notes:
        print_line(note)
    masks = find_masks(given.scans, expand_path(options.mask)) if options.mask else {}
    model, layout = find_model(options.model), given.layout
    layout.check_folder()
    _check_targets(given.scans, layout)
    make_folder(layout.out)
    from hardmax.applications.segmentation.batch import Batch
    from hardmax.applications.segmentation.results.outputs import OutputOptions
    from hardmax.applications.segmentation.results.records import check_records
    from hardmax.applications.segmentation.segmenter import Segmenter
    from hardmax.applications.segmentation.volumes.labels import STRUCTURES
    from hardmax.applications.segmentation.volumes.sides import FREESURFER

    segmenter = Segmenter.load(model)
    table = getattr(segmenter, "table", STRUCTURES)
    if options.labels == "freesurfer" and getattr(segmenter, "has_sides", False):
        table = FREESURFER
    check_records(layout.out, given.scans, table)
    outputs = OutputOptions(options.posteriors, options.smooth, options.skull)
    name = "the default prior" if options.model is None else f"the model {options.model}"
    batch = Batch(given.scans, given.truths, layout, table, outputs, name, masks)
    results = _segment_all(batch, segmenter, model, options.workers)
    _print_results(results, batch, without_truth=len(given.scans) - len(given.truths) if given.truths else 0)
    return 1 if any(result.error for result in results) else 0


@dataclass(frozen=True)
class _Input:
    """Scans to segment, their true label maps, the layout of the results, and notes on what is left out."""

    scans: list["Scan"]
    truths: dict[str, Path]
    layout: "AbstractLayout"
    notes: list[str]


def _find_input(options: SegmentOptions) -> _Input:
    """Return what the options name: a BIDS data set, or files and plain folders."""
    from hardmax.applications.segmentation.results.layouts import DerivativeFolder, PlainFolder
    from hardmax.applications.segmentation.volumes import bids
    from hardmax.applications.segmentation.volumes.scans import find_scans, find_truths

    paths, out = [expand_path(path) for path in options.scans], expand_path(options.out)
    compare = expand_path(options.compare) if options.compare else None
    if not any(path.is_dir() and bids.is_bids_data_set(path) for path in paths):
        if options.participant_label or options.session_label or options.suffix:
            raise ArgumentError(
                f"--participant-label, --session-label and --suffix choose scans of a BIDS data set, and {paths[0]} is "
                "none: it has no folders sub-*/anat"
            )
        scans = find_scans(paths)
        return _Input(scans, find_truths(scans, compare) if compare else {}, PlainFolder(out), [])
    if len(paths) == 3 and options.scans[2] in ("participant", "group"):
        if options.scans[2] == "group":
            raise ArgumentError("there is no group level: the level participant writes the tables of all participants")
        if options.out != SegmentOptions.out:
            raise ArgumentError(f"there are two folders of results, {paths[1]} and --out {out}; give one of them")
        paths, out = paths[:1], paths[1]
    if len(paths) > 1:
        raise ArgumentError(f"a BIDS data set is segmented alone, got {len(paths)} paths; give one of them")
    scans, notes = bids.find_bids_scans(
        paths[0],
        participants=options.participant_label,
        sessions=options.session_label,
        suffixes=options.suffix or ("T1w",),
    )
    truths = {}
    if compare:
        find = bids.find_bids_truths if compare.is_dir() and bids.is_bids_data_set(compare) else find_truths
        truths = find(scans, compare)
    return _Input(scans, truths, DerivativeFolder(out, paths[0]), notes)


def _segment_all(batch: "Batch", segmenter: "AbstractSegmenter", model: Path, workers: int) -> list["Result"]:
    """Segment all scans, and return the results in their order.

    The tables are complete after each scan, and the page is written even after Ctrl-C. Both contain the scans of
    earlier calls with the same folder.
    """
    from hardmax.applications.segmentation.batch import segment_batch, segment_in_processes
    from hardmax.applications.segmentation.results.page import write_page
    from hardmax.applications.segmentation.results.records import read_records, write_record
    from hardmax.console import make_console
    from hardmax.progress_bar import show_bar

    scans, layout, table = batch.scans, batch.layout, batch.table
    results: dict[int, Result] = {}
    parts: dict[int, tuple[float, str]] = {}  # of the scans that are being segmented
    error_console = make_console(stderr=True)
    try:
        with show_bar(total=len(scans), console=error_console) as bar:

            def progress(index: int, part: float, doing: str) -> None:
                parts[index] = part, doing
                place = f"{len(results)} of {len(scans)} done: " if len(scans) > 1 else ""
                steps = ", ".join(f"{scans[number].name}: {step}" for number, (_, step) in sorted(parts.items()))
                bar.update(len(results) + sum(part for part, _ in parts.values()), description=f"{place}{steps}")

            if workers > 1 and len(scans) > 1:
                pairs = segment_in_processes(model, batch, workers, progress)
            else:
                pairs = segment_batch(segmenter, batch, progress)
            with closing(pairs):
                for index, result in pairs:
                    if not results:
                        layout.write_descriptions(table)
                    results[index] = result
                    parts.pop(index, None)
                    if not error_console.is_terminal:  # a log shows no bar, but needs the progress
                        state = "failed" if result.error else f"{result.seconds:.0f} s"
                        name = escape_control_characters(result.scan.name)
                        error_console.print(f"{len(results)} of {len(scans)}: {name}, {state}", soft_wrap=True)
                    write_record(layout.out, result, table)
                    layout.write_tables(read_records(layout.out, table), table)
    finally:
        if results:
            write_page(layout.out / "index.html", read_records(layout.out, table), table)
    return [results[index] for index in sorted(results)]


def _check_targets(scans: list["Scan"], layout: "AbstractLayout") -> None:
    """Check that no file is overwritten that hardmax did not write, such as a manual label map or mask."""
    from hardmax.applications.segmentation.volumes.writing import is_made_by_hardmax

    for scan in scans:
        for target in (layout.label_map_path(scan), layout.mask_path(scan)):
            if target.exists() and not is_made_by_hardmax(target):
                raise DataError(
                    f"{target} exists already, and was not made by hardmax segment; choose another folder with --out"
                )


def _print_results(results: list["Result"], batch: "Batch", without_truth: int) -> None:
    from hardmax.applications.segmentation.results.records import QUALITY, read_records
    from hardmax.applications.segmentation.results.tables import DICE, summarise_agreement
    from hardmax.console import make_console

    console, layout, table = make_console(), batch.layout, batch.table
    console.print(make_scan_table(results, table))
    if summaries := summarise_agreement(results):
        console.print(make_agreement_table(summaries, sum(result.agreement is not None for result in results)))
    if without_truth:
        console.print(f"{without_truth} of {len(results)} scans have no true map")
    for result in results:
        for message in (result.error, *result.flags, *result.notes):
            if message:
                print_line(f"{result.scan.name}: {message}")
    names = [layout.volumes, *([DICE] if summaries else []), "index.html", f"{QUALITY}/", *layout.descriptions]
    successes = sum(not result.error for result in results)
    first = results[0].scan
    paths = (layout.label_map_path(first), layout.mask_path(first), layout.posterior_path(first))
    files = ", ".join(str(path.relative_to(layout.out)) for path in paths if path.exists())
    maps = files if len(results) == 1 else f"{successes} label maps"
    earlier = len(read_records(layout.out, table)) - len(results)
    more = f"; the tables and the page also list {earlier} scan{'s' * (earlier > 1)} of earlier calls"
    print_line(f"the results are in {layout.out}: {maps}, {', '.join(names)}{more if earlier > 0 else ''}")
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
