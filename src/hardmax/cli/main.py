"""`hardmax COMMAND ...`: finds the command and turns errors into one line. Imports no torch."""

import sys
from difflib import get_close_matches
from importlib import import_module

from hardmax.errors import HardmaxError

# name: (module with a function run(arguments) -> exit code, one line of help)
COMMANDS = {
    "demo": ("demo", "train four estimators on the embedded pictures and compare them, in a minute"),
    "train": (
        "train",
        "train a VAE with discrete latents, also from few labels, or a model that completes pictures",
    ),
    "evaluate": ("evaluate", "say how good a trained model is"),
    "diagnose": ("diagnose", "say which gradient estimator suits a trained model, and with which epsilon or tau"),
    "sample": ("sample", "draw pictures from a trained model"),
    "edit": ("edit", "draw photos again with attributes turned on and off"),
    "complete": ("complete", "complete photos with holes in several ways"),
    "report": ("report", "write one HTML page about one or several runs"),
    "reproduce": ("reproduce", "make a table or figure of the paper again"),
    "data": ("data", "list, fetch and check data sets"),
    "doctor": ("doctor", "say what is installed, what is missing and how to get it"),
}


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return its exit code: 0, 1 where something was found wrong, 2 for bad input."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_usage())
        return 0 if arguments else 2
    if arguments[0] in ("-V", "--version"):
        from hardmax import __version__

        print(f"hardmax {__version__}")
        return 0
    name, *rest = arguments
    if name not in COMMANDS:
        near = get_close_matches(name, COMMANDS)
        hint = f"did you mean {' or '.join(near)}?" if near else f"there are: {', '.join(COMMANDS)}"
        return _fail(f"no command {name!r}; {hint}")
    try:
        return import_module(f"hardmax.cli.{COMMANDS[name][0]}").run(rest)
    except HardmaxError as error:
        return _fail(str(error))
    except KeyboardInterrupt:
        return _fail("interrupted", code=130)
    except BrokenPipeError:  # the reader has seen enough, as `head` has
        sys.stderr.close()
        return 0


def _usage() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {text}" for name, (_, text) in COMMANDS.items()]
    return "\n".join(
        [
            "hardmax: learning through the arg max",
            "",
            "usage: hardmax COMMAND [OPTIONS]     (hardmax COMMAND --help tells more)",
            "",
            *lines,
            "",
            "example: hardmax train --data sample --categories 20 --epochs 10 --out runs/first",
        ]
    )


def _fail(message: str, code: int = 2) -> int:
    print(f"hardmax: error: {' '.join(message.split())}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
