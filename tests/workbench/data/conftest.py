"""Fixtures of the data tests, which use neither the user's folders nor the network: a cache, and a local server."""

import hashlib
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from hardmax.data.datasets import SETS
from hardmax.data.download import RemoteFile

PUBLISHED = os.environ.get("HARDMAX_DATA")  # read before `cache` unsets it


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.delenv("HARDMAX_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "hardmax"


@pytest.fixture
def published():
    """Return the folder of the sets that can be downloaded, for tests marked data."""
    if not PUBLISHED:
        pytest.skip("HARDMAX_DATA is not set: it names the folder with the published data sets")
    for name in (name for name, entry in SETS.items() if entry.files):
        if not (Path(PUBLISHED) / name).is_dir():
            pytest.skip(f"HARDMAX_DATA has no folder {name}")
    return Path(PUBLISHED)


@pytest.fixture
def real_faces():
    """Return the folder that has the set faces, for tests marked data: it is never downloaded."""
    if not PUBLISHED or not (Path(PUBLISHED) / "faces").is_dir():
        pytest.skip("HARDMAX_DATA names no folder that has a folder faces, which cannot be downloaded")
    return Path(PUBLISHED)


class Server:
    """A web server whose faults can be chosen.

    Attributes:
        files: path (without the slash) -> content.
        ranges: whether it supports the header Range.
        drop: numbers of bytes after which the next requests break off; later requests are served completely.
        log: for each request its path, and the header Range or None.
    """

    def __init__(self):
        self.files, self.ranges, self.drop, self.log = {}, True, [], []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                server.answer(self)

            def log_message(self, *_):
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}/"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,))
        self._thread.start()

    def answer(self, request):
        name, requested = request.path.removeprefix("/"), request.headers.get("Range")
        self.log.append((name, requested))
        body = self.files.get(name)
        if body is None:
            return request.send_error(404)
        start = int(requested.removeprefix("bytes=").removesuffix("-")) if requested and self.ranges else None
        if start is not None and start >= len(body):
            return request.send_error(416)
        request.send_response(200 if start is None else 206)
        request.send_header("Content-Length", str(len(body) - (start or 0)))
        request.end_headers()
        request.wfile.write(body[start or 0 :][: self.drop.pop(0) if self.drop else None])

    def offer(self, name, body, *, published=None, mirrors=()):
        """Serve a body; return a file with the md5 of `published`, by default of the same body."""
        self.files[name] = body
        md5 = hashlib.md5(body if published is None else published).hexdigest()
        return RemoteFile(name, md5, (*mirrors, self.url + name))

    def close(self):
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


@pytest.fixture
def server():
    server = Server()
    yield server
    server.close()
