"""All that changes while a run goes on, and one step of it."""

import math

import torch
from torch import Tensor

from hardmax.data import Images, binarize
from hardmax.estimators import AbstractControlled, AbstractEstimator
from hardmax.models import DiscreteVAE
from hardmax.random import stream
from hardmax.training.checkpoint import Progress
from hardmax.training.config import TrainConfig
from hardmax.training.group import ALONE, Group, Message
from hardmax.training.restore import Split, evaluated
from hardmax.training.schedule import estimator_at, learning_rate_at, make_space

SPLITS: tuple[Split, ...] = ("validation", "test")


class State:
    """All that changes while a run goes on, and the pictures."""

    def __init__(self, config: TrainConfig, images: Images, model: DiscreteVAE, group: Group) -> None:
        self.model = model.to(config.device)
        self.group = group
        estimator = estimator_at(config, model.space, 0, 0)
        # An estimator with parameters of its own is one object for the whole run; others are made for every step.
        self.learned = estimator if isinstance(estimator, AbstractControlled) and estimator.parameters() else None
        groups = [{"params": list(self.model.parameters())}, {"params": self.learned_parameters}]
        self.optimizer = torch.optim.Adam(groups[: 2 if self.learned else 1], lr=config.learning_rate, fused=True)
        self.message = Message(group, [*self.model.parameters(), *self.learned_parameters], sums=len(Progress().totals))
        self.progress = Progress()
        # Named after what they are for; made anew for every epoch, their state kept in checkpoints within one.
        self.generators = {"noise": torch.Generator(config.device), "binarize": torch.Generator()}
        self.train = images.train
        if config.binarize != "stochastic":  # once for all epochs
            self.train = binarize(images.train, config.binarize).to(config.device)
        self.held_out = {split: evaluated(config, images, split).to(config.device) for split in SPLITS}
        self.steps = config.epochs * math.ceil(len(self.train) / config.batch_size)

    @property
    def learned_parameters(self) -> list[torch.nn.Parameter]:
        """The estimator's own parameters, which `Estimate.auxiliary` trains; mostly none."""
        return [] if self.learned is None else self.learned.parameters()

    @classmethod
    def start(cls, config: TrainConfig, images: Images, start: int = 0, group: Group = ALONE) -> "State":
        """Return the state before the first step, from the start of this number; torch's global generator is kept."""
        architecture = config.architecture
        if architecture == "auto":
            architecture = "conv" if max(images.shape[1:]) > 32 else "mlp"
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(stream(config.seed, "init", *([start] if start else [])).initial_seed())
            model = DiscreteVAE.build(
                make_space(config),
                images.shape,
                architecture=architecture,
                hidden=config.hidden,
                encoder_layers=config.encoder_layers,
                decoder_layers=config.decoder_layers,
                prior=config.prior,
                likelihood=config.likelihood,
            )
        return cls(config, images, model, group)

    def begin_epoch(self, config: TrainConfig) -> Tensor:
        """Return the order of the pictures in this epoch, and set its generators unless they stand within it."""
        epoch = self.progress.epoch
        if self.progress.position == 0:
            for name, generator in self.generators.items():
                generator.manual_seed(stream(config.seed, name, epoch).initial_seed())
            self.progress.totals = Progress().totals
        return torch.randperm(len(self.train), generator=stream(config.seed, "data", epoch))

    def batch(self, config: TrainConfig, index: Tensor, part: slice) -> Tensor:
        """Return a part of the pictures of one step; pixels are drawn for all of them, whatever the part."""
        if config.binarize == "stochastic":
            return binarize(self.train[index], "stochastic", self.generators["binarize"])[part].to(config.device)
        return self.train[index[part].to(self.train.device)]

    def noise(self, config: TrainConfig, estimator: AbstractEstimator, count: int, part: slice) -> Tensor:
        """Return a part of the noise of one step of so many pictures; it is drawn for all of them, too."""
        samples = config.samples or estimator.default_samples
        shape = (samples * estimator.noises, count)
        return self.model.space.noise(shape, self.generators["noise"], device=config.device)[:, part]


def make_step(config: TrainConfig, state: State, index: Tensor, *, stop: bool = False) -> tuple[Tensor, bool]:
    """Make one step, together with the other processes of the group.

    Args:
        config: of the run.
        state: what is changed.
        index: the pictures of the step, those of all processes.
        stop: whether this process wishes to stop after the step.

    Returns:
        The sums of bound, reconstruction, KL and evaluations over the batch, and its size; and whether any process
        wishes to stop.
    """
    state.message.clear(state.optimizer)
    sums, stop = state.message.exchange(add_gradients(config, state, index), stop)
    if config.clip is not None:
        torch.nn.utils.clip_grad_norm_(state.model.parameters(), config.clip)
    for group in state.optimizer.param_groups:
        group["lr"] = learning_rate_at(config, state.progress.step, state.steps)
    state.optimizer.step()
    return sums, stop


def add_gradients(config: TrainConfig, state: State, index: Tensor) -> Tensor:
    """Add this process's part to the gradients of the mean over the batch; return its part of the sums."""
    estimator = state.learned or estimator_at(config, state.model.space, state.progress.epoch, state.progress.step)
    part = state.group.part(len(index))
    x, noise = state.batch(config, index, part), state.noise(config, estimator, len(index), part)
    if not len(x):  # the last batch of an epoch may have fewer pictures than there are processes
        return torch.zeros(len(state.progress.totals), device=x.device)
    with torch.autocast(x.device.type, torch.bfloat16, enabled=config.mixed_precision):
        out = state.model(x, estimator=estimator, kl=config.kl, noise=noise)
    loss = -out.value.sum() / len(index)
    (loss if out.auxiliary is None else loss + out.auxiliary * (len(x) / len(index))).backward()
    counts = torch.tensor([out.evaluations * len(x), len(x)], device=x.device)
    return torch.cat([torch.stack([out.value.detach().sum(), out.reconstruction.sum(), out.kl.sum()]), counts])
