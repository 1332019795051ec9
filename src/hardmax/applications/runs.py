"""Runs of any application: train them, read their configuration, load their models and metrics."""

import logging
from collections.abc import Collection, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

import torch

from hardmax.applications.argument_parser import check_values
from hardmax.applications.registry import find_application, list_model_places
from hardmax.errors import ArgumentError, DataError
from hardmax.models.pretrained import AbstractModel, read_saved_config
from hardmax.names import escape_control_characters
from hardmax.report.page import render_page
from hardmax.report.run import SPLITS, Run, TimingRow, parse_rows
from hardmax.report.tables import format_option, format_value
from hardmax.training.config import MAY_CHANGE, PLACES, TrainConfig
from hardmax.training.locks import lock_run
from hardmax.training.loop import Observer, train_task
from hardmax.training.processes import SINGLE_PROCESS, Group
from hardmax.training.run_folder import (
    CONFIG,
    METRICS,
    TIMING,
    find_changed_data,
    find_checkpoint,
    has_run,
    read_facts,
    summarize_data,
)
from hardmax.training.task import Data, load_stored_data
from hardmax.validation import check_device

M = TypeVar("M", bound=AbstractModel)
_log = logging.getLogger(__name__)


def train(
    config: TrainConfig,
    observer: Observer | None = None,
    group: Group = SINGLE_PROCESS,
    *,
    typed: Collection[str] | None = None,
) -> bool:
    """Train and write to `config.out`; return False if an observer stopped the run before its end.

    Every process of a group calls this, with the same configuration and an observer of its own.

    Args:
        config: options of the run. A resumed run keeps the options that it was started with; only those in `MAY_CHANGE`
            may be other ones.
        observer: callbacks that observe the run.
        group: the processes that train.
        typed: names of the options that were typed on the command line. The others are not compared with those of a
            resumed run, and a batch size that was not typed is adapted to few training examples. Without this argument,
            `epochs` and all options that differ from their defaults are compared, and the batch size is used as it is.

    Raises:
        ArgumentError: the folder holds a run already, or there is none to resume; an option of a resumed run has
            changed; another process trains in the folder; the group cannot train it.
        DataError: data or checkpoints cannot be read or written.
    """
    given = typed
    if given is None:
        changed = {field.name for field in fields(config) if getattr(config, field.name) != field.default}
        given = {"epochs", *changed}
    with lock_run(Path(config.out)) if group.is_first else nullcontext():
        resolved = group.broadcast_from_first(lambda: _resolve(config, given))
        application = find_application(resolved.model)
        return train_task(
            resolved,
            application.load_task(),
            application.metrics,
            observer,
            group,
            adapts_batch_size=not resolved.resume and typed is not None and "batch_size" not in typed,
        )


def _resolve(config: TrainConfig, given: Collection[str]) -> TrainConfig:
    """Return the options of the run; for a resumed run, those that it started with.

    Args:
        config: all options.
        given: names of those that a resumed run compares with its own.

    Raises:
        ArgumentError: the folder holds a run already, or an option of the run to resume has changed.
        DataError: there is no run to resume, or its configuration is broken.
    """
    run, config = Path(config.out), config.make_paths_absolute()
    if not config.resume:
        if has_run(run):
            raise ArgumentError(f"{run} holds a run already; add --resume to go on with it, or choose another --out")
        return config
    start = read_config(run)[0].make_paths_absolute()
    names = [field.name for field in fields(config) if field.name in given and field.name not in PLACES]
    values = {name: (getattr(config, name), getattr(start, name, None)) for name in names if name not in MAY_CHANGE}
    changes = [
        f"--{format_option(name)} {format_value(new)} (the run has {format_value(old)})"
        for name, (new, old) in values.items()
        if new != old
    ]
    if changes:
        raise ArgumentError(
            f"{run} is resumed with its own options; leave out {', '.join(changes)}, or train another run in a new "
            f"--out; these may change: {', '.join(f'--{format_option(name)}' for name in MAY_CHANGE)}"
        )
    chosen = {name: getattr(config, name) for name in MAY_CHANGE if name in given}
    return replace(start, **{"devices": 1, **chosen}, resume=True, out=config.out)


def read_config(folder: str | Path) -> tuple[Any, dict[str, Any]]:
    """Return the configuration of the run in a folder, of its application's class, and the contents of `config.json`.

    Raises:
        DataError: the folder holds no run, or its configuration is broken.
    """
    facts = read_facts(Path(folder))
    options = facts["config"]
    try:
        kind = find_application(options.get("model", "discrete")).load_config()
        check_values(kind, options)
        # JSON has no tuples.
        values: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in options.items()
        }
        return kind(**values), facts
    except (ArgumentError, TypeError) as error:
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
        """Load the data that the run was trained on.

        Args:
            data_dir: the folder that holds named data sets, if it is no longer the run's.

        Raises:
            DataError: the data cannot be read, or the examples have another shape than those of the run.
        """
        return _load_data(replace(self.config, data_dir=data_dir or self.config.data_dir), self.facts)


def load_run(
    run: str | Path,
    checkpoint: Literal["best", "latest"] = "best",
    *,
    device: torch.device | str = "cpu",
    data: str | None = None,
    kind: type[M] = AbstractModel,
) -> LoadedRun[M]:
    """Load a run's model, from its best checkpoint by validation or its latest one.

    Args:
        run: folder of the run.
        checkpoint: which checkpoint to load.
        device: device of the model.
        data: the current location of the run's data, if they have moved.
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
    return LoadedRun(replace(config, data=data or config.data), model, name, facts)


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
    rows_by_split = {split: [row for row in rows if row.split == split] for split in SPLITS}
    finished = [row for row in rows_by_split["test"] if row.step <= step]
    if model is None or not finished:
        raise DataError(
            f"{folder} has no finished epoch yet, so there is nothing to report; wait for the first one or, if it was "
            f"stopped, go on with hardmax train --resume --out {folder}"
        )
    images = _load_data(replace(config, data=data or config.data, data_dir=data_dir or config.data_dir), facts)
    return Run(
        folder=folder,
        config=config,
        facts=facts,
        rows=rows_by_split,
        timing=parse_rows(folder / TIMING, TimingRow),
        model=model.eval(),
        best_epoch=finished[-1].epoch,
        images=images,
        test_examples=report.prepare_test_examples(config, images),
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


def _load_data(config: TrainConfig, facts: dict[str, Any]) -> Data:
    """Load the data of a run.

    Args:
        config: its options, with the current location of the data.
        facts: the contents of its `config.json`.
    """
    application = find_application(config.model)
    examples = application.metrics.examples
    data = load_stored_data(config, application.load_task(), examples)
    shape = facts.get("data", {}).get("shape", list(data.shape))
    if list(data.shape) != shape:
        raise DataError(
            f"the run was trained on {examples} of {shape}, but those of {data.name} are {list(data.shape)}"
        )
    stored = facts.get("data", {})
    if "train" in stored and (changed := find_changed_data(stored, summarize_data(data))):
        _log.warning(
            escape_control_characters(
                f"WARNING: {data.name} holds other data than the run was trained on: {', '.join(changed)}; the results "
                "are those of the present data"
            )
        )
    return data
