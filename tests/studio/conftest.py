"""A running studio, and a browser to look at it with.

`studio` is the address of a studio without folders; `start_studio(*arguments)` starts another one, with folders or
options. `open_page(address)` opens a page and returns playwright's `Page`; when the test ends, the page must have made
no request to another host, logged no error, and shown no traceback. Tests are skipped where no browser is installed.
"""

import os
import re
import subprocess
import sys
import warnings
from dataclasses import dataclass

import pytest
from browser import BROWSER

_SWITCHES = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")
_SECONDS = 60


@dataclass
class RunningStudio:
    """A studio in a process of its own."""

    address: str
    process: subprocess.Popen

    def end(self):
        self.process.terminate()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


def launch_studio(*arguments, folder=None, script=None):
    """Start `hardmax studio` with a free port, or a script that does so, and wait until it prints its address."""
    command = [sys.executable, "-m", "hardmax.cli.main", "studio", *map(str, arguments), "--port", "0", "--no-open"]
    command = command if script is None else [sys.executable, str(script)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=folder)
    line = process.stdout.readline()
    match = re.search(r"http://\S+", line)
    if match is None:
        process.kill()
        raise RuntimeError(f"hardmax studio printed no address: {line}{process.stdout.read()}")
    return RunningStudio(match[0], process)


@pytest.fixture(scope="session")
def start_studio():
    """A function that starts a studio, which ends with the tests; its arguments are those of the command."""
    running = []

    def start(*arguments, **options):
        running.append(launch_studio(*arguments, **options))
        return running[-1]

    yield start
    for one in running:
        one.end()


@pytest.fixture(scope="session")
def studio(start_studio):
    """The address of a studio without folders, such as http://127.0.0.1:43215/."""
    return start_studio().address


@pytest.fixture(scope="session")
def browser():
    """Debian's chromium, driven by playwright."""
    if BROWSER is None:
        pytest.skip("needs chromium, chromium-browser or google-chrome")
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install 'hardmax[dev]'")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=BROWSER, args=list(_SWITCHES))
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser):
    """A function that opens an address in a new window; see the module docstring."""
    contexts, problems, pages = [], [], []

    def open_address(address, *, width=1280, height=900, dark=False):
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
        )
        contexts.append(context)
        host = re.match(r"http://[^/]+", address)[0]
        page = context.new_page()
        pages.append(page)
        page.set_default_timeout(_SECONDS * 1000)
        page.on("pageerror", lambda error: problems.append(f"error: {error}"))
        page.on("console", lambda line: problems.append(line.text) if line.type == "error" else None)
        page.on("request", lambda request: _check_request(request.url, host, problems))
        page.goto(address)
        page.locator("main h1").wait_for()
        page.wait_for_function("window.did_handshake")  # the page is connected: events reach the server
        return page

    yield open_address
    for page in pages:
        if not page.is_closed() and "Traceback (most recent call last)" in page.content():
            problems.append("a traceback in the page")
    with warnings.catch_warnings(action="ignore", category=ResourceWarning):  # sockets of chromium
        for context in contexts:
            context.close()
    assert problems == []


def _check_request(url, host, problems):
    if not url.startswith((host + "/", host.replace("http", "ws") + "/", "data:", "blob:", "about:")):
        problems.append(f"a request to another host: {url}")
