"""Training of the image encoder: on scans synthesised from label maps, then on real scans without labels."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.applications.segmentation.model_folder import ENCODER, VAE
from hardmax.applications.segmentation.tissues.gaussians import Gaussians
from hardmax.applications.segmentation.vae.image_encoder import ImageEncoder, check_scans, scan_elbo
from hardmax.applications.segmentation.vae.label_training import Progress, minimise_loss
from hardmax.applications.segmentation.vae.label_vae import LabelVAE
from hardmax.applications.segmentation.vae.synthesis import synthesise_scan
from hardmax.applications.segmentation.vae.voxel_scores import AbstractVoxelScore, ExactLikelihood
from hardmax.objectives import gaussian_elbo
from hardmax.random import make_generator

# A scan and its mask, both [*S], on the prior's grid.
Scan = tuple[Tensor, Tensor]


def pretrain_encoder(
    vae: LabelVAE,
    encoder: ImageEncoder,
    maps: Float[Tensor, "N M *S"] | None,
    mixing: Float[Tensor, "M K"],
    *,
    steps: int = 1000,
    rate: float = 1e-3,
    batch: int = 4,
    seed: int = 0,
    folder: Path | None = None,
    progress: Progress | None = None,
) -> list[float]:
    """Train an encoder on synthetic scans.

    Maximises `E_{q(z | x)}[log p(s | z)] - KL`, where x is a scan of random contrast synthesised from the map s.

    Args:
        vae: the prior; its weights are frozen.
        encoder: trained in place.
        maps: `[N, M, *S]`, aligned maps; None samples them from the prior, which has less detail than its maps.
        mixing: `[M, K]`, the Gaussians of each label.
        steps: number of steps of Adam.
        rate: learning rate.
        batch: scans per step.
        seed: seed of all randomness.
        folder: folder of the training state, to resume after an interruption.
        progress: called after each step.

    Returns:
        Minus the bound per voxel, step by step.
    """
    voxels, dtype = vae.log_location[0].numel(), vae.log_location.dtype
    with _freeze(vae):

        def loss(generator: torch.Generator) -> Tensor:
            if maps is None:
                label_map = vae.sample(1, generator=generator)
            else:
                index = int(torch.randint(len(maps), (), generator=generator))
                label_map = maps[index : index + 1].to(dtype)
            scan = synthesise_scan(label_map[0], mixing, generator=generator)
            mean, log_variance = encoder(scan.x[None], scan.mask[None])
            out = gaussian_elbo(vae.likelihood(label_map), mean, log_variance, generator=generator)
            return -out.value.mean() / voxels

        return minimise_loss(
            encoder, loss, steps=steps, rate=rate, parts=batch, seed=seed, folder=folder, progress=progress
        )


def adapt_encoder(
    vae: LabelVAE,
    encoder: ImageEncoder,
    scans: Sequence[Scan],
    mixing: Float[Tensor, "M K"],
    *,
    score: AbstractVoxelScore = ExactLikelihood(),  # noqa: B008  frozen, without state
    steps: int = 200,
    rate: float = 3e-4,
    batch: int = 1,
    seed: int = 0,
    progress: Progress | None = None,
) -> list[float]:
    """Train an encoder on scans without labels: maximise the bound of the scans (`scan_elbo`).

    Before each step on a scan, its Gaussians are updated for f at the mean of q(z | x); then q is updated with the
    Gaussians fixed.

    Args:
        vae: the prior; its weights are frozen.
        encoder: trained in place.
        scans: pairs (x, mask) on the prior's grid.
        mixing: `[M, K]`, the Gaussians of each label.
        score: score of the voxels.
        steps: number of steps of Adam.
        rate: learning rate.
        batch: scans per step.
        seed: seed of all randomness.
        progress: called after each step.

    Returns:
        Minus the bound per voxel of the mask, step by step.

    Raises:
        ArgumentError: no scan, or a scan that is not on the prior's grid.
    """
    check_scans(vae, scans)
    gaussians: dict[int, Gaussians] = {}
    with _freeze(vae):

        def loss(generator: torch.Generator) -> Tensor:
            index = int(torch.randint(len(scans), (), generator=generator))
            x, mask = scans[index]
            with torch.no_grad():
                log_f = vae.log_prior(encoder(x[None], mask[None])[0])[0]
                gaussians[index] = score.fit(x[mask], log_f[:, mask].exp(), mixing, gaussians.get(index))
            out = scan_elbo(vae, encoder, x, mask, gaussians[index], score=score, generator=generator)
            return -out.value.mean() / int(mask.sum())

        return minimise_loss(encoder, loss, steps=steps, rate=rate, parts=batch, seed=seed, progress=progress)


def train_encoder(
    scans: Sequence[Path],
    vae: LabelVAE,
    out: Path,
    *,
    align: Callable[[Path], Scan],
    mixing: Float[Tensor, "M K"],
    maps: Float[Tensor, "N M *S"] | None = None,
    pretraining: int = 1000,
    steps: int = 200,
    seed: int = 0,
    progress: Progress | None = None,
) -> None:
    """Train an image encoder on scan files and write it, with its prior, into a folder.

    Interrupted pre-training resumes from the folder; the steps on the scans, which are few, start again.

    Args:
        scans: files of scans without labels.
        vae: the prior; its weights are frozen.
        out: folder of the model; `vae/` and `encoder/` are written.
        align: reads a scan and returns it with its mask on the prior's grid.
        mixing: `[M, K]`, the Gaussians of each label.
        maps: `[N, M, *S]`, aligned maps for the pre-training; None samples them from the prior.
        pretraining: number of steps on synthetic scans.
        steps: number of steps on the scans.
        seed: seed of all randomness.
        progress: called after each step of both kinds.

    Raises:
        DataError: the folder cannot be written; and the errors of align.
    """
    aligned = [align(path) for path in scans]
    check_scans(vae, aligned)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(make_generator(seed, "init").initial_seed())
        encoder = ImageEncoder(vae.shape, vae.latents)
    pretrain_encoder(
        vae, encoder, maps, mixing, steps=pretraining, seed=seed, folder=out / "pretraining", progress=progress
    )
    adapt_encoder(vae, encoder, aligned, mixing, steps=steps, seed=seed, progress=progress)
    vae.save_pretrained(out / VAE)
    encoder.save_pretrained(out / ENCODER)
    shutil.rmtree(out / "pretraining")


@contextmanager
def _freeze(vae: LabelVAE) -> Iterator[None]:
    """Disable gradients of the prior's weights within the block, which also saves their memory."""
    parameters = [p for p in vae.parameters() if p.requires_grad]
    for parameter in parameters:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in parameters:
            parameter.requires_grad_(True)
