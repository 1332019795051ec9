"""Training and evaluation of a discrete VAE: the gradients of one step, and the bound of held-out images."""

from collections.abc import Callable, Mapping
from typing import Any, final

import torch
from torch import Tensor, nn

from hardmax.applications.discrete_vae.config import DiscreteConfig
from hardmax.applications.discrete_vae.model import DiscreteVAE
from hardmax.data import Images, binarize
from hardmax.estimators import AbstractControlled, AbstractEstimator
from hardmax.random import make_generator
from hardmax.spaces.registry import make_space
from hardmax.training.estimators import choose_estimator, explain_cost, explain_estimator
from hardmax.training.processes import SINGLE_PROCESS, Group
from hardmax.training.task import SPLITS, AbstractTask, Row, Split, choose_networks, draw_initial_weights, prepare_split

_MANY_VALUES, _FEW_IMAGES = 1024, 500  # with more values of z than that, fewer images are evaluated


def prepare_evaluation_images(config: DiscreteConfig, images: Images, split: Split) -> Tensor:
    """Return the images of a split that are evaluated after each epoch."""
    count = config.evaluate_images
    if make_space(config).size > _MANY_VALUES:  # every z is enumerated for every image
        count = min(count, _FEW_IMAGES)
    return prepare_split(config, images, split)[:count]


MIN_SHARE = 1e-3  # a value that is the best one for a smaller share of the images counts as unused
_COLUMNS = ("elbo", "log_likelihood", "reconstruction", "kl")


@torch.no_grad()
def evaluate(
    model: DiscreteVAE,
    images: Tensor,
    *,
    samples: int = 100,
    seed: int = 0,
    batch_size: int = 500,
    on_batch: Callable[[int], None] | None = None,
    group: Group = SINGLE_PROCESS,
) -> dict[str, float | int]:
    """Return the means over images `[N, *shape]`: elbo, nll, kl, reconstruction in nats, and active.

    `nll` is -log p(x), exact where z can be enumerated and an upper bound from `samples` importance weights where not.
    `active` is, for one categorical, the number of categories that are the best one for at least one image in a
    thousand; for several variables, the number of variables whose best value is not the same in almost all images (all
    but one in a thousand).

    Each process of a group evaluates its part of the images. Where bounds come from samples, the first process
    evaluates all of them, since the samples of an image depend on the images before it.
    """
    generator = make_generator(seed, "evaluate", device=images.device)
    totals = torch.zeros(len(_COLUMNS), dtype=torch.float64)
    usage = torch.zeros(model.space.event_shape, dtype=torch.float64)
    part = group.own_slice(len(images)) if model.is_enumerable else slice(None if group.is_first else 0)
    for batch in images[part].split(batch_size):
        bounds = model.bounds(batch, samples=samples, generator=generator)
        totals += torch.stack([getattr(bounds, name).double().sum().cpu() for name in _COLUMNS])
        usage += model.space.argmax(model.encoder(batch)).double().sum(0).cpu()
        if on_batch is not None:
            on_batch(len(batch))
    group.all_reduce(totals)
    group.all_reduce(usage)
    count = max(len(images), 1)
    elbo, log_likelihood, reconstruction, kl = (totals / count).tolist()
    return {
        "elbo": elbo,
        "nll": -log_likelihood,
        "kl": kl,
        "reconstruction": reconstruction,
        "active": _count_active(model, usage / count),
    }


@torch.no_grad()
def evaluate_greedy_bound(model: DiscreteVAE, images: Tensor, *, batch_size: int = 500) -> float:
    """Return the mean of `-log p(x, z)`, where z is the encoder's best code after greedy changes."""
    return -float(torch.cat([model.greedy_bound(batch) for batch in images.split(batch_size)]).double().mean())


@torch.no_grad()
def evaluate_perturb_and_map(
    model: DiscreteVAE, images: Tensor, *, samples: int, seed: int = 0, batch_size: int = 500
) -> float:
    """Return the mean of minus the bound where the encoder is perturb-and-MAP, from the pseudo-likelihood."""
    generator = make_generator(seed, "perturbed", device=images.device)
    bounds = [
        model.perturb_and_map_bounds(batch, samples=samples, generator=generator).elbo
        for batch in images.split(batch_size)
    ]
    return -float(torch.cat(bounds).double().mean())


def _count_active(model: DiscreteVAE, usage: Tensor) -> int:
    """Count the categories or variables in use, from the share of images `[*event]` that have each value."""
    used = usage >= MIN_SHARE
    if model.space.categories is not None:
        return int(used.sum())
    if usage.dim() == 2:  # a row for each variable, item or place
        return int((used.sum(-1) > 1).sum())
    return int((used & (usage <= 1 - MIN_SHARE)).sum())


