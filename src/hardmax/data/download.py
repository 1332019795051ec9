"""Downloads that are verified, resume after an interruption, and never leave half a file under its real name."""

import hashlib
import http.client
import logging
import os
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

from hardmax.errors import DataError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

# progress(file name, bytes received, total bytes or None where the server does not report them)
Progress = Callable[[str, int, int | None], None]

_CHUNK = 1 << 18
_TIMEOUT = 30.0  # seconds without a byte
_ATTEMPTS = 3  # per address, as long as each receives something
_NETWORK = (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError, ssl.SSLError)
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RemoteFile:
    """A published file.

    Attributes:
        name: name of the file.
        md5: md5 of its bytes, in hexadecimal digits.
        urls: addresses to download it from, the best first.
    """

    name: str
    md5: str
    urls: tuple[str, ...]


def download(file: RemoteFile, folder: Path, progress: Progress | None = None) -> Path:
    """Download a file into a folder, unless it exists.

    The received bytes are kept as `<name>.part` until the file is complete and its md5 matches; then it is renamed. A
    later call resumes from the part.

    Args:
        file: the file to download.
        folder: created if missing.
        progress: called with the file's name, the number of bytes received and the total number.

    Returns:
        The file's path.

    Raises:
        DataError: no address gave the right file, or it cannot be written.
    """
    target = folder / file.name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _open_locked(folder / f"{file.name}.part") as stream:
            if not target.exists():  # another process may have been faster
                _complete(file, stream, target, progress)
    except OSError as error:
        raise DataError(f"cannot write {target}: {error.strerror or error}; choose another folder") from error
    return target


def compute_md5(path: Path) -> str:
    """Return a file's md5 in hexadecimal digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


@contextmanager
def _open_locked(part: Path) -> Iterator[BinaryIO]:
    """Open a part for appending, locked against other processes that load the same data; remove an empty one."""
    while True:
        with part.open("ab") as stream:
            if fcntl is not None:
                with suppress(OSError):  # file systems without locks
                    fcntl.flock(stream, fcntl.LOCK_EX)
            if not _is_open_at(stream, part):  # renamed or removed by the process that held the lock
                continue
            try:
                yield stream
            finally:
                if not stream.closed and _is_open_at(stream, part) and not _size(stream):
                    part.unlink()
            return


def _is_open_at(stream: BinaryIO, path: Path) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(stream.fileno()), path.stat())
    return False


def _size(stream: BinaryIO) -> int:
    return os.fstat(stream.fileno()).st_size


def _complete(file: RemoteFile, stream: BinaryIO, target: Path, progress: Progress | None) -> None:
    """Try the addresses in order until the file is complete."""
    part = Path(stream.name)
    problems: list[str] = []
    for url in file.urls:
        for _ in range(_ATTEMPTS):
            before = _size(stream)
            try:
                _receive(url, file.name, stream, progress)
            except _NETWORK as error:
                if isinstance(error, urllib.error.HTTPError):
                    error.close()
                    if error.code == 416 and before:  # the part is longer than the file: start over
                        stream.truncate(0)
                        continue
                problems.append(f"{urlsplit(url).netloc}: {_reason(error)}")
                if _size(stream) > before:
                    continue
                break
            if (received := compute_md5(part)) == file.md5:
                if fcntl is None:
                    stream.close()  # Windows renames no open file; elsewhere it stays locked until it is renamed
                part.replace(target)
                return
            stream.truncate(0)
            problems.append(
                f"{urlsplit(url).netloc}: what came is not the published file (md5 {received}, expected {file.md5}) "
                "and was removed"
            )
            break
    kept = f"; {_size(stream):,} bytes are kept in {part}, the next try goes on from there" if _size(stream) else ""
    raise DataError(
        f"could not download {file.name} ({'; '.join(dict.fromkeys(problems))}); "
        f"try again, or put the file into {target.parent} yourself{kept}"
    )


def _receive(url: str, name: str, stream: BinaryIO, progress: Progress | None) -> None:
    """Append the missing bytes, or download all again if the server does not support ranges."""
    here = _size(stream)
    headers = {"User-Agent": "hardmax"} | ({"Range": f"bytes={here}-"} if here else {})
    _log.info("downloading %s%s", url, f" from byte {here:,}" if here else "")
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=_TIMEOUT) as response:
        if response.status != http.HTTPStatus.PARTIAL_CONTENT:
            stream.truncate(0)
            here = 0
        length = response.headers.get("Content-Length")
        total = None if length is None else here + int(length)
        try:
            while chunk := response.read(_CHUNK):
                stream.write(chunk)
                here += len(chunk)
                if progress is not None:
                    progress(name, here, total)
        finally:
            stream.flush()
    if total is not None and here < total:
        raise ConnectionError(f"the connection broke off after {here:,} of {total:,} bytes")


def _reason(error: Exception) -> str:
    reason = getattr(error, "reason", error) if not isinstance(error, urllib.error.HTTPError) else error
    if isinstance(reason, OSError) and reason.strerror:
        return reason.strerror
    return " ".join(str(reason).split()) or type(reason).__name__
