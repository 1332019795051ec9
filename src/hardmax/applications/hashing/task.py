"""Train a hash encoder on pairs of images, and evaluate its codes."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Float, Int64, UInt64
from torch import Tensor

from hardmax.applications.hashing.config import HashingConfig
from hardmax.applications.hashing.model import Contrast, HashEncoder
from hardmax.applications.hashing.objective import InfoNCECodes, TripletCodes
from hardmax.applications.hashing.pairs import make_pairs
from hardmax.applications.hashing.retrieval import measure_code_precision
from hardmax.applications.hashing.search import pack
from hardmax.data import Images
from hardmax.data.augmentation import augment_images
from hardmax.estimators import AbstractEstimator
from hardmax.random import stream
from hardmax.spaces import Binary
from hardmax.training.estimators import choose_estimator
from hardmax.training.processes import ALONE, Group
from hardmax.training.task import SPLITS, AbstractTask, Row, choose_networks, draw_initial_weights, prepare_split

NEAREST = 100  # codes per query over which precision is measured
_AT_ONCE = 1000


@torch.no_grad()
def encode_bits(model: HashEncoder, pictures: Float[Tensor, "N ..."]) -> Float[Tensor, "N n"]:
    """Return the bits of images, computed in evaluation mode; the mode of the model is restored."""
    training = model.training
    model.eval()
    try:
        return torch.cat([model.codes(batch) for batch in pictures.split(_AT_ONCE)])
    finally:
        model.train(training)


def pack_codes(codes: Float[Tensor, "N n"]) -> UInt64[np.ndarray, "N words"]:
    """Return codes as packed words."""
    return pack(codes.bool().cpu().numpy())


def measure_bits(codes: Float[Tensor, "N n"]) -> dict[str, float]:
    """Return how well codes use their bits.

    `balance` is the mean variance of a bit, 1 where every bit is one for half of the images; `correlation` the mean
    absolute correlation of two bits, 0 where all are uncorrelated. A constant bit has correlation 0.
    """
    signs = 2 * codes.double() - 1
    variances = 1 - signs.mean(0).square()
    if codes.shape[1] < 2 or len(codes) < 2:
        return {"balance": float(variances.mean()), "correlation": 0.0}
    centred = (signs - signs.mean(0)) / variances.clamp_min(1e-12).sqrt()
    between = (centred.T @ centred / len(codes)).abs()
    n = codes.shape[1]
    return {"balance": float(variances.mean()), "correlation": float((between.sum() - between.trace()) / (n * n - n))}


def measure_precision(
    queries: Float[Tensor, "Q n"], wanted: Int64[Tensor, "Q"] | None, base: Float[Tensor, "N n"], labels: Tensor | None
) -> float | None:
    """Return the share of the 100 nearest codes that have the query's label; None without labels."""
    if wanted is None or labels is None or not (wanted >= 0).any():
        return None
    arguments = pack_codes(queries), wanted.cpu().numpy(), pack_codes(base), labels.cpu().numpy()
    return measure_code_precision(*arguments, (min(NEAREST, len(base)),))[0]


