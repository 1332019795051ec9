"""`hardmax COMMAND ...`: finds the command and turns errors into one line. Imports no torch."""

import sys
from difflib import get_close_matches
from importlib import import_module

from hardmax.applications.registry import GROUPS, application_commands
from hardmax.errors import ArgumentError, HardmaxError

# name: one line of help. Each is a module beside this one, with a function run(arguments) -> exit code; commands that
# belong to one application are in its record.
COMMANDS = {
    "demo": "train four estimators on the embedded pictures and compare them, in a minute",
    "train": "train a model: VAEs with discrete latents, completion, tokens, codes, sequences",
    "evaluate": "say how good a trained model is",
    "sample": "draw pictures, or sequences, from a trained model",
    "report": "write one HTML page about one or several runs",
    "reproduce": "make a table or figure of the paper again",
    "data": "list, fetch and check data sets",
    "doctor": "say what is installed, what is missing and how to get it",
}
_HELP = ("-h", "--help", "help")


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return its exit code: 0, 1 where something was found wrong, 2 for bad input."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if not arguments or arguments[0] in _HELP:
        print(_usage())
        return 0 if arguments else 2
    if arguments[0] in ("-V", "--version"):
        from hardmax import __version__

        print(f"hardmax {__version__}")
        return 0
    try:
        return _run(*arguments)
    except HardmaxError as error:
        return _fail(str(error))
    except KeyboardInterrupt:
        return _fail("interrupted", code=130)
    except BrokenPipeError:  # the reader has seen enough, as `head` has
        sys.stderr.close()
        return 0


def _run(name: str, *rest: str) -> int:
    """Run a command of this folder, of an application, or one of a group of these."""
    if name in COMMANDS:
        return import_module(f"hardmax.cli.{name}").run(list(rest))
    if name in GROUPS:
        return _run_in_group(name, *rest)
    if name in application_commands():
        return _run_of_application(name, list(rest))
    known = _help_lines()
    near = get_close_matches(name, known)
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are: {', '.join(known)}"
    raise ArgumentError(f"no command {name!r}; {hint}")


def _run_in_group(group: str, name: str = "", *rest: str) -> int:
    """Run a command of two words."""
    commands = {
        full.removeprefix(f"{group} "): command.help
        for full, (_, command) in application_commands().items()
        if full.startswith(f"{group} ")
    }
    if not name or name in _HELP:
        print(
            f"usage: hardmax {group} {'|'.join(commands)} [OPTIONS]     (hardmax {group} {next(iter(commands))} --help "
            f"tells more)\n\n{GROUPS[group].about}\n\n{_table(commands)}\n\n{GROUPS[group].examples}"
        )
        return 0 if name else 2
    if name not in commands:
        raise ArgumentError(f"no command '{group} {name}'; there are: {', '.join(commands)}")
    return _run_of_application(f"{group} {name}", list(rest))


def _run_of_application(name: str, arguments: list[str]) -> int:
    """Run a command that one application has: its options are parsed, then its function is called with them."""
    from hardmax.applications.command_line import check_model, parse

    application, command = application_commands()[name]
    options = parse(application.load(command.options), name, arguments)
    if command.run:
        check_model(name, getattr(options, command.run), [application.name])
    return application.load(command.function)(options) or 0


def _help_lines() -> dict[str, str]:
    """Return all commands with their line of help; a group is one of them."""
    own = {
        name.split()[0]: GROUPS[name.split()[0]].help if " " in name else command.help
        for name, (_, command) in application_commands().items()
    }
    return COMMANDS | own


def _table(lines: dict[str, str]) -> str:
    width = max(map(len, lines))
    return "\n".join(f"  {name:<{width}}  {text}" for name, text in lines.items())


def _usage() -> str:
    return "\n".join(
        [
            "hardmax: learning through the arg max",
            "",
            "usage: hardmax COMMAND [OPTIONS]     (hardmax COMMAND --help tells more)",
            "",
            _table(_help_lines()),
            "",
            "example: hardmax train --data sample --categories 20 --epochs 10 --out runs/first",
        ]
    )


def _fail(message: str, code: int = 2) -> int:
    print(f"hardmax: error: {' '.join(message.split())}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
