"""Train a mixed VAE on labelled and unlabelled images, and evaluate it."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, final

import torch
from torch import Tensor, nn

from hardmax.applications.mixed_vae.config import MixedConfig, Weights, schedule_weights
from hardmax.applications.mixed_vae.model import MixedVAE
from hardmax.applications.mixed_vae.supervision import (
    Seen,
    align_scores,
    as_z,
    consistency_loss,
    draw_labelled,
    find_known,
    label_loss,
    load_pictures,
    make_space,
    prepare_labelled_split,
    recognition_loss,
)
from hardmax.data import Images
from hardmax.data.augmentation import augment_images
from hardmax.errors import ArgumentError
from hardmax.random import stream
from hardmax.spaces import Categorical
from hardmax.training.estimators import choose_estimator
from hardmax.training.processes import ALONE, Group
from hardmax.training.task import SPLITS, AbstractTask, Row, choose_likelihood, choose_networks, draw_initial_weights

_COLUMNS = ("elbo", "log_likelihood", "reconstruction", "kl")


@torch.no_grad()
def evaluate(
    model: MixedVAE,
    pictures: Seen,
    *,
    samples: int = 1,
    seed: int = 0,
    batch_size: int = 500,
    on_batch: Callable[[int], None] | None = None,
    group: Group = ALONE,
) -> dict[str, float | None]:
    """Return the means over pictures: elbo, nll, kl, reconstruction in nats, and accuracies.

    The bound is exact in the discrete latent, the Gaussians are drawn `samples` times; `nll` is -log p(x), at most,
    from the same number of importance weights. `accuracy` is the share of variables whose arg max is the label,
    `accuracy_sampled` that of a z drawn from the encoder, which the paper's code counts. Without labels they are None.

    Each process of a group takes its part; the draws of a batch do not depend on which process makes them.
    """
    totals = torch.zeros(len(_COLUMNS) + 3, dtype=torch.float64)
    batches = list(enumerate(pictures.split(batch_size)))
    for number, batch in batches[group.part(len(batches))]:
        generator = stream(seed, "evaluate", number, device=batch.x.device)
        encoded = model.encode(batch.shown)
        bounds = model.bounds(batch.x, encoded=encoded, samples=samples, generator=generator)
        sums = [getattr(bounds, name).double().sum().cpu() for name in _COLUMNS]
        totals += torch.stack([*sums, *_hits(model, encoded.scores, batch.labels, generator)])
        if on_batch is not None:
            on_batch(len(batch))
    group.add_up(totals)
    means = dict(zip(_COLUMNS, (totals[:4] / max(len(pictures), 1)).tolist(), strict=True))
    best, sampled, labelled = totals[4:].tolist()
    return {
        "elbo": means["elbo"],
        "nll": -means["log_likelihood"],
        "kl": means["kl"],
        "reconstruction": means["reconstruction"],
        "accuracy": best / labelled if labelled else None,
        "accuracy_sampled": sampled / labelled if labelled else None,
    }


def _hits(model: MixedVAE, scores: Tensor, labels: Tensor | None, generator: torch.Generator) -> list[Tensor]:
    """Return how many variables the arg max and a sample have right, and how many are labelled."""
    if labels is None:
        return [torch.zeros(())] * 3
    space = model.space
    counted = find_known(labels)
    sample = space.sample(scores, 1, generator=generator)[0]
    predictions = [space.argmax(scores), sample]
    if isinstance(space, Categorical):
        predictions = [z.argmax(-1, keepdim=True) for z in predictions]
    right = [(z.long() == labels.reshape(counted.shape)) & counted for z in predictions]
    return [mask.sum().double().cpu() for mask in (*right, counted)]


@final
class MixedTask(AbstractTask[MixedConfig, MixedVAE]):
    """Minimise a sum, with the weights of the configuration.

    ```
    - elbo(x)                                     unlabelled pictures
    - elbo(x, y)                                  labelled ones, the discrete latent given
    + loss(scores(distorted x), y)                labels, through the arg max
    - sure(x) log q(best z of x | distorted x)    consistency of unlabelled pictures
    - log q(z | picture of z and z_c(x))          recognition, z drawn from its prior
    ```

    Bounds of Gaussian pixels are counted in units of the pixels' noise, or they would swamp the other terms as soon as
    it is small (`AbstractPixels.noise_variance`). The targets of consistency are corrected for how often the encoder
    names each z (`align_scores`), which is learned at the same time.
    """

    sums = ("elbo", "reconstruction", "kl", "evaluations", "label_loss", "consistency_loss", "sure", "recognition_loss")

    def __init__(self, config: MixedConfig, images: Images, model: MixedVAE, group: Group) -> None:
        self.config, self.group = config, group
        self.model = model.to(config.device)
        self.pictures = prepare_labelled_split(config, images, "train").to(config.device)
        self.count = len(self.pictures)
        self.labelled = self._draw_labelled(images)
        self.held_out = {
            s: prepare_labelled_split(config, images, s)[: config.evaluate_images].to(config.device) for s in SPLITS
        }
        self._named = nn.Parameter(torch.zeros(model.space.score_shape, device=config.device)) if self._aligns else None
        names = ("noise", "gaussian", "labelled", "distort", "teach", "recognise")
        self.generators = {name: torch.Generator(config.device) for name in names}
        self._estimator_config = config
        if config.estimator == "auto":
            # The default of a discrete VAE ends with the exact gradient, which vanishes once the labels make q certain.
            name = "averaged-direct" if self.model.space.categories is None else "shortlist-direct"
            self._estimator_config = replace(config, estimator=name)

    @property
    def _aligns(self) -> bool:
        config = self.config
        wanted = config.align == "prior" or (config.align == "auto" and not config.attribute_names)
        return wanted and bool(config.labels and config.consistency)

    @property
    def learned(self) -> list[nn.Parameter]:
        """How often the encoder names each z, as scores: learned by maximum likelihood to follow the encoder."""
        return [] if self._named is None else [self._named]

    def _draw_labelled(self, images: Images) -> Seen | None:
        if not self.config.labels:
            return None
        if self.pictures.labels is None:
            raise ArgumentError(f"{images.name} has no labels; give --labels 0, or pictures with classes or attributes")
        seed = self.config.seed if self.config.label_seed is None else self.config.label_seed
        return self.pictures[draw_labelled(self.pictures.labels.cpu(), self.config.labels, seed)]

    @staticmethod
    def load(config: MixedConfig) -> Images:
        """Return the pictures, with the requested attributes."""
        return load_pictures(config)

    @classmethod
    def start(cls, config: MixedConfig, images: Images, start: int = 0, group: Group = ALONE) -> "MixedTask":
        """Return the task with initial weights number `start`; torch's global generator is unchanged."""
        with draw_initial_weights(config.seed, start):
            model = MixedVAE.build(
                make_space(config, images),
                images.shape,
                architecture=choose_networks(config.architecture, images.shape),
                join="beside" if config.attribute_names else "rows",
                continuous=config.continuous or (64 if config.attribute_names else 20),
                prior=config.prior,
                likelihood=choose_likelihood(config.likelihood, images.shape),
            )
        return cls(config, images, model, group)

    @classmethod
    def couples_examples(cls, config: MixedConfig) -> bool:
        """Whether the estimator couples the examples of a batch."""
        space = Categorical(2)
        return choose_estimator(config, space, 0, 0).couples_examples

    def explain(self) -> str:
        """Describe what the model learns from."""
        estimator = choose_estimator(self._estimator_config, self.model.space, 0, 0)
        labels = f"{self.config.labels:,} labels by {self.config.supervision}" if self.labelled else "no labels"
        return f"learns from {labels}, and from {self.count:,} pictures by {estimator}"

    def add_gradients(self, index: Tensor, epoch: int, step: int) -> Tensor:
        """Add this process's part to the gradients of the loss of a step."""
        weights = schedule_weights(self.config, epoch)
        loss, sums = self._unlabelled(index, weights, epoch, step)
        if self.labelled is not None and (weights.labels or weights.labelled_elbo):
            term, mean = self._labelled(self.labelled, weights)
            loss, sums["label_loss"] = loss + term, mean * len(index)  # all sums are over the pictures of the step
        if loss.requires_grad:  # a process may have no picture of the last batch
            loss.backward()
        nothing = torch.full((), torch.nan, device=loss.device)
        return torch.stack([sums.get(name, nothing) for name in (*self.sums, "count")])

    def _unlabelled(self, index: Tensor, weights: Weights, epoch: int, step: int) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the part of the loss that needs no label, and sums over this process's pictures."""
        config, model, part = self.config, self.model, self.group.part(len(index))
        some = self.pictures[index[part].to(self.pictures.x.device)]
        loss = torch.zeros((), device=some.x.device)
        sums = {"count": loss + len(some)}
        if not weights.elbo and not weights.consistency:
            return loss, sums
        encoded = model.encode(some.shown)
        if weights.elbo:
            estimator = choose_estimator(self._estimator_config, model.space, epoch, step)
            samples = (config.samples or estimator.default_samples) * estimator.noises
            noise = model.space.noise((samples, len(index)), self.generators["noise"], device=config.device)[:, part]
            out = model(
                some.x,
                encoded=encoded,
                estimator=estimator,
                kl=config.kl,
                noise=noise,
                continuous_noise=self._gaussian(len(index), part),
            )
            loss = loss - weights.elbo * model.noise_variance * out.value.sum() / len(index)
            sums |= {"elbo": out.value.detach().sum(), "kl": out.kl.sum(), "reconstruction": out.reconstruction.sum()}
            sums["evaluations"] = sums["count"] * out.evaluations
        if weights.recognition:
            z_d = model.draw_prior(len(index), self.generators["recognise"])[part]
            z_c = encoded.mean + self._gaussian(len(index), part) * (encoded.log_variance / 2).exp()
            losses = recognition_loss(model, z_d, z_c)
            loss = loss + weights.recognition * losses.sum() / len(index)
            sums["recognition_loss"] = losses.detach().sum()
        if weights.consistency:
            distorted = model.scores(self._distorted(some.shown, len(index), part))
            plain = encoded.scores.detach()
            if self._named is not None:
                loss = loss + model.space.kl(plain, self._named).sum() / len(index)
                plain = align_scores(plain, self._named, model.prior)
            losses, sure = consistency_loss(plain, distorted, model.space, config.confidence)
            loss = loss + weights.consistency * losses.sum() / len(index)
            sums |= {"consistency_loss": losses.detach().sum(), "sure": sure.sum()}
        return loss, sums

    def _labelled(self, labelled: Seen, weights: Weights) -> tuple[Tensor, Tensor]:
        """Return the part of the loss from labelled pictures, and this process's part of their mean loss."""
        config, model, count = self.config, self.model, self.config.labelled_batch
        part = self.group.part(count)
        index = torch.randint(len(labelled), (count,), generator=self.generators["labelled"], device=config.device)
        few = labelled[index[part]]
        assert few.labels is not None
        target = as_z(few.labels, model.space)
        losses = label_loss(
            model.scores(self._distorted(few.shown, count, part)),
            target,
            model.space,
            config.supervision,
            epsilon=config.epsilon,
            noise=model.space.noise((1, count), self.generators["teach"], device=config.device)[:, part],
        )
        loss = weights.labels * losses.sum() / count
        if weights.labelled_elbo:
            bound = model.labelled(
                few.x, target, encoded=model.encode(few.shown), continuous_noise=self._gaussian(count, part)
            )
            loss = loss - weights.labelled_elbo * model.noise_variance * bound.sum() / count
        return loss, losses.detach().sum() / count

    def _gaussian(self, count: int, part: slice) -> Tensor:
        """Return a part of the Gaussians' noise of `count` pictures; it is drawn for all of them."""
        shape = (count, self.model.join.rows, self.model.join.c)
        return torch.randn(shape, generator=self.generators["gaussian"], device=self.config.device)[part]

    def _distorted(self, pictures: Tensor, count: int, part: slice) -> Tensor:
        """Return distorted copies of a part of `count` pictures."""
        return augment_images(pictures, self.config.augment, self.generators["distort"], count, part)

    def evaluate(self, split: str) -> dict[str, Any]:
        """Return the bound, its terms, and how often the label is predicted."""
        return evaluate(self.model, self.held_out[split], seed=self.config.seed, group=self.group)

    def summarize_epoch(self, rows: Mapping[str, Row]) -> str:
        """Return bounds and accuracies of an epoch."""
        test = rows["test"]
        trained = "" if rows["train"]["elbo"] is None else f"train {-rows['train']['elbo']:.2f}  "
        known = "" if test["accuracy"] is None else f"  test accuracy {test['accuracy']:.2%}"
        return (
            f"epoch {test['epoch']:>3}  -ELBO {trained}validation {-rows['validation']['elbo']:.2f}  "
            f"test {-test['elbo']:.2f}{known}"
        )
