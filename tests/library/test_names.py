"""Names from files and folders, on terminals, in spreadsheets and as names of files."""

import subprocess
import sys
from pathlib import Path

import pytest

from hardmax.names import escape_control_characters, make_file_names, quote_formula

ORDINARY = ["scan 17_T1w", "Kopf-Größe", "脑", "علي", "👩‍👧", "a\\b$[red]"]


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_names_are_unchanged(name):
    assert escape_control_characters(name) == name
    assert quote_formula(name) == name


@pytest.mark.parametrize(
    ("name", "escaped"),
    [
        ("a\x1b[31mb", "a\\x1b[31mb"),
        ("a\x1b]0;title\x07", "a\\x1b]0;title\\x07"),
        ("a\nb\tc\rd", "a\\nb\\tc\\rd"),
        ("a\x9b31m", "a\\x9b31m"),
        ("a\u202egnp.exe", "a\\u202egnp.exe"),
        ("a\u2066b\u2069", "a\\u2066b\\u2069"),
        ("a\u2028b", "a\\u2028b"),
        ("caf\udce9", "caf\\udce9"),
    ],
)
def test_control_characters_are_visible(name, escaped):
    assert escape_control_characters(name) == escaped
    assert escape_control_characters(name).isprintable()
    escaped.encode()


@pytest.mark.parametrize(
    "text", ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "\uff1d1", "-"]
)
def test_formulas_are_quoted(text):
    assert quote_formula(text) == f"'{text}"


@pytest.mark.parametrize("text", ["-2.5", "+3", "-1e-05", "1.0", "", "a=b", "17-3"])
def test_numbers_and_other_texts_are_not_quoted(text):
    assert quote_formula(text) == text


@pytest.mark.parametrize(
    "names",
    [
        ["a", "a-2", "a"],
        ["a", "a", "a-2"],
        ["a-2", "a", "a", "a"],
        ["A", "a", "a-2", "A-2"],
        ["ä", "a\u0308", "Ä"],
        ["straße", "STRASSE"],
        ["a", "a.png/b"],
        ["a.png/b", "a"],
        ["a.PNG/b", "a", "A.png/B"],
        ["x./b", "x/b", "x /b"],
        ["a\0b", "a\nb", "a_b"],
        ["\ud800", "\udce9"],
        ["..", "", "image", "image-2", "."],
    ],
)
def test_file_names_never_collide(names, tmp_path):
    files = make_file_names(names, ".png")
    for number, file in enumerate(files):
        path = tmp_path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(number))
    assert [(tmp_path / file).read_text() for file in files] == [str(number) for number in range(len(names))]
    assert len({file.casefold() for file in files}) == len(names)
    assert all((tmp_path / file).resolve().is_relative_to(tmp_path.resolve()) for file in files)


def test_file_names_never_leave_the_folder():
    names = ["../../etc/passwd", "/elsewhere/x.png", "..", "a.png", "a.jpg", "b\\..\\c", "C:evil", ""]
    assert make_file_names(names, ".png") == [
        "etc/passwd.png",
        "elsewhere/x.png",
        "image.png",
        "a.png",
        "a-2.png",
        "b/c.png",
        "C/evil.png",
        "image-2.png",
    ]


def test_file_names_of_many_equal_names_are_quick():
    assert len(set(make_file_names(["a"] * 20_000, ".png"))) == 20_000


def test_no_replacement_text_of_a_regular_expression_is_computed():
    """In `re.sub`, a backslash in the replacement has a meaning: texts are inserted by a function."""
    import ast

    problems = []
    for path in sorted((Path(__file__).parents[2] / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in ("sub", "subn")
            ):
                is_module = isinstance(node.func.value, ast.Name) and node.func.value.id == "re"
                texts = node.args[1:2] if is_module else node.args[:1]
                texts += [keyword.value for keyword in node.keywords if keyword.arg == "repl"]
                problems += [
                    f"{path}:{node.lineno}" for text in texts if not isinstance(text, (ast.Constant, ast.Lambda))
                ]
    assert problems == []


def test_names_need_neither_torch_nor_rich():
    code = "import sys, hardmax.names; assert not {'torch', 'rich', 'numpy'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], check=True)
