"""From options to the executor of runs."""

import sys

import pytest

from hardmax.errors import ArgumentError, MissingExtraError
from hardmax.experiments.runner.executors import Processes, choose_executor


def test_without_options_no_other_process():
    assert choose_executor(None, None) is None


def test_number_of_processes():
    with choose_executor(3, None) as executor:  # processes start with their first job
        assert isinstance(executor, Processes)
        assert executor.size == 3


@pytest.mark.parametrize(("workers", "cluster", "words"), [
    (0, None, "at least 1, got 0"),
    (2, "ray://auto", "either --workers"),
    (None, "http://host", "'http://host' is not an address"),
    (None, "ray", "'ray' is not an address"),
    (None, "tcp://", "'tcp://' is not an address"),
])  # fmt: skip
def test_what_cannot_be_used(workers, cluster, words):
    with pytest.raises(ArgumentError, match=words):
        choose_executor(workers, cluster)


@pytest.mark.parametrize(("package", "cluster"), [("distributed", "tcp://host:1"), ("ray", "ray://auto")])
def test_an_extra_that_is_not_installed(package, cluster, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"needs {package}, .*pip install 'hardmax\[cluster\]'"):
        choose_executor(None, cluster)
