"""Look at a page as a browser does: what hostile names became in it."""

import shutil
import subprocess
from html.parser import HTMLParser

import pytest

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_browser = pytest.mark.skipif(BROWSER is None, reason="needs chromium, chromium-browser or google-chrome")

# Names that would change a page if they were read as anything but text. A name of a file has no slash.
NAMES = (
    '"><img src=x onerror=alert(1)>',
    "'><svg onload=alert(1)>",
    r"\1\g<0>\g<1>",
    "{{ 7*7 }}{% raw %}${7*7}",
    "&lt;b&gt;",
    "--><!--]]>",
    "$\\frac$ [red] :heart:",
)
TEXTS = (*NAMES, '"><script>alert(1)</script>', "</style><script>alert(1)</script>", "</title><b>")
HOSTILE_NAME = "".join(name.replace("/", "") for name in NAMES)

_TAGS = {
    "html", "head", "meta", "title", "style", "body", "header", "nav", "main", "section", "div", "span", "a", "p", "h1",
    "h2", "h3", "h4", "ul", "li", "dl", "dt", "dd", "table", "caption", "thead", "tbody", "tfoot", "tr", "th", "td",
    "small", "strong", "em", "b", "br", "code", "pre", "details", "summary", "figure", "figcaption", "img",
    "svg", "g", "defs", "path", "use", "text", "tspan", "image", "clippath", "rect", "lineargradient", "stop",
}  # fmt: skip


class _Page(HTMLParser):
    """Collects the text of a page, and what a hostile name could have added to it."""

    def __init__(self, page):
        super().__init__()
        self.text, self.values, self.problems, self.policy = "", [], [], ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.problems += [] if tag in _TAGS else [f"<{tag}>"]
        for name, value in attributes:
            value = value or ""
            self.values.append(value)
            if name.startswith("on") or not name.replace("-", "").replace(":", "").isalnum():
                self.problems.append(f"<{tag} {name}>")
            if name in ("src", "href", "xlink:href", "action", "srcset") and not value.startswith(("#", "data:image/")):
                self.problems.append(f"<{tag} {name}={value}>")
        if tag == "meta" and dict(attributes).get("http-equiv") == "Content-Security-Policy":
            self.policy = dict(attributes)["content"]

    def handle_data(self, data):
        self.text += data


def assert_inert(page, *names):
    """Check that a page has only elements that its template has, forbids scripts, and shows these names as text."""
    parsed = _Page(page)
    assert parsed.problems == []
    assert "default-src 'none'" in parsed.policy
    assert "script-src" not in parsed.policy
    shown = " ".join([parsed.text, *parsed.values])
    for name in names:
        assert name in shown, name


def dump_dom(path, folder):
    """Return the page that a browser makes of a file, after its scripts have run; its own files are in `folder`."""
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}", "--dump-dom"]
    return subprocess.run([*command, path.as_uri()], check=True, capture_output=True, text=True, timeout=120).stdout
