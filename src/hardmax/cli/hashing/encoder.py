"""A run's encoder, and the codes it gives to pictures."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import UInt8, UInt64
from torch import Tensor

from hardmax.data import binarize
from hardmax.models import HashEncoder
from hardmax.random import stream
from hardmax.training.hashing.config import HashingConfig
from hardmax.training.hashing.evaluate import codes_of, packed
from hardmax.training.restore import restore


@dataclass(frozen=True, eq=False)
class Encoder:
    """What gives pictures their codes.

    Attributes:
        model: of the run.
        config: of the run.
        checkpoint: the name of that which the model is from.
        weights: SHA-256 of its weights.
    """

    model: HashEncoder
    config: HashingConfig
    checkpoint: str
    weights: str

    def codes(self, pictures: UInt8[Tensor, "N channels H W"]) -> UInt64[np.ndarray, "N words"]:
        """Return the packed codes of pictures; where pixels are drawn, the same picture has the same ones."""
        device = next(self.model.parameters()).device
        found = []
        for some in pictures.split(1000):
            seen = binarize(some, self.config.binarize, stream(self.config.seed, "binarize", "index"))
            found.append(packed(codes_of(self.model, seen.to(device))))
        return np.concatenate(found)


def read_encoder(run: str, checkpoint: str, device: str = "cpu") -> Encoder:
    """Bring back a run's encoder.

    Raises:
        DataError: no run is there, or one of another model.
    """
    which = "best" if checkpoint == "best" else "latest"
    restored = restore(run, which, device=device, kind=HashEncoder)
    weights = (Path(run) / restored.checkpoint / "model.safetensors").read_bytes()
    return Encoder(restored.model, restored.config, restored.checkpoint, hashlib.sha256(weights).hexdigest())
