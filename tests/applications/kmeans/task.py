"""Train k-means, and evaluate it."""

from collections.abc import Mapping
from typing import Any

import torch
from applications.kmeans.config import KMeansConfig
from applications.kmeans.model import KMeans
from torch import Tensor

from hardmax.data import Images, binarize
from hardmax.training.processes import Group
from hardmax.training.task import SPLITS, AbstractTask, Row, draw_initial_weights, prepare_split


class KMeansTask(AbstractTask[KMeansConfig, KMeans]):
    """Minimise the expected distance of images to the centre of their cluster."""

    sums = ("distance",)

    def __init__(self, config: KMeansConfig, images: Images, model: KMeans, group: Group) -> None:
        self.config, self.model, self.group, self.generators = config, model, group, {}
        self.train_images = binarize(images.train, config.binarize)
        self.count = len(self.train_images)
        self.held_out = {split: prepare_split(config, images, split) for split in SPLITS}

    @classmethod
    def build(cls, config: KMeansConfig, images: Images, start: int, group: Group) -> "KMeansTask":
        with draw_initial_weights(config.seed, start):
            return cls(config, images, KMeans(config.clusters, images.train[0].numel()), group)

    @classmethod
    def couples_examples(cls, config: Any) -> bool:
        return False

    def describe_training(self) -> str:
        return f"{self.config.clusters} clusters"

    def add_gradients(self, index: Tensor, epoch: int, step: int) -> Tensor:
        x = self.train_images[index[self.group.own_slice(len(index))]]
        distance = self.model(x).sum()
        (distance / len(index)).backward()
        return torch.stack([distance.detach(), torch.tensor(float(len(x)))])

    @torch.no_grad()
    def evaluate(self, split: str) -> Row:
        x = self.held_out[split]
        return {"distance": float(self.model(x).mean()), "used": len(self.model.scores(x).argmax(-1).unique())}

    def summarize_epoch(self, rows: Mapping[str, Row]) -> str:
        return f"epoch {rows['test']['epoch']}  distance {rows['test']['distance']:.2f}"
