"""The documentation opens from disk: it loads nothing from elsewhere, and its search works without a server."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from mkdocs.exceptions import PluginError

ROOT = Path(__file__).parents[2]
_spec = importlib.util.spec_from_file_location("offline", ROOT / "docs" / "hooks" / "offline.py")
offline = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(offline)


def test_the_script_of_the_theme_is_replaced_by_ours():
    page = '<p>text</p><script src="https://unpkg.com/iframe-worker/shim"></script>'
    assert offline.keep_local(page, "api/spaces.html") == (
        '<p>text</p><script src="../javascripts/offline-search.js"></script>'
    )
    assert (ROOT / "docs" / offline.OURS).is_file()


@pytest.mark.parametrize(
    "tag",
    [
        '<script src="https://example.org/a.js"></script>',
        '<link rel="stylesheet" href="//example.org/a.css">',
        '<img alt="" src="http://example.org/a.png">',
    ],
)
def test_anything_from_elsewhere_stops_the_build(tag):
    with pytest.raises(PluginError, match=r"index\.html: .*example\.org.* keep a copy"):
        offline.keep_local(tag, "index.html")


def test_links_to_other_sites_stay():
    page = '<a href="https://example.org">a link</a><link rel="canonical" href="https://example.org/index.html">'
    assert offline.keep_local(page, "index.html") == page


@pytest.mark.slow
def test_search_from_disk(tmp_path):
    browser = shutil.which("chromium")
    if browser is None:
        pytest.skip("needs chromium: apt-get install chromium")
    site = tmp_path / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(site)]
    subprocess.run(command, cwd=ROOT, check=True, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"})
    flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    address = f"{(site / 'index.html').as_uri()}?q=roulette"
    page = subprocess.run(
        [browser, *flags, "--virtual-time-budget=10000", "--dump-dom", address], capture_output=True, text=True
    ).stdout
    assert re.search(r"\d+ matching documents", page)
    links = re.findall(r'href="(file://[^"#]*)[^"]*"[^>]*class="md-search-result__link', page)
    assert links
    assert all(Path(link.removeprefix("file://")).is_file() for link in links)
