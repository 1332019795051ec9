"""Models that can be trained, saved and loaded."""

from hardmax.models.completion import CompletionModel
from hardmax.models.discrete_vae import DiscreteVAE
from hardmax.models.encoded import Encoded
from hardmax.models.loading import load_model
from hardmax.models.mixed_vae import MixedVAE
from hardmax.models.pretrained import AbstractModel
from hardmax.models.vae import AbstractVAE

__all__ = ["AbstractModel", "AbstractVAE", "CompletionModel", "DiscreteVAE", "Encoded", "MixedVAE", "load_model"]
