"""The command `hardmax train`: train a model and write its run to a folder."""

import signal
import time
from collections import deque
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardmax.applications.argument_parser import parse_values
from hardmax.applications.registry import find_application, list_trained
from hardmax.console import make_console
from hardmax.training.config import TrainConfig
from hardmax.training.run_folder import has_run, read_facts

if TYPE_CHECKING:
    from hardmax.training.processes import Group

_DEFAULT = "discrete"  # the model that is trained if --model is not given
_RECENT = 5  # number of epochs from whose duration the time left is estimated
_PAUSE = 60.0  # seconds between two lines about the time left
_TWICE = 1.0  # seconds within which a second signal is the first one again, passed on by the launcher of the processes


def run(arguments: list[str]) -> int:
    """Train, show progress, and print where the result is; with --devices, in separate processes."""
    model = _find_model(arguments)
    command = "train" if model == _DEFAULT else f"train --model {model}"
    kind = find_application(model).load_config()
    values = parse_values(kind, command, arguments, about=_describe_models())
    config = kind(**values)
    if config.resume and "epochs" not in values:
        config = _use_epochs_of_run(config)
    from hardmax.training.processes import is_in_group, join_group, spawn_processes

    if config.devices > 1 and not is_in_group():
        from hardmax.cli.main import main

        return spawn_processes(config.devices, main, ["train", *arguments])
    with join_group() as group:
        return _train(config, group, values)


def _train(config: TrainConfig, group: "Group", typed: Collection[str]) -> int:
    from hardmax.applications.runs import train
    from hardmax.progress_bar import format_clock, show_bar
    from hardmax.training.loop import Observer

    begin, pace = time.monotonic(), Pace(config.epochs)

    console = make_console(quiet=not group.is_first)
    asked_to_stop: float | None = None

    def on_signal(number: int, frame: Any) -> None:
        nonlocal asked_to_stop
        if asked_to_stop is None:
            asked_to_stop = time.monotonic()
            console.print("saving (once more Ctrl-C to stop at once) ...")
        elif time.monotonic() - asked_to_stop > _TWICE:
            raise KeyboardInterrupt

    with show_bar("epoch 1", console=console) as bar:

        def on_step(epoch: int, done: int, total: int) -> None:
            pace.begin_step(done)
            each = "" if pace.seconds is None else f", {pace.seconds:.3g} s per epoch"
            bar.update(epoch * total + done, config.epochs * total, f"epoch {epoch + 1}/{config.epochs}{each}")

        def on_epoch(rows: list[dict[str, Any]]) -> None:
            pace.end_epoch(rows[0]["epoch"])
            if (line := pace.describe()) is not None and not console.is_terminal:  # there, the bar shows it
                console.print(line)

        def say(text: str) -> None:
            console.print(text)

        before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            observer = Observer(say, on_step, on_epoch, should_stop=lambda: asked_to_stop is not None)
            finished = train(config, observer, group, typed=typed)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
    if pace.epochs_done:
        console.print(f"{_count_epochs(pace.epochs_done)} in {format_clock(time.monotonic() - begin)}")
    if not finished:
        console.print(f"stopped and saved; go on with: hardmax train --resume --out {config.out}")
        return 130
    console.print(f"the run is in {config.out}; look at it with: hardmax report {config.out}")
    return 0


class Pace:
    """The speed of a run, and the time that it still needs.

    Args:
        epochs: number of epochs of the run.

    Attributes:
        epochs_done: number of epochs that have ended in this process.
        seconds: mean duration of the last few epochs, with their evaluation; None before the first one has ended.
    """

    def __init__(self, epochs: int) -> None:
        self._epochs, self._left = epochs, epochs
        self._ends: deque[float] = deque(maxlen=_RECENT + 1)
        self._due = float("-inf")
        self.epochs_done = 0
        self.seconds: float | None = None

    def begin_step(self, done: int) -> None:
        """Start the clock with the first step of the first complete epoch."""
        if done == 1 and not self._ends:
            self._ends.append(time.monotonic())

    def end_epoch(self, epoch: int) -> None:
        """Count an epoch that has ended."""
        self.epochs_done, self._left = self.epochs_done + 1, self._epochs - epoch
        self._ends.append(time.monotonic())
        if len(self._ends) > 1:
            self.seconds = (self._ends[-1] - self._ends[0]) / (len(self._ends) - 1)

    def describe(self) -> str | None:
        """Return a line about the speed and the time left, at most once a minute; None in between and at the end."""
        if self.seconds is None or self._left <= 0 or time.monotonic() < self._due:
            return None
        from hardmax.progress_bar import format_clock

        self._due = time.monotonic() + _PAUSE
        left = format_clock(self._left * self.seconds)
        return f"{self.seconds:.3g} s per epoch, about {left} left for {_count_epochs(self._left)}"


def _count_epochs(count: int) -> str:
    return f"{count} epoch{'s' if count > 1 else ''}"


def _find_model(arguments: list[str]) -> str:
    """Return the value of --model, which determines the other options; for a resumed run, by default its model."""
    model = _find_value(arguments, "--model")
    if model is None and "--resume" in arguments:
        out = Path(_find_value(arguments, "--out") or TrainConfig.out)
        model = str(read_facts(out)["config"].get("model", _DEFAULT)) if has_run(out) else None
    return model or _DEFAULT


def _find_value(arguments: list[str], option: str) -> str | None:
    """Return the last value of an option; None if it is not given."""
    value = None
    for word, following in zip(arguments, [*arguments[1:], ""], strict=True):
        if word == option:
            value = following
        elif word.startswith(f"{option}="):
            value = word.removeprefix(f"{option}=")
    return value


def _describe_models() -> str:
    """Return the text about the models in `--help`."""
    lines = {application.name: application.help for application in list_trained()}
    width = max(map(len, lines))
    return "\n".join(
        [
            "Models, each with options of its own, which hardmax train --model NAME --help shows:",
            *(f"  {name:<{width}}  {line}" for name, line in lines.items()),
        ]
    )


def _use_epochs_of_run(config: TrainConfig) -> TrainConfig:
    from hardmax.applications.runs import read_config

    return replace(config, epochs=read_config(config.out)[0].epochs)
