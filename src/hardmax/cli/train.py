"""The command `hardmax train`: train a model and write its run to a folder."""

import signal
import time
from typing import TYPE_CHECKING, Any

from hardmax.applications.argument_parser import parse
from hardmax.applications.registry import find_application, list_trained
from hardmax.training.config import TrainConfig

if TYPE_CHECKING:
    from hardmax.training.processes import Group

_DEFAULT = "discrete"  # the model that is trained if --model is not given
_TWICE = 1.0  # seconds within which a second signal is the first one again, passed on by the launcher of the processes


def run(arguments: list[str]) -> int:
    """Train, show progress, and print where the result is; with --devices, in separate processes."""
    model = _model(arguments)
    command = "train" if model == _DEFAULT else f"train --model {model}"
    config = parse(find_application(model).load_config(), command, arguments, about=_describe_models())
    if config.resume and not any(word.split("=")[0] == "--epochs" for word in arguments):
        config = _with_epochs_of_the_run(config)
    from hardmax.training.processes import is_in_group, join_group, spawn_processes

    if config.devices > 1 and not is_in_group():
        from hardmax.cli.main import main

        return spawn_processes(config.devices, main, ["train", *arguments])
    with join_group() as group:
        return _train(config, group)


def _train(config: TrainConfig, group: "Group") -> int:
    from rich.console import Console

    from hardmax.applications.runs import train
    from hardmax.progress_bar import show_bar
    from hardmax.training.loop import Observer

    console = Console(quiet=not group.first)
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
            bar.update(done, total, f"epoch {epoch + 1}/{config.epochs}")

        def say(text: str) -> None:
            console.print(text, highlight=False, markup=False)

        before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            finished = train(config, Observer(say, on_step, stop=lambda: asked_to_stop is not None), group)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
    if not finished:
        console.print(f"stopped and saved; go on with: hardmax train --resume --out {config.out}", highlight=False)
        return 130
    console.print(f"the run is in {config.out}; look at it with: hardmax report {config.out}", highlight=False)
    return 0


def _model(arguments: list[str]) -> str:
    """Return the value of --model, which determines the other options."""
    for word, following in zip(arguments, [*arguments[1:], ""], strict=True):
        if word == "--model":
            return following
        if word.startswith("--model="):
            return word.removeprefix("--model=")
    return _DEFAULT


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


def _with_epochs_of_the_run(config: TrainConfig) -> TrainConfig:
    from dataclasses import replace

    from hardmax.applications.runs import read_config

    return replace(config, epochs=read_config(config.out)[0].epochs)
