"""What each category of a mixed VAE draws, and how well categories agree with classes."""

import torch
from torch import Tensor

from hardmax.errors import ArgumentError
from hardmax.experiments.exhibits.exhibit import Exhibit
from hardmax.metrics.agreement import best_matching, contingency
from hardmax.models import MixedVAE
from hardmax.random import stream
from hardmax.report.pictures import data_uri, grid
from hardmax.spaces import Categorical
from hardmax.training.mixed.config import MixedConfig
from hardmax.training.mixed.pictures import seen
from hardmax.training.restore import restore


def look_at_categories(config: MixedConfig, *, rows: int) -> Exhibit:
    """Draw every category with the same Gaussians, and count how often the arg max is the class of a test picture.

    With labels, category i is class i. Without, each class gets the category of the best one-to-one matching, and the
    columns of the grid stand in the order of their classes.

    Args:
        config: of the run, whose latest model is looked at.
        rows: of the grid, each with Gaussians of its own.

    Raises:
        ArgumentError: the model has no categories, or the pictures have no classes.
    """
    restored = restore(config.out, "latest", kind=MixedVAE)
    model, pictures = restored.model, seen(config, restored.images(config.data_dir), "test")
    if not isinstance(model.space, Categorical) or pictures.labels is None:
        raise ArgumentError(f"a picture for each category needs categories and classes, got {model.space}")
    found = torch.cat([model.predict(some.shown).argmax(-1) for some in pictures.split(500)])
    counts = contingency(found, pictures.labels, model.space.k, int(pictures.labels.max()) + 1)
    order, agreement = best_matching(counts)
    if config.labels:
        order, agreement = list(range(model.space.k)), int(counts.diagonal().sum()) / int(counts.sum())
    order = [category for category in order if category >= 0]
    order += [category for category in range(model.space.k) if category not in order]
    drawn = draw_settings(model, torch.eye(model.space.k)[order], rows, seed=config.seed)
    heads = [str(i) if i < counts.shape[1] else "–" for i in range(model.space.k)]
    picture = data_uri(grid(drawn.flatten(0, 1), columns=len(heads), padding=1))
    return Exhibit(picture, heads, rows, [{"agreement": agreement}])


def draw_settings(model: MixedVAE, settings: Tensor, count: int, *, seed: int) -> Tensor:
    """Draw every setting of the discrete latent with the same Gaussians, `[count, settings, *shape]`.

    Args:
        model: what draws.
        settings: `[K, *event]`, of the discrete latent.
        count: of Gaussians.
        seed: of their draw.
    """
    z_c = model.join.sample_prior(count, generator=stream(seed, "gallery"))
    pictures = [model.decode(z_d.expand(count, *z_d.shape), z_c) for z_d in settings]
    return torch.stack(pictures, 1).clamp(0, 1)
