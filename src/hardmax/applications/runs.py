"""Runs of any application: train them, read their configuration, load their models and metrics."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

import torch

from hardmax.applications.registry import Application, find_application, list_model_places
from hardmax.errors import ArgumentError, DataError
from hardmax.models.pretrained import AbstractModel, read_saved_config
from hardmax.report.page import render_page
from hardmax.report.run import SPLITS, Run, Timed, parse_rows
from hardmax.training.config import TrainConfig
from hardmax.training.loop import Observer, train_task
from hardmax.training.processes import ALONE, Group
from hardmax.training.run_folder import CONFIG, METRICS, TIMING, find_checkpoint, has_run, read_facts
from hardmax.training.task import Data
from hardmax.validation import check_device

M = TypeVar("M", bound=AbstractModel)


def train(config: TrainConfig, observer: Observer | None = None, group: Group = ALONE) -> bool:
    """Train and write to `config.out`; return False if an observer stopped the run before its end.

    Every process of a group calls this, with the same configuration and an observer of its own.

    Raises:
        ArgumentError: the folder holds a run already, or there is none to resume; the group cannot train it.
        DataError: data or checkpoints cannot be read or written.
    """
    config = group.from_first(lambda: _resolve(config))
    application = find_application(config.model)
    return train_task(config, application.load_task(), application.metrics, observer, group)


def _resolve(config: TrainConfig) -> TrainConfig:
    """Return the options of the run; for a resumed run, those that it started with."""
    run = Path(config.out)
    if config.resume:
        began = read_config(run)[0]
        return replace(began, epochs=config.epochs, resume=True, out=config.out, devices=config.devices)
    if has_run(run):
        raise ArgumentError(f"{run} holds a run already; add --resume to go on with it, or choose another --out")
    return config


def read_config(folder: str | Path) -> tuple[Any, dict[str, Any]]:
    """Return the configuration of the run in a folder, of its application's class, and the contents of `config.json`.

    Raises:
        DataError: the folder holds no run, or its configuration is broken.
    """
    facts = read_facts(Path(folder))
    options = facts["config"]
    try:
        return find_application(options.get("model", "discrete")).load_config()(**options), facts
    except TypeError as error:
        raise DataError(f"{Path(folder) / CONFIG} is not the configuration of a run: {error}") from error


def load_model(folder: str | Path, *, device: torch.device | str = "cpu") -> AbstractModel:
    """Load a model of any kind that `save_pretrained` wrote to a folder; nothing is unpickled.

    Args:
        folder: the folder of a saved model, which was created by `build`.
        device: device of the weights.

    Returns:
        A model of the kind that was saved.

    Raises:
        DataError: a file is missing or broken, or the kind is unknown.

    Example:
        >>> import tempfile, hardmax as hm
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     hm.DiscreteVAE.build(hm.Categorical(3), (1, 4, 4)).save_pretrained(folder)
        ...     type(hm.load_model(folder)).__name__
        'DiscreteVAE'
    """
    folder = Path(folder)
    kind = read_saved_config(folder).get("model")
    places = list_model_places()
    if not isinstance(kind, str) or kind not in places:
        raise DataError(f"{folder} holds a model of the unknown kind {kind!r}; known are {', '.join(sorted(places))}")
    module, name = places[kind].split(":")
    return getattr(import_module(module), name).from_pretrained(folder, device=device)


@dataclass(frozen=True)
class LoadedRun(Generic[M]):
    """A run with its model.

    Attributes:
        config: its options, of its application's class.
        model: the trained model.
        checkpoint: name of the checkpoint that it was loaded from.
        facts: the contents of `config.json`: data, versions, commit.
    """

    config: Any
    model: M
    checkpoint: str
    facts: dict[str, Any]

    def load_data(self, data_dir: str | None = None) -> Any:
        """Load the data that the run was trained on."""
        config = self.config if data_dir is None else replace(self.config, data_dir=data_dir)
        return find_application(config.model).load_task().load(config)


def load_run(
    run: str | Path,
    checkpoint: Literal["best", "latest"] = "best",
    *,
    device: torch.device | str = "cpu",
    kind: type[M] = AbstractModel,
) -> LoadedRun[M]:
    """Load a run's model, from its best checkpoint by validation or its latest one.

    Args:
        run: folder of the run.
        checkpoint: which checkpoint to load.
        device: device of the model.
        kind: expected class of the model.

    Raises:
        DataError: the folder holds no run, it has no checkpoint yet, a file is broken, or its model is of another kind.
    """
    check_device(str(device))
    run = Path(run)
    config, facts = read_config(run)
    name = find_checkpoint(run, checkpoint) or find_checkpoint(run, "latest")
    if name is None:
        raise DataError(f"{run} has no checkpoint yet: let its first epoch finish (hardmax train --resume --out {run})")
    model = load_model(run / name, device=device).eval()
    if not isinstance(model, kind):
        raise DataError(f"{run} holds {find_application(config.model).help}, which this is not for")
    return LoadedRun(config, model, name, facts)


def read_run(folder: str | Path, *, data: str | None = None, data_dir: str | None = None) -> Run:
    """Read a run's folder for a report; it may still be in training.

    Args:
        folder: the folder given to `hardmax train --out`.
        data: the current location of the run's data, if they have moved.
        data_dir: the folder that holds named data sets, if it is no longer the run's.

    Raises:
        DataError: there is no run, none of its epochs has finished, or one of its files is broken.
    """
    folder = Path(folder)
    if not (folder / CONFIG).is_file():
        raise DataError(_explain_missing(folder))
    config, facts = read_config(folder)
    application = find_application(config.model)
    report = application.load_report()
    # Load the model first: rows are written before the checkpoint that belongs to them.
    model, step = _load_best(folder)
    rows = parse_rows(folder / METRICS, report.row)
    measured = {split: [row for row in rows if row.split == split] for split in SPLITS}
    finished = [row for row in measured["test"] if row.step <= step]
    if model is None or not finished:
        raise DataError(
            f"{folder} has no finished epoch yet, so there is nothing to report; wait for the first one or, if it was "
            f"stopped, go on with hardmax train --resume --out {folder}"
        )
    images = _load_data(application, config, data, data_dir)
    if images.shape != (shape := tuple(facts.get("data", {}).get("shape", images.shape))):
        raise DataError(
            f"{folder} was trained on {application.metrics.examples} of {shape}, but those of {images.name} are "
            f"{images.shape}"
        )
    return Run(
        folder=folder,
        config=config,
        facts=facts,
        measured=measured,
        timed=parse_rows(folder / TIMING, Timed),
        model=model.eval(),
        best_epoch=finished[-1].epoch,
        images=images,
        pictures=report.pictures(config, images),
    )


def render_report(runs: Sequence[Run]) -> str:
    """Return the HTML page about one or several runs of one application; it needs no other file and no network.

    Raises:
        ArgumentError: there are no runs, or they are of different models.
    """
    if not runs:
        raise ArgumentError("a report needs at least one run, got none")
    first = runs[0]
    for run in runs:
        if run.config.model != first.config.model:
            raise ArgumentError(
                f"a page is about runs of one model, but {first.folder} is {first.config.model} and {run.folder} is "
                f"{run.config.model}; write a page for each, with --out"
            )
    application = find_application(first.config.model)
    return render_page(runs, application.load_report(), application.metrics, application.comparable)


def _explain_missing(folder: Path) -> str:
    missing = f"{folder} holds no run: "
    if not folder.is_dir():
        return missing + ("it is not a folder" if folder.exists() else "there is no such folder")
    if any(folder.glob(f"*/{CONFIG}")):
        return missing + f"{CONFIG} is missing; its sub-folders do: hardmax report {folder}/*/"
    return missing + f"{CONFIG} is missing; make one with hardmax train --out {folder}"


def _load_best(folder: Path) -> tuple[AbstractModel | None, int]:
    """Return the model and the step of its checkpoint; None if there is no checkpoint.

    Loads the best checkpoint if there is one: a run whose criterion was always NaN has only a latest one.
    """
    while name := find_checkpoint(folder, "best") or find_checkpoint(folder, "latest"):
        try:
            return load_model(folder / name), int(name.removeprefix("checkpoint-"))
        except (DataError, ValueError) as error:
            # A run in training may have replaced it in the meantime.
            if name == (find_checkpoint(folder, "best") or find_checkpoint(folder, "latest")):
                raise DataError(f"{folder / name} cannot be read: {error}") from error
    return None, 0


def _load_data(application: Application, config: TrainConfig, data: str | None, data_dir: str | None) -> Data:
    try:
        return application.load_task().load(
            replace(config, data=data or config.data, data_dir=data_dir or config.data_dir)
        )
    except DataError as error:
        raise DataError(
            f"cannot load the run's {application.metrics.examples}: {error}; say where they are now with --data or "
            "--data-dir"
        ) from error
