"""What a mixed VAE's encoder takes pictures for, beside what they are labelled as."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from hardmax.models import MixedVAE
from hardmax.report.mixed.meaning import Meaning
from hardmax.training.mixed.pictures import Seen, known


@dataclass(frozen=True, eq=False)
class Predictions:
    """Of N pictures with V variables each.

    Attributes:
        found: the values of the arg max.
        labels: the values that the pictures are labelled with, -1 where not known.
        probability: what the encoder gives to the label, of all its samples the share that is right; 0 where not known.
    """

    found: Int64[Tensor, "N V"]
    labels: Int64[Tensor, "N V"]
    probability: Float[Tensor, "N V"]

    @property
    def counted(self) -> Bool[Tensor, "N V"]:
        """Where there is a label."""
        return known(self.labels)

    @property
    def right(self) -> Bool[Tensor, "N V"]:
        """Where the arg max is the label."""
        return (self.found == self.labels) & self.counted

    def accuracy(self, variable: int | slice = slice(None)) -> float | None:
        """Return the share of labels that the arg max has right; None where there are none."""
        return _share(self.right[:, variable], self.counted[:, variable])

    def accuracy_sampled(self, variable: int | slice = slice(None)) -> float | None:
        """Return the share of labels that samples of the encoder have right in the mean; None where there are none."""
        return _share(self.probability[:, variable], self.counted[:, variable])

    def confusion(self, values: int) -> Int64[Tensor, "classes values"]:
        """Return how many pictures of each class, by row, are taken for each category, by column."""
        labels, found = self.labels[self.counted[:, 0], 0], self.found[self.counted[:, 0], 0]
        classes = max(values, int(labels.max()) + 1 if len(labels) else 0)
        return (labels * values + found).bincount(minlength=classes * values).view(classes, values)


@torch.no_grad()
def predict(model: MixedVAE, meaning: Meaning, pictures: Seen, batch_size: int = 500) -> Predictions:
    """Let the encoder look at pictures."""
    found, probabilities = [], []
    for batch in pictures.split(batch_size):
        scores = model.scores(batch.shown)
        found.append(meaning.values_of(model.space.argmax(scores)).cpu())
        q = model.space.marginals(scores).cpu()
        probabilities.append(torch.stack([1 - q, q], -1) if meaning.attributes else q[:, None])
    values, q = torch.cat(found), torch.cat(probabilities)
    labels = torch.full_like(values, -1) if pictures.labels is None else pictures.labels.cpu().view(values.shape)
    # There may be more classes than categories.
    inside = (labels >= 0) & (labels < q.shape[-1])
    given = q.gather(-1, labels.where(inside, 0)[..., None]).squeeze(-1)
    return Predictions(values, labels, given.where(inside, 0.0))


def _share(hits: Tensor, counted: Tensor) -> float | None:
    return float(hits.double().sum() / counted.sum()) if counted.any() else None
