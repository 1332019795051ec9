"""The server of the studio: NiceGUI's pages behind the checks of `hardmax.studio.access`."""

import errno
import os
import secrets
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable

from hardmax.errors import ArgumentError, HardmaxError, MissingExtraError
from hardmax.names import escape_control_characters
from hardmax.studio.access import AccessGuard, AccessRules, is_loopback
from hardmax.studio.folders import Folders
from hardmax.studio.registry import PAGES, PageRecord

# A document runs no scripts, loads nothing, and is of another origin than the pages, whatever a run's files contain.
_DOCUMENT_POLICY = "sandbox; default-src 'none'; img-src data:; style-src 'unsafe-inline'"
_LARGEST_MESSAGE = 4 * 2**20  # bytes of a message from a page
_HISTORY = 100  # messages kept for a page that reconnects; a figure of the gradient lab has tens of kilobytes


def open_socket(host: str, port: int) -> socket.socket:
    """Return a socket that is bound to an address; port 0 chooses a free one.

    Raises:
        ArgumentError: the address is in use, or is none of this machine.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        server = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ArgumentError(f"--host {host} is not an address: {error.strerror or error}") from error
    try:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(address)
    except OSError as error:
        server.close()
        hint = "is another studio running? pass another --port, or --port 0 for any that is free"
        reason = hint if error.errno == errno.EADDRINUSE else "pass an address of this machine as --host"
        raise ArgumentError(f"cannot listen on {host} port {port}: {error.strerror}; {reason}") from error
    return server


def serve(folders: Folders, host: str, port: int, *, open_browser: bool, say: Callable[[str], None]) -> None:
    """Serve the pages until the process is interrupted.

    Args:
        folders: the folders that pages may read.
        host: the host to listen on. Other machines can connect unless it is a loopback address; then every request must
            carry a token, which is in the address that is printed.
        port: the port; 0 chooses a free one.
        open_browser: open the first page in the user's browser.
        say: gets the line with the address, once the server accepts connections.

    Raises:
        ArgumentError: the address cannot be used.
        MissingExtraError: NiceGUI is not installed.
    """
    try:
        import nicegui  # noqa: F401
        import uvicorn
    except ImportError as error:
        raise MissingExtraError("hardmax studio needs NiceGUI: pip install 'hardmax[studio]'") from error
    with open_socket(host, port) as server_socket:
        server_socket.listen()  # the address is announced before uvicorn accepts connections: they wait
        port = server_socket.getsockname()[1]
        token = None if is_loopback(host) else secrets.token_urlsafe(24)
        rules = AccessRules(host, port, token)
        name = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(host, host)
        address = f"http://{f'[{name}]' if ':' in name else name}:{port}/" + (f"?token={token}" if token else "")

        def announce() -> None:
            say(f"hardmax studio: {address}   (Ctrl+C ends it)")
            threading.Thread(target=_load_pages, daemon=True).start()
            if open_browser and _has_display():
                webbrowser.open(address)

        config = uvicorn.Config(
            AccessGuard(make_application(folders, announce), rules),
            log_level="warning",
            server_header=False,
            ws_max_size=_LARGEST_MESSAGE,
            timeout_graceful_shutdown=2,
        )
        uvicorn.Server(config).run(sockets=[server_socket])


def make_application(folders: Folders, announce: Callable[[], None] = lambda: None):
    """Return the ASGI application with all pages, without the checks of access.

    Args:
        folders: the folders that pages may read.
        announce: called when the application has started.
    """
    from fastapi import FastAPI, Request
    from fastapi.responses import HTMLResponse, PlainTextResponse, Response
    from nicegui import app, run, ui

    from hardmax.studio.frame import STATIC, STATIC_ADDRESS, Studio, describe_error, show_home, show_page, show_problem

    studio = Studio(folders)

    def add_page(record: PageRecord) -> None:
        @ui.page(record.path, title=f"{record.title} · hardmax studio", response_timeout=60)
        async def build(request: Request) -> None:
            await show_page(record, studio, dict(request.query_params))

    def add_document(record: PageRecord) -> None:
        @app.get(f"{record.path}/document")
        async def send_document(request: Request) -> Response:
            try:
                document = await run.io_bound(record.load_document(), studio, dict(request.query_params))
            except HardmaxError as error:
                return PlainTextResponse(escape_control_characters(str(error)), 404)
            return HTMLResponse(document, headers={"content-security-policy": _DOCUMENT_POLICY})

    @ui.page("/")
    def build_home() -> None:
        show_home(studio)

    for record in PAGES:
        add_page(record)
        if record.document:
            add_document(record)
    app.add_static_files(STATIC_ADDRESS, STATIC)
    app.on_page_exception(lambda error: show_problem(describe_error(error)))
    app.on_startup(announce)
    application = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    ui.run_with(
        application,
        title="hardmax studio",
        dark=None,
        language="en-US",
        tailwind=False,
        show_welcome_message=False,
        binding_refresh_interval=None,
        message_history_length=_HISTORY,
        favicon=STATIC / "icon.svg",
    )
    return application


def _load_pages() -> None:
    """Import the pages, and torch with them, so that the first visitor does not wait for it."""
    for record in PAGES:
        record.load()


def _has_display() -> bool:
    # Without a display, Python may start a browser of text in this terminal.
    return sys.platform != "linux" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
