"""Downloads: resumed, verified, and never incomplete under their real name."""

import multiprocessing
import os
import threading

import pytest

from hardmax.data import download as module
from hardmax.data.download import RemoteFile, download
from hardmax.errors import DataError

BODY = os.urandom(1_000_000)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "deep" / "folder"


def left_in(folder):
    return sorted(path.name for path in folder.iterdir())


def test_complete_download(server, folder):
    reports = []
    path = download(server.offer("a.gz", BODY), folder, lambda *report: reports.append(report))
    assert path == folder / "a.gz"
    assert path.read_bytes() == BODY
    assert left_in(folder) == ["a.gz"]
    assert reports[-1] == ("a.gz", 1_000_000, 1_000_000)
    assert [done for _, done, _ in reports] == sorted(done for _, done, _ in reports)


def test_existing_files_are_not_downloaded(server, folder):
    folder.mkdir(parents=True)
    (folder / "a.gz").write_bytes(b"mine")
    assert download(server.offer("a.gz", BODY), folder).read_bytes() == b"mine"
    assert server.log == []
    assert left_in(folder) == ["a.gz"]


def test_a_broken_connection_is_resumed(server, folder):
    server.drop = [300_000, 100_000]
    assert download(server.offer("a.gz", BODY), folder).read_bytes() == BODY
    assert server.log == [("a.gz", None), ("a.gz", "bytes=300000-"), ("a.gz", "bytes=400000-")]
    assert left_in(folder) == ["a.gz"]


def test_a_later_call_goes_on_from_the_part(server, folder):
    server.drop = [300_000, 0]
    file = server.offer("a.gz", BODY)
    with pytest.raises(DataError, match=r"broke off after 300,000 of 1,000,000.*300,000 bytes are kept.*a\.gz\.part"):
        download(file, folder)
    assert left_in(folder) == ["a.gz.part"]
    assert (folder / "a.gz.part").read_bytes() == BODY[:300_000]
    reports = []
    assert download(file, folder, lambda *report: reports.append(report)).read_bytes() == BODY
    assert server.log[-1] == ("a.gz", "bytes=300000-")
    assert reports[0][1] > 300_000
    assert reports[-1][1:] == (1_000_000, 1_000_000)
    assert left_in(folder) == ["a.gz"]


def test_a_server_without_ranges_starts_over(server, folder):
    server.ranges, server.drop = False, [300_000]
    assert download(server.offer("a.gz", BODY), folder).read_bytes() == BODY
    assert [requested for _, requested in server.log] == [None, "bytes=300000-"]


@pytest.mark.parametrize("stale", [BODY + b"more", BODY])
def test_a_part_as_long_as_the_file_or_longer(server, folder, stale):
    folder.mkdir(parents=True)
    (folder / "a.gz.part").write_bytes(stale)
    assert download(server.offer("a.gz", BODY), folder).read_bytes() == BODY
    assert left_in(folder) == ["a.gz"]


def test_corrupt_content_is_removed(server, folder):
    file = server.offer("a.gz", b"something else", published=BODY)
    with pytest.raises(DataError, match=rf"not the published one \(md5 \w+, expected {file.md5}\) and was removed"):
        download(file, folder)
    assert left_in(folder) == []


def test_a_part_of_another_file_is_removed(server, folder):
    folder.mkdir(parents=True)
    (folder / "a.gz.part").write_bytes(b"x" * 1000)
    file = server.offer("a.gz", BODY)
    with pytest.raises(DataError, match="was removed"):
        download(file, folder)
    assert left_in(folder) == []
    assert download(file, folder).read_bytes() == BODY


def test_mirrors_in_order(server, folder):
    server.files["bad/a.gz"] = b"a web page"
    mirrors = ("http://127.0.0.1:9/a.gz", server.url + "missing/a.gz", server.url + "bad/a.gz")
    assert download(server.offer("a.gz", BODY, mirrors=mirrors), folder).read_bytes() == BODY
    assert [name for name, _ in server.log] == ["missing/a.gz", "bad/a.gz", "a.gz"]


def test_a_mirror_goes_on_where_another_broke_off(server, folder):
    server.files["slow/a.gz"], server.drop = BODY, [300_000, 0]
    assert download(server.offer("a.gz", BODY, mirrors=(server.url + "slow/a.gz",)), folder).read_bytes() == BODY
    assert server.log[-1] == ("a.gz", "bytes=300000-")


def test_no_network(folder):
    file = RemoteFile("a.gz", "0" * 32, ("http://127.0.0.1:9/a.gz", "http://nowhere.invalid/a.gz"))
    with pytest.raises(DataError, match=r"could not download a\.gz \(127\.0\.0\.1:9: .*nowhere\.invalid") as caught:
        download(file, folder)
    assert f"put the file into {folder} yourself" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert left_in(folder) == []


def test_not_found(server, folder):
    with pytest.raises(DataError, match="HTTP Error 404: Not Found"):
        download(RemoteFile("a.gz", "0" * 32, (server.url + "a.gz",)), folder)


def test_a_silent_server(server, folder, monkeypatch):
    monkeypatch.setattr(module, "_TIMEOUT", 0.05)
    silence = threading.Event()
    server.answer = lambda request: silence.wait(10)
    with pytest.raises(DataError, match="timed out"):
        download(RemoteFile("a.gz", "0" * 32, (server.url + "a.gz",)), folder)
    silence.set()


def test_a_folder_that_cannot_be_made(server, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"cannot write .*choose another folder"):
        download(server.offer("a.gz", BODY), tmp_path / "file" / "folder")


def test_interrupted(server, folder):
    def stop(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        download(server.offer("a.gz", BODY), folder, stop)
    assert left_in(folder) == ["a.gz.part"]


def test_a_part_that_is_a_link_is_not_followed(server, folder):
    folder.mkdir(parents=True)
    (folder / "mine").write_text("kept")
    (folder / "a.gz.part").symlink_to(folder / "mine")
    with pytest.raises(DataError, match=r"cannot write .*a\.gz"):
        download(server.offer("a.gz", BODY), folder)
    assert (folder / "mine").read_text() == "kept"


def test_several_processes_at_once(server, folder):
    file = server.offer("a.gz", BODY)
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        paths = pool.starmap(download, [(file, folder)] * 6)
    assert {path.read_bytes() for path in paths} == {BODY}
    assert left_in(folder) == ["a.gz"]
    assert len(server.log) == 1


@pytest.mark.parametrize("length", ["abc", "-5", "1e6", "", "\u0661"])
def test_a_length_that_is_not_a_number_is_ignored(server, folder, length):
    def answer(request):
        request.send_response(200)
        request.send_header("Content-Length", length.encode("utf-8").decode("latin-1"))
        request.end_headers()
        request.wfile.write(BODY)

    file, reports = server.offer("a.gz", BODY), []
    server.answer = answer
    assert download(file, folder, lambda *report: reports.append(report)).read_bytes() == BODY
    assert reports[-1] == ("a.gz", 1_000_000, None)