@final
class DiscreteTask(AbstractTask[DiscreteConfig, DiscreteVAE]):
    """Maximise the evidence lower bound of a `DiscreteVAE`."""

    sums = ("elbo", "reconstruction", "kl", "evaluations")

    def __init__(self, config: DiscreteConfig, images: Images, model: DiscreteVAE, group: Group) -> None:
        self.config, self.group = config, group
        self.model = model.to(config.device)
        estimator = choose_estimator(config, model.space, 0, 0, decoder=model.decoder)
        # An estimator with learned parameters is one object for the entire run; others are created at every step.
        self._stateful = estimator if isinstance(estimator, AbstractControlled) and estimator.parameters() else None
        self.generators = {"noise": torch.Generator(config.device), "binarize": torch.Generator()}
        self.train_images = images.train
        if config.train_on_validation:
            self.train_images = torch.cat([images.train, images.validation])
        if config.binarize != "stochastic":  # once for all epochs
            self.train_images = binarize(self.train_images, config.binarize).to(config.device)
        self.count = len(self.train_images)
        self.held_out = {split: prepare_evaluation_images(config, images, split).to(config.device) for split in SPLITS}
        # Solvers are compiled on first use. This call keeps that out of the measured time of the first epoch.
        model.space.argmax(torch.zeros(model.space.score_shape))

    @classmethod
    def build(
        cls, config: DiscreteConfig, images: Images, start: int = 0, group: Group = SINGLE_PROCESS
    ) -> "DiscreteTask":
        """Return the task with initial weights number `start`; torch's global generator is unchanged."""
        with draw_initial_weights(config.seed, start):
            model = DiscreteVAE.build(
                make_space(config),
                images.shape,
                architecture=choose_networks(config.architecture, images.shape),
                hidden=config.hidden,
                encoder_layers=config.encoder_layers,
                decoder_layers=config.decoder_layers,
                widths=config.widths,
                activation=config.activation,
                prior=config.prior,
                likelihood=config.likelihood,
            )
        return cls(config, images, model, group)

    @classmethod
    def couples_examples(cls, config: DiscreteConfig) -> bool:
        """Whether the estimator couples the examples of a batch."""
        return choose_estimator(config, make_space(config), 0, 0).couples_examples

    def describe_training(self) -> str:
        """Describe the estimator."""
        return f"estimator: {explain_estimator(self.config, self.model.space, self.model.decoder)}"

    @property
    def extra_parameters(self) -> list[nn.Parameter]:
        """The estimator's own parameters, which `Estimate.auxiliary` trains."""
        return [] if self._stateful is None else self._stateful.parameters()

    def add_gradients(self, index: Tensor, epoch: int, step: int) -> Tensor:
        """Add this process's part to the gradients of the mean of the bound over the batch."""
        estimator = self._stateful or choose_estimator(
            self.config, self.model.space, epoch, step, decoder=self.model.decoder
        )
        part = self.group.own_slice(len(index))
        x, noise = self._load_batch(index, part), self._draw_noise(estimator, len(index), part)
        if not len(x):  # the last batch of an epoch may have fewer images than there are processes
            return torch.zeros(len(self.sums) + 1, device=x.device)
        with torch.autocast(x.device.type, torch.bfloat16, enabled=self.config.mixed_precision):
            out = self.model(x, estimator=estimator, kl=self.config.kl, noise=noise)
        loss = -out.value.sum() / len(index)
        (loss if out.auxiliary is None else loss + out.auxiliary * (len(x) / len(index))).backward()
        counts = torch.tensor([out.evaluations * len(x), len(x)], device=x.device)
        return torch.cat([torch.stack([out.value.detach().sum(), out.reconstruction.sum(), out.kl.sum()]), counts])

    def _load_batch(self, index: Tensor, part: slice) -> Tensor:
        """Return a part of the images of one step; random pixels are drawn for all images of the step."""
        if self.config.binarize == "stochastic":
            binarized = binarize(self.train_images[index], "stochastic", self.generators["binarize"])
            return binarized[part].to(self.config.device)
        return self.train_images[index[part].to(self.train_images.device)]

    def _draw_noise(self, estimator: AbstractEstimator, count: int, part: slice) -> Tensor:
        """Return a part of the noise of one step of `count` images; noise is drawn for all of them."""
        generator, device = self.generators["noise"], self.config.device
        return estimator.draw_noise(self.model.space, self.config.samples, (count,), generator, device=device)[:, part]

    def evaluate(self, split: str) -> dict[str, Any]:
        """Return the bound and its terms, exact where z can be enumerated."""
        return evaluate(self.model, self.held_out[split], seed=self.config.seed, group=self.group)

    def summarize_epoch(self, rows: Mapping[str, Row]) -> str:
        """Return a line with the bounds of an epoch, and after the first a second one if the estimator is expensive."""
        test = rows["test"]
        hint = explain_cost(rows["train"]["evaluations"], self.model.decoder) if test["epoch"] == 1 else ""
        return (
            f"epoch {test['epoch']:>3}  -ELBO train {-rows['train']['elbo']:.2f}  "
            f"validation {-rows['validation']['elbo']:.2f}  test {-test['elbo']:.2f}  "
            f"-log p {test['nll']:.2f}  active {test['active']}{hint}"
        )
