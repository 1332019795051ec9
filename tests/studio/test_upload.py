"""Files that are uploaded: limited, never outside of a temporary folder, and broken images are a sentence."""

import io
import re
import struct
import sys
import urllib.request
import zlib
from pathlib import Path

import pytest
from PIL import Image

from hardmax.studio.frame import LARGEST_UPLOAD


def make_image_bomb(side=50_000):
    """Return a PNG of a few hundred kilobytes that would decode to gigabytes."""

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    rows = zlib.compressobj(9)
    content = b"".join(rows.compress(bytes(1 + side // 8)) for _ in range(side)) + rows.flush()
    header = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", content) + chunk(b"IEND", b"")


@pytest.fixture(scope="module")
def uploads(start_studio, tmp_path_factory):
    """A studio with a page for uploads, and its current folder."""
    folder = tmp_path_factory.mktemp("uploads")
    return start_studio(script=Path(__file__).with_name("other_pages.py"), folder=folder), folder


@pytest.fixture
def send(uploads, open_page):
    """A function that uploads a file in the browser, and returns the page."""
    page = open_page(f"{uploads[0].address}upload")

    def upload(name, content):
        page.locator("input[type=file]").set_input_files({"name": name, "mimeType": "image/png", "buffer": content})
        return page

    return upload


def encode_png(size=(40, 30)):
    buffer = io.BytesIO()
    Image.new("RGB", size, (200, 100, 50)).save(buffer, "PNG")
    return buffer.getvalue()


def test_an_image_is_used_and_deleted(send, uploads):
    page = send("../../photo ‮.png", encode_png())
    page.get_by_text("upload.png (1, 1, 28, 28)").wait_for()
    path = Path(page.locator("main p").inner_text().split(") ")[1])
    assert path.name == "upload.png"  # the name of the user is not used
    assert re.fullmatch("hardmax-studio-.*", path.parent.name)
    assert not path.parent.exists()
    assert list(uploads[1].iterdir()) == []  # nothing in the current folder


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("bomb.png", make_image_bomb),
        ("broken.png", lambda: encode_png()[:60]),
        ("page.png", lambda: b"<html><script>alert(1)</script>"),
        ("empty.png", lambda: b""),
    ],
)
def test_what_is_no_image_is_a_sentence(send, uploads, name, make):
    page = send(name, make())
    page.locator(".q-notification").first.wait_for()
    assert page.locator("main p").inner_text() == "nothing yet"
    page = send("good.png", encode_png())  # the page still works
    page.get_by_text("upload.png (1, 1, 28, 28)").wait_for()
    status = Path(f"/proc/{uploads[0].process.pid}/status").read_text()
    assert int(re.search(r"VmHWM:\s+(\d+)", status)[1]) < 1.5 * 2**20  # the peak, in kB


@pytest.mark.slow
def test_a_large_file_is_refused_by_the_page_and_by_the_server(send, uploads):
    page = send("large.png", bytes(LARGEST_UPLOAD + 1))
    page.get_by_text("the file is refused: at most 20 MB").first.wait_for()
    address = page.evaluate("Object.values(mounted_app.elements).find(element => element.props.url).props.url")
    head = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.png"\r\n\r\n'
    body = head + bytes(LARGEST_UPLOAD + 1) + b"\r\n--x--\r\n"
    request = urllib.request.Request(
        uploads[0].address.rstrip("/") + address, body, {"Content-Type": "multipart/form-data; boundary=x"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.status == 200
    page.get_by_text("a file has at most 20 MB").first.wait_for()
    assert page.locator("main p").inner_text() == "nothing yet"


def test_the_bomb_is_small_as_a_file_and_large_as_an_image():
    bomb = make_image_bomb(1000)
    assert Image.open(io.BytesIO(bomb)).size == (1000, 1000)
    assert len(bomb) < 1000
    assert sys.getsizeof(Image.open(io.BytesIO(bomb)).tobytes()) > 100 * len(bomb)
