"""Evaluation of a completion model: likelihood of hidden pixels; accuracy, diversity and realism of completions."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from hardmax.applications.completion.config import CompletionConfig
from hardmax.applications.completion.masks import MaskedImages, prepare_masked_split
from hardmax.applications.completion.model import CompletionModel
from hardmax.data import Images
from hardmax.metrics.images import count_classes, measure_pairwise_distance, psnr, ssim
from hardmax.metrics.judges import extract_features, frechet_distance, judge_images, train_classifier
from hardmax.random import make_generator
from hardmax.training.processes import SINGLE_PROCESS, Group

_COLUMNS = ("elbo", "log_likelihood", "reconstruction", "kl")


@torch.no_grad()
def evaluate(
    model: CompletionModel,
    images: MaskedImages,
    *,
    samples: int = 1,
    seed: int = 0,
    batch_size: int = 500,
    on_batch: Callable[[int], None] | None = None,
    group: Group = SINGLE_PROCESS,
) -> dict[str, float]:
    """Return means over images: elbo, nll, kl, reconstruction of the hidden pixels in nats, psnr and components.

    `elbo` is from `samples` samples of z; `nll` is an upper bound of -log p(hidden | visible), from the same number of
    importance weights. `psnr` is that of one completion of each image, in decibels. `components` is the number of
    components in use: the perplexity of the mean weights over all images.

    Each process of a group evaluates its part; the samples of a batch do not depend on the process.
    """
    totals = torch.zeros(len(_COLUMNS) + 1, dtype=torch.float64)
    batches = list(enumerate(images.split(batch_size)))
    k = model.encode_visible(images.x[:1], images.hidden[:1]).mixture.scores.shape[-1]
    weights = torch.zeros(k, dtype=torch.float64)
    for number, batch in batches[group.own_slice(len(batches))]:
        generator = make_generator(seed, "evaluate", number, device=batch.x.device)
        bounds = model.bounds(batch.x, batch.hidden, samples=samples, generator=generator)
        completions = model.complete(batch.x, batch.hidden, count=1, generator=generator)
        decibels = psnr(completions.images[0], batch.x, batch.hidden)
        sums = [getattr(bounds, name).double().sum() for name in _COLUMNS]
        totals += torch.stack([*sums, decibels.double().sum()]).cpu()
        weights += model.encode_visible(batch.x, batch.hidden).mixture.log_weights.exp().double().sum(0).cpu()
        if on_batch is not None:
            on_batch(len(batch))
    group.all_reduce(totals)
    group.all_reduce(weights)
    count = max(len(images), 1)
    elbo, log_likelihood, reconstruction, kl, mean_psnr = (totals / count).tolist()
    share = weights / count
    return {
        "elbo": elbo,
        "nll": -log_likelihood,
        "kl": kl,
        "reconstruction": reconstruction,
        "psnr": mean_psnr,
        "components": float(torch.special.entr(share).sum().exp()),
    }


@torch.no_grad()
def measure_completions(
    model: CompletionModel, images: MaskedImages, *, count: int = 10, seed: int = 0, judge: nn.Module | None = None
) -> dict[str, float | None]:
    """Return means over images of measures of `count` completions of each image.

    - `psnr`, `ssim`: of one completion, within the hole; `psnr_best`, `ssim_best`: of the best of them;
      `psnr_best_half`, `ssim_best_half`: of the best of the same number sampled with temperature 0.5.
    - `diversity`: mean absolute difference of two completions within the hole.
    - With a judge, the evaluation classifier: `frechet`, the Frechet distance of its features between completed and
      true images; `distinct`, the number of classes among the completions of an image; `entropy`, the entropy of these
      classes; and, to assess them, `sure`, the share of completions for which the classifier is confident, and `right`,
      the share that it assigns to the class of the image.
    """
    sums: dict[str, float] = {}
    logits, features = [], []
    for number, batch in enumerate(images.split(200)):
        generator = make_generator(seed, "complete", number, device=batch.x.device)
        completed, completed_half = (
            model.complete(batch.x, batch.hidden, count=count, temperature=temperature, generator=generator).images
            for temperature in (1.0, 0.5)
        )
        measures = {"diversity": measure_pairwise_distance(completed, batch.hidden)}
        for name, metric in (("psnr", psnr), ("ssim", ssim)):
            full, half = (
                torch.stack([metric(completion, batch.x, batch.hidden) for completion in completions])
                for completions in (completed, completed_half)
            )
            measures |= {name: full.mean(0), f"{name}_best": full.amax(0), f"{name}_best_half": half.amax(0)}
        for name, values in measures.items():
            sums[name] = sums.get(name, 0.0) + float(values.double().sum())
        if judge is not None:
            flat = completed.flatten(0, 1).cpu()
            logits.append(judge_images(judge, flat).unflatten(0, completed.shape[:2]))
            # One completion of each image, since there is one true image.
            features.append(extract_features(judge, completed[0].cpu()))
    metrics: dict[str, float | None] = {name: total / max(len(images), 1) for name, total in sums.items()}
    if judge is not None:
        labels = None if images.labels is None else images.labels.cpu()
        classes = count_classes(torch.cat(logits, 1), labels)
        metrics |= {
            "distinct": classes.distinct,
            "entropy": classes.entropy,
            "sure": classes.confident,
            "right": classes.right,
        }
        metrics["frechet"] = frechet_distance(torch.cat(features), extract_features(judge, images.x.cpu()))
    return metrics


def train_judge(config: CompletionConfig, images: Images, *, epochs: int, limit: int | None = None) -> nn.Module | None:
    """Train the evaluation classifier on the first `limit` training images of a run; None if they have no classes."""
    if images.labels is None or not (images.labels["train"] >= 0).any():
        return None
    train, validation = (
        prepare_masked_split(config, images, "train")[:limit],
        prepare_masked_split(config, images, "validation")[:limit],
    )
    return train_classifier(
        train.x, _get_labels(train), (validation.x, _get_labels(validation)), epochs=epochs, seed=config.seed
    )


def _get_labels(images: MaskedImages) -> Tensor:
    assert images.labels is not None
    return images.labels
