"""The state of a page in its address: a link restores what one sees.

A state is a frozen dataclass whose fields have defaults; it is read and checked by the parser of the command line.
"""

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar
from urllib.parse import urlencode

from hardmax.applications.argument_parser import describe_options, parse_values
from hardmax.errors import ArgumentError

T = TypeVar("T")
_LONGEST = 20_000  # characters of an address


def read_state(kind: type[T], query: Mapping[str, str]) -> T:
    """Return the state that the query of an address describes; names that the state does not have are ignored.

    Raises:
        ArgumentError: a value has the wrong type, or the dataclass refuses it.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True)
        ... class State:
        ...     scores: tuple[float, ...] = (0.0, 0.0)
        ...     exact: bool = True
        >>> read_state(State, {"scores": "1,-2.5", "exact": "false", "utm": "x"})
        State(scores=(1.0, -2.5), exact=False)
        >>> write_state(State(exact=False))
        'exact=false'
    """
    words: list[str] = []
    empty: dict[str, tuple[()]] = {}  # the command line has no empty tuples
    for option in describe_options(kind):
        value = query.get(option.field)
        if value is None:
            continue
        if option.type is bool:
            if value not in ("true", "false"):
                raise ArgumentError(f"{option.field} must be true or false, got {value[:80]!r}")
            words.append(option.name if value == "true" else f"--no-{option.name[2:]}")
        elif option.several and not value:
            empty[option.field] = ()
        elif option.several:
            first, *rest = value.split(",")
            words += [f"{option.name}={first}", *rest]
        else:
            words.append(f"{option.name}={value}")
    return kind(**parse_values(kind, "studio", words), **empty)


def write_state(state: Any) -> str:
    """Return the query of the address that restores a state: the fields whose default would change it."""
    values = {}
    for field in fields(state):
        value = getattr(state, field.name)
        if not _is_default(state, field.name, field.default):
            values[field.name] = ",".join(map(_format, value)) if isinstance(value, tuple) else _format(value)
    query = urlencode(values, safe=",")
    return query if len(query) <= _LONGEST else ""


def _is_default(state: Any, name: str, default: object) -> bool:
    """Whether a state is the same with the default of a field; the dataclass may compute its value from the others."""
    try:
        return getattr(state, name) == default or replace(state, **{name: default}) == state
    except ArgumentError:
        return False


def _format(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def make_address_script(query: str) -> str:
    """Return the JavaScript that puts a query into the address of the page, without loading it again."""
    return f"history.replaceState(history.state, '', location.pathname + {json.dumps('?' + query if query else '')})"
