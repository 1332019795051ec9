"""Pictures drawn from a mixed VAE: a row has one continuous latent, a column one setting of the discrete one."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.models import MixedVAE
from hardmax.report.mixed.columns import Columns
from hardmax.report.mixed.meaning import Meaning

_MOST_TOLD = 3  # attributes that are named beside a row


@dataclass(frozen=True, eq=False)
class Samples:
    """What was drawn.

    Attributes:
        pictures: `[rows, columns, channels, H, W]`, means given the latents.
        rows: what the attributes are that no column sets, which each row draws; empty where there are none, or many.
    """

    pictures: Float[Tensor, "R C channels H W"]
    rows: list[str]


@torch.no_grad()
def draw_samples(
    model: MixedVAE, meaning: Meaning, columns: Columns, count: int, generator: torch.Generator
) -> Samples:
    """Draw the latents of so many rows from the prior, and decode them as each column sets them."""
    _, drawn, z_c = model.sample(count, generator=generator)
    pictures = [model.decode(meaning.put(drawn, setting), z_c) for setting in columns.settings]
    free = [variable for variable in range(len(meaning.names)) if variable not in columns.variables]
    told = free if len(free) <= _MOST_TOLD else []
    values = meaning.values_of(drawn)[:, told].tolist()
    rows = [meaning.tell(dict(zip(told, row, strict=True))) for row in values]
    return Samples(torch.stack(pictures, 1), rows)
