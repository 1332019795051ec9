"""Published numbers are those that are printed, and each belongs to a line of cells."""

import json
from importlib import resources
from itertools import product

import pytest

from hardmax.experiments.tables.published import read_published
from hardmax.experiments.tables.registry import NAMES, find_experiment
from hardmax.experiments.tables.table1 import TABLE1
from hardmax.experiments.tables.table2 import TABLE2


def test_every_published_number_has_a_problem():
    files = [file for file in resources.files("hardmax.experiments.tables").iterdir() if file.name.endswith(".json")]
    assert len(files) == 5
    for file in files:
        users = [each for each in map(find_experiment, NAMES) if getattr(each, "published", None) == file.name]
        assert users
        content = json.loads(file.read_text(encoding="utf-8"))["metrics"]
        for key, published in read_published(file.name).items():
            for experiment in users[:1]:
                assert key in [metric.key for metric in experiment.metrics]
                assert set(published.values) & {cell.name for cell in experiment.cells}
                problems = {cell.problem for cell in experiment.cells}
                assert sum(len(published.list_values(problem)) for problem in problems) == len(published.values)
                assert set(published.other_data) <= problems
                assert published.floor is None or set(published.floor.values) <= problems
            for name, number in content[key]["values"].items():
                assert set(number) == {"row", "column", "value"}, name


# As the paper prints it: k, then unbiased, direct and GSM of MNIST, Fashion MNIST and Omniglot.
PRINTED = """
10 164.53 165.26 167.88 228.46 222.86 238.37 155.44 155.94 160.13
20 152.31 153.08 156.41 206.40 198.39 211.87 152.05 152.13 166.76
30 149.17 147.38 152.15 205.60 189.44 197.01 152.10 150.14 157.33
40 142.86 143.95 147.56 205.68 184.21 195.22 151.38 150.33 156.09
50 155.37 140.38 146.12 200.88 180.31 191.00 156.84 149.12 164.01
"""


def test_table1_is_the_papers():
    methods = {"unbiased": "exact", "direct": "direct", "GSM": "gumbel-softmax"}
    printed = {}
    for line in PRINTED.split("\n")[1:-1]:
        k, *numbers = line.split()
        heads = [(data, method) for data in ("MNIST", "Fashion MNIST", "Omniglot") for method in methods]
        for (data, method), number in zip(heads, numbers, strict=True):
            name = f"{data.replace(' ', '-').lower()}-k-{k}-{methods[method]}"
            printed[name] = {"row": f"k = {k}", "column": f"{data}, {method}", "value": float(number)}
    file = resources.files("hardmax.experiments.tables").joinpath("table1.json")
    content = json.loads(file.read_text(encoding="utf-8"))["metrics"]["negative_elbo"]
    assert content["values"] == printed
    assert set(printed) == {cell.name for cell in TABLE1.cells if cell.group == "the paper's"}
    assert content["floor"]["values"]["MNIST, k = 50"] == pytest.approx(139.65, abs=0.5)


# As the paper prints it: labels, then of MNIST and of Fashion-MNIST accuracy and bound, each of direct and GSM.
PRINTED_2 = """
50 92.6% 84.7% 90.24 91.23 63.3% 61.2% 129.66 129.813
100 95.4% 88.4% 90.93 90.64 67.2% 64.2% 130.822 129.054
300 96.4% 91.7% 90.39 90.01 70.0% 69.3% 130.653 130.371
600 96.7% 92.3% 90.78 89.77 72.1% 71.6% 130.81 129.973
1200 96.8% 92.7% 90.45 90.37 73.7% 73.2% 130.921 130.063
"""


def test_table2_is_the_papers():
    heads = list(product(("MNIST", "Fashion-MNIST"), ("accuracy", "bound"), ("direct", "GSM")))
    keys, methods = {"accuracy": "accuracy", "bound": "negative_elbo"}, {"direct": "direct", "GSM": "gumbel-softmax"}
    printed = {"accuracy": {}, "negative_elbo": {}}
    for line in PRINTED_2.split("\n")[1:-1]:
        labels, *numbers = line.split()
        for (data, metric, method), number in zip(heads, numbers, strict=True):
            assert number.endswith("%") == (metric == "accuracy")
            number_record = {"row": labels, "column": f"{data}, {metric}, {method}", "value": float(number.strip("%"))}
            printed[keys[metric]][f"{data.lower()}-{labels}-labels-{methods[method]}"] = number_record
    file = resources.files("hardmax.experiments.tables").joinpath("table2.json")
    content = json.loads(file.read_text(encoding="utf-8"))["metrics"]
    assert {key: own["values"] for key, own in content.items()} == printed
    assert set(printed["accuracy"]) == {cell.name for cell in TABLE2.cells if cell.group == "the paper's"}
