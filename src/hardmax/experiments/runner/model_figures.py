"""Figures that trained models draw, with numbers about them: the panels of a gallery."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from hardmax.applications.completion.config import CompletionConfig
from hardmax.applications.completion.evaluation import evaluate, measure_completions, train_judge
from hardmax.applications.completion.masks import prepare_masked_split
from hardmax.applications.completion.model import CompletionModel
from hardmax.applications.hashing.model import HashEncoder
from hardmax.applications.hashing.retrieval import measure_code_precision, measure_vector_precision
from hardmax.applications.hashing.task import encode_bits, pack_codes
from hardmax.applications.mixed_vae.config import MixedConfig
from hardmax.applications.mixed_vae.model import MixedVAE
from hardmax.applications.mixed_vae.supervision import prepare_labelled_split
from hardmax.applications.runs import load_run
from hardmax.data import load_images
from hardmax.drawing.images import encode_data_uri, make_grid
from hardmax.errors import ArgumentError
from hardmax.experiments.rows import ModelFigure
from hardmax.experiments.tables.declaration import FigureSpec
from hardmax.metrics.codes import count_contingency, match_categories
from hardmax.metrics.images import Components
from hardmax.metrics.judges import measure_accuracy, predict_attributes, train_recogniser
from hardmax.random import make_generator
from hardmax.report.sections import spread_indices
from hardmax.spaces import Binary, Categorical
from hardmax.training.config import ImageConfig, TrainConfig
from hardmax.training.task import prepare_split


def draw_attributes(config: MixedConfig, *, rows: int, samples: int, judge_epochs: int) -> ModelFigure:
    """Draw every setting of the attributes with the same Gaussians; measure how often a judge recognises the setting.

    The judge is an evaluation classifier, trained here on real images.

    The numbers have a line for each attribute, one for all of them at once, and one for two independent samples, with
    which the flip of an attribute is compared.

    Args:
        config: configuration of the run; its latest model draws.
        rows: number of rows of the grid, each with different Gaussians.
        samples: number of Gaussians for the numbers, each with every setting.
        judge_epochs: number of training epochs of the judge.

    Raises:
        ArgumentError: the model has no attributes.
    """
    restored = load_run(config.out, "latest", kind=MixedVAE)
    images, space = restored.load_data(config.data_dir), restored.model.space
    if not isinstance(space, Binary):
        raise ArgumentError(f"an image for each setting needs attributes, got {space}")
    (train, train_labels), (validation, validation_labels), (test, test_labels) = (
        (part.x, torch.empty(0) if part.labels is None else part.labels)
        for part in (prepare_labelled_split(config, images, split) for split in ("train", "validation", "test"))
    )
    judge = train_recogniser(
        train, train_labels, (validation, validation_labels), epochs=judge_epochs, seed=config.seed
    )
    settings = torch.tensor(list(product((0, 1), repeat=space.n)))
    drawn = draw_settings(restored.model, settings.float(), max(samples, rows), seed=config.seed)
    judged = predict_attributes(judge, drawn.flatten(0, 1)).view(*drawn.shape[:2], space.n)
    generated = GeneratedImages(drawn, judged, settings)
    names = [name.replace("_", " ") for name in images.attribute_names]
    heads = [", ".join(name for name, bit in zip(names, row, strict=True) if bit) or "none" for row in settings]
    return ModelFigure(
        encode_data_uri(make_grid(drawn[:rows].flatten(0, 1), columns=len(heads), padding=1)),
        heads,
        rows,
        measure_attributes(
            names, generated, (predict_attributes(judge, test), test_labels), Components.fit(train), seed=config.seed
        ),
    )


@dataclass(frozen=True, eq=False)
class GeneratedImages:
    """Generated images, and the attributes that a judge recognises in them.

    Attributes:
        images: `[N, K, *shape]`, images of N Gaussians and K settings.
        judged: `[N, K, A]`, the recognised attributes.
        settings: `[K, A]`, the attributes that were set, in binary counting order from all off to all on.
    """

    images: Tensor
    judged: Tensor
    settings: Tensor


def measure_attributes(
    names: list[str], generated: GeneratedImages, test: tuple[Tensor, Tensor], components: Components, *, seed: int
) -> list[dict[str, Any]]:
    """Return a line for each attribute, one for all at once, and one for two samples.

    - `real`: accuracy of the judge on real test images.
    - `recognised`: how often its answer for a generated image is the value that was set.
    - `others`: how often another attribute looks changed when this one is flipped.
    - `pixels` and `features`: how much the image then changes, by pixels and by principal components.

    Args:
        names: names of the attributes.
        generated: generated images, and the attributes recognised in them.
        test: two `[M, A]`: attributes that the judge recognises in real images, and their true attributes.
        components: principal components of real images.
        seed: seed of the settings of the two samples.
    """
    (recognised, wanted), judged, settings = test, generated.judged, generated.settings
    accuracy, correct = measure_accuracy(recognised, wanted), judged == settings
    images = generated.images
    lines: list[dict[str, Any]] = []
    for place, name in enumerate(names):
        off, on = (
            (settings[:, place] == bit).nonzero().squeeze(1) for bit in (0, 1)
        )  # the other attributes are in the same order
        rest = [other for other in range(len(names)) if other != place]
        changed = (judged[:, off] != judged[:, on])[..., rest].double()
        lines.append({
            "of": name,
            "real": float(accuracy[place]),
            "recognised": float(correct[..., place].double().mean()),
            "others": float(changed.mean()) if rest else None,
            **_measure_difference(images[:, off].flatten(0, 1), images[:, on].flatten(0, 1), components),
        })  # fmt: skip
    known = (wanted >= 0).all(1)
    everything = {
        "of": "all at once",
        "real": float((recognised == wanted)[known].all(1).double().mean()),
        "recognised": float(correct.all(-1).double().mean()),
    }
    index = torch.arange(len(images))
    chosen = torch.randint(len(settings), (len(index),), generator=make_generator(seed, "settings"))
    samples, judged_samples = images[index, chosen], judged[index, chosen]
    two = {
        "of": "two samples",
        "others": float((judged_samples != judged_samples.roll(1, 0)).double().mean()),
        **_measure_difference(samples, samples.roll(1, 0), components),
    }
    return [*lines, everything, two]


def _measure_difference(first: Tensor, second: Tensor, components: Components) -> dict[str, float]:
    """Return the mean difference of pairs of images."""
    return {
        "pixels": float((first - second).abs().mean()),
        "features": float(components.distance(first, second).mean()),
    }


def draw_categories(config: MixedConfig, *, rows: int) -> ModelFigure:
    """Draw every category with the same Gaussians, and count how often the arg max is the class of a test image.

    With labels, category i is class i. Without, each class gets the category of the best one-to-one matching, and the
    columns of the grid are in the order of their classes.

    Args:
        config: configuration of the run; its latest model draws.
        rows: number of rows of the grid, each with different Gaussians.

    Raises:
        ArgumentError: the model has no categories, or the images have no classes.
    """
    restored = load_run(config.out, "latest", kind=MixedVAE)
    model, images = restored.model, prepare_labelled_split(config, restored.load_data(config.data_dir), "test")
    if not isinstance(model.space, Categorical) or images.labels is None:
        raise ArgumentError(f"an image for each category needs categories and classes, got {model.space}")
    predicted = torch.cat([model.predict(batch.encoder_input).argmax(-1) for batch in images.split(500)])
    counts = count_contingency(predicted, images.labels, model.space.k, int(images.labels.max()) + 1)
    order, agreement = match_categories(counts)
    if config.labels:
        order, agreement = list(range(model.space.k)), int(counts.diagonal().sum()) / int(counts.sum())
    order = [category for category in order if category >= 0]
    order += [category for category in range(model.space.k) if category not in order]
    drawn = draw_settings(model, torch.eye(model.space.k)[order], rows, seed=config.seed)
    heads = [str(i) if i < counts.shape[1] else "–" for i in range(model.space.k)]
    grid = encode_data_uri(make_grid(drawn.flatten(0, 1), columns=len(heads), padding=1))
    return ModelFigure(grid, heads, rows, [{"agreement": agreement}])


def draw_settings(model: MixedVAE, settings: Tensor, count: int, *, seed: int) -> Tensor:
    """Draw every setting of the discrete latent with the same Gaussians, `[count, settings, *shape]`.

    Args:
        model: the model that draws.
        settings: `[K, *event]`, settings of the discrete latent.
        count: number of Gaussians.
        seed: seed of the Gaussians.
    """
    z_c = model.join.sample_prior(count, generator=make_generator(seed, "gallery"))
    images = [model.decode(z_d.expand(count, *z_d.shape), z_c) for z_d in settings]
    return torch.stack(images, 1).clamp(0, 1)


_JUDGE_OPTIONS = ("data", "data_dir", "size", "limit", "binarize", "seed")


def draw_completions(
    config: CompletionConfig,
    *,
    rows: int,
    shown: int,
    images: int,
    samples: int,
    completions: int,
    judge_epochs: int,
    judge_images: int,
) -> ModelFigure:
    """Complete test images, and measure the completions: likelihood, error, diversity and realism.

    Args:
        config: configuration of the run; its best model by validation draws.
        rows: number of rows of the grid: test images spread over the set, each with its hole, complete, and completed.
        shown: number of completions in a row.
        images: maximum number of test images that are measured.
        samples: number of samples of the latent, for importance weights.
        completions: number of completions of each image, for the other measures.
        judge_epochs: number of training epochs of the judge, an evaluation classifier of completions.
        judge_images: maximum number of its training images.
    """
    restored = load_run(config.out, "best", kind=CompletionModel)
    data = restored.load_data(config.data_dir)
    prepared = prepare_masked_split(config, data, "test")
    chosen = prepared[torch.tensor(spread_indices(len(prepared), rows))]
    generator = make_generator(config.seed, "gallery")
    completed = restored.model.complete(chosen.x, chosen.hidden, count=shown, generator=generator).images
    holes = chosen.x.where(~chosen.hidden, 0.5)
    lines = torch.cat([torch.stack([holes, chosen.x], 1), completed.transpose(0, 1)], 1)
    measured = prepared[:images]
    judge_config = CompletionConfig(**{name: getattr(config, name) for name in _JUDGE_OPTIONS})
    judge = _train_judge(judge_config, judge_epochs, judge_images)
    bounds = evaluate(restored.model, measured, samples=samples, seed=config.seed)
    numbers = {
        "negative_elbo": -bounds["elbo"],
        "nll": bounds["nll"],
        "components": bounds["components"],
        **measure_completions(restored.model, measured, count=completions, seed=config.seed, judge=judge),
    }
    heads = ["hole", "true", *map(str, range(1, shown + 1))]
    return ModelFigure(
        encode_data_uri(make_grid(lines.flatten(0, 1), columns=len(heads), padding=1)), heads, rows, [numbers]
    )


# Training the judge takes as long as some epochs of the run; runs on the same images share it.
@lru_cache(maxsize=2)
def _train_judge(config: CompletionConfig, epochs: int, most: int) -> nn.Module | None:
    images = load_images(config.data, data_dir=config.data_dir, size=config.size, limit=config.limit, seed=config.seed)
    return train_judge(config, images, epochs=epochs, limit=most)


NEIGHBOUR_COUNTS = (1, 10, 100)


def draw_neighbours(config: ImageConfig, *, rows: int, found: int, queries: int) -> ModelFigure:
    """Find the nearest training images of test images, by the codes or means of a model.

    A hash encoder's codes are compared by Hamming distance. A Gaussian VAE's means are compared by Euclidean distance,
    and so are the pixels, in a separate line.

    Args:
        config: configuration of the run; its latest model draws.
        rows: number of rows of the grid, each with a test image and its nearest training images.
        found: number of nearest training images.
        queries: maximum number of test images for the numbers.

    Raises:
        ArgumentError: the images have no classes, or the model has neither codes nor means.
    """
    restored = load_run(config.out, "latest")
    model, images = restored.model, restored.load_data(config.data_dir)
    if images.labels is None:
        raise ArgumentError(
            f"the share of the nearest images that have the same class needs classes, and {images.name} has none"
        )
    train, test = prepare_split(config, images, "train"), prepare_split(config, images, "test")[:queries]
    labels, wanted = images.labels["train"], images.labels["test"][:queries]
    ks = [k for k in NEIGHBOUR_COUNTS if k <= len(train)]
    if isinstance(model, HashEncoder):
        codes, query_codes = encode_bits(model, train), encode_bits(model, test)
        precisions = measure_code_precision(
            pack_codes(query_codes), wanted.numpy(), pack_codes(codes), labels.numpy(), ks
        )
        numbers: list[dict[str, Any]] = [_name_precisions(ks, precisions)]
    elif isinstance(model, MixedVAE):
        codes, query_codes = encode_means(model, train), encode_means(model, test)
        means = measure_vector_precision(query_codes, wanted, codes, labels, ks)
        pixels = measure_vector_precision(test.flatten(1), wanted, train.flatten(1), labels, ks)
        numbers = [
            {"of": "means", **_name_precisions(ks, means)},
            {"of": "raw pixels", **_name_precisions(ks, pixels)},
        ]
    else:
        raise ArgumentError(f"neither codes nor means can be searched for in a {type(model).__name__}")
    query_indices = spread_indices(len(test), rows)
    # For bits, the squared Euclidean distance is the Hamming distance.
    nearest = torch.cdist(query_codes[query_indices], codes).topk(found, largest=False).indices
    shown = torch.cat([test[query_indices][:, None], train[nearest]], 1).flatten(0, 1)
    heads = ["query", *(str(i + 1) for i in range(found))]
    return ModelFigure(
        encode_data_uri(make_grid(shown, columns=found + 1, padding=1)), heads, len(query_indices), numbers
    )


@torch.no_grad()
def encode_means(model: MixedVAE, images: Tensor) -> Tensor:
    """Return the means of the Gaussians of a model with one category, `[N, c]`."""
    return torch.cat([model.encode(batch).mean[:, 0] for batch in images.split(1000)])


def _name_precisions(ks: Sequence[int], precisions: Sequence[float]) -> dict[str, float]:
    return {f"precision_{k}": value for k, value in zip(ks, precisions, strict=True)}


FIGURES: dict[str, Callable[..., ModelFigure]] = {
    "attributes": draw_attributes,
    "categories": draw_categories,
    "completions": draw_completions,
    "neighbours": draw_neighbours,
}


def draw_model_figure(spec: FigureSpec, config: TrainConfig) -> ModelFigure:
    """Return the figure that the model of a finished run draws."""
    return FIGURES[spec.kind](config, **spec.options)
