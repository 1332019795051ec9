"""The page: what the template needs, and the file."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from hardmax.errors import ArgumentError
from hardmax.report import numbers
from hardmax.report.catalogue import story_of
from hardmax.report.curves import legend
from hardmax.report.describe import progress
from hardmax.report.options import command, differing, is_default, labels, option, shown
from hardmax.report.run import SPLITS, Run
from hardmax.report.tiles import Tiles
from hardmax.writing import replacing

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class _Part:
    """One run on the page: its name there, what its model's own sections ask for, and the command that made it."""

    label: str
    run: Run
    told: Any
    command: str


def render(runs: Sequence[Run]) -> str:
    """Return the HTML page about one or several runs of one model; it needs no other file and no network.

    Raises:
        ArgumentError: there are no runs, or they are of different models.
    """
    if not runs:
        raise ArgumentError("a report needs at least one run, got none")
    story = story_of(_model_of(runs))
    one = len(runs) == 1
    names = [runs[0].name] if one else labels([run.config for run in runs], [run.name for run in runs])
    facts = [story.facts(run) for run in runs]
    headings, table = numbers.comparison(runs, story.quantities, facts)
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(story.template).render(
        title=runs[0].name if one else f"{len(runs)} runs",
        style=Markup("".join((_HERE / name).read_text(encoding="utf-8") for name in ("style.css", *story.styles))),
        sections={"numbers": "Numbers", "curves": "Curves", **story.sections, "configuration": "Configuration"},
        parts=_said_once(
            [
                _Part(name, run, story.told(run, i), command(run.config))
                for i, (run, name) in enumerate(zip(runs, names, strict=True))
            ]
        ),
        one=one,
        keys=legend([split for split in SPLITS if runs[0].measured[split]] if one else names),
        curves=story.curves_of_run(runs[0]) if one else story.curves_of_runs(runs, names),
        key_numbers=numbers.key_numbers(runs[0], story.quantities, facts[0]) if one else None,
        headings=headings,
        table=table,
        incomparable=numbers.incomparable(runs),
        differing=_rows(runs, differing([run.config for run in runs])),
        options=_rows(runs, [field.name for field in fields(runs[0].config) if field.name != "resume"]),
        provenance=_provenance(runs),
        subjects=_shared(names, [story.subject(run) for run in runs]),
        methods=_shared(names, [story.method(run) for run in runs]),
        measurements=_shared(names, [story.measurement(run) for run in runs]),
        story=story,
        progress=progress,
        number=numbers.number,
    )


def write(page: str, path: Path) -> None:
    """Write the page under a temporary name, then rename it: a reader never sees half of it.

    Raises:
        DataError: the file cannot be written.
    """
    with replacing(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


def _model_of(runs: Sequence[Run]) -> str:
    """Return the model that all of the runs are of."""
    models = [run.config.model for run in runs]
    for run, model in zip(runs, models, strict=True):
        if model != models[0]:
            raise ArgumentError(
                f"a page is about runs of one model, but {runs[0].folder} is {models[0]} and {run.folder} is {model}; "
                "write a page for each, with --out"
            )
    return models[0]


def _said_once(parts: Sequence[_Part]) -> list[_Part]:
    """Leave out the notes of tiles that would only repeat the one before."""
    said: dict[str, str] = {}
    out = []
    for part in parts:
        found = {field.name: getattr(part.told, field.name) for field in fields(part.told)}
        found = {name: tiles for name, tiles in found.items() if isinstance(tiles, Tiles)}
        again = {name: replace(tiles, note="") for name, tiles in found.items() if tiles.note == said.get(name)}
        said |= {name: tiles.note for name, tiles in found.items()}
        out.append(replace(part, told=replace(part.told, **again)))
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
