"""Arguments become options, or one line that says what is wrong."""

import math
from dataclasses import MISSING, dataclass, field, fields, make_dataclass
from typing import Annotated, Literal, get_args, get_origin, get_type_hints

import pytest
import tyro
from hypothesis import given, settings
from hypothesis import strategies as st

from hardmax.applications.argument_parser import Argument, describe_options, parse
from hardmax.applications.option_help import GROUPS as GROUP_NAMES
from hardmax.applications.option_help import assign_groups
from hardmax.applications.registry import list_commands, list_trained
from hardmax.cli.main import COMMANDS, GROUPS, main
from hardmax.errors import ArgumentError


@dataclass(frozen=True)
class Options:
    """Do something.

    Example: hardmax do RUN
    """

    run: Annotated[str, Argument("RUN")]
    """Folder of the run."""
    others: Annotated[tuple[str, ...], Argument("OTHER", f"Number of letters in OTHER: {len('OTHER')}.")] = ()
    text: str = "a"
    """A text that is
    explained in two lines."""
    count: int = 1
    rate: float = 0.5
    limit: int | None = None
    long_name: float | None = 2.0
    flag: bool = False
    on: bool = True
    choice: Literal["red", "green"] = "red"
    maybe: Literal["x", "y"] | None = None
    names: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()

    def __post_init__(self):
        if self.count == 13:
            raise ArgumentError("count must not be 13")


def read(*arguments):
    """Return the fields of `Options` that the arguments after RUN change."""
    options = parse(Options, "do", ["RUN", *arguments])
    assert options.run == "RUN"
    return {name: value for name, value in vars(options).items() if value != getattr(Options, name, "RUN")}


@pytest.mark.parametrize(
    ("arguments", "values"),
    [
        ([], {}),
        (["--text", "b"], {"text": "b"}),
        (["--text=b=c"], {"text": "b=c"}),
        (["--text="], {"text": ""}),
        (["--text", ""], {"text": ""}),
        (["--text", "-"], {"text": "-"}),
        (["--text=--flag"], {"text": "--flag"}),
        (["--text", "-5"], {"text": "-5"}),
        (["--count", "3"], {"count": 3}),
        (["--count", "-3"], {"count": -3}),
        (["--count=1_000"], {"count": 1000}),
        (["--rate", "1e-3"], {"rate": 0.001}),
        (["--rate", "-.5"], {"rate": -0.5}),
        (["--rate", "-inf"], {"rate": -math.inf}),
        (["--limit", "7"], {"limit": 7}),
        (["--long-name", "None"], {"long_name": None}),
        (["--long_name=3"], {"long_name": 3.0}),
        (["--flag"], {"flag": True}),
        (["--no-flag", "--no_on"], {"on": False}),
        (["--choice", "green"], {"choice": "green"}),
        (["--maybe", "y"], {"maybe": "y"}),
        (["--maybe", "None"], {}),
        (["--names", "a", "b", "--flag"], {"names": ("a", "b"), "flag": True}),
        (["--names=a", "b"], {"names": ("a", "b")}),
        (["--seeds", "0", "-1"], {"seeds": (0, -1)}),
        (["--count", "1", "--count=2"], {"count": 2}),  # the last one counts
        (["--flag", "--no-flag"], {}),
        (["--seeds", "1", "2", "--seeds", "3"], {"seeds": (3,)}),
        (["b", "--count", "2", "c"], {"others": ("b", "c"), "count": 2}),
        (["-5", "--", "--flag", "-h"], {"others": ("-5", "--flag", "-h")}),
        (["--names", "a", "--", "b"], {"names": ("a",), "others": ("b",)}),
    ],
    ids=" ".join,
)
def test_values(arguments, values):
    assert read(*arguments) == values


