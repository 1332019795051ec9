"""The discrete variational auto-encoder."""

import json
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, final

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from hardmax.errors import ArgumentError, DataError
from hardmax.estimators import AbstractEstimator
from hardmax.nn import ConvDecoder, ConvEncoder, MLPDecoder, MLPEncoder
from hardmax.objectives import (
    AbstractLikelihood,
    BernoulliLikelihood,
    Bounds,
    Elbo,
    GaussianLikelihood,
    elbo,
    exact_bounds,
    greedy_bound,
    importance_weighted_bound,
    perturb_and_map_bound,
)
from hardmax.objectives.elbo import Kl
from hardmax.spaces import (
    AbstractSpace,
    Binary,
    Categorical,
    Chain,
    PairwiseBinary,
    Permutation,
    SpanningTree,
    Subset,
)

Architecture = Literal["mlp", "conv"]
LikelihoodName = Literal["bernoulli", "gaussian"]

_NETWORKS = {"mlp": (MLPEncoder, MLPDecoder), "conv": (ConvEncoder, ConvDecoder)}
_SPACES = {
    "categorical": Categorical,
    "binary": Binary,
    "pairwise": PairwiseBinary,
    "subset": Subset,
    "chain": Chain,
    "permutation": Permutation,
    "spanning-tree": SpanningTree,
}
_EXACT_UP_TO = 2**16  # codes; beyond, bounds are sampled


