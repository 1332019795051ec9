"""The entry point `hardmax COMMAND ...`: runs a command and prints errors as one line. Imports no torch."""

import sys
from difflib import get_close_matches
from importlib import import_module

from hardmax.applications.registry import GROUPS as APPLICATION_GROUPS
from hardmax.applications.registry import CommandGroup, list_commands
from hardmax.console import print_line
from hardmax.errors import ArgumentError, HardmaxError

# By name (two words for a command of a group): its function(arguments) -> exit code, as "module:name" in this folder,
# and one line of help. Commands that belong to one application are in its record.
COMMANDS = {
    "demo": ("demo:run", "train a small model with four estimators and compare them; takes a minute"),
    "train": (
        "train:run",
        "train a model: VAEs with discrete latents, completion, tokens, codes, sequences, decisions",
    ),
    "evaluate": ("evaluate:evaluate", "evaluate a trained model and print its metrics"),
    "sample": ("evaluate:sample", "draw images or sequences from a trained model"),
    "report": ("report:run", "write an HTML page about one or several runs"),
    "reproduce": ("reproduce:run", "reproduce a table or figure of the paper, with rows, pages and figures"),
    "data list": ("data:list_sets", "list the data sets with their licences and locations"),
    "data get": ("data:get_sets", "download data sets from their publishers"),
    "data check": ("data:check_sets", "verify the files of data sets, or that your own images can be loaded"),
    "studio": ("studio:run", "open pages in the browser that show estimators, runs and models"),
    "doctor": ("doctor:run", "show what is installed, what is missing and how to install it"),
}
GROUPS = APPLICATION_GROUPS | {
    "data": CommandGroup(
        "list, download and check data sets",
        "List, download and check data sets.",
        """examples:
  hardmax data list
  hardmax data get mnist omniglot
  hardmax data check mnist
  hardmax data check path/to/my/images""",
    )
}
_HELP = ("-h", "--help", "help")


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return its exit code: 0, 1 if a check failed, 2 for invalid input."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if not arguments or arguments[0] in _HELP:
        print(_usage())
        return 0 if arguments else 2
    if arguments[0] in ("-V", "--version"):
        from hardmax import __version__

        print(f"hardmax {__version__}")
        return 0
    try:
        return _run(arguments)
    except HardmaxError as error:
        return _fail(str(error))
    except KeyboardInterrupt:
        return _fail("interrupted", code=130)
    except BrokenPipeError:  # the reader closed the pipe, as `head` does
        sys.stderr.close()
        return 0
    except OSError as error:  # a name that is too long, a folder that may not be entered: nothing knew more about it
        if error.strerror is None:
            raise
        return _fail(f"{error.strerror}: {error.filename}" if error.filename else error.strerror)


def _run(arguments: list[str]) -> int:
    """Run a command of this folder or of an application; the name of a command in a group is two words."""
    name, *rest = arguments
    if name in GROUPS:
        if not rest or rest[0] in _HELP:
            print(_group_usage(name))
            return 0 if rest else 2
        name, rest = f"{name} {rest[0]}", rest[1:]
    if name in COMMANDS:
        module, function = COMMANDS[name][0].split(":")
        return getattr(import_module(f"hardmax.cli.{module}"), function)(rest)
    if name in list_commands():
        return _run_application(name, rest)
    group, _, last = name.rpartition(" ")
    known = _list_group_lines(group) or _list_lines()
    near = get_close_matches(last, known)
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are: {', '.join(known)}"
    raise ArgumentError(f"no command {name!r}; {hint}")


def _run_application(name: str, arguments: list[str]) -> int:
    """Run a command of one application: parse its options, then call its function with them."""
    from hardmax.applications.argument_parser import parse
    from hardmax.applications.command_line import check_model

    application, command = list_commands()[name]
    options = parse(application.load(command.options), name, arguments)
    if command.run:
        check_model(name, getattr(options, command.run), [application.name])
    return application.load(command.function)(options) or 0


def _list_all_lines() -> dict[str, str]:
    """Return the line of help of every command, by full name."""
    shared = {name: line for name, (_, line) in COMMANDS.items()}
    return shared | {name: command.help for name, (_, command) in list_commands().items()}


def _list_lines() -> dict[str, str]:
    """Return the line of help of every first word of a command line: a command, or a group."""
    return {
        name.split()[0]: GROUPS[name.split()[0]].help if " " in name else line
        for name, line in _list_all_lines().items()
    }


def _list_group_lines(group: str) -> dict[str, str]:
    """Return the line of help of every command of a group, by its second word."""
    start = f"{group} "
    return {name.removeprefix(start): line for name, line in _list_all_lines().items() if name.startswith(start)}


def _group_usage(group: str) -> str:
    lines = _list_group_lines(group)
    return (
        f"usage: hardmax {group} {'|'.join(lines)} [OPTIONS]     (hardmax {group} {next(iter(lines))} --help "
        f"for details)\n\n{GROUPS[group].about}\n\n{_table(lines)}\n\n{GROUPS[group].examples}"
    )


def _table(lines: dict[str, str]) -> str:
    width = max(map(len, lines))
    return "\n".join(f"  {name:<{width}}  {text}" for name, text in lines.items())


def _usage() -> str:
    return "\n".join(
        [
            "hardmax: learning through the arg max",
            "",
            "usage: hardmax COMMAND [OPTIONS]     (hardmax COMMAND --help for details)",
            "",
            _table(_list_lines()),
            "",
            "example: hardmax train --data sample --categories 20 --epochs 10 --out runs/first",
        ]
    )


def _fail(message: str, code: int = 2) -> int:
    print_line(f"hardmax: error: {' '.join(message.split())}", error=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
