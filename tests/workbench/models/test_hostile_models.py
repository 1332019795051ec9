"""A saved model from anyone: a small configuration takes neither the memory nor the time of a large network."""

import json
import subprocess
import sys
import threading

import pytest
import torch
from torch import nn

import hardmax as hm
from hardmax.applications.completion import CompletionModel
from hardmax.applications.decisions import DecisionModel
from hardmax.applications.hashing import HashEncoder
from hardmax.applications.mixed_vae import MixedVAE
from hardmax.applications.segmentation.vae.image_encoder import ImageEncoder
from hardmax.applications.segmentation.vae.label_vae import LabelVAE
from hardmax.applications.sequences import SequenceGAN
from hardmax.applications.tokens import TokenPrior, TokenVAE
from hardmax.errors import DataError
from hardmax.models.gaussian_vae import GaussianVAE
from hardmax.models.structure import build_checked, find_difference

SHAPE = (1, 8, 8)
MODELS = {
    "discrete mlp": lambda: hm.DiscreteVAE.build(hm.PairwiseBinary(4), SHAPE, hidden=6, encoder_layers=2),
    "discrete conv": lambda: hm.DiscreteVAE.build(hm.Categorical(5, 3), (3, 20, 18), architecture="conv", hidden=6),
    "discrete learned": lambda: hm.DiscreteVAE.build(
        hm.Categorical(5), SHAPE, hidden=6, prior="learned", likelihood="gaussian"
    ),
    "mixed": lambda: MixedVAE.build(hm.Categorical(5), SHAPE, continuous=3, hidden=6),
    "completion mlp": lambda: CompletionModel.build(SHAPE, components=3, latent=2, hidden=6),
    "completion conv": lambda: CompletionModel.build(
        (3, 20, 18), latent=2, components=0, hidden=6, architecture="conv"
    ),
    "tokens": lambda: TokenVAE.build(SHAPE, 8, dimensions=4, width=4),
    "token prior": lambda: TokenPrior.build(TokenVAE.build(SHAPE, 8, dimensions=4, width=4), width=8, layers=2),
    "hashing mlp": lambda: HashEncoder.build(8, SHAPE, hidden=6),
    "hashing conv": lambda: HashEncoder.build(8, (3, 20, 18), hidden=6, architecture="conv"),
    "sequences": lambda: SequenceGAN.build("ab", 6, hidden=4, discriminator_hidden=4),
    "decisions path": lambda: DecisionModel("path", {"grid": [3, 4]}, [2]),
    "decisions knapsack": lambda: DecisionModel("knapsack", {"weights": [[1, 2]], "capacity": [2]}, [3], hidden=4),
    "gaussian": lambda: GaussianVAE.build(3, SHAPE, hidden=6),
    "label linear": lambda: LabelVAE(torch.ones(3, 8, 8), latents=2),
    "label conv": lambda: LabelVAE(torch.ones(3, 8, 8, 8), latents=2, network="convolutional", width=2),
    "image encoder": lambda: ImageEncoder((16, 16), 3, width=2),
}


@pytest.mark.parametrize("name", MODELS)
def test_every_model_is_built_without_memory_first(name, tmp_path):
    torch.manual_seed(0)
    model = MODELS[name]()
    model.save_pretrained(tmp_path)
    state = torch.random.get_rng_state()
    loaded = type(model).from_pretrained(tmp_path)
    assert torch.equal(torch.random.get_rng_state(), state)
    expected = model.state_dict()
    assert list(loaded.state_dict()) == list(expected)
    for key, tensor in loaded.state_dict().items():
        assert tensor.device.type == "cpu"
        assert torch.equal(tensor, expected[key])


def list_numbers(config, path=()):
    """Return the places of all numbers of a configuration."""
    if isinstance(config, dict | list):
        keys = config if isinstance(config, dict) else range(len(config))
        return [place for key in keys for place in list_numbers(config[key], (*path, key))]
    return [path] if isinstance(config, int) and not isinstance(config, bool) else []


def replace_number(config, path, value):
    config = json.loads(json.dumps(config))
    inner = config
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return config


@pytest.mark.parametrize("name", MODELS)
def test_every_number_may_be_hostile(name, tmp_path):
    model = MODELS[name]()
    model.save_pretrained(tmp_path)
    file = tmp_path / "config.json"
    config = json.loads(file.read_text())
    for path in list_numbers(config):
        for value in (10**8, 2**31, 2**63, 10**30, 60_000, -1, -(10**8), 0, 2.5, float("nan"), "5", None, [1], True):
            file.write_text(json.dumps(replace_number(config, path, value)))
            message = ""
            try:
                type(model).from_pretrained(tmp_path)
            except DataError as error:
                message = str(error)
            assert "\n" not in message