@final
class HashingTask(AbstractTask[HashingConfig, HashEncoder]):
    """Minimise a contrastive loss of the codes of pairs, `E[L(z)]`, through the arg max.

    `objective` is -L: of sampled codes in training, of the most probable ones in evaluation.
    """

    sums = ("objective", "evaluations")

    def __init__(self, config: HashingConfig, images: Images, model: HashEncoder, group: Group) -> None:
        self.config, self.group = config, group
        self.model = model.to(config.device)
        self.pictures = {"train": prepare_split(config, images, "train").to(config.device)}
        for split in SPLITS:
            self.pictures[split] = prepare_split(config, images, split)[: config.evaluate_images].to(config.device)
        self.labels = images.labels
        self.count = len(self.pictures["train"])
        self.pairs = make_pairs(config, images, self.pictures)
        self.generators = {name: torch.Generator(config.device) for name in ("pairs", "distort", "noise")}
        self._steps = 0
        self._coded: tuple[int, Tensor] | None = None

    @classmethod
    def start(cls, config: HashingConfig, images: Images, start: int = 0, group: Group = ALONE) -> "HashingTask":
        """Return the task with the initial weights of number `start`; torch's global generator is left unchanged."""
        with draw_initial_weights(config.seed, start):
            model = HashEncoder.build(
                config.bits,
                images.shape,
                architecture=choose_networks(config.architecture, images.shape),
                hidden=config.hidden,
                gain=config.gain,
            )
        return cls(config, images, model, group)

    @classmethod
    def couples_examples(cls, config: HashingConfig) -> bool:
        """Return True: every pair is contrasted with all others of its batch."""
        return True

    def explain(self) -> str:
        """Describe the training pairs, the loss and the estimator."""
        config = self.config
        pairs = {
            "neighbours": f"{config.neighbours} nearest neighbours by pixels",
            "distorted": f"distorted copies ({config.augment})",
            "labels": "pictures of one class",
        }
        estimator = self._estimator(0, 0)
        return f"{config.bits} bits from pairs with {pairs[config.pairs]}, {config.contrast}, by {estimator}"

    def add_gradients(self, index: Tensor, epoch: int, step: int) -> Tensor:
        """Add the gradients of the loss of a step."""
        self._steps += 1
        index = index.to(self.config.device)
        train = self.pictures["train"]
        other = self.pairs.draw(index, self.generators["pairs"])
        both = self._distorted(torch.cat([train[index], train[other]]), self.generators["distort"])
        estimator = self._estimator(epoch, step)
        samples = (self.config.samples or estimator.default_samples) * estimator.noises
        shape = (samples, len(both))
        out = self.model(
            *both.chunk(2),
            negative=self.pairs.negative("train", index),
            contrast=self._contrast,
            estimator=estimator,
            noise=self.model.space.noise(shape, self.generators["noise"], device=self.config.device),
        )
        (-out.value.sum()).backward()
        count = len(index)
        sums = [out.value.detach().mean() * count, out.value.new_tensor(out.evaluations * count)]
        return torch.stack([*sums, out.value.new_tensor(count)])

    def evaluate(self, split: str) -> dict[str, Any]:
        """Return the objective of pairs, the usage of the bits, and the share of nearest images of the same class."""
        base, queries = self._base(), encode_bits(self.model, self.pictures[split])
        labels = self.labels or {}
        known = labels.get(split)
        precision = measure_precision(
            queries, None if known is None else known[: len(queries)], base, labels.get("train")
        )
        return {"objective": self._held_out(split), "precision": precision, **measure_bits(base)}

    def summarize_epoch(self, rows: Mapping[str, Row]) -> str:
        """Return a line with the results of an epoch."""
        test = rows["test"]
        known = "" if test["precision"] is None else f"  test precision@100 {test['precision']:.1%}"
        return (
            f"epoch {test['epoch']:>3}  loss train {-rows['train']['objective']:.3f}  "
            f"validation {-rows['validation']['objective']:.3f}{known}  correlation {test['correlation']:.3f}"
        )

    def _estimator(self, epoch: int, step: int) -> AbstractEstimator:
        config = self.config
        if config.estimator == "auto":
            config = replace(config, estimator="straight-through")
        return choose_estimator(config, Binary(config.bits), epoch, step)

    @property
    def _contrast(self) -> Contrast:
        if self.config.contrast == "triplet":
            return partial(TripletCodes, margin=self.config.margin)
        return partial(InfoNCECodes, temperature=self.config.temperature)

    def _distorted(self, pictures: Tensor, generator: torch.Generator) -> Tensor:
        return augment_images(pictures, self.config.augment, generator, len(pictures), slice(None))

    def _base(self) -> Tensor:
        """Return the codes of all training images, computed at most once per step."""
        if self._coded is None or self._coded[0] != self._steps:
            self._coded = self._steps, encode_bits(self.model, self.pictures["train"])
        return self._coded[1]

    def _held_out(self, split: str) -> float | None:
        """Return -L of the most probable codes of a fixed set of pairs, in batches of the training batch size."""
        pictures = self.pictures[split]
        if not len(pictures):
            return None
        generator = stream(self.config.seed, "pairs", split, device=pictures.device)
        other = self.pairs.draw_for(split, generator)
        partners = pictures if other is None else self.pictures["train"][other]
        both = self._distorted(torch.cat([pictures, partners]), generator)
        first, second = encode_bits(self.model, both).chunk(2)
        total = 0.0
        for some in torch.arange(len(pictures), device=pictures.device).split(self.config.batch_size):
            partner = torch.arange(2 * len(some), device=some.device).roll(len(some))
            negative = self.pairs.negative(split, some).repeat(2, 2)
            f = self._contrast(torch.cat([first[some], second[some]]), partner, negative)
            total -= float(f.losses().sum()) / 2
        return total / len(pictures)
