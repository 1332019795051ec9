"""Reads the arguments of a command into a dataclass of options. Imports no torch.

Each field is an option: its name and type define how it is written, and its docstring is its help. Each error is one
line that states what is wrong, what was received, what was expected and what to do.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from difflib import get_close_matches
from itertools import takewhile
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from hardmax.applications.option_help import Option, format_help
from hardmax.errors import ArgumentError

T = TypeVar("T")
_TYPES = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}


def parse(kind: type[T], command: str, arguments: list[str], about: str = "") -> T:
    """Return the dataclass that the arguments describe; `--help` prints the help and exits the program.

    Options are written `--name value` or `--name=value`, booleans `--name` or `--no-name`; `--batch_size` is read as
    `--batch-size`; if an option is given twice, the last value counts; words after `--` are not options.

    Args:
        kind: a dataclass; its fields are of type str, int, float, bool or `Literal`, also with `| None` (the word None
            is then a value), or tuples of any length of these; those marked with `Argument` have no `--name`.
        command: name of the command, as typed.
        arguments: the words after it.
        about: text of its help after the docstring of the dataclass.

    Raises:
        ArgumentError: an unknown option or an invalid value; or raised by the dataclass itself.
    """
    return kind(**parse_values(kind, command, arguments, about))


def parse_values(kind: type, command: str, arguments: list[str], about: str = "") -> dict[str, Any]:
    """Return the values that the arguments give, by the names of the fields; see `parse`.

    Raises:
        ArgumentError: an unknown option or an invalid value.
    """
    before = [*takewhile(lambda word: word != "--", arguments)]
    if "--help" in before or "-h" in before:
        print(format_help(kind, f"hardmax {command}", describe_options(kind), about))
        sys.exit(0)
    return _Reader(kind, f"hardmax {command}").read(arguments)


def check_values(kind: type, values: Mapping[str, Any]) -> None:
    """Check the values of the fields of a dataclass that were read from a file; missing and unknown names are ignored.

    Raises:
        ArgumentError: a value has the wrong type, or is not one of the choices.
    """
    for option in describe_options(kind):
        if option.field in values and not _is_valid(option, value := values[option.field]):
            raise ArgumentError(f"{option.field} must be {_describe_values(option)}, got {str(value)[:80]!r}")


def _is_valid(option: Option, value: object) -> bool:
    """Whether a field may have a value that was read from a file; a whole number is also a number."""
    if value is None:
        return option.nullable
    if option.several:
        return isinstance(value, list | tuple) and all(_is_valid(replace(option, several=False), one) for one in value)
    if option.choices:
        return value in option.choices
    types = (int, float) if option.type is float else option.type
    return isinstance(value, types) and isinstance(value, bool) == (option.type is bool)


@dataclass(frozen=True)
class Argument:
    """Marks a field as an argument that is identified by its position: `Annotated[str, Argument("RUN")]`.

    Attributes:
        metavar: name of one value in the help.
        help: the help, for a text that a docstring cannot compute.
    """

    metavar: str
    help: str = ""


@dataclass(frozen=True)
class Metavar:
    """Names one value of an option in the help: `Annotated[tuple[str, ...], Metavar("FILE")]`."""

    name: str


def describe_options(kind: type) -> list[Option]:
    """Return the options of a dataclass."""
    hints = get_type_hints(kind, include_extras=True)
    return [_describe_field(field, hints[field.name]) for field in fields(kind)]


def _describe_values(option: Option) -> str:
    """Return a description of the valid values of an option."""
    words = f"one of {', '.join(option.choices)}" if len(option.choices) > 1 else "".join(option.choices)
    return f"{words or _TYPES[option.type]}{' or None' if option.nullable else ''}"


def _convert(option: Option, word: str) -> Any:
    """Return the value of a word.

    Raises:
        ArgumentError: the word is not a valid value.
    """
    if option.nullable and word == "None":
        return None
    if word in option.choices:
        return word
    if not option.choices:
        try:
            return option.type(word)
        except ValueError:
            pass
    near = get_close_matches(word, option.choices, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise ArgumentError(f"{option.name} must be {_describe_values(option)}, got {word!r}{hint}")


def _describe_field(field: Any, hint: Any) -> Option:
    """Return the option of a field.

    Raises:
        TypeError: its type is not supported.
    """
    inner, *marks = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    positional = any(isinstance(mark, Argument) for mark in marks)
    metavar, text = next(((mark.metavar, mark.help) for mark in marks if isinstance(mark, Argument)), ("", ""))
    metavar = next((mark.name for mark in marks if isinstance(mark, Metavar)), metavar)
    several = get_origin(inner) is tuple and get_args(inner)[1:] == (...,)
    inner = get_args(inner)[0] if several else inner
    nullable = get_origin(inner) in (Union, UnionType) and NoneType in get_args(inner)
    if nullable:
        inner, *others = (one for one in get_args(inner) if one is not NoneType)
        inner = hint if others else inner
    choices = get_args(inner) if get_origin(inner) is Literal else ()
    plain = str if choices else inner
    if plain not in _TYPES:
        raise TypeError(f"the option {field.name} is of type {hint}, which the command line cannot read")
    required = field.default is MISSING and field.default_factory is MISSING
    return Option(field.name, plain, choices, nullable, several, positional, required, metavar, text)


def _is_option(word: str) -> bool:
    """Whether a word is the name of an option, with or without a value; negative numbers and a single dash are not."""
    name = word.partition("=")[0]
    number = name[:1] == "-" and name[1:].lower() in ("inf", "infinity", "nan")
    return word.startswith("-") and name.lstrip("-")[:1].isalpha() and not number


class _Reader:
    """Reads the arguments of one command.

    Args:
        kind: dataclass of its options.
        command: name of the command as typed, for error messages.
    """

    def __init__(self, kind: type, command: str) -> None:
        self._command = command
        options = describe_options(kind)
        self._positional = [option for option in options if option.positional]
        self._named = {option.name: option for option in options if not option.positional}
        # Each flag as typed, with its option and, for booleans, its value.
        self._flags = {name: (option, True) for name, option in self._named.items()}
        for name, option in self._named.items():
            if option.type is bool:
                self._flags[f"--no-{name[2:]}"] = (option, False)
        self._values: dict[str, Any] = {}

    def read(self, arguments: Sequence[str]) -> dict[str, Any]:
        """Return the values of the fields that are given.

        Raises:
            ArgumentError: an option is unknown or missing, or a value is invalid.
        """
        words, places = [*arguments], []
        while words:
            word = words.pop(0)
            if word == "--":
                places += words
                break
            if _is_option(word):
                self._read_option(word, words, self._count_missing(places))
            else:
                places.append(word)
        self._read_positional(places)
        for name, option in self._named.items():
            if option.required and option.field not in self._values:
                raise ArgumentError(f"{self._command} needs {name}, {_describe_values(option)}; {self._help}")
        return self._values

    @property
    def _help(self) -> str:
        return f"see {self._command} --help"

    def _suggest_flag(self, word: str) -> str:
        """Return a hint about a word that may have been meant as an option."""
        near = get_close_matches(word.lstrip("-"), [flag[2:] for flag in self._flags], n=1)
        return f"; did you mean --{near[0]}?" if near else f"; {self._help}"

    def _count_missing(self, places: Sequence[str]) -> int:
        """Return the number of positional arguments that are still needed."""
        return max(sum(option.required for option in self._positional) - len(places), 0)

    def _read_option(self, word: str, words: list[str], needed: int) -> None:
        """Read an option, and remove its values from the words that follow it."""
        name, attached, value = word.partition("=")
        name = f"--{name[2:].replace('_', '-')}" if name.startswith("--") else name
        if name not in self._flags:
            raise ArgumentError(f"{self._command} has no option {name}{self._suggest_flag(name)}")
        option, switch = self._flags[name]
        if option.type is bool:
            if attached:
                raise ArgumentError(f"{name} takes no value, got {value!r}; write {name} alone")
            self._values[option.field] = switch
            return
        following = [*takewhile(lambda one: one != "--" and not _is_option(one), words)]
        if option.several:
            if len(following) == len(words):  # the last of these are positional arguments, if any are missing
                following = following[: max(len(following) - needed, 0 if attached else 1)]
        else:
            following = [] if attached else following[:1]
        del words[: len(following)]
        texts = [value, *following] if attached else following
        if not texts:
            dash = f"; {words[0]} is an option: if it is the value, write {name}={words[0]}" if words else ""
            raise ArgumentError(f"{name} needs a value: {_describe_values(option)}{dash}")
        values = tuple(_convert(option, one) for one in texts)
        self._values[option.field] = values if option.several else values[0]

    def _read_positional(self, places: list[str]) -> None:
        """Read the positional arguments."""
        for number, option in enumerate(self._positional):
            later = sum(one.required for one in self._positional[number + 1 :])
            texts = places[: max(len(places) - later, 0) if option.several else 1]
            del places[: len(texts)]
            if not texts and option.required:
                several = " (one or more)" if option.several else ""
                raise ArgumentError(f"{self._command} needs {option.name}{several}; {self._help}")
            if texts:
                values = tuple(_convert(option, one) for one in texts)
                self._values[option.field] = values if option.several else values[0]
        if places:
            allowed = " ".join(option.name for option in self._positional) or "options"
            hint = self._suggest_flag(places[0])
            raise ArgumentError(f"{self._command} takes {allowed} alone, got {places[0]!r} too{hint}")