BOMBS = {
    "layers of the encoder": ("discrete mlp", ("encoder_layers",), 100_000_000),
    "layers within the limit": ("discrete mlp", ("encoder_layers",), 60_000),
    "width": ("discrete mlp", ("hidden",), 60_000_000),
    "all edges of many bits": ("discrete mlp", ("space",), {"name": "pairwise", "n": 60_000}),
    "null edges": ("discrete mlp", ("space",), {"name": "pairwise", "n": 60_000, "edges": None}),
    "layers of the prior": ("token prior", ("layers",), 100_000_000),
    "codes of the tokenizer": ("token prior", ("tokenizer", "codes"), 2_000_000_000),
    "image": ("tokens", ("shape",), [1, 60_000, 60_000]),
    "bits": ("hashing mlp", ("bits",), 2_000_000_000),
    "symbols": ("sequences", ("hidden",), 50_000),
    "length": ("sequences", ("length",), 2_000_000_000),
    "grid of paths": ("decisions path", ("parameters", "grid"), [60_000, 60_000]),
    "items": ("decisions knapsack", ("hidden",), 60_000),
    "components": ("completion mlp", ("components",), 500_000_000),
    "latents": ("mixed", ("continuous",), 500_000_000),
    "labels": ("label linear", ("labels",), 60_000),
    "grid": ("image encoder", ("shape",), [60_000, 60_000]),
    "grid of thirds": ("image encoder", ("latents",), 300_000_000),
}

MEASURE = """
import resource, sys, time
from hardmax.applications.runs import load_model
from hardmax.applications.segmentation.vae.image_encoder import ImageEncoder
from hardmax.applications.segmentation.vae.label_vae import LabelVAE
from hardmax.errors import DataError
import hardmax.applications.completion, hardmax.applications.mixed_vae, hardmax.applications.hashing
import hardmax.applications.tokens, hardmax.applications.sequences
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
limit = (before << 10) + 6 * 2**30
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
for line in sys.stdin.read().splitlines():
    kind, folder = line.split(" ", 1)
    load = {"image": ImageEncoder.from_pretrained, "label": LabelVAE.from_pretrained}.get(kind, load_model)
    begin = time.perf_counter()
    try:
        load(folder)
        outcome = "loaded"
    except DataError as error:
        outcome = "refused"
    seconds = time.perf_counter() - begin
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(outcome, round(seconds, 3), (after - before) >> 10)
"""


def test_bombs_take_neither_memory_nor_time(tmp_path):
    lines = []
    for number, (model, path, value) in enumerate(BOMBS.values()):
        folder = tmp_path / str(number)
        MODELS[model]().save_pretrained(folder)
        file = folder / "config.json"
        file.write_text(json.dumps(replace_number(json.loads(file.read_text()), path, value)))
        lines.append(f"{model.split()[0]} {folder}")
    run = subprocess.run(
        [sys.executable, "-c", MEASURE], input="\n".join(lines), capture_output=True, text=True, check=True, timeout=200
    )
    results = [line.split() for line in run.stdout.splitlines()]
    assert len(results) == len(BOMBS)
    for name, (outcome, seconds, megabytes) in zip(BOMBS, results, strict=True):
        assert outcome == "refused", name
        assert float(seconds) < 10, name
        assert int(megabytes) < 1000, name


def test_the_first_difference_is_said(tmp_path):
    model = MODELS["hashing mlp"]()
    model.save_pretrained(tmp_path)
    file = tmp_path / "config.json"
    file.write_text(file.read_text().replace('"hidden": 6', '"hidden": 7'))
    message = r"do not fit the model: 'encoder.layers.0.weight' is floating \[6, 64\]"
    with pytest.raises(DataError, match=message) as caught:
        HashEncoder.from_pretrained(tmp_path)
    assert "\n" not in str(caught.value)
    assert find_difference({"a": torch.zeros(2)}, {"a": torch.zeros(2, dtype=torch.float64)}) is None
    assert find_difference({"a": torch.zeros(2)}, {"a": torch.zeros(2, dtype=torch.int64)}) is not None
    assert find_difference({"a": torch.zeros(2), "b": torch.zeros(1)}, {"a": torch.zeros(2)}) is not None


def test_other_threads_do_not_count(tmp_path):
    """A network of another thread, built at the same moment, is not counted as part of this one."""
    other_runs, stop = threading.Event(), threading.Event()

    def build_others():
        while not stop.is_set():
            nn.Linear(1, 1)
            other_runs.set()

    thread = threading.Thread(target=build_others)
    thread.start()
    try:
        assert other_runs.wait(10)
        layers = [nn.Linear(1, 1) for _ in range(40)]
        tensors = nn.Sequential(*layers).state_dict()
        for _ in range(5):
            build_checked(lambda config: nn.Sequential(*(nn.Linear(1, 1) for _ in range(40))), {}, tensors, "text", "x")
    finally:
        stop.set()
        thread.join()
