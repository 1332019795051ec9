"""The text that `--help` prints for a dataclass of options. Imports no torch.

The docstring of the dataclass is the description, the docstring of a field the help of its option. A dataclass may
sort its options into groups with a class variable `groups`, by name of the group; subclasses list only the fields that
they add.
"""

import ast
import inspect
import shutil
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from itertools import pairwise
from typing import Any

GROUPS = ("arguments", "data", "model", "estimator", "loss", "optimisation", "run", "options")
"""The groups, in the order in which the help prints them."""

_TYPES = {str: "TEXT", int: "INTEGER", float: "NUMBER"}
# what the help prints in place of a value where the type would say little; a run has one model, so no list of choices
_METAVARS = {"data": "DATA", "data_dir": "FOLDER", "device": "DEVICE", "model": "NAME", "out": "PATH"}
_COLUMN = 26  # width of the column of options
_MOST, _LEAST = 100, 60  # limits of the width of the text


@dataclass(frozen=True)
class Option:
    """A field of a dataclass of options, as the command line sees it.

    Attributes:
        field: name of the field.
        type: type of one value: str, int, float or bool.
        choices: the values of a `Literal`; empty if any value of the type is valid.
        nullable: whether None is a valid value.
        several: whether it takes several values.
        positional: whether it is identified by its position.
        required: whether it has no default.
        metavar: what the help prints in place of a value; empty: the choices, or else the type.
        help: its help; empty: the docstring of the field.
    """

    field: str
    type: type
    choices: tuple[str, ...]
    nullable: bool
    several: bool
    positional: bool
    required: bool
    metavar: str = ""
    help: str = ""

    @property
    def name(self) -> str:
        """Its name on the command line: --batch-size, or RUN."""
        return self.field.upper() if self.positional else f"--{self.field.replace('_', '-')}"

    @property
    def usage(self) -> str:
        """How it is written: `--batch-size INTEGER`, `--[no-]resume`, `RUN [RUN ...]`."""
        if self.type is bool:
            return f"--[no-]{self.name[2:]}"
        choices = f"{{{','.join(self.choices)}}}" if len(self.choices) > 1 else ""
        word = self.metavar or choices or _METAVARS.get(self.field, _TYPES[self.type])
        words = f"{word} [{word} ...]" if self.several else word
        if self.positional:
            return words if self.required else f"[{word} ...]" if self.several else f"[{word}]"
        return f"{self.name} {words}"


def format_help(kind: type, command: str, options: Sequence[Option], about: str = "") -> str:
    """Return the help of a command: usage, description, and the options by group.

    Args:
        kind: the dataclass.
        command: name of the command as typed, such as `hardmax train`.
        options: the options of the dataclass.
        about: text after the docstring of the dataclass.
    """
    width = min(max(shutil.get_terminal_size().columns, _LEAST), _MOST)
    arguments = "".join(f" {option.usage}" for option in options if option.positional)
    blocks = [f"usage: {command}{arguments} [OPTIONS]", _fill_paragraphs(inspect.getdoc(kind) or "", width), about]
    texts, defaults, groups = read_field_docs(kind), {field.name: field for field in fields(kind)}, assign_groups(kind)
    for group in GROUPS:
        members = [option for option in options if find_group(option, groups) == group]
        lines = [
            _format_option(option, option.help or texts[option.field], defaults[option.field], width)
            for option in members
        ]
        if group == GROUPS[-1]:
            lines.append(_format_entry("-h, --help", "Show this help and exit.", width))
        blocks.append("\n".join([f"{group}:", *lines]) if lines else "")
    return "\n\n".join(filter(None, blocks))


def assign_groups(kind: type) -> dict[str, str]:
    """Return the group of each field that the dataclass or one of its base classes lists in `groups`."""
    return {
        field: group
        for base in reversed(kind.__mro__)
        for group, names in vars(base).get("groups", {}).items()
        for field in names
    }


def find_group(option: Option, groups: dict[str, str]) -> str:
    """Return the group of an option; those of no group are arguments or, with a `--name`, options."""
    return groups.get(option.field, "arguments" if option.positional else "options")


def read_field_docs(kind: type) -> dict[str, str]:
    """Return the docstring below each field of a dataclass, its base classes included."""
    texts = {field.name: "" for field in fields(kind)}
    for base in reversed(kind.__mro__[:-1]):
        try:
            definition = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
        except (OSError, TypeError):  # a class without source, such as one that make_dataclass made
            continue
        texts |= dict(_read_docs(getattr(definition, "body", [])))
    return texts


def _read_docs(statements: Sequence[ast.stmt]) -> Iterable[tuple[str, str]]:
    for statement, following in pairwise(statements):
        match statement, following:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                yield name, " ".join(text.split())
            case _:
                pass


def _fill_paragraphs(text: str, width: int) -> str:
    """Return a text with its paragraphs wrapped; lists and examples keep their lines."""
    return "\n\n".join(
        part if "\n " in part or part.startswith("Example") else textwrap.fill(part, width, break_on_hyphens=False)
        for part in text.split("\n\n")
    )


def _format_option(option: Option, text: str, field: "Field[Any]", width: int) -> str:
    """Return the lines of one option: how it is written, its help, and its default."""
    if option.required:
        text = f"{text} (required)" if not option.positional else text
    elif field.default is True:
        text = f"{text} (default: on)"
    elif field.default not in (MISSING, None, (), "") and field.default is not False:
        text = f"{text} (default: {field.default})"
    return _format_entry(option.usage, text.strip(), width)


def _format_entry(usage: str, text: str, width: int) -> str:
    """Return the usage at the left and the text at the right, below it where the usage is too long."""
    texts = textwrap.wrap(text, width - _COLUMN, break_on_hyphens=False)
    if len(usage) <= _COLUMN - 4:
        lines = [f"  {usage}".ljust(_COLUMN) + (texts.pop(0) if texts else "")]
    else:  # choices are separated by commas without spaces: break the line after a comma
        spaced = textwrap.wrap(usage.replace(",", ", "), width - 4, subsequent_indent=" " * 4, break_on_hyphens=False)
        lines = [f"  {line}".replace(", ", ",") for line in spaced]
    return "\n".join(line.rstrip() for line in [*lines, *(" " * _COLUMN + line for line in texts)])
