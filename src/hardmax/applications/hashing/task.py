"""Training of a hash encoder on pairs of images, and evaluation of its codes."""

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
from hardmax.applications.hashing.queries import Queries, prepare_queries
from hardmax.applications.hashing.retrieval import rank_codes
from hardmax.applications.hashing.search import pack
from hardmax.data import Images
from hardmax.data.augmentation import augment_images
from hardmax.estimators import AbstractEstimator
from hardmax.random import make_generator
from hardmax.spaces import Binary
from hardmax.training.estimators import choose_estimator
from hardmax.training.processes import SINGLE_PROCESS, Group
from hardmax.training.task import SPLITS, AbstractTask, Row, choose_networks, draw_initial_weights, prepare_split

_NEAREST = {"precision": 100, "precision_1000": 1000}  # number of nearest codes of each precision
_RANKED = {"mean_average_precision": None, "mean_average_precision_1000": 1000}  # number of codes in the ranking
_BATCH = 1000  # images


@torch.no_grad()
def encode_bits(model: HashEncoder, images: Float[Tensor, "N ..."]) -> Float[Tensor, "N n"]:
    """Return the bits of images, computed in evaluation mode; the mode of the model is restored afterwards."""
    training = model.training
    model.eval()
    try:
        return torch.cat([model.codes(batch) for batch in images.split(_BATCH)])
    finally:
        model.train(training)


def pack_codes(codes: Float[Tensor, "N n"]) -> UInt64[np.ndarray, "N words"]:
    """Return codes as packed words, see `hardmax.applications.hashing.search.pack`."""
    return pack(codes.bool().cpu().numpy())


def measure_bit_usage(codes: Float[Tensor, "N n"]) -> dict[str, float]:
    """Return how well codes use their bits.

    `balance` is the mean variance of a bit, 1 if every bit is one for half of the images; `correlation` is the mean
    absolute correlation of two bits, 0 if all are uncorrelated. A constant bit has correlation 0.
    """
    signs = 2 * codes.double() - 1
    variances = 1 - signs.mean(0).square()
    if codes.shape[1] < 2 or len(codes) < 2:
        return {"balance": float(variances.mean()), "correlation": 0.0}
    centred = (signs - signs.mean(0)) / variances.clamp_min(1e-12).sqrt()
    correlations = (centred.T @ centred / len(codes)).abs()
    n = codes.shape[1]
    correlation = (correlations.sum() - correlations.trace()) / (n * n - n)
    return {"balance": float(variances.mean()), "correlation": float(correlation)}


def measure_retrieval(
    queries: Float[Tensor, "Q n"],
    query_labels: Int64[Tensor, "Q"] | None,
    codes: Float[Tensor, "N n"],
    labels: Int64[Tensor, "N"] | None,
) -> dict[str, float | None]:
    """Return the share of the nearest 100 and 1,000 codes that are of the query's class, and mean average precisions.

    Mean average precision (mAP) is that of the ranking of all codes, and that of the nearest 1,000. Codes at the same
    distance are averaged over all their orders. All values are None without labels.
    """
    if query_labels is None or labels is None or not (query_labels >= 0).any():
        return dict.fromkeys((*_NEAREST, *_RANKED))
    arguments = pack_codes(queries), query_labels.cpu().numpy(), pack_codes(codes), labels.cpu().numpy()
    rankings = rank_codes(*arguments)
    precisions = {name: float(rankings.precision(min(k, len(codes))).mean()) for name, k in _NEAREST.items()}
    averages = {name: float(rankings.average_precision(k and min(k, len(codes))).mean()) for name, k in _RANKED.items()}
    return {**precisions, **averages}


