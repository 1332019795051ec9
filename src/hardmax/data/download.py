"""Download files: checksums are verified, interrupted downloads resume, incomplete files have another name."""

import hashlib
import http.client
import logging
import os
import re
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

# progress(file name, bytes received, total bytes or None if the server does not report them)
Progress = Callable[[str, int, int | None], None]

_CHUNK = 1 << 18
_TIMEOUT = 30.0  # seconds without a byte
_ATTEMPTS = 3  # per address, as long as each receives some bytes
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
    """Download a file into a folder, unless it exists there.

    Received bytes are kept in `<name>.part` until the file is complete and its md5 matches; then it is renamed. A later
    call resumes from the part.

    Args:
        file: the file to download.
        folder: created if missing.
        progress: called with the file's name, the number of bytes received and the total number.

    Returns:
        The file's path.

    Raises:
        DataError: the file could not be downloaded from any address, or cannot be written.
    """
    target = folder / file.name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _open_locked(folder / f"{file.name}.part") as stream:
            if not target.exists():  # another process may have been faster
                _download_missing(file, stream, target, progress)
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
        with open(part, "ab", opener=_open_without_following) as stream:
            if fcntl is not None:
                with suppress(OSError):  # file systems without locks
                    fcntl.flock(stream, fcntl.LOCK_EX)
            if not _is_open_at(stream, part):  # renamed or removed by the process that held the lock
                continue
            try:
                yield stream
            finally:
                if not stream.closed and _is_open_at(stream, part) and not _get_size(stream):
                    part.unlink()
            return


def _open_without_following(path: str, flags: int) -> int:
    """Open a file whose name can be guessed, but not through a symbolic link that someone else put there."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)


def _is_open_at(stream: BinaryIO, path: Path) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(stream.fileno()), path.stat())
    return False


def _get_size(stream: BinaryIO) -> int:
    return os.fstat(stream.fileno()).st_size


def _download_missing(file: RemoteFile, stream: BinaryIO, target: Path, progress: Progress | None) -> None:
    """Try the addresses in order until the file is complete."""
    part = Path(stream.name)
    problems: list[str] = []
    for url in file.urls:
        for _ in range(_ATTEMPTS):
            before = _get_size(stream)
            try:
                _receive(url, file.name, stream, progress)
            except _NETWORK as error:
                if isinstance(error, urllib.error.HTTPError):
                    error.close()
                    if error.code == 416 and before:  # the part is longer than the file: start over
                        stream.truncate(0)
                        continue
                problems.append(f"{urlsplit(url).netloc}: {_describe_error(error)}")
                if _get_size(stream) > before:
                    continue
                break
            if (received := compute_md5(part)) == file.md5:
                if fcntl is None:
                    stream.close()  # Windows cannot rename an open file; elsewhere it stays locked until it is renamed
                part.replace(target)
                return
            stream.truncate(0)
            problems.append(
                f"{urlsplit(url).netloc}: the received file is not the published one (md5 {received}, expected "
                f"{file.md5}) and was removed"
            )
            break
    kept = (
        f"; {_get_size(stream):,} bytes are kept in {part}, the next try goes on from there"
        if _get_size(stream)
        else ""
    )
    raise DataError(
        f"could not download {file.name} ({'; '.join(dict.fromkeys(problems))}); "
        f"try again, or put the file into {target.parent} yourself{kept}"
    )


def _receive(url: str, name: str, stream: BinaryIO, progress: Progress | None) -> None:
    """Append the missing bytes, or download all again if the server does not support ranges."""
    received = _get_size(stream)
    headers = {"User-Agent": "hardmax"} | ({"Range": f"bytes={received}-"} if received else {})
    _log.info("downloading %s%s", url, f" from byte {received:,}" if received else "")
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=_TIMEOUT) as response:
        if response.status != http.HTTPStatus.PARTIAL_CONTENT:
            stream.truncate(0)
            received = 0
        length = response.headers.get("Content-Length", "")
        total = received + int(length) if re.fullmatch("[0-9]{1,18}", length) else None
        try:
            while chunk := response.read(_CHUNK):
                stream.write(chunk)
                received += len(chunk)
                if progress is not None:
                    progress(name, received, total)
        finally:
            stream.flush()
    if total is not None and received < total:
        raise ConnectionError(f"the connection broke off after {received:,} of {total:,} bytes")


def _describe_error(error: Exception) -> str:
    reason = getattr(error, "reason", error) if not isinstance(error, urllib.error.HTTPError) else error
    if isinstance(reason, OSError) and reason.strerror:
        return reason.strerror
    return " ".join(str(reason).split()) or type(reason).__name__
