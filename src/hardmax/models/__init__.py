"""Base classes of models that are saved and loaded, and the Gaussian VAE."""

from hardmax.models.gaussian_vae import GaussianVAE
from hardmax.models.image_vae import AbstractVAE
from hardmax.models.pretrained import AbstractModel

__all__ = ["AbstractModel", "AbstractVAE", "GaussianVAE"]
