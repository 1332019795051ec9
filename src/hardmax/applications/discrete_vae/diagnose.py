"""`hardmax diagnose`."""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from hardmax.errors import ArgumentError
from hardmax.estimators.registry import ESTIMATORS

if TYPE_CHECKING:
    from hardmax.applications.discrete_vae.config import DiscreteConfig
    from hardmax.applications.discrete_vae.model import DiscreteVAE
    from hardmax.applications.runs import LoadedRun
    from hardmax.diagnosis import Diagnosis, Quality
    from hardmax.estimators import AbstractEstimator
    from hardmax.spaces import AbstractSpace

ENUMERATED = 2**16  # values of z; beyond, the exact gradient is replaced by the mean of many unbiased estimates
# Options of hardmax train that configure estimators.
_SETTINGS = tuple(dict.fromkeys(option for record in ESTIMATORS.values() for option in record.options))


@dataclass(frozen=True)
class DiagnoseOptions:
    """Measure how good gradient estimators are for a trained model: bias, noise and cost, at equal evaluations.

    Says which estimator to take, with which epsilon or tau, as options for hardmax train.

    Example: hardmax diagnose runs/first --draws 256
    """

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder of the run."""
    json: bool = False
    """Print one JSON object instead of a table."""
    split: Literal["train", "validation", "test"] = "validation"
    """Pictures to take some of."""
    checkpoint: Literal["best", "latest"] = "best"
    """The best by validation, or the latest."""
    images: int = 16
    """Number of pictures."""
    draws: int = 256
    """Independent estimates of each estimator."""
    evaluations: int | None = None
    """Evaluations of the decoder for each picture that an estimate may take; default: as many as the most expensive
    estimator needs."""
    estimators: tuple[str, ...] = ()
    """Only these, such as direct gumbel-softmax; default: all that suit the space."""
    kl: Literal["auto", "beside", "none"] | None = None
    """How the KL takes part in the gradient, as for hardmax train; default: as in the run."""
    out: str | None = None
    """Folder for diagnosis.json and diagnosis.png; default: figures in the run's folder."""
    seed: int = 0
    """Seed of the pictures and of the noise."""
    data_dir: str | None = None
    """Folder that holds the named data sets."""
    device: str = "cpu"
    """cpu, cuda, ..."""

    def __post_init__(self) -> None:
        for name, least in (("images", 1), ("draws", 2), ("evaluations", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ArgumentError(f"{name} must be at least {least}, got {value}")


def diagnose(options: DiagnoseOptions) -> None:
    """Diagnose a run, print the table and the advice, and write the numbers and the figure."""
    from rich.console import Console

    from hardmax.applications.discrete_vae.model import DiscreteVAE
    from hardmax.applications.runs import load_run

    restored = load_run(options.run, options.checkpoint, device=options.device, kind=DiscreteVAE)
    diagnosis = _diagnose(options, restored)
    batch = restored.config.batch_size
    advice = _advice(diagnosis, restored, batch)
    report = {"run": options.run, "checkpoint": restored.checkpoint, "split": options.split, **advice}
    report = {**report, **diagnosis.to_dict(batch)}
    files = _write(Path(options.out or Path(options.run) / "figures"), diagnosis, report, batch)
    if options.json:
        print(json.dumps({**report, "files": [str(path) for path in files]}))
        return
    console = Console(highlight=False)
    console.print(diagnosis.table(batch))
    for refusal in diagnosis.refused:
        console.print(f"refused: {refusal.name}: {refusal.reason}", markup=False)
    for line in advice["advice"]:
        console.print(line, markup=False)
    if advice["command"]:
        console.print("train with it:")
        console.print(f"  {advice['command']}", markup=False, soft_wrap=True)
    console.print(f"written: {' and '.join(map(str, files))}", markup=False, soft_wrap=True)


def _diagnose(options: DiagnoseOptions, restored: "LoadedRun[DiscreteVAE]") -> "Diagnosis":
    """Measure the gradient of the bound on a few pictures, with a progress bar."""
    import torch

    from hardmax.diagnosis import candidates, diagnose_elbo
    from hardmax.progress_bar import show_bar
    from hardmax.random import stream
    from hardmax.training.task import prepare_split

    model, config = restored.model, restored.config
    pictures = prepare_split(config, restored.load_data(options.data_dir), options.split)
    index = torch.randperm(len(pictures), generator=stream(options.seed, "pictures"))[: options.images]
    pictures = pictures[index].to(options.device)
    likelihood = model.likelihood(pictures)
    estimators = _chosen(candidates(model.space, likelihood), options.estimators)
    enumerate_ = model.space.size <= ENUMERATED
    with torch.no_grad():
        scores = model.encoder(pictures)
    with show_bar("exact gradient", (len(estimators) + (0 if enumerate_ else 4)) * options.draws) as bar:
        return diagnose_elbo(
            likelihood,
            scores,
            model.space,
            estimators,
            prior=model.prior,
            kl=options.kl or config.kl,
            draws=options.draws,
            exact="enumerate" if enumerate_ else "monte-carlo",
            evaluations=options.evaluations,
            generator=stream(options.seed, "noise"),
            observe=lambda name, count: bar.advance(count, name),
        )


def _chosen(estimators: Mapping[str, "AbstractEstimator"], names: Sequence[str]) -> dict[str, "AbstractEstimator"]:
    """Return the estimators with these names or of these families; all if there are no names."""
    valid_names = {*estimators, *map(_family, estimators)}
    for name in names:
        if name not in valid_names:
            families = ", ".join(dict.fromkeys(map(_family, estimators)))
            raise ArgumentError(f"no estimator {name!r} suits this run's space; there are: {families}")
    return {
        name: estimator
        for name, estimator in estimators.items()
        if not names or name in names or _family(name) in names
    }


def _family(name: str) -> str:
    return name.split(",")[0]


def _advice(diagnosis: "Diagnosis", restored: "LoadedRun[DiscreteVAE]", batch: int) -> dict[str, Any]:
    """Return the advice as sentences, and the options and the command for hardmax train."""
    from hardmax.diagnosis.advice import recommend

    config, space = restored.config, restored.model.space
    options = {row.name: _train_options(row, config, space) for row in diagnosis.rows}
    best = diagnosis.recommend(batch)
    usable = recommend([row for row in diagnosis.rows if options[row.name] is not None], diagnosis.evaluations, batch)
    lines = [] if best is None else [f"recommended: {best}"]
    if best is not None and usable is not None and usable.name != best.name:
        lines.append(f"hardmax train has no options for that; of what it has, {usable}")
    lines += _rungs(diagnosis, batch)
    words = None if usable is None else options[usable.name]
    command = None if usable is None or words is None else _command(config, usable.name, words)
    return {"advice": lines, "options": words, "command": command}


def _rungs(diagnosis: "Diagnosis", batch: int) -> list[str]:
    """Return the best epsilon and the best tau, and whether a better one may lie beyond those tried, as sentences."""
    ladders: dict[str, list[Quality]] = {}
    for row in diagnosis.rows:
        if row.name.split(", ")[-1].startswith(("epsilon ", "tau ")):
            ladders.setdefault(_family(row.name), []).append(row)
    lines = []
    for family, rungs in ladders.items():
        if len(rungs) < 2:
            continue
        best = min(rungs, key=lambda row: row.error(batch))
        end = {rungs[0].name: ", the smallest tried", rungs[-1].name: ", the largest tried"}.get(best.name, "")
        lines.append(f"for {family}: {best.name.split(', ')[-1]}{end} (error {best.error(batch):.2g})")
    return lines


def _train_options(row: "Quality", config: "DiscreteConfig", space: "AbstractSpace") -> list[str] | None:
    """Return the options of hardmax train that create an estimator; None if no options do.

    Determined by trial: each option takes the value of the estimator's attribute of the same name.
    """
    from hardmax.diagnosis.advice import format_estimator
    from hardmax.training.estimators import choose_estimator

    family = _family(row.name)
    if family not in ESTIMATORS:
        return None
    settings = {name: getattr(row.estimator, name) for name in _SETTINGS if hasattr(row.estimator, name)}
    try:
        candidate = replace(_plain(config), estimator=family, samples=row.samples, **settings)
    except ArgumentError:
        return None
    if format_estimator(choose_estimator(candidate, space, 0, 0)) != format_estimator(row.estimator):
        return None
    words = ["--estimator", family]
    for name, value in settings.items():
        option = f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            words += [option] if value else []
        else:
            words += [option, f"{value:g}" if isinstance(value, float) else str(value)]
    return words + ([] if row.samples == row.estimator.default_samples else ["--samples", str(row.samples)])


def _plain(config: "DiscreteConfig") -> "DiscreteConfig":
    """Return the configuration with all estimator options at their defaults."""
    defaults = {field.name: field.default for field in fields(config)}
    return replace(config, **{name: defaults[name] for name in ("estimator", "samples", "anneal", *_SETTINGS)})


def _command(config: "DiscreteConfig", name: str, words: list[str]) -> str:
    """Return the command that trains as the run did, with another estimator."""
    from hardmax.report.tables import format_command

    plain = replace(_plain(config), out=f"{config.out}-{_family(name)}")
    return f"{format_command(plain)} {shlex.join(words)}"


def _write(folder: Path, diagnosis: "Diagnosis", report: dict[str, Any], batch: int) -> list[Path]:
    """Write the numbers and the figure."""
    from hardmax.files import write_output

    files = [folder / "diagnosis.json", folder / "diagnosis.png"]
    with write_output(files[0], "folder") as temporary:
        temporary.write_text(json.dumps(report, indent=2) + "\n")
    with write_output(files[1], "folder") as temporary:
        diagnosis.figure(batch).savefig(temporary, format="png", dpi=150)
    return files
