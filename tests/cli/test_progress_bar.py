"""The progress display: what a terminal shows, and that nothing remains of it."""

import io
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

import hardmax
from hardmax.progress_bar import show_bar, show_named_bars


def terminal():
    return Console(file=io.StringIO(), force_terminal=True, width=120, color_system=None)


def get_output(console):
    return console.file.getvalue()


def test_a_bar_shows_how_much_is_done_and_is_erased():
    console = terminal()
    with show_bar("8 images", 8, console=console) as bar:
        bar.advance(2)
        bar.advance(2, "half [of] them")
    assert " 50%" in get_output(console)
    assert "half [of] them" in get_output(console)
    assert get_output(console).endswith("\x1b[2K")  # the line is erased


def test_a_bar_may_not_know_how_much_there_is():
    console = terminal()
    with show_bar("epoch 1", console=console) as bar:
        bar.update(3, 4, "epoch 1/20")
        bar.update(-1, description="epoch 2/20")  # never below zero
    assert " 0%" in get_output(console)
    assert "epoch 2/20" in get_output(console)


def test_a_bar_is_erased_when_the_work_fails():
    console = terminal()
    with pytest.raises(ZeroDivisionError), show_bar("8 images", 8, console=console):
        1 / 0  # noqa: B018
    assert get_output(console).endswith("\x1b[2K")


def test_a_file_gets_no_bar():
    console = Console(file=io.StringIO(), width=120)
    with show_bar("8 images", 8, console=console) as bar:
        bar.advance(8)
    assert get_output(console).strip() == ""


@pytest.mark.parametrize(("unit", "count"), [("bytes", "1.0/2.0 kB"), ("items", "1000/2000")])
def test_named_bars_stay(unit, count, capsys):
    with show_named_bars(unit) as progress:
        progress("a.gz", 0, None)
        progress("a.gz", 1000, 2000)
        progress("b.gz", 7, 9)
    assert capsys.readouterr().out == ""
    lines = subprocess_lines(unit)
    assert [line.split()[0] for line in lines] == ["a.gz", "b.gz"]
    assert count in lines[0]


def subprocess_lines(unit):
    code = (
        "from hardmax.progress_bar import show_named_bars\n"
        f"with show_named_bars({unit!r}) as progress:\n"
        "    progress('a.gz', 1000, 2000)\n    progress('b.gz', 7, 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == ""
    return done.stderr.strip().splitlines()


def test_named_bars_with_nothing_to_show_print_nothing(capsys):
    with show_named_bars("bytes"):
        pass
    output = capsys.readouterr()
    assert (output.out, output.err) == ("", "")


def test_nothing_else_makes_bars():
    package = Path(hardmax.__file__).parent
    users = [
        path for path in package.rglob("*.py") if "import" in path.read_text() and "rich.progress " in path.read_text()
    ]
    assert [path.name for path in users] == ["progress_bar.py"]
