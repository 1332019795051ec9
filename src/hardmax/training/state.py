"""All that changes while a run goes on, and one step of it."""

import math

import torch
from torch import Tensor

from hardmax.data import Images, binarize
from hardmax.estimators import AbstractControlled
from hardmax.models import DiscreteVAE
from hardmax.random import stream
from hardmax.training.checkpoint import Progress
from hardmax.training.config import TrainConfig
from hardmax.training.restore import Split, evaluated
from hardmax.training.schedule import estimator_at, learning_rate_at, make_space

SPLITS: tuple[Split, ...] = ("validation", "test")


class State:
    """All that changes while a run goes on, and the pictures."""

    def __init__(self, config: TrainConfig, images: Images, model: DiscreteVAE) -> None:
        self.model = model.to(config.device)
        estimator = estimator_at(config, model.space, 0, 0)
        # An estimator with parameters of its own is one object for the whole run; others are made for every step.
        self.learned = estimator if isinstance(estimator, AbstractControlled) and estimator.parameters() else None
        groups = [{"params": list(self.model.parameters())}, {"params": self.learned_parameters}]
        self.optimizer = torch.optim.Adam(groups[: 2 if self.learned else 1], lr=config.learning_rate, fused=True)
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
    def start(cls, config: TrainConfig, images: Images, start: int = 0) -> "State":
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
        return cls(config, images, model)

    def begin_epoch(self, config: TrainConfig) -> Tensor:
        """Return the order of the pictures in this epoch, and set its generators unless they stand within it."""
        epoch = self.progress.epoch
        if self.progress.position == 0:
            for name, generator in self.generators.items():
                generator.manual_seed(stream(config.seed, name, epoch).initial_seed())
            self.progress.totals = Progress().totals
        return torch.randperm(len(self.train), generator=stream(config.seed, "data", epoch))

    def batch(self, config: TrainConfig, index: Tensor) -> Tensor:
        """Return the pictures of one step."""
        if config.binarize == "stochastic":
            return binarize(self.train[index], "stochastic", self.generators["binarize"]).to(config.device)
        return self.train[index.to(self.train.device)]


def make_step(config: TrainConfig, state: State, index: Tensor) -> Tensor:
    """Make one step; return the sums of bound, reconstruction, KL and evaluations over the batch, and its size."""
    estimator = state.learned or estimator_at(config, state.model.space, state.progress.epoch, state.progress.step)
    x = state.batch(config, index)
    with torch.autocast(x.device.type, torch.bfloat16, enabled=config.mixed_precision):
        out = state.model(
            x, estimator=estimator, kl=config.kl, samples=config.samples, generator=state.generators["noise"]
        )
    for group in state.optimizer.param_groups:
        group["lr"] = learning_rate_at(config, state.progress.step, state.steps)
    state.optimizer.zero_grad()
    loss = -out.value.mean()
    (loss if out.auxiliary is None else loss + out.auxiliary).backward()
    if config.clip is not None:
        torch.nn.utils.clip_grad_norm_(state.model.parameters(), config.clip)
    state.optimizer.step()
    counts = torch.tensor([out.evaluations * len(x), len(x)], device=x.device)
    return torch.cat([torch.stack([out.value.detach().sum(), out.reconstruction.sum(), out.kl.sum()]), counts])
