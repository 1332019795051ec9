"""Saved models of every application: a configuration, and the weights."""

from pathlib import Path

import torch

import hardmax as hm
from hardmax.applications.completion import CompletionModel
from hardmax.applications.decisions import DecisionModel
from hardmax.applications.hashing import HashEncoder
from hardmax.applications.mixed_vae import MixedVAE
from hardmax.applications.runs import load_model
from hardmax.applications.sequences import SequenceGAN
from hardmax.applications.tokens import TokenPrior, TokenVAE
from tools.fuzz.corpus.target import Target

_SHAPE = (1, 6, 6)


def make_targets(folder: Path) -> list[Target]:
    """Write the files; return the targets."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        tokenizer = TokenVAE.build(_SHAPE, 4, dimensions=3, width=2)
        models = {
            "discrete": hm.DiscreteVAE.build(hm.PairwiseBinary(3), _SHAPE, hidden=3, encoder_layers=2),
            "convolutional": hm.DiscreteVAE.build(
                hm.Categorical(3, 2), (3, 10, 9), architecture="conv", hidden=3, likelihood="gaussian"
            ),
            "mixed": MixedVAE.build(hm.Categorical(3), _SHAPE, continuous=2, hidden=3),
            "completion": CompletionModel.build(_SHAPE, components=2, latent=2, hidden=3),
            "tokens": tokenizer,
            "token prior": TokenPrior.build(tokenizer, width=4, layers=1, heads=2),
            "hashing": HashEncoder.build(5, _SHAPE, hidden=3),
            "sequences": SequenceGAN.build("ab", 4, hidden=3, discriminator_hidden=3),
            "paths": DecisionModel("path", {"grid": [3, 4]}, [2]),
            "knapsacks": DecisionModel("knapsack", {"weights": [[1, 2, 3]], "capacity": [4]}, [2], hidden=3),
        }
    targets = []
    for name, model in models.items():
        place = folder / name
        model.save_pretrained(place)
        for file in ("config.json", "model.safetensors"):
            targets.append(Target(f"model {name} {file}", place / file, lambda place=place: load_model(place)))
    return targets
