"""Training of a decision model with one of the losses, and the regret of its decisions."""

import math
from collections.abc import Mapping
from typing import Any, final

import torch
from torch import Tensor

from hardmax.applications.decisions.config import DecisionsConfig
from hardmax.applications.decisions.examples import Examples
from hardmax.applications.decisions.losses import (
    COUPLED,
    LOSSES,
    LossSetting,
    check_loss,
    describe_loss,
    make_relative,
)
from hardmax.applications.decisions.model import DecisionModel
from hardmax.applications.decisions.problems import find_problem
from hardmax.data import Decisions
from hardmax.spaces import Perturbation
from hardmax.training.processes import SINGLE_PROCESS, Group
from hardmax.training.task import AbstractTask, Row, draw_initial_weights


@final
class DecisionsTask(AbstractTask[DecisionsConfig, DecisionModel]):
    """Trains a `DecisionModel`: minimises the mean of a loss of its scores; the criterion is the regret."""

    sums = ("loss", "solves")

    def __init__(self, config: DecisionsConfig, data: Decisions, model: DecisionModel, group: Group) -> None:
        self.config, self.group = config, group
        self.problem = find_problem(config.data)
        self.space = self.problem.build_space(data.parameters, Perturbation(self.problem.noise, config.scale))
        check_loss(config.loss, self.space)
        self.model = model.to(config.device)
        self.examples = {
            split: Examples(data, split, self.space, config.device) for split in ("train", "validation", "test")
        }
        self.generators = {"noise": torch.Generator(config.device)}
        self.count = len(data.train)

    @staticmethod
    def load_data(config: DecisionsConfig) -> Decisions:
        """Return the data, generated from the seed or read from a folder."""
        return find_problem(config.data).generate(config)

    @classmethod
    def build(
        cls, config: DecisionsConfig, images: Decisions, start: int = 0, group: Group = SINGLE_PROCESS
    ) -> "DecisionsTask":
        """Return the task with the initial weights of number `start`; torch's global generator is left unchanged."""
        with draw_initial_weights(config.seed, start):
            model = DecisionModel(config.data, images.parameters, images.shape, config.hidden, config.network)
        return cls(config, images, model, group)

    @classmethod
    def couples_examples(cls, config: DecisionsConfig) -> bool:
        """Whether the gradient of an example depends on the others: the step of adaptive I-MLE does."""
        return config.loss in COUPLED

    def describe_training(self) -> str:
        """Describe the problem, the network and the loss."""
        network = self.problem.describe_network(self.config.network, self.config.hidden)
        return f"decisions: {self.problem.decision}, {network}, loss {describe_loss(self.config)}"

    def add_gradients(self, index: Tensor, epoch: int, step: int) -> Tensor:
        """Add this process's part of the gradient of the mean loss of a step."""
        part = self.group.own_slice(len(index))
        setting = self._make_setting(len(index), part, step)
        features, costs, best = self.examples["train"][index[part].to(self.config.device)]
        if not len(features):  # the last batch of an epoch may have fewer examples than there are processes
            return costs.new_zeros(3)
        name = "hinge" if epoch < self.config.warmup else self.config.loss
        scores = self.model(features)
        if self.config.is_relative:
            scores = make_relative(name, scores, best, self.space)
        loss = LOSSES[name](scores, costs, best, setting)
        (loss.values.sum() / len(index)).backward()
        count = float(len(features))
        return torch.stack([loss.values.detach().sum(), *costs.new_tensor([loss.solves * count, count])])

    def _make_setting(self, count: int, part: slice, step: int) -> LossSetting:
        """Return the setting of a step; noise is drawn for all `count` examples, and that of a part is kept."""
        config, samples = self.config, self.config.noise_samples
        noise = None
        if samples is not None:
            noise = self.space.noise((samples, count), self.generators["noise"], device=config.device)[:, part]
        steps = config.epochs * math.ceil(self.count / config.batch_size)
        return LossSetting(
            self.space,
            noise,
            epsilon=config.epsilon,
            towards=config.towards,
            step=config.slope_step,
            share=config.share,
            temperature=config.choose_temperature(min(step / steps, 1.0)),
        )

    def evaluate(self, split: str) -> dict[str, Any]:
        """Return the regret of the decisions, and the share of them that are optimal."""
        features, costs, best = self.examples[split][:]
        return dict(self.problem.measure(self.model.decide(features), costs, best, self.space))

    def summarize_epoch(self, rows: Mapping[str, Row]) -> str:
        """Return a line with the results of an epoch."""
        test = rows["test"]
        return (
            f"epoch {test['epoch']:>3}  loss {rows['train']['loss']:.4g}  regret validation "
            f"{rows['validation']['regret']:.2%}  test {test['regret']:.2%}  optimal {test['optimal']:.1%}"
        )
