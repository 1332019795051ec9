"""What a run is told that trains a variational auto-encoder of pictures through an arg max. No torch here."""

from dataclasses import dataclass
from typing import Literal

from hardmax.training.estimator_config import EstimatorConfig
from hardmax.training.picture_config import PictureConfig


@dataclass(frozen=True)
class VAEConfig(EstimatorConfig, PictureConfig):
    """What a run is told that trains a variational auto-encoder of pictures through an arg max."""

    kl: Literal["auto", "beside", "none"] = "auto"
    """How the KL takes part in the encoder's gradient: auto (inside the objective of direct, else beside), beside
    (the paper's form), none (what the paper's released code trains with direct)."""
