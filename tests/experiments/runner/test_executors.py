"""From options to who makes the runs."""

import sys

import pytest

from hardmax.errors import ArgumentError, MissingExtraError
from hardmax.experiments.runner.executors import Processes, choose_crew


def test_without_options_nobody_else():
    assert choose_crew(None, None) is None


def test_so_many_processes():
    with choose_crew(3, None) as crew:  # which start with their first job
        assert isinstance(crew, Processes)
        assert crew.size == 3


@pytest.mark.parametrize(("workers", "cluster", "words"), [
    (0, None, "at least 1, got 0"),
    (2, "ray://auto", "either --workers"),
    (None, "http://host", "'http://host' is no address"),
    (None, "ray", "'ray' is no address"),
    (None, "tcp://", "'tcp://' is no address"),
])  # fmt: skip
def test_what_cannot_be_used(workers, cluster, words):
    with pytest.raises(ArgumentError, match=words):
        choose_crew(workers, cluster)


@pytest.mark.parametrize(("package", "cluster"), [("distributed", "tcp://host:1"), ("ray", "ray://auto")])
def test_an_extra_that_is_not_installed(package, cluster, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"needs {package}, .*pip install 'hardmax\[cluster\]'"):
        choose_crew(None, cluster)
