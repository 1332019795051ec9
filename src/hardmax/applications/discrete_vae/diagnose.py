"""`hardmax diagnose`: bias, noise and cost of gradient estimators on a trained discrete VAE."""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from hardmax.applications.argument_parser import Argument, Metavar
from hardmax.errors import ArgumentError
from hardmax.estimators.registry import ESTIMATORS

if TYPE_CHECKING:
    from hardmax.applications.discrete_vae.config import DiscreteConfig
    from hardmax.applications.discrete_vae.model import DiscreteVAE
    from hardmax.applications.runs import LoadedRun
    from hardmax.diagnosis import Diagnosis, Quality
    from hardmax.estimators import AbstractEstimator
    from hardmax.spaces import AbstractSpace

# Number of values of z; for more, the exact gradient is replaced by the mean of many unbiased estimates.
MAX_ENUMERATED = 2**16
# Options of hardmax train that configure estimators.
_ESTIMATOR_OPTIONS = tuple(dict.fromkeys(option for record in ESTIMATORS.values() for option in record.options))


@dataclass(frozen=True)
class DiagnoseOptions:
    """Measure how good gradient estimators are for a trained model: bias, noise and cost, at equal evaluations.

    Recommends an estimator, with its epsilon or tau, as options of hardmax train.

    Example: hardmax diagnose runs/first --draws 256
    """

    run: Annotated[str, Argument("RUN")]
    """Folder of the run."""
    json: bool = False
    """Print one JSON object instead of a table."""
    split: Literal["train", "validation", "test"] = "validation"
    """Part of the data that the images are taken from."""
    checkpoint: Literal["best", "latest"] = "best"
    """Checkpoint to load: the best on the validation set, or the latest."""
    images: int = 16
    """Number of images to measure on."""
    draws: int = 256
    """Number of independent gradient estimates for each estimator."""
    evaluations: int | None = None
    """Number of evaluations of the decoder per image and estimate; default: what the most expensive estimator needs."""
    estimators: Annotated[tuple[str, ...], Metavar("NAME")] = ()
    """Estimators to measure, such as direct gumbel-softmax; default: all that support the space."""
    kl: Literal["auto", "beside", "none"] | None = None
    """How the KL divergence enters the gradient, see hardmax train --help; default: as in the run."""
    out: str | None = None
    """Folder for diagnosis.json and diagnosis.png; default: figures in the run's folder."""
    seed: int = 0
    """Random seed of the choice of images and of the noise."""
    data: str | None = None
    """Path of the data, if they have moved since the run was trained."""
    data_dir: str | None = None
    """Folder with the named data sets; default: the environment variable HARDMAX_DATA."""
    device: str = "cpu"
    """Device: cpu, cuda, ..."""

    def __post_init__(self) -> None:
        for name, minimum in (("images", 1), ("draws", 2), ("evaluations", 1)):
            value = getattr(self, name)
            if value is not None and value < minimum:
                raise ArgumentError(f"{name} must be at least {minimum}, got {value}")


def diagnose(options: DiagnoseOptions) -> None:
    """Diagnose a run, print the table and the advice, and write the numbers and the figure."""
    from hardmax.applications.discrete_vae.model import DiscreteVAE
    from hardmax.applications.runs import load_run
    from hardmax.console import make_console

    run = load_run(options.run, options.checkpoint, device=options.device, data=options.data, kind=DiscreteVAE)
    diagnosis = _measure_estimators(options, run)
    batch = run.config.batch_size
    advice = _make_advice(diagnosis, run, batch)
    report = {"run": options.run, "checkpoint": run.checkpoint, "split": options.split, **advice}
    report = {**report, **diagnosis.to_dict(batch)}
    files = _write_files(Path(options.out or Path(options.run) / "figures"), diagnosis, report, batch)
    if options.json:
        print(json.dumps({**report, "files": [str(path) for path in files]}))
        return
    console = make_console()
    console.print(diagnosis.table(batch))
    for refusal in diagnosis.refused:
        console.print(f"refused: {refusal.name}: {refusal.reason}")
    for line in advice["advice"]:
        console.print(line)
    if advice["command"]:
        console.print("train with it:")
        console.print(f"  {advice['command']}", soft_wrap=True)
    console.print(f"written: {' and '.join(map(str, files))}", soft_wrap=True)


def _measure_estimators(options: DiagnoseOptions, run: "LoadedRun[DiscreteVAE]") -> "Diagnosis":
    """Measure the estimators on the gradient of the bound of a few images, with a progress bar."""
    import torch

    from hardmax.diagnosis import diagnose_elbo, list_candidates
    from hardmax.progress_bar import show_bar
    from hardmax.random import make_generator
    from hardmax.training.task import prepare_split

    model, config = run.model, run.config
    images = prepare_split(config, run.load_data(options.data_dir), options.split)
    index = torch.randperm(len(images), generator=make_generator(options.seed, "pictures"))[: options.images]
    images = images[index].to(options.device)
    likelihood = model.likelihood(images)
    estimators = _select_estimators(list_candidates(model.space, likelihood), options.estimators)
    is_enumerable = model.space.size <= MAX_ENUMERATED
    with torch.no_grad():
        scores = model.encoder(images)
    with show_bar("exact gradient", (len(estimators) + (0 if is_enumerable else 4)) * options.draws) as bar:
        return diagnose_elbo(
            likelihood,
            scores,
            model.space,
            estimators,
            prior=model.prior,
            kl=options.kl or config.kl,
            draws=options.draws,
            exact="enumerate" if is_enumerable else "monte-carlo",
            evaluations=options.evaluations,
            generator=make_generator(options.seed, "noise"),
            observe=lambda name, count: bar.advance(count, name),
        )


