"""Files of a run that are torn, or hold values of the wrong type: a report of them is one DataError."""

import json
import shutil

import pytest

from hardmax.applications.runs import read_run, render_report
from hardmax.errors import HardmaxError

ODD = (True, 10**400, 2**70, 1e308, float("nan"), "text")


@pytest.fixture
def run(trained, tmp_path):
    return shutil.copytree(trained("categorical"), tmp_path / "run")


def report(folder):
    """Return whether a run can be reported; raises anything but one line of error."""
    try:
        render_report([read_run(folder)])
    except HardmaxError as error:
        assert "\n" not in str(error)  # noqa: PT017
        return False
    return True


@pytest.mark.parametrize(
    ("name", "line", "keys"),
    [("metrics.jsonl", -1, ("epoch", "step", "split", "elbo")), ("timing.jsonl", 0, ("epoch", "train"))],
)
def test_values_of_a_row(name, line, keys, run):
    rows = [json.loads(text) for text in (run / name).read_text().splitlines()]
    good, outcomes = rows[line], {}
    for key in keys:
        for value in ODD:
            rows[line] = good | {key: value}
            (run / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
            outcomes[key, value] = report(run)
    assert not any(outcomes["epoch", value] for value in (True, 10**400, 2**70, "text"))
    assert not outcomes[keys[-1], 10**400]


@pytest.mark.parametrize("name", ["metrics.jsonl", "timing.jsonl", "config.json", "best", "latest"])
@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"[" * 100_000, b"{}\n", b"null\n", b'{"epoch": 1}\n'])
def test_files_that_are_none(name, content, run):
    (run / name).write_bytes(content)
    report(run)


def test_values_of_the_configuration(run):
    facts = json.loads((run / "config.json").read_text())
    changes = [{key: value} for key in ("config", "data", "versions", "commit") for value in (*ODD, None, [], [None])]
    changes += [{"data": facts["data"] | {key: value}} for key in facts["data"] for value in ([], {}, 7)]
    for change in changes:
        (run / "config.json").write_text(json.dumps(facts | change))
        report(run)


def test_torn_files(run):
    for name in ("metrics.jsonl", "timing.jsonl", "config.json"):
        content = (run / name).read_bytes()
        for size in range(0, len(content), max(len(content) // 3, 1)):
            (run / name).write_bytes(content[:size])
            report(run)
        (run / name).write_bytes(content)
    assert report(run)
