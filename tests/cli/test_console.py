"""Names on the terminal: neither markup nor commands to the terminal."""

import ast
from pathlib import Path

import pytest
from rich.table import Table

from hardmax.cli.main import main
from hardmax.console import make_console, print_line
from hardmax.progress_bar import show_bar, show_named_bars

NAME = "[red]a[/red] :heart: \x1b[31mb\x07\u202ec"
SHOWN = "[red]a[/red] :heart: \\x1b[31mb\\x07\\u202ec"
SOURCE = Path(__file__).parents[2] / "src" / "hardmax"


def test_lines(capsys):
    print_line(f"{NAME}\nsecond")
    print_line(NAME, error=True)
    output = capsys.readouterr()
    assert output.out == f"{SHOWN}\\nsecond\n"
    assert output.err == f"{SHOWN}\n"


def test_undecodable_names(capsys):
    """A name of bytes that are not UTF-8 can be printed."""
    print_line(b"caf\xe9".decode(errors="surrogateescape"))
    assert capsys.readouterr().out == "caf\\udce9\n"


def test_rich_texts_and_tables(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    console = make_console()
    table = Table(title=f"title {NAME}", caption=f"caption {NAME}")
    table.add_column(f"head {NAME}")
    table.add_row(f"cell {NAME}")
    console.print(table)
    console.print(f"text {NAME}")
    output = capsys.readouterr().out
    for place in ("title", "caption", "head", "cell", "text"):
        assert f"{place} {SHOWN}" in output
    assert "\x1b[31m" not in output


def test_progress_bars(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("FORCE_COLOR", "1")
    with show_bar(f"first {NAME}", 3) as bar:
        bar.update(1, description=f"second {NAME}")
        bar.advance(1, f"third {NAME}")
    with show_named_bars("items") as update:
        update(f"fourth {NAME}", 1, 2)
    errors = capsys.readouterr().err
    assert f"third {SHOWN}" in errors
    assert f"fourth {SHOWN}" in errors
    assert "\x1b[31mb" not in errors
    assert "\u202e" not in errors


def test_errors_and_paths(tmp_path, capsys):
    folder = tmp_path / NAME.replace("/", "")
    assert main(["report", str(folder)]) == 2
    error = capsys.readouterr().err
    assert "[red]a[red] :heart: \\x1b[31mb\\x07\\u202ec holds no run" in error
    assert error.count("\n") == 1
    assert "\x1b" not in error


@pytest.mark.parametrize("command", ["train", "evaluate"])
def test_commands_with_a_path_like_markup(command, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    folder = tmp_path / "[red]run [bold]"
    small = ["--epochs", "1", "--hidden", "8", "--batch-size", "1000", "--evaluate-images", "20"]
    assert main(["train", "--data", "sample", "--categories", "2", *small, "--out", str(folder)]) == 0
    if command == "evaluate":
        capsys.readouterr()
        assert main(["evaluate", str(folder), "--images", "20"]) == 0
    assert "[red]run [bold]" in capsys.readouterr().out


def test_every_console_is_made_in_one_place():
    """Other modules have it from `make_console`; the text of a `Diagnosis` is no terminal."""
    files = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Console"
    }
    assert files <= {"console.py", "diagnosis/result.py"}