def _select_estimators(
    estimators: Mapping[str, "AbstractEstimator"], names: Sequence[str]
) -> dict[str, "AbstractEstimator"]:
    """Return the estimators with these names or of these families; all if there are no names."""
    valid_names = {*estimators, *map(_get_family, estimators)}
    for name in names:
        if name not in valid_names:
            families = ", ".join(dict.fromkeys(map(_get_family, estimators)))
            raise ArgumentError(f"no estimator {name!r} suits this run's space; there are: {families}")
    return {
        name: estimator
        for name, estimator in estimators.items()
        if not names or name in names or _get_family(name) in names
    }


def _get_family(name: str) -> str:
    return name.split(",")[0]


def _make_advice(diagnosis: "Diagnosis", run: "LoadedRun[DiscreteVAE]", batch: int) -> dict[str, Any]:
    """Return the advice as sentences, and the options and the command for hardmax train."""
    from hardmax.diagnosis.advice import recommend

    config, space = run.config, run.model.space
    options = {row.name: _find_train_options(row, config, space) for row in diagnosis.rows}
    best = diagnosis.recommend(batch)
    usable = recommend([row for row in diagnosis.rows if options[row.name] is not None], diagnosis.evaluations, batch)
    lines = [] if best is None else [f"recommended: {best}"]
    if best is not None and usable is not None and usable.name != best.name:
        lines.append(f"hardmax train has no options for it; the best of those that it has: {usable}")
    lines += _describe_best_settings(diagnosis, batch)
    arguments = None if usable is None else options[usable.name]
    command = None if usable is None or arguments is None else _format_train_command(config, usable.name, arguments)
    return {"advice": lines, "options": arguments, "command": command}


def _describe_best_settings(diagnosis: "Diagnosis", batch: int) -> list[str]:
    """Return a sentence per estimator: its best epsilon or tau, and whether it is the smallest or largest tried."""
    families: dict[str, list[Quality]] = {}
    for row in diagnosis.rows:
        if row.name.split(", ")[-1].startswith(("epsilon ", "tau ")):
            families.setdefault(_get_family(row.name), []).append(row)
    lines = []
    for family, rows in families.items():
        if len(rows) < 2:
            continue
        best = min(rows, key=lambda row: row.error(batch))
        end = {rows[0].name: ", the smallest tried", rows[-1].name: ", the largest tried"}.get(best.name, "")
        lines.append(f"for {family}: {best.name.split(', ')[-1]}{end} (error {best.error(batch):.2g})")
    return lines


def _find_train_options(row: "Quality", config: "DiscreteConfig", space: "AbstractSpace") -> list[str] | None:
    """Return the options of hardmax train that create an estimator; None if there are none.

    Each option gets the value of the estimator's attribute of the same name; then the result is compared.
    """
    from hardmax.diagnosis.advice import format_estimator
    from hardmax.training.estimators import choose_estimator

    family = _get_family(row.name)
    if family not in ESTIMATORS:
        return None
    settings = {name: getattr(row.estimator, name) for name in _ESTIMATOR_OPTIONS if hasattr(row.estimator, name)}
    try:
        candidate = replace(_reset_estimator_options(config), estimator=family, samples=row.samples, **settings)
    except ArgumentError:
        return None
    if format_estimator(choose_estimator(candidate, space, 0, 0)) != format_estimator(row.estimator):
        return None
    arguments = ["--estimator", family]
    for name, value in settings.items():
        option = f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            arguments += [option] if value else []
        else:
            arguments += [option, f"{value:g}" if isinstance(value, float) else str(value)]
    return arguments + ([] if row.samples == row.estimator.default_samples else ["--samples", str(row.samples)])


def _reset_estimator_options(config: "DiscreteConfig") -> "DiscreteConfig":
    """Return the configuration with all estimator options at their defaults."""
    defaults = {field.name: field.default for field in fields(config)}
    return replace(config, **{name: defaults[name] for name in ("estimator", "samples", "anneal", *_ESTIMATOR_OPTIONS)})


def _format_train_command(config: "DiscreteConfig", name: str, arguments: list[str]) -> str:
    """Return the command that repeats the training of the run with another estimator."""
    from hardmax.report.tables import format_command

    plain = replace(_reset_estimator_options(config), out=f"{config.out}-{_get_family(name)}")
    return f"{format_command(plain)} {shlex.join(arguments)}"


def _write_files(folder: Path, diagnosis: "Diagnosis", report: dict[str, Any], batch: int) -> list[Path]:
    """Write the numbers and the figure."""
    from hardmax.files import write_output

    files = [folder / "diagnosis.json", folder / "diagnosis.png"]
    with write_output(files[0], "folder") as temporary:
        temporary.write_text(json.dumps(report, indent=2) + "\n")
    with write_output(files[1], "folder") as temporary:
        diagnosis.figure(batch).savefig(temporary, format="png", dpi=150)
    return files
