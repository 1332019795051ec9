"""A small training of every application, and what must be the same after any interruption."""

import hashlib
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hardmax.applications.completion.config import CompletionConfig
from hardmax.applications.decisions.config import DecisionsConfig
from hardmax.applications.discrete_vae.config import DiscreteConfig
from hardmax.applications.hashing.config import HashingConfig
from hardmax.applications.mixed_vae.config import MixedConfig
from hardmax.applications.runs import load_run, train
from hardmax.applications.segmentation.vae.label_training import minimise_loss
from hardmax.applications.segmentation.vae.label_vae import LabelVAE
from hardmax.applications.sequences.config import SequenceGANConfig
from hardmax.applications.tokens.config import DvaeConfig, TokenPriorConfig
from hardmax.training.config import TrainConfig
from hardmax.training.run_folder import find_checkpoint, has_run, read_rows

_IGNORED = (".lock", "timing.jsonl", "starts.jsonl")


@dataclass(frozen=True)
class Training:
    """A training that can be interrupted.

    Attributes:
        name: name of the application.
        run: trains in a folder from the begin, or resumes what is there, to the end.
        summarize: returns everything that must be the same after an interruption, by name.
        inspect: reads the folder at any moment, as other commands do.
    """

    name: str
    run: Callable[[Path], None]
    summarize: Callable[[Path], dict[str, str]]
    inspect: Callable[[Path], None]


def make_trainings(folder: Path, only: Collection[str] | None = None) -> list[Training]:
    """Write the data; return a training of every application, or of some by name."""
    folder.mkdir(parents=True)
    random = np.random.default_rng(0)
    images, labels = random.integers(0, 256, (60, 8, 8)).astype(np.uint8), np.arange(60) % 3
    data, tokenizer = folder / "images.npz", folder / "tokenizer"
    np.savez_compressed(data, images=images, labels=labels)
    common: dict[str, Any] = {"data": str(data), "epochs": 3, "batch_size": 16, "checkpoint_every": 2, "lr": 0.01}
    tokens = DvaeConfig(**common, codes=4, dimensions=3, width=2)
    if only is None or "token-prior" in only:
        train(replace(tokens, out=str(tokenizer), epochs=1))
    configs: list[TrainConfig] = [
        DiscreteConfig(**common, hidden=4, categories=3, binarize="stochastic", starts=2, start_epochs=1),
        MixedConfig(**common, labels=12, labelled_batch=6, head_epochs=1, continuous=2),
        CompletionConfig(**common, components=2, latent=2, hidden=4),
        tokens,
        TokenPriorConfig(**common, tokenizer=str(tokenizer), width=4, layers=1, heads=2),
        HashingConfig(**common, bits=4, hidden=4),
        SequenceGANConfig(
            **{**common, "data": "brackets", "batch_size": 2000},
            length=4,
            hidden=4,
            discriminator_hidden=4,
            evaluate_draws=20,
        ),
        DecisionsConfig(
            **{**common, "data": "path"},
            loss="fenchel-young",
            grid=3,
            examples=64,
            validation_examples=8,
            test_examples=8,
        ),
    ]
    trainings = [_make_training(config) for config in configs] + [_make_label_training()]
    return [training for training in trainings if only is None or training.name in only]


def _make_training(config: TrainConfig) -> Training:
    def run(folder: Path) -> None:
        assert train(replace(config, out=str(folder), resume=has_run(folder)))

    def inspect(folder: Path) -> None:
        if has_run(folder):
            load_run(folder)
            read_rows(folder / "metrics.jsonl")

    return Training(config.model, run, summarize_run, inspect)


def summarize_run(folder: Path) -> dict[str, str]:
    """Return the names of all files of a run, hashes of the metrics and checkpoints, and the results of its starts."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name not in _IGNORED]
    summary = {str(path.relative_to(folder)): _hash(path) for path in files}
    for pointer in ("latest", "best"):
        summary[f"name of {pointer}"] = str(find_checkpoint(folder, pointer))
    starts = [{key: value for key, value in row.items() if key not in ("seconds", "processor")}
              for row in read_rows(folder / "starts.jsonl")]  # fmt: skip
    del summary["config.json"]  # it has the name of the folder
    return {
        **summary,
        "starts": str(starts),
        "epochs": str([row["epoch"] for row in read_rows(folder / "timing.jsonl")]),
    }


def _make_label_training() -> Training:
    """The training of the segmentation's networks, which has its own files."""

    def make() -> tuple[LabelVAE, torch.Tensor]:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            vae = LabelVAE(torch.ones(2, 4, 4), latents=2, network="convolutional", width=2)
            return vae, torch.rand(5, 2, 4, 4).softmax(1)

    def run(folder: Path) -> None:
        vae, maps = make()
        minimise_loss(
            vae,
            lambda generator: -vae(maps, generator=generator).value.mean(),
            steps=12,
            rate=1e-2,
            folder=folder,
            every=2,
        )

    def summarize(folder: Path) -> dict[str, str]:
        return {path.name: _hash(path) for path in sorted(folder.rglob("*")) if not path.name.endswith(".tmp")}

    return Training("label-vae", run, summarize, lambda folder: None)


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.is_file() else "folder"
