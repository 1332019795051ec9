"""Reads the arguments of a command into a dataclass of options. Imports no torch.

Each field is an option: its name and type define how it is written, and its docstring is its help. tyro prints the
help. The arguments are parsed here, not by tyro, so that each error is one line that states what is wrong, what was
received, what was expected and what to do: tyro prints its errors in a frame and exits the program, also when the
dataclass itself rejects a value.
"""

import inspect
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, fields
from difflib import get_close_matches
from itertools import takewhile
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import tyro

from hardmax.errors import ArgumentError

T = TypeVar("T")
_TYPES = {str: "a text", int: "a whole number", float: "a number", bool: ""}


def parse(kind: type[T], command: str, arguments: list[str], about: str = "") -> T:
    """Return the dataclass that the arguments describe; `--help` prints the help and exits the program.

    Options are written `--name value` or `--name=value`, booleans `--name` or `--no-name`; `--batch_size` is read as
    `--batch-size`; if an option is given twice, the last value counts; words after `--` are not options.

    Args:
        kind: a dataclass; its fields are of type str, int, float, bool or `Literal`, also with `| None` (the word None
            is then a value), or tuples of any length of these; those marked `tyro.conf.Positional` have no `--name`.
        command: name of the command, as typed.
        arguments: the words after it.
        about: text of its help after the docstring of the dataclass.

    Raises:
        ArgumentError: an unknown option or an invalid value; or raised by the dataclass itself.
    """
    before = [*takewhile(lambda word: word != "--", arguments)]
    if "--help" in before or "-h" in before:
        text = "\n\n".join(filter(None, (inspect.getdoc(kind), about)))
        tyro.cli(kind, prog=f"hardmax {command}", description=text, args=["--help"])
    return kind(**_Reader(kind, f"hardmax {command}").read(arguments))


@dataclass(frozen=True)
class _Option:
    """A field of a dataclass of options.

    Attributes:
        field: name of the field.
        type: type of one value: str, int, float or bool.
        choices: the values of a `Literal`; empty if any value of the type is valid.
        nullable: whether None is a valid value.
        several: whether it takes several values.
        positional: whether it is identified by its position.
        required: whether it has no default.
    """

    field: str
    type: type
    choices: tuple[str, ...]
    nullable: bool
    several: bool
    positional: bool
    required: bool

    @property
    def name(self) -> str:
        """Its name on the command line: --batch-size, or RUN."""
        return self.field.upper() if self.positional else f"--{self.field.replace('_', '-')}"

    @property
    def expected(self) -> str:
        """A description of its valid values."""
        words = f"one of {', '.join(self.choices)}" if len(self.choices) > 1 else "".join(self.choices)
        return f"{words or _TYPES[self.type]}{' or None' if self.nullable else ''}"

    def convert(self, word: str) -> Any:
        """Return the value of a word.

        Raises:
            ArgumentError: the word is not a valid value.
        """
        if self.nullable and word == "None":
            return None
        if word in self.choices:
            return word
        if not self.choices:
            try:
                return self.type(word)
            except ValueError:
                pass
        near = get_close_matches(word, self.choices, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ArgumentError(f"{self.name} must be {self.expected}, got {word!r}{hint}")


def _describe(kind: type) -> list[_Option]:
    """Return the options of a dataclass."""
    hints = get_type_hints(kind, include_extras=True)
    return [_describe_field(field, hints[field.name]) for field in fields(kind)]


def _describe_field(field: Any, hint: Any) -> _Option:
    """Return the option of a field.

    Raises:
        TypeError: its type is not supported.
    """
    positional = get_origin(hint) is Annotated and tyro.conf.Positional in hint.__metadata__
    inner = get_args(hint)[0] if get_origin(hint) is Annotated else hint
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
    return _Option(field.name, plain, choices, nullable, several, positional, required)


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
        options = _describe(kind)
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
                self._read_option(word, words, self._missing(places))
            else:
                places.append(word)
        self._read_positional(places)
        for name, option in self._named.items():
            if option.required and option.field not in self._values:
                raise ArgumentError(f"{self._command} needs {name}, {option.expected}; {self._help}")
        return self._values

    @property
    def _help(self) -> str:
        return f"see {self._command} --help"

    def _near_flag(self, word: str) -> str:
        """Return a hint about a word that may have been meant as an option."""
        near = get_close_matches(word.lstrip("-"), [flag[2:] for flag in self._flags], n=1)
        return f"; did you mean --{near[0]}?" if near else f"; {self._help}"

    def _missing(self, places: Sequence[str]) -> int:
        """Return the number of positional arguments that are still needed."""
        return max(sum(option.required for option in self._positional) - len(places), 0)

    def _read_option(self, word: str, words: list[str], needed: int) -> None:
        """Read an option, and remove its values from the words that follow it."""
        name, attached, value = word.partition("=")
        name = f"--{name[2:].replace('_', '-')}" if name.startswith("--") else name
        if name not in self._flags:
            raise ArgumentError(f"{self._command} has no option {name}{self._near_flag(name)}")
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
            raise ArgumentError(f"{name} needs a value: {option.expected}{dash}")
        values = tuple(option.convert(one) for one in texts)
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
                values = tuple(option.convert(one) for one in texts)
                self._values[option.field] = values if option.several else values[0]
        if places:
            allowed = " ".join(option.name for option in self._positional) or "options"
            hint = self._near_flag(places[0])
            raise ArgumentError(f"{self._command} takes {allowed} alone, got {places[0]!r} too{hint}")
