"""Names of folders, files, classes, attributes and tokens are text on the page of every application, no more."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from browser import HOSTILE_NAME, NAMES, TEXTS, assert_inert, dump_dom, needs_browser
from PIL import Image
from squares import squares

from hardmax.applications.completion.config import CompletionConfig
from hardmax.applications.decisions.config import DecisionsConfig
from hardmax.applications.discrete_vae.config import DiscreteConfig
from hardmax.applications.hashing.config import HashingConfig
from hardmax.applications.mixed_vae.config import MixedConfig
from hardmax.applications.registry import list_trained
from hardmax.applications.runs import read_run, render_report, train
from hardmax.applications.sequences.config import SequenceGANConfig
from hardmax.applications.tokens.config import DvaeConfig, TokenPriorConfig
from hardmax.cli.main import main

SMALL = {"epochs": 1, "batch_size": 30, "evaluate_images": 10}
CONFIGS = {
    "discrete": DiscreteConfig(categories=3, hidden=8, estimator="exact", **SMALL),
    "attributes": MixedConfig(labels=20, head_epochs=1, continuous=2, binarize="none", **SMALL),
    "classes": MixedConfig(labels=20, head_epochs=1, continuous=2, binarize="none", **SMALL),
    "completion": CompletionConfig(mask="centre", components=2, latent=2, hidden=8, **SMALL),
    "dvae": DvaeConfig(codes=4, width=4, dimensions=2, grid=4, **SMALL),
    "token-prior": TokenPriorConfig(width=8, layers=1, heads=2, **SMALL),
    "hashing": HashingConfig(bits=8, hidden=8, **SMALL),
    "sequence-gan": SequenceGANConfig(epochs=1, hidden=8, discriminator_hidden=8, length=3),
    "decisions": DecisionsConfig(epochs=1, examples=64, grid=3),
}
ATTRIBUTES = ('"><script>alert(1)</script>', r"\1\g<0>{{ 7*7 }}&lt;")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Return the data of each run: files and folders with hostile names and contents."""
    folder = tmp_path_factory.mktemp("data") / HOSTILE_NAME
    folder.mkdir()
    images, bits = squares(60)
    file = folder / f"{HOSTILE_NAME}.npz"
    np.savez(file, images=images, attributes=bits, attribute_names=np.array(ATTRIBUTES))
    for i, pixels in enumerate(images):
        name = folder / "classes" / NAMES[i % len(NAMES)].replace("/", "") / f"{i}.png"
        name.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(name)
    grammar = folder / f"{HOSTILE_NAME}.grammar"
    words = [text.replace(" ", "").replace("|", "") for text in TEXTS]
    grammar.write_text("".join(f"s -> {word} x\n" for word in words) + "x -> u | v\n")
    return {"classes": folder / "classes", "sequence-gan": grammar, "token-prior": None} | dict.fromkeys(
        ("discrete", "attributes", "completion", "dvae", "hashing"), file
    )


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory):
    """Return a function that trains a run once, in a folder with a hostile name, and returns this folder."""
    folders = {}

    def train_run(kind):
        if kind not in folders:
            folder = tmp_path_factory.mktemp(kind) / HOSTILE_NAME
            config = replace(CONFIGS[kind], out=str(folder))
            if kind == "token-prior":
                config = replace(config, tokenizer=str(train_run("dvae")))
            elif kind != "decisions":  # its data are generated
                config = replace(config, data=str(data[kind]))
            if kind == "attributes":
                config = replace(config, attributes=",".join(ATTRIBUTES))
            assert train(config)
            folders[kind] = folder
        return folders[kind]

    return train_run


def copy_run(folder, parent):
    """Copy a run; the copy has the same options, so that only the folder distinguishes the two on a page."""
    return shutil.copytree(folder, parent / f"copy {HOSTILE_NAME}")


def test_every_application_is_here():
    assert {application.name for application in list_trained()} <= {config.model for config in CONFIGS.values()}


@pytest.mark.parametrize("kind", CONFIGS)
def test_reports(kind, trained, tmp_path):
    names = ATTRIBUTES if kind == "attributes" else (NAMES[0],) if kind == "classes" else ()
    one = render_report([read_run(trained(kind))])
    assert_inert(one, HOSTILE_NAME, *names)
    several = render_report([read_run(trained(kind)), read_run(copy_run(trained(kind), tmp_path))])
    assert_inert(several, HOSTILE_NAME, f"copy {HOSTILE_NAME} ends at ", *names)  # the latter describes a figure


def test_runs_on_two_files(trained, data, tmp_path):
    """The names of the files distinguish the runs on the page."""
    moved = shutil.copy(data["discrete"], tmp_path / f"moved {HOSTILE_NAME}.npz")
    copy = copy_run(trained("discrete"), tmp_path)
    facts = json.loads((copy / "config.json").read_text())
    facts["config"]["data"] = str(moved)
    (copy / "config.json").write_text(json.dumps(facts))
    page = render_report([read_run(trained("discrete")), read_run(copy)])
    assert_inert(page, f"moved {HOSTILE_NAME}.npz ends at ")


@needs_browser
@pytest.mark.parametrize("kind", CONFIGS)
def test_reports_in_a_browser(kind, trained, tmp_path, capsys):
    for number, runs in enumerate(([trained(kind)], [trained(kind), copy_run(trained(kind), tmp_path)])):
        page = tmp_path / f"{number}.html"
        assert main(["report", *map(str, runs), "--out", str(page)]) == 0
        assert_inert(dump_dom(page, tmp_path / "browser"), HOSTILE_NAME)
    capsys.readouterr()


@needs_browser
def test_the_policy_stops_scripts(trained, tmp_path):
    """The second wall: if a script came into a page nevertheless, the browser would not run it."""
    page = render_report([read_run(trained("discrete"))])
    script = "<script>document.title = 'it ran'</script><img src=x onerror=\"document.title = 'it ran'\"></body>"
    path = tmp_path / "page.html"
    path.write_text(page.replace("</body>", script), encoding="utf-8")
    assert "<title>it ran</title>" not in dump_dom(path, tmp_path / "browser")
    path.write_text(page.replace("</body>", script).replace("Content-Security-Policy", "none"), encoding="utf-8")
    assert "<title>it ran</title>" in dump_dom(path, tmp_path / "browser")
