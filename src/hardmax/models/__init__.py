"""Models that can be trained, saved and loaded."""

from hardmax.models.bernoulli_mixture import BernoulliMixture
from hardmax.models.completion import CompletionModel
from hardmax.models.discrete_vae import DiscreteVAE
from hardmax.models.encoded import Encoded
from hardmax.models.gaussian_vae import GaussianVAE
from hardmax.models.hashing import HashEncoder
from hardmax.models.loading import load_model
from hardmax.models.mixed_vae import MixedVAE
from hardmax.models.pretrained import AbstractModel
from hardmax.models.sequence_discriminator import SequenceDiscriminator
from hardmax.models.sequence_gan import SequenceGAN
from hardmax.models.sequence_generator import SequenceGenerator
from hardmax.models.token_prior import TokenPrior
from hardmax.models.token_vae import Quantized, TokenVAE
from hardmax.models.vae import AbstractVAE

__all__ = [
    "AbstractModel",
    "AbstractVAE",
    "BernoulliMixture",
    "CompletionModel",
    "DiscreteVAE",
    "Encoded",
    "GaussianVAE",
    "HashEncoder",
    "MixedVAE",
    "Quantized",
    "SequenceDiscriminator",
    "SequenceGAN",
    "SequenceGenerator",
    "TokenPrior",
    "TokenVAE",
    "load_model",
]
