"""Who may ask the studio: every request that is refused, against a running server."""

import http.client
import json
import re
import socket
import urllib.parse

import pytest

from hardmax.errors import ArgumentError
from hardmax.studio.access import AccessGuard, AccessRules, is_loopback
from hardmax.studio.server import open_socket


@pytest.fixture(scope="module")
def public(start_studio):
    """A studio that other machines can reach, and its token."""
    address = urllib.parse.urlsplit(start_studio("--host", "0.0.0.0").address)
    return address.port, dict(urllib.parse.parse_qsl(address.query))["token"]


def ask(port, path="/", *, method="GET", body=None, **headers):
    """Return status, headers and text of a request; header names are written with underscores."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, body, headers)
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return response.status, dict(response.getheaders()), text


def open_websocket(port, *, host=None, origin=None, cookie=None, client="none"):
    """Return the status of the handshake of a WebSocket, as a browser sends it."""
    lines = [
        f"GET /_nicegui_ws/socket.io/?EIO=4&transport=websocket&client_id={client} HTTP/1.1",
        f"Host: {host or f'127.0.0.1:{port}'}",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    ]
    lines += [f"Origin: {origin}"] if origin is not None else []
    lines += [f"Cookie: {cookie}"] if cookie is not None else []
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        return int(connection.recv(4096).split()[1])


def get_port(address):
    return urllib.parse.urlsplit(address).port


@pytest.mark.parametrize(
    "path", ["/", "/gradient", "/static/studio.css", "/_nicegui_ws/socket.io/?EIO=4&transport=polling"]
)
@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{}", "127.0.0.1.evil.example:{}", "127.0.0.1:1", "", "192.168.0.7:{}"]
)
def test_a_foreign_host_is_refused(studio, path, host):
    status, _, text = ask(get_port(studio), path, Host=host.format(get_port(studio)))
    assert status == 421
    assert text.startswith("hardmax studio: this server is not")
    assert len(text.splitlines()) == 1


@pytest.mark.parametrize("host", ["127.0.0.1:{}", "localhost:{}", "LOCALHOST:{}", "[::1]:{}"])
def test_names_of_this_machine_are_allowed(studio, host):
    port = get_port(studio)
    assert ask(port, Host=host.format(port))[0] == 200
    origin = f"http://{host.format(port)}".lower()
    assert open_websocket(port, host=host.format(port), origin=origin) == 101


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "https://evil.example:{}",
        "null",
        "http://127.0.0.1:1",
        "file://",
        "http://127.0.0.1:{}.evil.example",
        "http://[",
        "",
    ],
)
def test_a_foreign_origin_is_refused(studio, origin):
    port = get_port(studio)
    origin = origin.format(port)
    assert ask(port, Origin=origin)[0] == 403
    assert ask(port, "/gradient", method="POST", body="x", Origin=origin)[0] == 403
    assert open_websocket(port, origin=origin) == 403


def test_a_foreign_host_is_refused_for_websockets(studio):
    port = get_port(studio)
    assert open_websocket(port, host=f"evil.example:{port}", origin=f"http://evil.example:{port}") == 403
    assert open_websocket(port, origin=f"http://127.0.0.1:{port}") == 101


def test_a_public_studio_demands_its_token(public):
    port, token = public
    assert len(token) >= 32
    for path in ("/", "/gradient", "/static/studio.css", f"/?token={token[:-1]}", "/?token=", "/?token=é"):
        status, _, text = ask(port, urllib.parse.quote(path, safe="/?="))
        assert status == 403
        assert "token" in text
        assert token not in text
    assert open_websocket(port) == 403
    assert open_websocket(port, cookie=f"hardmax-studio-{port}={token[:-1]}") == 403
    status, headers, _ = ask(port, f"/gradient?token={token}&size=3")
    assert status == 303
    assert headers["location"] == "/gradient?size=3"  # the token is no longer in the address
    assert re.search("HttpOnly; SameSite=Lax", headers["set-cookie"])
    cookie = headers["set-cookie"].split(";")[0]
    assert ask(port, "/gradient", Cookie=cookie)[0] == 200
    assert open_websocket(port, cookie=cookie, origin=f"http://127.0.0.1:{port}") == 101
    assert open_websocket(port, cookie=cookie, origin="http://evil.example") == 403


def test_a_redirect_stays_on_this_server(public):
    port, token = public
    _, headers, _ = ask(port, f"//evil.example/?token={token}")
    assert headers["location"].startswith("/evil.example")


def test_a_public_studio_knows_its_names(public):
    port, token = public
    for host, status in ((socket.gethostname(), 303), ("192.168.0.7", 303), ("evil.example", 421)):
        assert ask(port, f"/?token={token}", Host=f"{host}:{port}")[0] == status


@pytest.mark.parametrize(
    "path",
    [
        "/static/../server.py",
        "/static/..%2fserver.py",
        "/static/%2e%2e/server.py",
        "/static//etc/passwd",
        "/static/..%5cserver.py",
        "/static/....//server.py",
        "/_nicegui/auto/static/../../../../../../etc/passwd",
        "/../../../../../../etc/passwd",
    ],
)
def test_static_files_do_not_lead_out_of_their_folder(studio, path):
    status, _, text = ask(get_port(studio), path)
    assert status in (400, 404)
    assert "root:" not in text
    assert "def serve" not in text


def test_an_upload_of_a_gigabyte_is_refused_before_it_is_read(studio):
    port = get_port(studio)
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(
            f"POST /gradient HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: {2**30}\r\n\r\n".encode()
        )
        assert b" 413 " in connection.recv(4096)
    assert ask(port)[0] == 200


def test_an_upload_of_unknown_length_is_cut_at_the_limit():
    """A body in chunks has no Content-Length: the application sees the connection end at the limit."""
    received = []

    async def read_all(scope, receive, send):
        while (message := await receive())["type"] == "http.request":
            received.append(len(message["body"]))
        received.append(message["type"])

    async def receive():
        assert len(received) < 10
        return {"type": "http.request", "body": bytes(2**20), "more_body": True}

    async def send(message):
        raise AssertionError(message)

    guard = AccessGuard(read_all, AccessRules("127.0.0.1", 80), largest_body=5 * 2**20)
    scope = {"type": "http", "path": "/", "query_string": b"", "headers": [(b"host", b"127.0.0.1:80")]}
    call = guard(scope, receive, send)
    with pytest.raises(StopIteration):  # it never waits: a step runs it to its end
        call.send(None)
    assert received == [2**20] * 5 + ["http.disconnect"]


@pytest.mark.parametrize("length", ["-1", "1e9", "99999999999999999999999", "x"])
def test_a_content_length_that_is_no_number_is_refused(studio, length):
    assert ask(get_port(studio), method="POST", Content_Length=length)[0] in (400, 413)


def test_answers_forbid_foreign_content(studio):
    _, headers, text = ask(get_port(studio), "/gradient")
    policy = headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'self'" in policy
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert not re.findall(r"(?:src|href)=\"(?:https?:)?//", text)


def test_there_is_no_page_of_the_interface(studio):
    for path in ("/docs", "/redoc", "/openapi.json"):
        assert ask(get_port(studio), path)[0] == 404


def test_a_broken_page_shows_a_sentence(studio):
    status, _, text = ask(get_port(studio), "/gradient?space=moon")
    assert status == 200
    assert "must be one of" in json.dumps(text)
    assert "Traceback" not in text


@pytest.mark.parametrize(
    ("host", "is_own"),
    [("127.0.0.1", True), ("localhost", True), ("::1", True), ("0.0.0.0", False), ("example.org", False)],
)
def test_loopback_needs_no_token(host, is_own):
    assert is_loopback(host) == is_own


def test_an_ipv6_host_is_compared_without_brackets():
    assert AccessRules("::1", 80).allows_host("[::1]")
    assert not AccessRules("::1", 80).allows_host("[::1]:81")
    assert not AccessRules("::1", 80).allows_host("[::2]")


def test_a_port_in_use_is_an_error_that_names_the_option():
    with open_socket("127.0.0.1", 0) as used:
        used.listen()
        with pytest.raises(ArgumentError, match="pass another --port"):
            open_socket("127.0.0.1", used.getsockname()[1])
    with pytest.raises(ArgumentError, match="--host"):
        open_socket("no such host", 0)
    with pytest.raises(ArgumentError, match="--host"):
        open_socket("192.0.2.1", 0)
