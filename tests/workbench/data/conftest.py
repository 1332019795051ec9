"""Data tests see neither the user's folders nor the network: a cache of their own, and a server on this machine."""

import hashlib
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from hardmax.data.datasets import SETS
from hardmax.data.download import RemoteFile

PUBLISHED = os.environ.get("HARDMAX_DATA")  # before `cache` takes it away


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
    """Serves files, well or badly.

    Attributes:
        files: path (without the slash) -> content.
        ranges: whether it understands Range.
        drop: after how many bytes of a body it hangs up, one number per request to come; then it behaves.
        log: of each request: path, and the header Range or None.
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
        name, asked = request.path.removeprefix("/"), request.headers.get("Range")
        self.log.append((name, asked))
        body = self.files.get(name)
        if body is None:
            return request.send_error(404)
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked and self.ranges else None
        if start is not None and start >= len(body):
            return request.send_error(416)
        request.send_response(200 if start is None else 206)
        request.send_header("Content-Length", str(len(body) - (start or 0)))
        request.end_headers()
        request.wfile.write(body[start or 0 :][: self.drop.pop(0) if self.drop else None])

    def offer(self, name, body, *, published=None, mirrors=()):
        """Serve a body; the returned file expects what is published (by default, the same)."""
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
