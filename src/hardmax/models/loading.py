"""Load a saved model without knowing its kind."""

from pathlib import Path

import torch

from hardmax.errors import DataError
from hardmax.models.completion import CompletionModel
from hardmax.models.discrete_vae import DiscreteVAE
from hardmax.models.gaussian_vae import GaussianVAE
from hardmax.models.hashing import HashEncoder
from hardmax.models.mixed_vae import MixedVAE
from hardmax.models.pretrained import AbstractModel, saved_config
from hardmax.models.sequence_gan import SequenceGAN
from hardmax.models.token_prior import TokenPrior
from hardmax.models.token_vae import TokenVAE

_MODELS: tuple[type[AbstractModel], ...] = (
    CompletionModel,
    DiscreteVAE,
    GaussianVAE,
    HashEncoder,
    MixedVAE,
    SequenceGAN,
    TokenPrior,
    TokenVAE,
)
_KINDS = {model.kind: model for model in _MODELS}


def load_model(folder: str | Path, *, device: torch.device | str = "cpu") -> AbstractModel:
    """Load whatever model `save_pretrained` wrote into a folder; nothing is unpickled.

    Args:
        folder: the one that was written, from a model made by `build`.
        device: where the weights go.

    Returns:
        A model of the kind that was saved.

    Raises:
        DataError: a file is missing or broken, or the kind is unknown.

    Example:
        >>> import tempfile, hardmax as hm
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     hm.MixedVAE.build(hm.Categorical(3), (1, 4, 4)).save_pretrained(folder)
        ...     type(hm.load_model(folder)).__name__
        'MixedVAE'
    """
    folder = Path(folder)
    kind = saved_config(folder).get("model")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise DataError(f"{folder} holds a model of the unknown kind {kind!r}; known are {', '.join(_KINDS)}")
    return _KINDS[kind].from_pretrained(folder, device=device)
