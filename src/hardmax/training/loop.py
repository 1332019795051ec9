"""The training loop: from a configuration to a folder."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hardmax.data import Images, binarize, load
from hardmax.errors import ArgumentError
from hardmax.estimators import AbstractControlled
from hardmax.models import DiscreteVAE
from hardmax.random import stream
from hardmax.training.checkpoint import Progress, load_checkpoint, pointed, save_checkpoint, write_atomically
from hardmax.training.config import TrainConfig, read_config
from hardmax.training.describe import describe
from hardmax.training.evaluate import evaluate
from hardmax.training.log import append_rows, cut_back
from hardmax.training.restore import Split, evaluated
from hardmax.training.schedule import estimator_at, explain, learning_rate_at, make_space
from hardmax.validation import check_device

SPLITS: tuple[Split, ...] = ("validation", "test")


@dataclass(frozen=True)
class Observer:
    """Whoever wants to see a run go by; every field may be left at doing nothing.

    Attributes:
        say: gets lines of text.
        step: gets epoch, steps done of it and steps in it.
        rows: gets the rows of an epoch.
        stop: asked after every step whether to save and stop.
    """

    say: Callable[[str], None] = lambda text: None
    step: Callable[[int, int, int], None] = lambda epoch, done, total: None
    rows: Callable[[list[dict[str, Any]]], None] = lambda rows: None
    stop: Callable[[], bool] = lambda: False


def train(config: TrainConfig, observer: Observer | None = None) -> bool:
    """Train, writing to `config.out`; return False if the observer stopped it before the end.

    Raises:
        ArgumentError: the folder holds a run already, or there is none to resume.
        DataError: data or checkpoints cannot be read or written.
    """
    observer = observer or Observer()
    run = Path(config.out)
    if config.resume:
        config = replace(read_config(run)[0], epochs=config.epochs, resume=True, out=config.out)
    elif (run / "config.json").exists():
        raise ArgumentError(f"{run} holds a run already; add --resume to go on with it, or choose another --out")
    check_device(config.device)
    images = load(config.data, data_dir=config.data_dir, seed=config.seed)
    state = _State.start(config, images)
    observer.say(f"data: {images.source}")
    observer.say(f"estimator: {explain(config, state.model.space)}")
    if config.resume and pointed(run, "latest"):
        state.progress = load_checkpoint(run, state.model, state.optimizer, state.generators, state.learned_parameters)
        observer.say(f"resumed after epoch {state.progress.epoch}, step {state.progress.step}")
    # Solvers are compiled when first used: not within the seconds of the first epoch.
    state.model.space.argmax(torch.zeros(state.model.space.score_shape))
    run.mkdir(parents=True, exist_ok=True)
    write_atomically(run / "config.json", describe(config, images))
    for name in ("metrics.jsonl", "timing.jsonl"):
        cut_back(run / name, state.progress.epoch)
    return _epochs(config, state, run, observer)


class _State:
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
    def start(cls, config: TrainConfig, images: Images) -> "_State":
        """Return the state before the first step; torch's global generator is left as it was."""
        architecture = config.architecture
        if architecture == "auto":
            architecture = "conv" if max(images.shape[1:]) > 32 else "mlp"
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(stream(config.seed, "init").initial_seed())
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


def _epochs(config: TrainConfig, state: _State, run: Path, observer: Observer) -> bool:
    """Train epoch by epoch; rows come before the checkpoint, which a kill between the two would otherwise miss."""
    progress = state.progress
    while progress.epoch < config.epochs:
        begin = time.perf_counter()
        if not _epoch(config, state, run, observer):
            return False
        trained = time.perf_counter()
        progress.epoch, progress.position = progress.epoch + 1, 0
        rows = [_train_row(progress), *_evaluate_rows(state, config)]
        evaluated = time.perf_counter()
        validation = rows[1]["elbo"]
        better = validation > progress.best
        if better:
            progress.best, progress.best_epoch = validation, progress.epoch
        append_rows(run / "metrics.jsonl", rows)
        seconds = {"train": trained - begin, "evaluate": evaluated - trained}
        append_rows(run / "timing.jsonl", [{"epoch": progress.epoch, "step": progress.step, **seconds}])
        save_checkpoint(
            run, state.model, state.optimizer, state.generators, state.learned_parameters, progress, best=better
        )
        observer.rows(rows)
        if progress.epoch < config.epochs and observer.stop():
            return False
        if config.patience is not None and progress.epoch - progress.best_epoch >= config.patience:
            observer.say(f"stopped: no better bound on the validation pictures for {config.patience} epochs")
            break
    return True


def _epoch(config: TrainConfig, state: _State, run: Path, observer: Observer) -> bool:
    """Train to the end of the epoch; return False if the observer stopped it."""
    progress = state.progress
    batches = state.begin_epoch(config).split(config.batch_size)
    totals = torch.tensor(progress.totals, dtype=torch.float64, device=config.device)

    def save() -> None:
        progress.totals = totals.tolist()
        save_checkpoint(
            run, state.model, state.optimizer, state.generators, state.learned_parameters, progress, best=False
        )

    while progress.position < len(batches):
        totals += _step(config, state, batches[progress.position])
        progress.position += 1
        progress.step += 1
        observer.step(progress.epoch, progress.position, len(batches))
        if progress.position == len(batches):  # the checkpoint after the epoch has this step's name
            break
        if config.checkpoint_every and progress.step % config.checkpoint_every == 0:
            save()
        if observer.stop():
            save()
            return False
    progress.totals = totals.tolist()
    return True


def _step(config: TrainConfig, state: _State, index: Tensor) -> Tensor:
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


def _train_row(progress: Progress) -> dict[str, Any]:
    """Return the row of the training pictures: means over the epoch, while the weights changed."""
    elbo, reconstruction, kl, evaluations, count = progress.totals
    return {
        "epoch": progress.epoch,
        "step": progress.step,
        "split": "train",
        "elbo": elbo / count,
        "nll": None,
        "kl": kl / count,
        "reconstruction": reconstruction / count,
        "active": None,
        "evaluations": evaluations / count,
    }


def _evaluate_rows(state: _State, config: TrainConfig) -> list[dict[str, Any]]:
    progress = state.progress
    return [
        {
            "epoch": progress.epoch,
            "step": progress.step,
            "split": split,
            **evaluate(state.model, state.held_out[split], seed=config.seed),
            "evaluations": None,
        }
        for split in SPLITS
    ]
