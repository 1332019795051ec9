"""Mutations of bytes: bits, lengths, ranges, and splices; and of JSON: its values and its structure."""

import json
import struct
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

_NUMBERS = (
    0,
    1,
    2,
    3,
    7,
    8,
    255,
    256,
    2**15,
    2**16 - 1,
    2**24,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**40,
    2**63 - 1,
    2**64 - 1,
)
_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 65_535, 10**8, 2**31, 2**63, 10**30, 1e308, -0.5, float("nan"), float("inf"), "",
    "x", "\x00", "../../x", "\ud800", "cpu", [], {}, [[]], [None], {"": None}, [1, 2, 3],
)  # fmt: skip
_WORDS = (
    b"",
    b"\x00",
    b"\n",
    b",",
    b'"',
    b"\xff\xfe",
    b"\r\n",
    b"-1",
    b"9" * 30,
    b"nan",
    b"\xc3\x28",
    b"\x1b[2J",
    b"=1+1",
)


def mutate_bytes(content: bytes, chance: Random, others: Sequence[bytes]) -> bytes:
    """Return the content after one to three random mutations; `others` are further contents to splice with."""
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        content = chance.choice(_MUTATIONS)(bytearray(content), chance, others)
    return content


def _flip_bits(content: bytearray, chance: Random, others: Sequence[bytes]) -> bytes:
    for _ in range(chance.choice((1, 1, 2, 8, 64))):
        if content:
            content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    return bytes(content)


def _flip_early_bit(content: bytearray, chance: Random, others: Sequence[bytes]) -> bytes:
    """Flip bits near the begin, where headers are."""
    if content:
        content[chance.randrange(min(len(content), 400))] ^= 1 << chance.randrange(8)
    return bytes(content)


def _truncate(content: bytearray, chance: Random, others: Sequence[bytes]) -> bytes:
    return bytes(content[: chance.randrange(len(content) + 1)])


def _insert(content: bytearray, chance: Random, others: Sequence[bytes]) -> bytes:
    place = chance.randrange(len(content) + 1)
    return bytes(
        content[:place] + chance.choice((*_WORDS, chance.randbytes(chance.randrange(1, 40)))) + content[place:]
    )


def _remove(content: bytearray, chance: Random, others: Sequence[bytes]) -> bytes:
    begin = chance.randrange(len(content) + 1)
    return bytes(content[:begin] + content[begin + chance.choice((1, 2, 4, 16, 200)) :])


def _repeat(content: bytearray, chance: Random, others: Sequence[bytes]) -> bytes:
    begin = chance.randrange(len(content) + 1)
    part = content[begin : begin + chance.choice((1, 8, 100))]
    return bytes(content[:begin] + part * chance.choice((2, 3, 50)) + content[begin:])


def _set_length(content: bytearray, chance: Random, others: Sequence[bytes]) -> bytes:
    """Overwrite two, four or eight bytes by a number that is a limit of something."""
    size, code = chance.choice(((2, "H"), (4, "I"), (8, "Q")))
    if len(content) >= size:
        place = chance.randrange(min(len(content) - size + 1, 2000))
        number = chance.choice(_NUMBERS) % 2 ** (8 * size)
        content[place : place + size] = struct.pack(chance.choice("<>") + code, number)
    return bytes(content)


def _splice(content: bytearray, chance: Random, others: Sequence[bytes]) -> bytes:
    other = chance.choice([*others, bytes(content)])
    return bytes(content[: chance.randrange(len(content) + 1)]) + other[chance.randrange(len(other) + 1) :]


def _replace_digits(content: bytearray, chance: Random, others: Sequence[bytes]) -> bytes:
    """Replace a number in the text by another one."""
    places = [place for place, byte in enumerate(content[:4000]) if 48 <= byte < 58]
    if not places:
        return _flip_bits(content, chance, others)
    begin = end = chance.choice(places)
    while end < len(content) and 48 <= content[end] < 58:
        end += 1
    return bytes(content[:begin] + str(chance.choice((*_NUMBERS, -1, 10**30))).encode() + content[end:])


_Mutation = Callable[[bytearray, Random, Sequence[bytes]], bytes]
_MUTATIONS: tuple[_Mutation, ...] = (
    _flip_bits, _flip_early_bit, _truncate, _insert, _remove, _repeat, _set_length, _splice, _replace_digits,
)  # fmt: skip


def mutate_json(content: bytes, chance: Random) -> bytes:
    """Return a JSON document, or one line of a file of rows, with a changed value, key or structure."""
    lines = content.splitlines(keepends=True)
    if len(lines) > 1 and all(line.startswith(b"{") and line.rstrip().endswith(b"}") for line in lines):
        number = chance.randrange(len(lines))
        lines[number] = _change_json(lines[number], chance) + b"\n"
        return b"".join(lines)
    return _change_json(content, chance)


def _change_json(text: bytes, chance: Random) -> bytes:
    value = json.loads(text)
    places = _list_places(value)
    if not places or chance.random() < 0.02:
        return json.dumps(chance.choice((*_VALUES, [value], {"a": value}))).encode()
    holder, key = chance.choice(places)
    action = chance.randrange(8)
    if action == 0 and isinstance(holder, dict):
        del holder[key]
    elif action == 1 and isinstance(holder, dict):
        holder[chance.choice(("", "x", "model", "\ud800", key + "x"))] = holder.pop(key)
    elif action == 2 and isinstance(holder, list):
        holder += [holder[key]] * chance.choice((1, 5, 300))
    elif action == 3:
        for _ in range(chance.choice((1, 70, 5000))):
            holder[key] = [holder[key]] if chance.random() < 0.5 else {"a": holder[key]}
        return _dump_nested(value)
    elif action == 4 and isinstance(holder[key], int | float) and not isinstance(holder[key], bool):
        holder[key] = chance.choice((-1, 2, 0.5, 10, 1e6, 2**40)) * holder[key] + chance.choice((0, 1, -1))
    elif action == 5:
        return (
            text.replace(json.dumps(key).encode(), b'"x": 1, ' + json.dumps(key).encode(), 1)
            if isinstance(key, str)
            else text
        )
    else:
        holder[key] = chance.choice(_VALUES)
    return json.dumps(value, indent=chance.choice((None, 2))).encode()


def _list_places(value: Any) -> list[tuple[Any, Any]]:
    """Return all containers of parsed JSON, each with each of its keys or indices."""
    places, rest = [], [value]
    while rest:
        holder = rest.pop()
        if isinstance(holder, dict | list):
            keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
            places += [(holder, key) for key in keys]
            rest += [holder[key] for key in keys]
    return places


def _dump_nested(value: Any) -> bytes:
    """Return JSON of a value that may be nested too deeply for Python's own writer."""
    try:
        return json.dumps(value).encode()
    except RecursionError:
        return b'{"a": ' * 5000 + b"1" + b"}" * 5000
