"""What labels and confident predictions teach an encoder's scores: the terms of the loss beside the bound."""

from typing import Literal

import torch
from torch import Tensor, nn
from torch.func import functional_call

from hardmax.estimators import Direct
from hardmax.expectations import expectation
from hardmax.models import MixedVAE
from hardmax.objectives import fenchel_young_loss
from hardmax.spaces import AbstractSpace

Supervision = Literal["argmax", "cross-entropy", "hamming"]


def label_loss(
    scores: Tensor, target: Tensor, space: AbstractSpace, kind: Supervision, *, epsilon: float, noise: Tensor
) -> Tensor:
    """Return the loss of scores against labels, `[B, *score]` and `[B, *event] -> [B]`.

    - "argmax": theorem 1 with z(epsilon) set to the label, `(statistics(z*) - statistics(label)) / epsilon` for scores.
      In the mean it is the gradient of cross-entropy / epsilon.
    - "cross-entropy": `-log q(label)`.
    - "hamming": the expected number of wrong variables, through `Direct(epsilon)`.

    Args:
        scores: of the pictures.
        target: their labels as z.
        space: of z.
        kind: which loss.
        epsilon: of direct optimization.
        noise: `[1, B, *score]`.
    """
    match kind:
        case "argmax":
            return fenchel_young_loss(scores, target, space, noise=noise, validate=False) / epsilon
        case "cross-entropy":
            return -space.log_prob(scores, target)
        case "hamming":
            # A wrong category is two wrong entries of its one-hot row.
            entries = 2 if space.categories is not None else 1

            def right(z: Tensor) -> Tensor:
                return -(z - target).abs().flatten(2).sum(-1) / entries

            return -expectation(right, scores, space, Direct(epsilon), noise=noise, validate=False).value


def recognition_loss(model: MixedVAE, z_d: Tensor, z_c: Tensor) -> Tensor:
    """Draw pictures of latents, and return how well the encoder recognises z_d in them, `-log q(z_d | picture)` `[B]`.

    With z_d drawn at random and z_c that of a picture, it keeps from z_c what z_d is to say: a decoder that looks for
    smiles in z_c alone draws faces whose smile does not follow z_d. The encoder judges, and does not learn from it.

    Args:
        model: whose decoder learns; so do z_c.
        z_d: `[B, *event]`.
        z_c: `[B, rows, c]`.

    References:
        Chen et al., "InfoGAN: interpretable representation learning by information maximizing generative adversarial
        nets", 2016.
    """
    parameters = model.decoder(model.join.join(z_d, z_c))
    pictures = parameters.sigmoid() if model.log_variance is None else parameters
    judge = nn.Sequential(model.trunk, model.discrete)
    held = {name: parameter.detach() for name, parameter in judge.named_parameters()}
    return -model.space.log_prob(functional_call(judge, held, (pictures,)), z_d)


def aligned(scores: Tensor, named: Tensor, prior: Tensor | None) -> Tensor:
    """Return scores as they would be if the encoder named each z as often as the prior does.

    `q(z | x) p(z) / named(z)`, up to a constant: Bayes' rule with one prior exchanged for another, which for scores is
    a sum. Nothing learns from it.

    Args:
        scores: of pictures `[B, *score]`.
        named: scores of how often the encoder names each z, `[*score]`.
        prior: scores of p, `[*score]`; None is uniform.

    References:
        Saerens, Latinne & Decaestecker, "Adjusting the outputs of a classifier to new a priori probabilities", 2002;
        Berthelot et al., "ReMixMatch", 2020 (distribution alignment).
    """
    corrected = scores.detach() - named.detach()
    return corrected if prior is None else corrected + prior.detach()


def consistency_loss(
    plain: Tensor, distorted: Tensor, space: AbstractSpace, confidence: float
) -> tuple[Tensor, Tensor]:
    """Teach a distorted picture what the encoder is sure of for the plain one.

    Args:
        plain: scores of the plain pictures `[B, *score]`; they learn nothing here.
        distorted: scores of their distorted copies.
        space: of z.
        confidence: probability that the best z must have.

    Returns:
        `-log q(best z | distorted)` where the encoder is sure, else zero, `[B]`; and where it is sure, `[B]`.

    References:
        Sohn et al., "FixMatch: simplifying semi-supervised learning with consistency and confidence", 2020.
    """
    with torch.no_grad():
        best = space.argmax(plain).to(plain.dtype)
        sure = space.log_prob(plain, best).exp() > confidence
    return torch.where(sure, -space.log_prob(distorted, best), 0.0), sure