@final
class DiscreteVAE(nn.Module):
    """`p(x) = sum_z p(z) p(x | z)` with an encoder `q(z | x)`, z in any space.

    Args:
        encoder: maps x `[B, *shape]` to scores `[B, *score]`.
        decoder: maps z `[R, *event]` to the parameters of the pixels, `[R, *shape]`.
        space: what z may be.
        estimator: how the encoder's gradient is estimated; "auto" as for `hardmax.elbo`.
        prior: "uniform", or "learned" scores of p(z).
        likelihood: "bernoulli" (x in [0, 1]; the decoder gives logits) or "gaussian" (means; one learned variance).

    Example:
        >>> import torch, hardmax as hm
        >>> model = hm.DiscreteVAE.build(hm.Categorical(10), (1, 28, 28))
        >>> out = model(torch.rand(8, 1, 28, 28).round())
        >>> (-out.value.mean()).backward()
        >>> model.sample(4)[0].shape
        torch.Size([4, 1, 28, 28])

    References:
        Lorberbom et al., 2019, section 3 and 5.1.
    """

    def __init__(
        self,
        encoder: nn.Module,
        decoder: nn.Module,
        space: AbstractSpace,
        estimator: AbstractEstimator | Literal["auto"] = "auto",
        prior: Literal["uniform", "learned"] = "uniform",
        likelihood: LikelihoodName = "bernoulli",
    ) -> None:
        super().__init__()
        if prior not in ("uniform", "learned"):
            raise ArgumentError(f"prior must be 'uniform' or 'learned', got {prior!r}")
        if likelihood not in ("bernoulli", "gaussian"):
            raise ArgumentError(f"likelihood must be 'bernoulli' or 'gaussian', got {likelihood!r}")
        if prior == "learned" and not (space.offers("log_prob") and space.offers("draw")):
            raise ArgumentError(
                f"a learned prior needs exact probabilities, which {space} does not offer; use 'uniform'"
            )
        if prior == "learned" and isinstance(space, PairwiseBinary) and space.supermodular:
            raise ArgumentError(f"a learned prior may not keep the promise of {space}; use 'uniform'")
        self.encoder, self.decoder, self.space = encoder, decoder, space
        self.estimator: AbstractEstimator | Literal["auto"] = estimator
        self.prior = nn.Parameter(torch.zeros(space.score_shape)) if prior == "learned" else None
        self.log_variance = nn.Parameter(torch.zeros(())) if likelihood == "gaussian" else None
        self._config: dict[str, Any] | None = None

    @classmethod
    def build(
        cls,
        space: AbstractSpace,
        shape: tuple[int, ...],
        *,
        architecture: Architecture = "mlp",
        hidden: int = 300,
        encoder_layers: int = 1,
        decoder_layers: int = 1,
        estimator: AbstractEstimator | Literal["auto"] = "auto",
        prior: Literal["uniform", "learned"] = "uniform",
        likelihood: LikelihoodName = "bernoulli",
    ) -> "DiscreteVAE":
        """Return a model with networks of our own, for pictures of this shape (channels, H, W).

        Raises:
            ArgumentError: an unknown architecture, or a space that these networks do not serve; more hidden layers
                than one for convolutional networks.
        """
        if architecture not in _NETWORKS:
            raise ArgumentError(f"architecture must be one of {list(_NETWORKS)}, got {architecture!r}")
        names = [name for name, kind in _SPACES.items() if isinstance(space, kind)]
        if not names:
            raise ArgumentError(f"no network of ours serves {space}; give DiscreteVAE your own encoder and decoder")
        if (encoder_layers, decoder_layers) != (1, 1) and architecture != "mlp":
            raise ArgumentError(
                f"encoder_layers and decoder_layers are for the architecture 'mlp', not for {architecture!r}"
            )
        encoder, decoder = (
            network(shape, space, hidden, **({} if layers == 1 else {"layers": layers}))
            for network, layers in zip(_NETWORKS[architecture], (encoder_layers, decoder_layers), strict=True)
        )
        model = cls(encoder, decoder, space, estimator, prior, likelihood)
        model._config = {
            "model": "discrete-vae",
            "space": {"name": names[0], **_fields(space)},
            "shape": list(shape),
            "architecture": architecture,
            "hidden": hidden,
            "encoder_layers": encoder_layers,
            "decoder_layers": decoder_layers,
            "prior": prior,
            "likelihood": likelihood,
        }
        return model

    def forward(
        self,
        x: Tensor,
        *,
        estimator: AbstractEstimator | Literal["auto"] | None = None,
        kl: Kl = "auto",
        samples: int | None = None,
        generator: torch.Generator | None = None,
        noise: Tensor | None = None,
        chunk_size: int | None = None,
        validate: bool = True,
    ) -> Elbo:
        """Estimate the bound of x `[B, *shape]`; minimise `-value.mean()`. An estimator given here is for this call."""
        return elbo(
            self.likelihood(x),
            self.encoder(x),
            self.space,
            self.estimator if estimator is None else estimator,
            prior=self.prior,
            kl=kl,
            samples=samples,
            generator=generator,
            noise=noise,
            chunk_size=chunk_size,
            validate=validate,
        )

    def likelihood(self, x: Tensor) -> AbstractLikelihood:
        """Return `log p(x | z)` as an objective."""
        if self.log_variance is None:
            return BernoulliLikelihood(self.decoder, x)
        return GaussianLikelihood(self.decoder, x, self.log_variance)

    @property
    def enumerable(self) -> bool:
        """Whether `bounds` are exact."""
        return self.space.size <= _EXACT_UP_TO

    @torch.no_grad()
    def bounds(self, x: Tensor, *, samples: int = 100, generator: torch.Generator | None = None) -> Bounds:
        """Return the bound and log p(x) of x `[B, *shape]`: exact where z can be enumerated, else from samples.

        They are those of the Gibbs distribution of the scores where it can be sampled; for more interacting bits those
        of perturb-and-MAP.
        """
        likelihood, scores = self.likelihood(x), self.encoder(x)
        if self.enumerable:
            return exact_bounds(likelihood, scores, self.space, prior=self.prior)
        if not self.space.offers("draw"):
            return self.perturb_and_map_bounds(x, samples=samples, generator=generator)
        return importance_weighted_bound(
            likelihood, scores, self.space, samples=samples, prior=self.prior, generator=generator, chunk_size=10
        )

    @torch.no_grad()
    def perturb_and_map_bounds(
        self, x: Tensor, *, samples: int = 100, generator: torch.Generator | None = None
    ) -> Bounds:
        """Return the bounds of x with the encoder as perturb-and-MAP, at any size; from samples."""
        return perturb_and_map_bound(
            self.likelihood(x),
            self.encoder(x),
            self.space,
            samples=samples,
            prior=self.prior,
            generator=generator,
            chunk_size=10,
        )

    @torch.no_grad()
    def refined(self, x: Tensor) -> Tensor:
        """Return the bound `[B]` of the encoder's best z after greedy changes: beside `bounds`, never instead."""
        return greedy_bound(self.likelihood(x), self.encoder(x), self.space, prior=self.prior, chunk_size=64)[0]

    @torch.no_grad()
    def decode(self, z: Tensor) -> Tensor:
        """Return the mean picture of each z: `[R, *event] -> [R, *shape]`."""
        parameters = self.decoder(z)
        return parameters.sigmoid() if self.log_variance is None else parameters

    @torch.no_grad()
    def sample(self, count: int, *, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Draw z from the prior; return their mean pictures `[count, *shape]` and z `[count, *event]`."""
        parameter = next(self.parameters())
        scores = parameter.new_zeros(self.space.score_shape) if self.prior is None else self.prior
        if self.space.offers("draw"):
            z = self.space.sample(scores, count, generator=generator)
        else:  # the prior is uniform, and with scores of zero perturb-and-MAP is so too
            z = self.space.argmax(self.space.perturb(scores, self.space.noise((count,), generator=generator)))
        return self.decode(z), z

    def save_pretrained(self, folder: str | Path) -> None:
        """Write `config.json` and `model.safetensors` into a folder, each to a temporary name first."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        config = self._config or {"model": "discrete-vae", "architecture": None}
        weights = {name: tensor.contiguous() for name, tensor in self.state_dict().items()}
        temporary = folder / "model.safetensors.tmp"
        save_file(weights, temporary)
        temporary.replace(folder / "model.safetensors")
        temporary = folder / "config.json.tmp"
        temporary.write_text(json.dumps(config, indent=2) + "\n")
        temporary.replace(folder / "config.json")

    @classmethod
    def from_pretrained(
        cls, folder: str | Path, model: "DiscreteVAE | None" = None, *, device: torch.device | str = "cpu"
    ) -> "DiscreteVAE":
        """Load what `save_pretrained` wrote; nothing is unpickled.

        Args:
            folder: the one that was written.
            model: one with networks of your own, to be filled; not needed for those made by `build`.
            device: where the weights go.

        Raises:
            DataError: a file is missing or broken, or the weights do not fit.
        """
        folder = Path(folder)
        for name in ("config.json", "model.safetensors"):
            if not (folder / name).is_file():
                raise DataError(f"{folder} holds no saved model: {name} is missing")
        try:
            config = json.loads((folder / "config.json").read_text())
            weights = load_file(folder / "model.safetensors", device=str(device))
        except Exception as error:  # safetensors has an error class of its own
            raise DataError(f"cannot read the model in {folder}: {error}") from error
        if model is None:
            model = cls._from_config(config, folder)
        try:
            model.to(device).load_state_dict(weights)
        except RuntimeError as error:
            raise DataError(f"the weights in {folder} do not fit the model: {error}") from error
        return model

    @classmethod
    def _from_config(cls, config: dict[str, Any], folder: Path) -> "DiscreteVAE":
        if not config.get("architecture"):
            raise DataError(f"{folder} was saved from networks of your own: pass them, from_pretrained(folder, model)")
        try:
            space = dict(config["space"])
            with torch.random.fork_rng(devices=[]):  # weights that are replaced at once take no global randomness
                return cls.build(
                    _SPACES[space.pop("name")](**space),
                    tuple(config["shape"]),
                    architecture=config["architecture"],
                    hidden=config["hidden"],
                    encoder_layers=config.get("encoder_layers", 1),
                    decoder_layers=config.get("decoder_layers", 1),
                    prior=config["prior"],
                    likelihood=config["likelihood"],
                )
        except (KeyError, TypeError) as error:
            raise DataError(
                f"{folder / 'config.json'} is not the configuration of a discrete VAE: {error!r}"
            ) from error


def _fields(space: AbstractSpace) -> dict[str, Any]:
    """Return what a space was made with; `vars` would also give what it has computed since."""
    assert is_dataclass(space)
    return {field.name: getattr(space, field.name) for field in fields(space)}
