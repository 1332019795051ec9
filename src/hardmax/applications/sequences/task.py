"""Training of a sequence GAN, with updates of the generator and of the discriminator, and its evaluation."""

from collections.abc import Mapping
from functools import partial
from typing import Any, final

import torch
from torch import Tensor, nn

from hardmax.applications.sequences.config import SequenceGANConfig
from hardmax.applications.sequences.evaluation import evaluate
from hardmax.applications.sequences.model import SequenceGAN
from hardmax.applications.sequences.objective import draw_sequences, sequence_expectation
from hardmax.data import Sequences, load_sequences
from hardmax.estimators import (
    AbstractControlled,
    AbstractEstimator,
    AveragedDirect,
    Direct,
    Exact,
    LocalExpectation,
)
from hardmax.estimators.automatic import MANY_EVALUATIONS
from hardmax.objectives import discriminator_loss, generator_reward
from hardmax.spaces import Categorical
from hardmax.training.estimators import choose_estimator
from hardmax.training.processes import SINGLE_PROCESS, Group
from hardmax.training.task import AbstractTask, ParameterUpdate, Row, draw_initial_weights

_BETA2 = 0.99  # of Adam; gradients change faster than with a fixed loss


@final
class SequenceGANTask(AbstractTask[SequenceGANConfig, SequenceGAN]):
    """Trains a `SequenceGAN`: each step has one or several updates of the discriminator, and one of the generator."""

    sums = ("reward", "discriminator_loss", "evaluations")

    def __init__(self, config: SequenceGANConfig, data: Sequences, model: SequenceGAN, group: Group) -> None:
        self.config, self.group, self.data = config, group, data
        self.model = model.to(config.device)
        estimator = self._choose_estimator(0, 0)
        estimator.check(model.generator.space, config.samples or estimator.default_samples)
        # An estimator with parameters is one object for the entire run; others are created for every step.
        self._fixed_estimator = (
            estimator if isinstance(estimator, AbstractControlled) and estimator.parameters() else None
        )
        self.generators = {"noise": torch.Generator(config.device), "shown": torch.Generator(config.device)}
        self.sequences = data.one_hot(data.train).to(config.device)
        self.count = len(self.sequences)

    @staticmethod
    def load_data(config: SequenceGANConfig) -> Sequences:
        """Return the data, real sequences."""
        return load_sequences(config.data, length=config.length, seed=config.seed)

    @classmethod
    def build(
        cls, config: SequenceGANConfig, images: Sequences, start: int = 0, group: Group = SINGLE_PROCESS
    ) -> "SequenceGANTask":
        """Return the task with the initial weights of number `start`; torch's global generator is left unchanged."""
        with draw_initial_weights(config.seed, start):
            model = SequenceGAN.build(
                images.symbols,
                images.shape[0],
                hidden=config.hidden,
                discriminator_hidden=config.discriminator_hidden,
                between=images.between,
            )
        return cls(config, images, model, group)

    @classmethod
    def couples_examples(cls, config: SequenceGANConfig) -> bool:
        """Whether the gradient of a sequence depends on the other sequences of its batch."""
        return choose_estimator(config, Categorical(2), 0, 0).couples_examples

    def describe_training(self) -> str:
        """Describe pretraining, the loss and the estimator."""
        config = self.config
        first = f"{config.pretrain_epochs} epochs of maximum likelihood, then " if config.pretrain_epochs else ""
        estimator = self._choose_estimator(0, 0)
        how = f"{first}adversarial training with the reward {config.loss}, estimator {estimator}"
        values = self.model.generator.space.size
        if values <= MANY_EVALUATIONS or not isinstance(estimator, (AveragedDirect, Direct, Exact, LocalExpectation)):
            return how
        return (
            f"{how}; it evaluates the discriminator {values} times per token: --estimator shortlist-direct takes "
            f"{config.shortlist}, and straight-through or reinmax one"
        )

    @property
    def extra_parameters(self) -> list[nn.Parameter]:
        """The estimator's own parameters."""
        return [] if self._fixed_estimator is None else self._fixed_estimator.parameters()

    @property
    def updates(self) -> tuple[ParameterUpdate, ...]:
        """The update of the discriminator, then that of the generator."""
        config, model, betas = self.config, self.model, (self.config.momentum, _BETA2)
        return (
            ParameterUpdate(
                tuple(model.discriminator.parameters()),
                self.add_discriminator_gradients,
                config.discriminator_rate,
                betas,
                config.discriminator_steps,
            ),
            ParameterUpdate((*model.generator.parameters(), *self.extra_parameters), self.add_gradients, betas=betas),
        )

    def add_discriminator_gradients(self, index: Tensor, epoch: int, step: int) -> Tensor:
        """Add this process's part to the gradients of the discriminator, on real and generated sequences."""
        part = self.group.own_slice(len(index))
        noise = self._noise("shown", epoch, step, len(index), part)
        real = self.sequences[index[part].to(self.sequences.device)]
        if not len(real):  # the last batch of an epoch may have fewer sequences than there are processes
            return self._stack_sums()
        with torch.no_grad():
            generated = draw_sequences(self.model.generator, self._estimator(epoch, step), noise)
        real.requires_grad_(self.config.penalty > 0)
        logits = self.model.discriminator(torch.cat([real, generated]))
        real_losses, generated_losses = discriminator_loss(*logits.split(len(real)))
        losses = (real_losses + generated_losses).mean(1)
        total = losses.sum()
        if self.config.penalty:
            (slopes,) = torch.autograd.grad(logits[: len(real)].sum(), real, create_graph=True)
            total = total + self.config.penalty / 2 * slopes.square().sum()
        (total / len(index)).backward()
        return self._stack_sums(discriminator_loss=losses.detach().sum() / self.config.discriminator_steps)

    def add_gradients(self, index: Tensor, epoch: int, step: int) -> Tensor:
        """Add this process's part to the gradients of the generator: of its reward, or of its likelihood at first."""
        part = self.group.own_slice(len(index))
        noise = self._noise("noise", epoch, step, len(index), part)
        count = noise.shape[1]
        if not count:
            return self._stack_sums()
        if epoch < self.config.pretrain_epochs:
            real = self.sequences[index[part].to(self.sequences.device)]
            (-self.model.generator.log_prob(real).sum() / len(index)).backward()
            return self._stack_sums(reward=torch.nan, evaluations=torch.nan, count=count)
        out = sequence_expectation(
            self.model.generator,
            self.model.discriminator,
            self._estimator(epoch, step),
            noise,
            reward=partial(generator_reward, loss=self.config.loss),
            credit=self.config.credit,
        )
        loss = -out.value.sum() / len(index)
        (loss if out.auxiliary is None else loss + out.auxiliary * (count / len(index))).backward()
        return self._stack_sums(reward=out.rewards.mean(1).sum(), evaluations=out.evaluations * count, count=count)

    def _stack_sums(self, **totals: Tensor | float) -> Tensor:
        """Return the sums of an update; zero for those that it does not measure."""
        values = [torch.as_tensor(totals.get(name, 0.0)) for name in (*self.sums, "count")]
        return torch.stack([value.to(self.sequences) for value in values])

    def _noise(self, name: str, epoch: int, step: int, count: int, part: slice) -> Tensor:
        """Draw the noise of `count` sequences, and return that of a part of them."""
        estimator = self._estimator(epoch, step)
        samples = (self.config.samples or estimator.default_samples) * estimator.noises
        return self.model.generator.noise((samples, count), self.generators[name])[:, part]

    def _estimator(self, epoch: int, step: int) -> AbstractEstimator:
        return self._fixed_estimator or self._choose_estimator(epoch, step)

    def _choose_estimator(self, epoch: int, step: int) -> AbstractEstimator:
        return choose_estimator(self.config, self.model.generator.space, epoch, step)

    def evaluate(self, split: str) -> dict[str, Any]:
        """Return the likelihood of real sequences, and statistics of generated ones."""
        return evaluate(
            self.model,
            self.data,
            getattr(self.data, split),
            draws=self.config.evaluate_draws,
            seed=self.config.seed,
        )

    def summarize_epoch(self, rows: Mapping[str, Row]) -> str:
        """Return a line with the results of an epoch."""
        test = rows["test"]
        shares = (
            "" if test["validity"] is None else f"validity {test['validity']:.1%}  coverage {test['coverage']:.1%}  "
        )
        return f"epoch {test['epoch']:>3}  {shares}-log q {test['nll']:.2f}  3-gram divergence {test['divergence']:.3f}"
