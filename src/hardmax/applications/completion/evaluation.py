"""Evaluation of completions: likelihood of the hidden pixels, distance to the truth, diversity and realism."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from hardmax.applications.completion.config import CompletionConfig
from hardmax.applications.completion.masks import Holed, prepare_masked_split
from hardmax.applications.completion.model import CompletionModel
from hardmax.data import Images
from hardmax.metrics.images import count_classes, measure_pairwise_distance, psnr, ssim
from hardmax.metrics.judges import extract_features, frechet_distance, judge_images, train_classifier
from hardmax.random import stream
from hardmax.training.processes import ALONE, Group

_COLUMNS = ("elbo", "log_likelihood", "reconstruction", "kl")


@torch.no_grad()
def evaluate(
    model: CompletionModel,
    pictures: Holed,
    *,
    samples: int = 1,
    seed: int = 0,
    batch_size: int = 500,
    on_batch: Callable[[int], None] | None = None,
    group: Group = ALONE,
) -> dict[str, float]:
    """Return means over pictures: elbo, nll, kl, reconstruction of the hidden pixels in nats, psnr and components.

    `elbo` is of `samples` draws of z, `nll` is -log p(hidden | visible), at most, from the same number of importance
    weights. `psnr` is of one completion of each picture, in decibels. `components` is the number in use: the
    perplexity of the weights, averaged over all pictures.

    Each process of a group takes its part; the draws of a batch do not depend on which process makes them.
    """
    totals = torch.zeros(len(_COLUMNS) + 1, dtype=torch.float64)
    batches = list(enumerate(pictures.split(batch_size)))
    k = model.look(pictures.x[:1], pictures.hidden[:1]).mixture.scores.shape[-1]
    weights = torch.zeros(k, dtype=torch.float64)
    for number, batch in batches[group.part(len(batches))]:
        generator = stream(seed, "evaluate", number, device=batch.x.device)
        bounds = model.bounds(batch.x, batch.hidden, samples=samples, generator=generator)
        completed = model.complete(batch.x, batch.hidden, count=1, generator=generator)
        near = psnr(completed.pictures[0], batch.x, batch.hidden)
        sums = [getattr(bounds, name).double().sum() for name in _COLUMNS]
        totals += torch.stack([*sums, near.double().sum()]).cpu()
        weights += model.look(batch.x, batch.hidden).mixture.log_weights.exp().double().sum(0).cpu()
        if on_batch is not None:
            on_batch(len(batch))
    group.add_up(totals)
    group.add_up(weights)
    count = max(len(pictures), 1)
    elbo, log_likelihood, reconstruction, kl, near = (totals / count).tolist()
    share = weights / count
    return {
        "elbo": elbo,
        "nll": -log_likelihood,
        "kl": kl,
        "reconstruction": reconstruction,
        "psnr": near,
        "components": float(torch.special.entr(share).sum().exp()),
    }


@torch.no_grad()
def measure_completions(
    model: CompletionModel, pictures: Holed, *, count: int = 10, seed: int = 0, judge: nn.Module | None = None
) -> dict[str, float | None]:
    """Return means over pictures, of `count` completions of each.

    - `psnr`, `ssim`: of a completion in the hole; `psnr_best`, `ssim_best`: of the best of them; `psnr_best_half`,
      `ssim_best_half`: of the best of the same number drawn with temperature 0.5.
    - `diversity`: mean absolute difference of two completions in the hole.
    - With a judge, a classifier: `frechet`, of its features between completed and true pictures; `distinct` classes
      among the completions of a picture, their `entropy`; and, to judge these, `sure`, the share of completions
      that the judge is sure about, and `right`, the share that it classifies as the picture's class.
    """
    sums: dict[str, float] = {}
    logits, features = [], []
    for number, batch in enumerate(pictures.split(200)):
        generator = stream(seed, "complete", number, device=batch.x.device)
        completed, nearer = (
            model.complete(batch.x, batch.hidden, count=count, temperature=temperature, generator=generator).pictures
            for temperature in (1.0, 0.5)
        )
        measures = {"diversity": measure_pairwise_distance(completed, batch.hidden)}
        for name, near in (("psnr", psnr), ("ssim", ssim)):
            full, half = (
                torch.stack([near(one, batch.x, batch.hidden) for one in pictures]) for pictures in (completed, nearer)
            )
            measures |= {name: full.mean(0), f"{name}_best": full.amax(0), f"{name}_best_half": half.amax(0)}
        for name, values in measures.items():
            sums[name] = sums.get(name, 0.0) + float(values.double().sum())
        if judge is not None:
            flat = completed.flatten(0, 1).cpu()
            logits.append(judge_images(judge, flat).unflatten(0, completed.shape[:2]))
            # One of each picture, as there is one true one.
            features.append(extract_features(judge, completed[0].cpu()))
    metrics: dict[str, float | None] = {name: total / max(len(pictures), 1) for name, total in sums.items()}
    if judge is not None:
        labels = None if pictures.labels is None else pictures.labels.cpu()
        classes = count_classes(torch.cat(logits, 1), labels)
        metrics |= {
            "distinct": classes.distinct,
            "entropy": classes.entropy,
            "sure": classes.sure,
            "right": classes.right,
        }
        metrics["frechet"] = frechet_distance(torch.cat(features), extract_features(judge, pictures.x.cpu()))
    return metrics


def train_judge_of(
    config: CompletionConfig, images: Images, *, epochs: int, most: int | None = None
) -> nn.Module | None:
    """Train a classifier on the run's training pictures, or the first `most`; None where they have no classes."""
    if images.labels is None or not (images.labels["train"] >= 0).any():
        return None
    train, validation = (
        prepare_masked_split(config, images, "train")[:most],
        prepare_masked_split(config, images, "validation")[:most],
    )
    return train_classifier(train.x, _known(train), (validation.x, _known(validation)), epochs=epochs, seed=config.seed)


def _known(pictures: Holed) -> Tensor:
    assert pictures.labels is not None
    return pictures.labels
