"""Who may ask the studio: checks of Host, Origin, token and size of every request, before any page sees it.

A page of another site can send requests to this machine from the user's browser (cross-site WebSockets, DNS rebinding).
Therefore requests need a Host header that names this server, and an Origin header, if there is one, of the same host.
Imports neither torch nor NiceGUI.
"""

import hmac
import ipaddress
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Any, final
from urllib.parse import parse_qsl, urlencode, urlsplit

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

LARGEST_BODY = 32 * 2**20  # bytes of a request: an image, or a scan that is not compressed
_YEAR = 365 * 24 * 3600
# The pages load nothing from other hosts, and no other site can show them in a frame. NiceGUI evaluates scripts.
_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'self'"
)
_HEADERS = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to a server on this host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@dataclass(frozen=True)
class AccessRules:
    """What a request needs.

    Attributes:
        host: the host that the server listens on.
        port: its port.
        token: the token that requests must carry; None if only this machine can connect.
    """

    host: str
    port: int
    token: str | None = None

    def allows_host(self, header: str) -> bool:
        """Whether a Host header names this server.

        A name of another domain means DNS rebinding. A server on all interfaces has many addresses: any number is
        accepted, since a number is never resolved by a foreign name server, but of names only this machine's own.
        """
        host, port = _split_host(header)
        if port != self.port:
            return False
        if is_loopback(host):
            return True
        if self.token is None:
            return False
        try:
            ipaddress.ip_address(host)
        except ValueError:
            return host in {self.host.lower(), socket.gethostname().lower(), socket.getfqdn().lower()}
        return True

    def allows_token(self, token: str) -> bool:
        """Whether a token is the right one; the time it takes does not depend on where they differ."""
        return self.token is None or hmac.compare_digest(token.encode(), self.token.encode())

    @property
    def cookie(self) -> str:
        """Name of the cookie with the token; cookies are shared by all ports of a host."""
        return f"hardmax-studio-{self.port}"


def _split_host(header: str) -> tuple[str, int | None]:
    """Return the host of a Host header, in lower case, and its port."""
    try:
        parts = urlsplit(f"http://{header}")
        return (parts.hostname or "").lower(), parts.port or 80
    except ValueError:
        return "", None


@final
class AccessGuard:
    """An ASGI application that passes only allowed requests on.

    Args:
        app: the application that is protected.
        rules: what requests need.
        largest_body: maximum number of bytes in the body of a request.
    """

    def __init__(self, app: Application, rules: AccessRules, largest_body: int = LARGEST_BODY) -> None:
        self.app = app
        self._rules = rules
        self._largest_body = largest_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it with a status and one sentence."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        refusal = self._find_refusal(scope, headers)
        if refusal is not None:
            await _refuse(scope, receive, send, *refusal)
        elif scope["type"] == "http" and "token" in (query := _read_query(scope)) and self._rules.token is not None:
            await self._redirect(scope, query, send)
        elif scope["type"] == "http":
            await self.app(scope, self._limit(receive), _add_headers(send))
        else:
            await self.app(scope, receive, send)

    def _find_refusal(self, scope: Scope, headers: dict[str, str]) -> tuple[int, str] | None:
        """Return the status and the reason if a request is not allowed."""
        host, origin = headers.get("host", ""), headers.get("origin")
        if not self._rules.allows_host(host):
            return 421, f"this server is not {host[:200]!r}; use the address that hardmax studio printed"
        if origin is not None and not _is_same_host(origin, host):
            return 403, "requests from pages of other sites are refused"
        if not self._rules.allows_token(self._read_token(scope, headers)):
            return 403, "the token is missing or wrong; use the complete address that hardmax studio printed"
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > self._largest_body:
            return 413, f"a request has at most {self._largest_body:,} bytes"
        return None

    def _read_token(self, scope: Scope, headers: dict[str, str]) -> str:
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(self._rules.cookie)
        except CookieError:
            cookie = None
        return _read_query(scope).get("token") or (cookie.value if cookie else "")

    async def _redirect(self, scope: Scope, query: dict[str, str], send: Send) -> None:
        """Move the token from the address into a cookie, so that it stays out of bookmarks and copied links."""
        rest = urlencode({name: value for name, value in query.items() if name != "token"})
        path = "/" + scope["path"].lstrip("/")  # "//host" would lead to another site
        location = urlsplit(path)._replace(query=rest).geturl() if rest else path
        cookie = f"{self._rules.cookie}={self._rules.token}; Path=/; HttpOnly; SameSite=Lax; Max-Age={_YEAR}"
        headers = [(b"location", location.encode()), (b"set-cookie", cookie.encode()), (b"content-length", b"0")]
        await send({"type": "http.response.start", "status": 303, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    def _limit(self, receive: Receive) -> Receive:
        """Return a `receive` that ends the request if its body, of unknown length, exceeds the limit."""
        size = 0

        async def receive_limited() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            return {"type": "http.disconnect"} if size > self._largest_body else message

        return receive_limited


def _is_same_host(origin: str, host: str) -> bool:
    try:
        return urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:
        return False


def _read_query(scope: Scope) -> dict[str, str]:
    return dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))


def _add_headers(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *_HEADERS]
        await send(message)

    return send_with_headers


async def _refuse(scope: Scope, receive: Receive, send: Send, status: int, reason: str) -> None:
    """Answer with a status and a sentence; a WebSocket is closed before it is accepted."""
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1008, "reason": reason[:120]})
        return
    body = f"hardmax studio: {reason}\n".encode()
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),  # a body that is too long is not read
    ]
    await send({"type": "http.response.start", "status": status, "headers": [*headers, *_HEADERS]})
    await send({"type": "http.response.body", "body": body})
