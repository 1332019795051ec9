"""Training of a mixed VAE on labelled and unlabelled images, and its evaluation."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, final

import torch
from torch import Tensor, nn

from hardmax.applications.mixed_vae.config import MixedConfig, Weights, schedule_weights
from hardmax.applications.mixed_vae.model import MixedVAE
from hardmax.applications.mixed_vae.supervision import (
    PreparedImages,
    align_scores,
    consistency_loss,
    draw_labelled,
    encode_labels,
    find_labelled,
    label_loss,
    load_labelled_images,
    make_space,
    prepare_labelled_split,
    recognition_loss,
)
from hardmax.data import Images
from hardmax.data.augmentation import augment_images
from hardmax.errors import ArgumentError
from hardmax.random import make_generator
from hardmax.spaces import Categorical
from hardmax.training.estimators import choose_estimator
from hardmax.training.processes import SINGLE_PROCESS, Group
from hardmax.training.task import SPLITS, AbstractTask, Row, choose_likelihood, choose_networks, draw_initial_weights

_COLUMNS = ("elbo", "log_likelihood", "reconstruction", "kl")


@torch.no_grad()
def evaluate(
    model: MixedVAE,
    images: PreparedImages,
    *,
    samples: int = 1,
    seed: int = 0,
    batch_size: int = 500,
    on_batch: Callable[[int], None] | None = None,
    group: Group = SINGLE_PROCESS,
) -> dict[str, float | None]:
    """Return the means over images: elbo, nll, kl, reconstruction in nats, and accuracies.

    The bound is exact in the discrete latent; the Gaussians are sampled `samples` times. `nll` is an upper bound of
    -log p(x), from the same number of importance weights. `accuracy` is the share of variables whose arg max is the
    label; `accuracy_sampled` is that of a sample of the encoder, as in the paper's code. Without labels they are None.

    Each process of a group evaluates its part; the samples of a batch do not depend on the process.
    """
    totals = torch.zeros(len(_COLUMNS) + 3, dtype=torch.float64)
    batches = list(enumerate(images.split(batch_size)))
    for number, batch in batches[group.own_slice(len(batches))]:
        generator = make_generator(seed, "evaluate", number, device=batch.x.device)
        encoded = model.encode(batch.encoder_input)
        bounds = model.bounds(batch.x, encoded=encoded, samples=samples, generator=generator)
        sums = [getattr(bounds, name).double().sum().cpu() for name in _COLUMNS]
        totals += torch.stack([*sums, *_count_correct(model, encoded.scores, batch.labels, generator)])
        if on_batch is not None:
            on_batch(len(batch))
    group.all_reduce(totals)
    means = dict(zip(_COLUMNS, (totals[:4] / max(len(images), 1)).tolist(), strict=True))
    best, sampled, labelled = totals[4:].tolist()
    return {
        "elbo": means["elbo"],
        "nll": -means["log_likelihood"],
        "kl": means["kl"],
        "reconstruction": means["reconstruction"],
        "accuracy": best / labelled if labelled else None,
        "accuracy_sampled": sampled / labelled if labelled else None,
    }


def _count_correct(model: MixedVAE, scores: Tensor, labels: Tensor | None, generator: torch.Generator) -> list[Tensor]:
    """Return the numbers of variables that the arg max and a sample predict, and the number of labels."""
    if labels is None:
        return [torch.zeros(())] * 3
    space = model.space
    is_labelled = find_labelled(labels)
    sample = space.sample(scores, 1, generator=generator)[0]
    predictions = [space.argmax(scores), sample]
    if isinstance(space, Categorical):
        predictions = [z.argmax(-1, keepdim=True) for z in predictions]
    is_correct = [(z.long() == labels.reshape(is_labelled.shape)) & is_labelled for z in predictions]
    return [mask.sum().double().cpu() for mask in (*is_correct, is_labelled)]


@final
class MixedTask(AbstractTask[MixedConfig, MixedVAE]):
    """Minimise a weighted sum of these terms; the configuration sets the weights.

    ```
    - elbo(x)                                          bound of unlabelled images
    - elbo(x, y)                                       bound of labelled images, given the discrete latent y
    + loss(scores(distorted x), y)                     labels, through the arg max
    - confident(x) log q(best z of x | distorted x)    consistency of unlabelled images
    - log q(z | image of z and z_c(x))                 recognition, z drawn from its prior
    ```

    Bounds of Gaussian pixels are multiplied by the variance of the pixels (`AbstractPixels.noise_variance`): otherwise
    they would dominate the other terms once it is small. The targets of consistency are corrected for the frequency
    with which the encoder predicts each z (`align_scores`), which is learned at the same time.
    """

    sums = ("elbo", "reconstruction", "kl", "evaluations", "label_loss", "consistency_loss", "sure", "recognition_loss")

    def __init__(self, config: MixedConfig, images: Images, model: MixedVAE, group: Group) -> None:
        self.config, self.group = config, group
        self.model = model.to(config.device)
        self.train_images = prepare_labelled_split(config, images, "train").to(config.device)
        self.count = len(self.train_images)
        self.labelled = self._draw_labelled(images)
        self.held_out = {
            s: prepare_labelled_split(config, images, s)[: config.evaluate_images].to(config.device) for s in SPLITS
        }
        scores = torch.zeros(model.space.score_shape, device=config.device)
        self._marginal = nn.Parameter(scores) if self._aligns_targets else None
        names = ("noise", "gaussian", "labelled", "distort", "teach", "recognise")
        self.generators = {name: torch.Generator(config.device) for name in names}
        self._estimator_config = config
        if config.estimator == "auto":
            # The default of a discrete VAE ends with the exact gradient, which vanishes once labels make q certain.
            name = "averaged-direct" if self.model.space.categories is None else "shortlist-direct"
            self._estimator_config = replace(config, estimator=name)

    @property
    def _aligns_targets(self) -> bool:
        """Whether the targets of the consistency loss are corrected."""
        config = self.config
        is_asked = config.align == "prior" or (config.align == "auto" and not config.attribute_names)
        return is_asked and bool(config.labels and config.consistency)

    @property
    def extra_parameters(self) -> list[nn.Parameter]:
        """Scores of the frequency with which the encoder predicts each z, learned by maximum likelihood."""
        return [] if self._marginal is None else [self._marginal]

    def _draw_labelled(self, images: Images) -> PreparedImages | None:
        if not self.config.labels:
            return None
        if self.train_images.labels is None:
            raise ArgumentError(f"{images.name} has no labels; give --labels 0, or images with classes or attributes")
        seed = self.config.seed if self.config.label_seed is None else self.config.label_seed
        return self.train_images[draw_labelled(self.train_images.labels.cpu(), self.config.labels, seed)]

    @staticmethod
    def load_data(config: MixedConfig) -> Images:
        """Return the images, with the requested attributes."""
        return load_labelled_images(config)

    @classmethod
    def build(cls, config: MixedConfig, images: Images, start: int = 0, group: Group = SINGLE_PROCESS) -> "MixedTask":
        """Return the task with initial weights number `start`; torch's global generator is unchanged."""
        architecture = config.architecture
        if architecture != "conv-classifier":
            architecture = choose_networks(architecture, images.shape)
        with draw_initial_weights(config.seed, start):
            model = MixedVAE.build(
                make_space(config, images),
                images.shape,
                architecture=architecture,
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

    def describe_training(self) -> str:
        """Describe what the model learns from."""
        estimator = choose_estimator(self._estimator_config, self.model.space, 0, 0)
        labels = f"{self.config.labels:,} labels by {self.config.supervision}" if self.labelled else "no labels"
        return f"learns from {labels}, and from {self.count:,} images by {estimator}"

    def add_gradients(self, index: Tensor, epoch: int, step: int) -> Tensor:
        """Add this process's part to the gradients of the loss of a step."""
        weights = schedule_weights(self.config, epoch)
        loss, sums = self._compute_unlabelled_loss(index, weights, epoch, step)
        if self.labelled is not None and (weights.labels or weights.labelled_elbo):
            term, mean = self._compute_labelled_loss(self.labelled, weights)
            loss, sums["label_loss"] = loss + term, mean * len(index)  # all sums are over the images of the step
        if loss.requires_grad:  # a process may have no image of the last batch
            loss.backward()
        missing = torch.full((), torch.nan, device=loss.device)
        return torch.stack([sums.get(name, missing) for name in (*self.sums, "count")])

    def _compute_unlabelled_loss(
        self, index: Tensor, weights: Weights, epoch: int, step: int
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the terms of the loss that need no label, and sums over this process's images."""
        config, model, part = self.config, self.model, self.group.own_slice(len(index))
        batch = self.train_images[index[part].to(self.train_images.x.device)]
        loss = torch.zeros((), device=batch.x.device)
        sums = {"count": loss + len(batch)}
        if not weights.elbo and not weights.consistency:
            return loss, sums
        encoded = model.encode(batch.encoder_input)
        if weights.elbo:
            estimator = choose_estimator(self._estimator_config, model.space, epoch, step)
            generator = self.generators["noise"]
            noise = estimator.draw_noise(model.space, config.samples, (len(index),), generator, device=config.device)
            out = model(
                batch.x,
                encoded=encoded,
                estimator=estimator,
                kl=config.kl,
                noise=noise[:, part],
                continuous_noise=self._draw_gaussian_noise(len(index), part),
            )
            loss = loss - weights.elbo * model.noise_variance * out.value.sum() / len(index)
            sums |= {"elbo": out.value.detach().sum(), "kl": out.kl.sum(), "reconstruction": out.reconstruction.sum()}
            sums["evaluations"] = sums["count"] * out.evaluations
        if weights.recognition:
            z_d = model.draw_prior(len(index), self.generators["recognise"])[part]
            z_c = encoded.mean + self._draw_gaussian_noise(len(index), part) * (encoded.log_variance / 2).exp()
            losses = recognition_loss(model, z_d, z_c)
            loss = loss + weights.recognition * losses.sum() / len(index)
            sums["recognition_loss"] = losses.detach().sum()
        if weights.consistency:
            distorted = model.scores(self._distort_images(batch.encoder_input, len(index), part))
            original = encoded.scores.detach()
            if self._marginal is not None:
                loss = loss + model.space.kl(original, self._marginal).sum() / len(index)
                original = align_scores(original, self._marginal, model.prior)
            losses, is_confident = consistency_loss(original, distorted, model.space, config.confidence)
            loss = loss + weights.consistency * losses.sum() / len(index)
            sums |= {"consistency_loss": losses.detach().sum(), "sure": is_confident.sum()}
        return loss, sums

    def _compute_labelled_loss(self, labelled: PreparedImages, weights: Weights) -> tuple[Tensor, Tensor]:
        """Return the terms of the loss of labelled images, and this process's part of the mean loss of labels."""
        config, model, count = self.config, self.model, self.config.labelled_batch
        part = self.group.own_slice(count)
        index = torch.randint(len(labelled), (count,), generator=self.generators["labelled"], device=config.device)
        batch = labelled[index[part]]
        assert batch.labels is not None
        target = encode_labels(batch.labels, model.space)
        losses = label_loss(
            model.scores(self._distort_images(batch.encoder_input, count, part)),
            target,
            model.space,
            config.supervision,
            epsilon=config.epsilon,
            noise=model.space.noise((1, count), self.generators["teach"], device=config.device)[:, part],
        )
        loss = weights.labels * losses.sum() / count
        if weights.labelled_elbo:
            bound = model.labelled_bound(
                batch.x,
                target,
                encoded=model.encode(batch.encoder_input),
                continuous_noise=self._draw_gaussian_noise(count, part),
            )
            loss = loss - weights.labelled_elbo * model.noise_variance * bound.sum() / count
        return loss, losses.detach().sum() / count

    def _draw_gaussian_noise(self, count: int, part: slice) -> Tensor:
        """Return a part of the noise of the Gaussians of `count` images; noise is drawn for all of them."""
        shape = (count, self.model.join.rows, self.model.join.c)
        return torch.randn(shape, generator=self.generators["gaussian"], device=self.config.device)[part]

    def _distort_images(self, images: Tensor, count: int, part: slice) -> Tensor:
        """Return distorted copies of a part of `count` images."""
        return augment_images(images, self.config.augment, self.generators["distort"], count, part)

    def evaluate(self, split: str) -> dict[str, Any]:
        """Return the bound, its terms, and the accuracies."""
        return evaluate(self.model, self.held_out[split], seed=self.config.seed, group=self.group)

    def summarize_epoch(self, rows: Mapping[str, Row]) -> str:
        """Return a line with the bounds and the accuracy of an epoch."""
        test = rows["test"]
        trained = "" if rows["train"]["elbo"] is None else f"train {-rows['train']['elbo']:.2f}  "
        known = "" if test["accuracy"] is None else f"  test accuracy {test['accuracy']:.2%}"
        return (
            f"epoch {test['epoch']:>3}  -ELBO {trained}validation {-rows['validation']['elbo']:.2f}  "
            f"test {-test['elbo']:.2f}{known}"
        )