@final
class HashingTask(AbstractTask[HashingConfig, HashEncoder]):
    """Trains a `HashEncoder`: minimises a contrastive loss of the codes of pairs, `E[L(z)]`, through the arg max.

    The metric `objective` is -L: with sampled codes in training, with the most probable codes in evaluation.
    """

    sums = ("objective", "evaluations")

    def __init__(self, config: HashingConfig, images: Images, model: HashEncoder, group: Group) -> None:
        self.config, self.group = config, group
        self.model = model.to(config.device)
        self.split_images = {"train": prepare_split(config, images, "train").to(config.device)}
        for split in SPLITS:
            self.split_images[split] = prepare_split(config, images, split)[: config.evaluate_images].to(config.device)
        self.labels = images.labels
        self.queries = {split: prepare_queries(config, images, split, config.evaluate_images) for split in SPLITS}
        self.count = len(self.split_images["train"])
        self.pairs = make_pairs(config, images, self.split_images)
        self.generators = {name: torch.Generator(config.device) for name in ("pairs", "distort", "noise")}
        self._steps = 0
        self._train_codes: tuple[int, Tensor] | None = None  # and the number of steps at which they were computed

    @classmethod
    def build(
        cls, config: HashingConfig, images: Images, start: int = 0, group: Group = SINGLE_PROCESS
    ) -> "HashingTask":
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
        """Return True: every pair is contrasted with all other pairs of its batch."""
        return True

    def describe_training(self) -> str:
        """Describe the training pairs, the loss and the estimator."""
        config = self.config
        pairs = {
            "neighbours": f"{config.neighbours} nearest neighbours by pixels"
            + (f" after {config.walk} steps" if config.walk > 1 else ""),
            "distorted": f"distorted copies ({config.augment})",
            "labels": "images of one class",
        }
        estimator = self._estimator(0, 0)
        return (
            f"{config.bits} bits from pairs with {pairs[config.pairs]}, loss {config.contrast}, estimator {estimator}"
        )

    def add_gradients(self, index: Tensor, epoch: int, step: int) -> Tensor:
        """Add the gradients of the loss of a step."""
        self._steps += 1
        index = index.to(self.config.device)
        train = self.split_images["train"]
        partners = self.pairs.draw_partners(index, self.generators["pairs"])
        both = self._distort(torch.cat([train[index], train[partners]]), self.generators["distort"])
        estimator = self._estimator(epoch, step)
        generator, device = self.generators["noise"], self.config.device
        out = self.model(
            *both.chunk(2),
            negative=self.pairs.negative_mask("train", index),
            contrast=self._contrast,
            estimator=estimator,
            noise=estimator.draw_noise(self.model.space, self.config.samples, (len(both),), generator, device=device),
        )
        (-out.value.sum()).backward()
        count = len(index)
        sums = [out.value.detach().mean() * count, out.value.new_tensor(out.evaluations * count)]
        return torch.stack([*sums, out.value.new_tensor(count)])

    def evaluate(self, split: str) -> dict[str, Any]:
        """Return the objective of pairs, the precision of retrieval, and the usage of the bits."""
        return {
            "objective": self._evaluate_pairs(split),
            **self._measure_retrieval(self.queries[split]),
            **measure_bit_usage(self._encode_train()),
        }

    def summarize_epoch(self, rows: Mapping[str, Row]) -> str:
        """Return a line with the results of an epoch."""
        test = rows["test"]
        retrieval = (
            ""
            if test["precision"] is None
            else (f"  test precision@100 {test['precision']:.1%}  mAP {test['mean_average_precision']:.1%}")
        )
        return (
            f"epoch {test['epoch']:>3}  loss train {-rows['train']['objective']:.3f}  "
            f"validation {-rows['validation']['objective']:.3f}{retrieval}  correlation {test['correlation']:.3f}"
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

    def _distort(self, images: Tensor, generator: torch.Generator) -> Tensor:
        return augment_images(images, self.config.augment, generator, len(images), slice(None))

    def _measure_retrieval(self, queries: Queries) -> dict[str, float | None]:
        """Return the metrics of retrieval of these queries."""
        codes, labels = self._encode_train(), None if self.labels is None else self.labels["train"]
        if labels is not None and queries.other_labels is not None and len(queries.others):
            codes = torch.cat([codes, encode_bits(self.model, queries.others.to(codes.device))])
            labels = torch.cat([labels, queries.other_labels])
        query_codes = encode_bits(self.model, queries.images.to(codes.device))
        return measure_retrieval(query_codes, queries.labels, codes, labels)

    def _encode_train(self) -> Tensor:
        """Return the codes of all training images, computed at most once per step."""
        if self._train_codes is None or self._train_codes[0] != self._steps:
            self._train_codes = self._steps, encode_bits(self.model, self.split_images["train"])
        return self._train_codes[1]

    def _evaluate_pairs(self, split: str) -> float | None:
        """Return the mean of -L over a fixed set of pairs, for the most probable codes and the training batch size."""
        images = self.split_images[split]
        if not len(images):
            return None
        generator = make_generator(self.config.seed, "pairs", split, device=images.device)
        index = self.pairs.draw_split_partners(split, generator)
        partners = images if index is None else self.split_images["train"][index]
        both = self._distort(torch.cat([images, partners]), generator)
        first, second = encode_bits(self.model, both).chunk(2)
        total = 0.0
        for batch in torch.arange(len(images), device=images.device).split(self.config.batch_size):
            partner = torch.arange(2 * len(batch), device=batch.device).roll(len(batch))
            negative = self.pairs.negative_mask(split, batch).repeat(2, 2)
            f = self._contrast(torch.cat([first[batch], second[batch]]), partner, negative)
            total -= float(f.losses().sum()) / 2
        return total / len(images)