def test_an_argument_may_follow_several_values():
    options = parse(Options, "do", ["--names", "a", "b", "RUN"])
    assert (options.run, options.names) == ("RUN", ("a", "b"))
    with pytest.raises(ArgumentError, match="hardmax do needs RUN"):
        parse(Options, "do", ["--names", "a"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--contu", "3"], "hardmax do has no option --contu; did you mean --count?"),
        (["--Long_Name=3"], "hardmax do has no option --Long-Name; did you mean --long-name?"),
        (["-flag"], "hardmax do has no option -flag; did you mean --flag?"),
        (["-x"], "hardmax do has no option -x; see hardmax do --help"),
        (["--zzzzzz"], "hardmax do has no option --zzzzzz; see hardmax do --help"),
        (["--no-rate"], "hardmax do has no option --no-rate; did you mean --rate?"),
        (["--count"], "--count needs a value: a whole number"),
        (
            ["--text", "--flag"],
            "--text needs a value: a text; --flag is an option: if it is the value, write --text=--flag",
        ),
        (["--limit"], "--limit needs a value: a whole number or None"),
        (["--names"], "--names needs a value: a text"),
        (["--count", "x"], "--count must be a whole number, got 'x'"),
        (["--count", "2.0"], "--count must be a whole number, got '2.0'"),
        (["--count", "None"], "--count must be a whole number, got 'None'"),
        (["--rate=fast"], "--rate must be a number, got 'fast'"),
        (["--long_name", "none"], "--long-name must be a number or None, got 'none'"),
        (["--choice", "gren"], "--choice must be one of red, green, got 'gren'; did you mean green?"),
        (["--choice", "blue"], "--choice must be one of red, green, got 'blue'"),
        (["--maybe", "z"], "--maybe must be one of x, y or None, got 'z'"),
        (["--seeds", "1", "x"], "--seeds must be a whole number, got 'x'"),
        (["--flag=yes"], "--flag takes no value, got 'yes'; write --flag alone"),
        (["--no-flag=yes"], "--no-flag takes no value, got 'yes'; write --no-flag alone"),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, list) else "",
)
def test_errors(arguments, message):
    with pytest.raises(ArgumentError) as caught:
        read(*arguments)
    assert str(caught.value) == message


@dataclass(frozen=True)
class Strict:
    """Do something else."""

    first: Annotated[str, Argument("FIRST")]
    numbers: Annotated[tuple[int, ...], Argument("NUMBERS")]
    last: Annotated[Literal["up", "down"], Argument("LAST")]
    needed: int


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "hardmax x y needs FIRST; see hardmax x y --help"),
        (["a"], "hardmax x y needs NUMBERS (one or more); see hardmax x y --help"),
        (["a", "1"], "hardmax x y needs NUMBERS (one or more); see hardmax x y --help"),
        (["a", "x", "up"], "NUMBERS must be a whole number, got 'x'"),
        (["a", "1", "2", "upp"], "LAST must be one of up, down, got 'upp'; did you mean up?"),
        (["a", "1", "up"], "hardmax x y needs --needed, a whole number; see hardmax x y --help"),
    ],
)
def test_errors_of_positional_arguments(arguments, message):
    with pytest.raises(ArgumentError) as caught:
        parse(Strict, "x y", arguments)
    assert str(caught.value) == message


def test_positional_arguments_are_shared_out():
    assert parse(Strict, "x y", ["a", "--needed", "3", "1", "2", "down"]) == Strict("a", (1, 2), "down", 3)


@dataclass(frozen=True)
class Plain:
    """Do nothing."""

    epochs: int = 1


def test_surplus_arguments():
    with pytest.raises(ArgumentError) as caught:
        parse(Plain, "do", ["epochs", "3"])
    assert str(caught.value) == "hardmax do takes options alone, got 'epochs' too; did you mean --epochs?"
    with pytest.raises(ArgumentError, match="hardmax do takes options alone, got 'xyz' too; see hardmax do --help"):
        parse(Plain, "do", ["--epochs", "3", "xyz"])


