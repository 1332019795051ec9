"""Training and evaluation of a dVAE, and the maintenance of its codebook."""

import math
from collections.abc import Callable, Mapping
from typing import Any, final

import torch
from torch import Tensor

from hardmax.applications.tokens.config import DvaeConfig, is_revival_step, kl_weight_at, resolve_estimator
from hardmax.applications.tokens.model import TokenVAE
from hardmax.data import Images
from hardmax.metrics.codes import measure_alive, perplexity
from hardmax.metrics.images import psnr, ssim
from hardmax.nn.codebook import Codebook
from hardmax.random import make_generator
from hardmax.spaces import Categorical
from hardmax.training.estimators import choose_estimator
from hardmax.training.processes import SINGLE_PROCESS, Group
from hardmax.training.task import SPLITS, AbstractTask, Row, draw_initial_weights, prepare_split

_COLUMNS = ("elbo", "log_likelihood", "reconstruction", "kl")


@torch.no_grad()
def evaluate(
    model: TokenVAE,
    images: Tensor,
    config: DvaeConfig,
    *,
    samples: int = 1,
    batch_size: int = 500,
    on_batch: Callable[[int], None] | None = None,
    group: Group = SINGLE_PROCESS,
) -> dict[str, float]:
    """Return the means of all metrics over images `[N, *shape]`.

    `elbo`, `nll`, `kl` and `reconstruction` are in nats per image, with KL weight 1 for every weight in training.
    With `quantize="draw"`, tokens are sampled `samples` times; otherwise q is a single point and its KL is n log K.
    `mse` is the mean squared error of a pixel that is reconstructed from the tokens; `psnr`, in decibels, and `ssim`
    are those of the images, limited to grey values from 0 to 1. `perplexity` is that of all tokens together, at most K,
    and `alive` is the share of codes in use.

    Each process of a group evaluates its part; the samples of a batch do not depend on the process.
    """
    totals = torch.zeros(len(_COLUMNS) + 3, dtype=torch.float64)
    counts = torch.zeros(model.space.k, dtype=torch.float64)
    batches = list(enumerate(images.split(batch_size)))
    for number, batch in batches[group.own_slice(len(batches))]:
        if config.quantize != "draw":
            bounds = model.token_bounds(batch)
        else:
            generator = make_generator(config.seed, "evaluate", number, device=batch.device)
            bounds = model.bounds(batch, samples=samples, generator=generator)
        tokens = model.tokenize(batch)
        images_of_tokens, everywhere = model.detokenize(tokens), torch.ones_like(batch[:, :1], dtype=torch.bool)
        shown = images_of_tokens.clamp(0, 1)
        metrics = [getattr(bounds, name) for name in _COLUMNS]
        metrics += [(images_of_tokens - batch).square().flatten(1).mean(1)]
        metrics += [psnr(shown, batch, everywhere), ssim(shown, batch, everywhere)]
        totals += torch.stack([values.double().sum().cpu() for values in metrics])
        counts += tokens.flatten().bincount(minlength=model.space.k).cpu()
        if on_batch is not None:
            on_batch(len(batch))
    group.all_reduce(totals)
    group.all_reduce(counts)
    elbo, log_likelihood, reconstruction, kl, mse, decibels, similarity = (totals / max(len(images), 1)).tolist()
    return {
        "elbo": elbo,
        "nll": -log_likelihood,
        "kl": kl,
        "reconstruction": reconstruction,
        "mse": mse,
        "perplexity": float(perplexity(counts / counts.sum().clamp_min(1))),
        "alive": measure_alive(counts),
        "psnr": decibels,
        "ssim": similarity,
    }


