"""Count the operations that change files in this process, and interrupt one of them: by a kill, or a full disk."""

import builtins
import errno
import io
import os
from collections.abc import Callable
from random import Random
from typing import Any

_CHANGING = ("replace", "rename", "unlink", "remove", "mkdir", "rmdir", "fsync", "truncate", "ftruncate")
_GROWING = ("mkdir", "fsync", "open")  # operations that fail on a full disk

# Called before an operation, with its number from 1, its name and its first argument.
Act = Callable[[int, str, Any], None]


def watch_operations(act: Act) -> None:
    """Call a function before every operation that changes a file, from now on until the process ends."""
    count = 0

    def before(name: str, argument: Any) -> None:
        nonlocal count
        count += 1
        act(count, name, argument)

    def wrap(name: str) -> None:
        real = getattr(os, name)

        def operation(argument: Any, *arguments: Any, **options: Any) -> Any:
            before(name, argument)
            return real(argument, *arguments, **options)

        setattr(os, name, operation)

    real_open, real_os_open = io.open, os.open

    def open_file(file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        if not set(mode) & set("wax+"):
            return real_open(file, mode, *arguments, **options)
        before("open", file)
        opened = real_open(file, mode, *arguments, **options)
        before("write", file)  # after the file was emptied, before anything is in it
        return opened

    def open_descriptor(path: Any, flags: int, *arguments: Any, **options: Any) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR):
            before("open", path)
        return real_os_open(path, flags, *arguments, **options)

    for name in _CHANGING:
        wrap(name)
    builtins.open = io.open = open_file
    os.open = open_descriptor


def kill_at(number: int, *, torn: Random | None = None) -> Act:
    """Return an act that ends the process before an operation, at once, as a kill does.

    Args:
        number: the operation.
        torn: if it is a flush to the disk, only a random part of what was written reaches it.
    """

    def act(count: int, name: str, argument: Any) -> None:
        if count >= number:
            if torn is not None and name == "fsync":
                size = os.fstat(argument).st_size
                if size and os.lseek(argument, 0, os.SEEK_CUR) == size:  # not a file that was complete before
                    _tear(argument, size, torn)
            os._exit(137)

    return act


def _tear(descriptor: int, size: int, chance: Random) -> None:
    """Remove a part of the last line, or of a file without lines: those before it were flushed earlier."""
    with os.fdopen(os.dup(descriptor), "rb", closefd=True) as file:
        try:
            file.seek(0)
            content = file.read()
        except OSError:  # open for writing only
            content = b""
    begin = content.rstrip(b"\n").rfind(b"\n") + 1
    os.truncate(descriptor, begin + chance.randrange(size - begin + 1))


def fill_disk_at(number: int) -> Act:
    """Return an act that makes every operation that needs space fail from a number on, as on a full disk."""

    def act(count: int, name: str, argument: Any) -> None:
        if count >= number and name in _GROWING:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(argument))

    return act