def test_errors_of_the_dataclass_come_through_unchanged():
    with pytest.raises(ArgumentError) as caught:
        read("--count", "13")
    assert str(caught.value) == "count must not be 13"


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["--nonsense", "--help"], ["RUN", "--count", "x", "-h"]])
def test_help(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        parse(Options, "do", arguments, about="It is done:\n  at once")
    assert stop.value.code == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    assert shown.out.startswith("usage: hardmax do ")
    assert "Example: hardmax do RUN\n\nIt is done:\n  at once\n" in shown.out


def test_help_lists_arguments_options_types_and_defaults(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        parse(Options, "do", ["--help"])
    usage, _, _, arguments, options = capsys.readouterr().out.rstrip().split("\n\n")
    assert usage == "usage: hardmax do RUN [OTHER ...] [OPTIONS]"
    assert arguments.splitlines() == [
        "arguments:",
        "  RUN                     Folder of the run.",
        "  [OTHER ...]             Number of letters in OTHER: 5.",
    ]
    assert options.splitlines() == [
        "options:",
        "  --text TEXT             A text that is explained in two lines. (default: a)",
        "  --count INTEGER         (default: 1)",
        "  --rate NUMBER           (default: 0.5)",
        "  --limit INTEGER",
        "  --long-name NUMBER      (default: 2.0)",
        "  --[no-]flag",
        "  --[no-]on               (default: on)",
        "  --choice {red,green}    (default: red)",
        "  --maybe {x,y}",
        "  --names TEXT [TEXT ...]",
        "  --seeds INTEGER [INTEGER ...]",
        "  -h, --help              Show this help and exit.",
    ]


@pytest.mark.parametrize("application", list_trained(), ids=lambda application: application.name)
def test_every_training_option_has_a_group_and_help_within_the_width(application, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    groups = assign_groups(application.load_config())
    missing = [option.field for option in describe_options(application.load_config()) if option.field not in groups]
    assert not missing, f"options of {application.name} without a group: {missing}"
    with pytest.raises(SystemExit):
        main(["train", "--model", application.name, "--help"])
    lines = capsys.readouterr().out.splitlines()
    headings = [line.rstrip(":") for line in lines if line.rstrip(":") in GROUP_NAMES]
    assert headings == [name for name in GROUP_NAMES if name in {*groups.values(), "options"}]
    assert max(map(len, lines[lines.index("data:") :])) <= 80


def test_help_names_what_an_option_takes(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    output = capsys.readouterr().out
    for words in ("--data DATA ", "--data-dir FOLDER ", "--model NAME ", "--out PATH ", "--device DEVICE "):
        assert f"  {words}" in output
    assert "TEXT" not in output


@pytest.mark.parametrize("hint", [list[str], int | str, int | str | None, dict, tuple[int, int]], ids=str)
def test_a_type_that_cannot_be_read(hint):
    with pytest.raises(TypeError, match=r"the option thing is of type .*, which the command line cannot read"):
        parse(make_dataclass("Wrong", [("thing", hint, None)]), "do", [])


@pytest.mark.parametrize("name", [*COMMANDS, *list_commands()])
def test_every_command_has_help_with_an_example_and_refuses_nonsense(name, capsys):
    with pytest.raises(SystemExit) as stop:
        main([*name.split(), "--help"])
    assert stop.value.code == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"usage: hardmax {name} ")
    assert "xample" in shown
    assert f"hardmax {name}" in shown.split("xample", 1)[1]
    assert "(default: )" not in shown
    assert main([*name.split(), "--nonsense"]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err == f"hardmax: error: hardmax {name} has no option --nonsense; see hardmax {name} --help\n"


@pytest.mark.parametrize("group", GROUPS)
def test_every_group_has_help_with_examples(group, capsys):
    assert main([group, "--help"]) == 0
    assert f"examples:\n  hardmax {group} " in capsys.readouterr().out


def without_checks(kind):
    """Return a dataclass with the same fields that takes any values of their types."""
    hints = get_type_hints(kind, include_extras=True)
    described = [
        (one.name, hints[one.name], field(default=one.default) if one.default is not MISSING else field())
        for one in fields(kind)
    ]
    return make_dataclass(f"Any{kind.__name__}", described, frozen=True)


CONFIGS = {one.name: without_checks(one.load_config()) for one in list_trained()}
WORDS = [
    "None",
    "none",
    "1",
    "-1",
    "+2",
    "0.5",
    "-.5",
    "1e-3",
    "nan",
    "-inf",
    "inf",
    "1_0",
    "",
    " 3 ",
    "x",
    "a b",
    "a=b",
]
WORDS += [
    "-",
    "-5x",
    "-%",
    "--",
    "--%",
    "-x",
    "--x",
    "--no-resume",
    "--lr",
    "--lr=1",
    "True",
    "0x1",
    "²",
    "-nan",
    "-Infinity",
]


def choices(hint):
    """Return the words that a type itself lists."""
    return [word for one in (hint, *get_args(hint)) if get_origin(one) is Literal for word in get_args(one)]


@st.composite
def argument_lists(draw, kind):
    """Return arguments that may or may not fit; booleans take no value: tyro would read it as another argument.

    Options of several values are left out: without any value tyro reads an empty list, and we refuse them.
    """
    hints = {
        name: hint for name, hint in get_type_hints(kind).items() if name != "groups" and get_origin(hint) is not tuple
    }
    words = []
    for name in draw(st.lists(st.sampled_from(list(hints)), max_size=4, unique=True)):
        flag = "--" + (name if draw(st.booleans()) else name.replace("_", "-"))
        value = draw(st.sampled_from(choices(hints[name]) + WORDS) if draw(st.booleans()) else st.sampled_from(WORDS))
        if hints[name] is bool:
            words.append(flag if draw(st.booleans()) else flag.replace("--", "--no-", 1))
        elif draw(st.booleans()):
            words.append(f"{flag}={value}")
        else:
            words += [flag, value] if draw(st.integers(0, 9)) else [flag]
    return words


def read_by_tyro(kind, arguments):
    try:
        return tyro.cli(kind, args=arguments, console_outputs=False)
    except SystemExit:
        return None


def read_by_us(kind, arguments):
    try:
        return parse(kind, "train", arguments)
    except ArgumentError:
        return None


@pytest.mark.parametrize("model", CONFIGS)
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_training_options_are_read_as_tyro_reads_them(model, data):
    arguments = data.draw(argument_lists(CONFIGS[model]))
    ours, theirs = read_by_us(CONFIGS[model], arguments), read_by_tyro(CONFIGS[model], arguments)
    assert repr(ours) == repr(theirs)  # not ==: nan differs from itself
