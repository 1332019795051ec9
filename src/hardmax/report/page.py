"""Render the report page from its template, and write it to a file."""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from hardmax.files import write_output
from hardmax.report import tables
from hardmax.report.curves import make_legend
from hardmax.report.run import SPLITS, Run
from hardmax.report.sections import AbstractReport, Tiles, describe_progress
from hardmax.report.tables import (
    find_differing_options,
    format_command,
    format_option,
    format_value,
    is_default,
    label_runs,
)
from hardmax.report.templates import load_template, read_style
from hardmax.training.config import Metrics


@dataclass(frozen=True)
class _Part:
    """One run on the page: its label, the content of its application's sections, and the command that trains it."""

    label: str
    run: Run
    content: Any
    command: str


def render_page(runs: Sequence[Run], report: AbstractReport[Any], metrics: Metrics, comparable: Sequence[str]) -> str:
    """Return the HTML page about one or several runs of one application, in a single file that needs no network.

    Args:
        runs: at least one.
        report: the report of their application.
        metrics: the metrics of their application.
        comparable: options that must agree for their numbers to be comparable.
    """
    folder = Path(inspect.getfile(type(report))).parent
    differences = tables.find_differences(runs, comparable)
    single_run = len(runs) == 1
    names = [runs[0].name] if single_run else label_runs([run.config for run in runs], [run.name for run in runs])
    facts = [report.list_facts(run) for run in runs]
    headings, table = tables.compare_runs(runs, report.quantities, facts, differences)
    return load_template(folder / report.template).render(
        title=runs[0].name if single_run else f"{len(runs)} runs",
        style=read_style(*(folder / name for name in report.styles)),
        sections={"numbers": "Numbers", "curves": "Curves", **report.sections, "configuration": "Configuration"},
        parts=_drop_repeated_notes(
            [
                _Part(name, run, report.build_content(run, i), format_command(run.config))
                for i, (run, name) in enumerate(zip(runs, names, strict=True))
            ]
        ),
        single_run=single_run,
        keys=make_legend([split for split in SPLITS if runs[0].rows[split]] if single_run else names),
        curves=report.draw_run_curves(runs[0]) if single_run else report.draw_comparison_curves(runs, names),
        key_numbers=tables.list_key_numbers(runs[0], report.quantities, facts[0]) if single_run else None,
        headings=headings,
        table=table,
        incomparable=differences,
        differing=_list_options(runs, find_differing_options([run.config for run in runs])),
        options=_list_options(runs, [field.name for field in fields(runs[0].config) if field.name != "resume"]),
        provenance=_list_provenance(runs),
        subjects=_merge_sentences(names, [report.describe_model(run) for run in runs]),
        methods=_merge_sentences(names, [report.describe_training(run) for run in runs]),
        measurements=_merge_sentences(names, [report.describe_measurement(run) for run in runs]),
        report=report,
        examples=metrics.examples,
        progress=describe_progress,
        number=tables.format_number,
    )


def write_page(page: str, path: Path) -> None:
    """Write the page to a file atomically: an incomplete page is never visible.

    Raises:
        DataError: the file cannot be written.
    """
    with write_output(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


def _drop_repeated_notes(parts: Sequence[_Part]) -> list[_Part]:
    """Remove the notes of tiles that repeat the note of the previous run."""
    notes: dict[str, str] = {}
    kept = []
    for part in parts:
        values = {field.name: getattr(part.content, field.name) for field in fields(part.content)}
        sections = {name: tiles for name, tiles in values.items() if isinstance(tiles, Tiles)}
        repeated = {name: replace(tiles, note="") for name, tiles in sections.items() if tiles.note == notes.get(name)}
        notes |= {name: tiles.note for name, tiles in sections.items()}
        kept.append(replace(part, content=replace(part.content, **repeated)))
    return kept


def _merge_sentences(names: Sequence[str], sentences: Sequence[str]) -> list[tuple[list[str], str]]:
    """Return each sentence once, with the names of the runs that have it."""
    runs_by_sentence: dict[str, list[str]] = {}
    for name, sentence in zip(names, sentences, strict=True):
        runs_by_sentence.setdefault(sentence, []).append(name)
    return [(labels, sentence) for sentence, labels in runs_by_sentence.items()]


def _list_options(runs: Sequence[Run], names: Sequence[str]) -> list[tuple[str, list[tuple[str, bool]]]]:
    """Return the name of each option, and for each run its value and whether it differs from the default."""
    return [
        (
            format_option(name),
            [(format_value(getattr(run.config, name)), not is_default(run.config, name)) for run in runs],
        )
        for name in names
    ]


def _list_provenance(runs: Sequence[Run]) -> list[tuple[str, list[str]]]:
    """Return where runs come from: folder, data, commit, versions."""

    def make_row(name: str, values: Sequence[Any]) -> tuple[str, list[str]]:
        return name, ["not known" if value is None else str(value) for value in values]

    versions = [run.facts.get("versions", {}) for run in runs]
    programs = list(dict.fromkeys(name for version in versions for name in version))
    return [
        make_row("folder", [run.folder for run in runs]),
        make_row("data", [run.facts.get("data", {}).get("source") for run in runs]),
        make_row("commit", [run.facts.get("commit") for run in runs]),
        *(make_row(name, [version.get(name) for version in versions]) for name in programs),
    ]