@final
class DvaeTask(AbstractTask[DvaeConfig, TokenVAE]):
    """Trains a `TokenVAE`: as a dVAE it maximises the bound, with KL warm-up; as a VQ-VAE it minimises its losses."""

    sums = ("elbo", "reconstruction", "kl", "evaluations")

    def __init__(self, config: DvaeConfig, images: Images, model: TokenVAE, group: Group) -> None:
        self.config, self.group = config, group
        self.model = model.to(config.device)
        self.train_images = prepare_split(config, images, "train").to(config.device)
        self.count = len(self.train_images)
        self.held_out = {
            s: prepare_split(config, images, s)[: config.evaluate_images].to(config.device) for s in SPLITS
        }
        self.generators = {name: torch.Generator(config.device) for name in ("noise", "codes")}
        self._steps = config.epochs * math.ceil(self.count / config.batch_size)
        self._estimator_config = resolve_estimator(config, self._steps)

    @classmethod
    def build(cls, config: DvaeConfig, images: Images, start: int = 0, group: Group = SINGLE_PROCESS) -> "DvaeTask":
        """Return the task with the initial weights of number `start`; torch's global generator is left unchanged."""
        likelihood = config.likelihood
        if likelihood == "auto":
            likelihood = "gaussian" if config.binarize == "none" else "bernoulli"
        with draw_initial_weights(config.seed, start):
            model = TokenVAE.build(
                images.shape,
                config.codes,
                dimensions=config.dimensions,
                longest=config.grid,
                width=config.width,
                codebook=config.codebook,
                likelihood=likelihood,
            )
        return cls(config, images, model, group)

    @classmethod
    def couples_examples(cls, config: DvaeConfig) -> bool:
        """Whether the gradient of an image depends on the other images of its batch."""
        return choose_estimator(resolve_estimator(config, 1), Categorical(2, 2), 0, 0).couples_examples

    def describe_training(self) -> str:
        """Describe the token grid and the estimator."""
        height, width = self.model.grid
        tokens = f"{height} x {width} tokens of {self.config.codes} codes per image"
        if self.config.quantize != "draw":
            return f"{tokens}: the nearest codes, --quantize {self.config.quantize}"
        first, last = (choose_estimator(self._estimator_config, self.model.space, 0, step) for step in (0, self._steps))
        return f"{tokens}, sampled with {first}" + (f", at the end {last}" if first != last else "")

    def add_gradients(self, index: Tensor, epoch: int, step: int) -> Tensor:
        """Add this process's part to the gradients of the loss of a step."""
        self._update_codebook(index, step)
        part = self.group.own_slice(len(index))
        x = self.train_images[index[part].to(self.train_images.device)]
        with torch.autocast(x.device.type, torch.bfloat16, enabled=self.config.mixed_precision):
            if self.config.quantize == "draw":
                loss, sums, best, e = self._compute_sampled_loss(x, index, step)
            else:
                loss, sums, best, e = self._compute_quantized_loss(x)
        if len(x):  # the last batch of an epoch may have fewer images than there are processes
            (loss / len(index)).backward()
        self._count_codes(e, best)
        return torch.stack([*sums, sums[0].new_tensor(len(x))])

    def _compute_sampled_loss(self, x: Tensor, index: Tensor, step: int) -> tuple[Tensor, list[Tensor], Tensor, Tensor]:
        """Return the loss with sampled tokens, the sums for the log, the most probable tokens `[B, n]`, and vectors."""
        model, config, part = self.model, self.config, self.group.own_slice(len(index))
        estimator = choose_estimator(self._estimator_config, model.space, 0, step)
        generator = self.generators["noise"]
        noise = estimator.draw_noise(model.space, config.samples, (len(index),), generator, device=config.device)
        weight = kl_weight_at(config, step, self._steps)
        e = model.encode(x)
        scores = model.codebook.scores(e)
        out = model(x, scores=scores, estimator=estimator, kl=config.kl, kl_weight=weight, noise=noise[:, part])
        # The log has the bound itself, for every weight of the KL.
        bound, evaluations = (out.reconstruction - out.kl).sum(), x.new_tensor(out.evaluations * len(x))
        sums = [bound, out.reconstruction.sum(), out.kl.sum(), evaluations]
        return -out.value.sum(), sums, scores.argmax(-1), e.detach()

    def _compute_quantized_loss(self, x: Tensor) -> tuple[Tensor, list[Tensor], Tensor, Tensor]:
        """Return the loss with the nearest codes, the sums for the log, these codes `[B, n]`, and vectors."""
        out = self.model.quantize(x, "rotate" if self.config.quantize == "rotate" else "nearest")
        loss = -out.reconstruction + out.distance + self.config.commitment * out.commitment
        reconstruction = out.reconstruction.detach().sum()
        kl, count = x.new_tensor(self.model.space.log_size * len(x)), x.new_tensor(len(x))
        return loss.sum(), [reconstruction - kl, reconstruction, kl, count], out.z.argmax(-1), out.e

    @torch.no_grad()
    def _count_codes(self, e: Tensor, indices: Tensor) -> None:
        """Count the nearest codes `[B, n]` of vectors `[B, n, d]` of all processes, and move running means to them."""
        book = self.model.codebook
        if not isinstance(book, Codebook):
            return
        counts = indices.flatten().bincount(minlength=book.codes).double()
        self.group.all_reduce(counts)
        book.used += counts
        if book.learning == "average":
            sums = book.add_up(e, indices)
            self.group.all_reduce(sums)
            book.average(sums, counts)

    @torch.no_grad()
    def _update_codebook(self, index: Tensor, step: int) -> None:
        """Initialise the codes before the first step; later move the rarely used ones.

        Every process uses all images of the step, so that all processes move the same codes to the same vectors.
        """
        book = self.model.codebook
        if not isinstance(book, Codebook) or (step > 0 and not is_revival_step(self.config, step, self._steps)):
            return
        vectors = self.model.encode(self.train_images[index.to(self.train_images.device)])
        if step == 0:
            book.initialize(vectors, self.generators["codes"])
        else:
            book.revive(vectors, self.config.revive_below, self.generators["codes"])

    def evaluate(self, split: str) -> dict[str, Any]:
        """Return the bound and its terms, the reconstruction error, and the usage of the codes."""
        return evaluate(self.model, self.held_out[split], self.config, group=self.group)

    def summarize_epoch(self, rows: Mapping[str, Row]) -> str:
        """Return a line with the bounds, error and code usage of an epoch."""
        test = rows["test"]
        return (
            f"epoch {test['epoch']:>3}  -ELBO train {-rows['train']['elbo']:.2f}  "
            f"validation {-rows['validation']['elbo']:.2f}  test {-test['elbo']:.2f}  error {test['mse']:.5f}  "
            f"perplexity {test['perplexity']:.1f}  alive {test['alive']:.1%}"
        )
