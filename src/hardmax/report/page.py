"""The page: what the template needs, and the file."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from hardmax.errors import ArgumentError, DataError
from hardmax.random import stream
from hardmax.report import describe, numbers
from hardmax.report.codes import meanings
from hardmax.report.couplings import Couplings, couplings
from hardmax.report.curves import curves_of_run, curves_of_runs, legend
from hardmax.report.options import command, differing, is_default, labels, option, shown
from hardmax.report.run import SPLITS, Run
from hardmax.report.tiles import Tiles, reconstructions, samples
from hardmax.report.usage import draw, measure
from hardmax.training.config import TrainConfig


@dataclass(frozen=True)
class _Part:
    """One run on the page: its name there, its pictures, and what is said of it."""

    label: str
    run: Run
    codes: Tiles
    reconstructions: Tiles
    samples: Tiles
    usage_chart: Markup
    usage: str
    usage_note: str
    couplings: Couplings | None
    command: str


def render(runs: Sequence[Run]) -> str:
    """Return the HTML page about one or several runs; it needs no other file and no network.

    Raises:
        ArgumentError: there are no runs.
    """
    if not runs:
        raise ArgumentError("a report needs at least one run, got none")
    one = len(runs) == 1
    names = [runs[0].name] if one else labels([run.config for run in runs], [run.name for run in runs])
    headings, table = numbers.comparison(runs)
    folder = Path(__file__).parent
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("template.html.j2").render(
        title=runs[0].name if one else f"{len(runs)} runs",
        style=Markup((folder / "style.css").read_text(encoding="utf-8")),
        parts=_said_once([_part(run, name, i) for i, (run, name) in enumerate(zip(runs, names, strict=True))]),
        one=one,
        keys=legend([split for split in SPLITS if runs[0].measured[split]] if one else names),
        curves=curves_of_run(runs[0]) if one else curves_of_runs(runs, names),
        key_numbers=numbers.key_numbers(runs[0]) if one else None,
        headings=headings,
        table=table,
        incomparable=numbers.incomparable(runs),
        differing=_rows(runs, differing([run.config for run in runs])),
        options=_rows(runs, [field.name for field in fields(TrainConfig) if field.name != "resume"]),
        provenance=_provenance(runs),
        subjects=_shared(names, [describe.subject(run) for run in runs]),
        measurements=_shared(names, [describe.measurement(run) for run in runs]),
        describe=describe,
        number=numbers.number,
    )


def write(page: str, path: Path) -> None:
    """Write the page under a temporary name, then rename it: a reader never sees half of it.

    Raises:
        DataError: the file cannot be written.
    """
    temporary = path.with_name(path.name + ".tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(page, encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        if temporary.is_file():
            temporary.unlink()
        raise DataError(f"cannot write {path}: {error.strerror}; choose another file with --out") from error


def _part(run: Run, label: str, index: int) -> _Part:
    usage = measure(run)
    return _Part(
        label=label,
        run=run,
        codes=meanings(run, usage),
        reconstructions=reconstructions(run, usage),
        samples=samples(run, stream(run.config.seed, "report", "samples")),
        usage_chart=draw(usage, run.model.prior, f"usage-{index}"),
        usage=describe.usage(run, usage),
        usage_note=describe.chart(run, usage),
        couplings=couplings(usage, f"couplings-{index}"),
        command=command(run.config),
    )


def _said_once(parts: Sequence[_Part]) -> list[_Part]:
    """Leave out the notes that would only repeat the one before."""
    kinds = ("codes", "reconstructions", "samples")
    said: dict[str, str] = {}
    out = []
    for part in parts:
        new = {kind: getattr(part, kind) for kind in kinds if getattr(part, kind).note == said.get(kind)}
        said |= {kind: getattr(part, kind).note for kind in kinds}
        out.append(replace(part, **{kind: replace(tiles, note="") for kind, tiles in new.items()}))
    return out


def _shared(names: Sequence[str], sentences: Sequence[str]) -> list[tuple[list[str], str]]:
    """Return each sentence once, with the names of the runs that it holds for."""
    holds: dict[str, list[str]] = {}
    for name, sentence in zip(names, sentences, strict=True):
        holds.setdefault(sentence, []).append(name)
    return [(found, sentence) for sentence, found in holds.items()]


def _rows(runs: Sequence[Run], names: Sequence[str]) -> list[tuple[str, list[tuple[str, bool]]]]:
    """Return each option's name, and for each run its value and whether it was asked for."""
    return [
        (option(name), [(shown(getattr(run.config, name)), not is_default(run.config, name)) for run in runs])
        for name in names
    ]


def _provenance(runs: Sequence[Run]) -> list[tuple[str, list[str]]]:
    """Return where runs come from: folder, data, commit, versions."""

    def row(name: str, values: Sequence[Any]) -> tuple[str, list[str]]:
        return name, ["not known" if value is None else str(value) for value in values]

    versions = [run.said.get("versions", {}) for run in runs]
    programs = list(dict.fromkeys(name for version in versions for name in version))
    return [
        row("folder", [run.folder for run in runs]),
        row("data", [run.said.get("data", {}).get("source") for run in runs]),
        row("commit", [run.said.get("commit") for run in runs]),
        *(row(name, [version.get(name) for version in versions]) for name in programs),
    ]
