"""Training and evaluation of a prior over the tokens of a dVAE."""

import math
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, final

import torch
from torch import Tensor

from hardmax.applications.runs import LoadedRun, load_run
from hardmax.applications.tokens.config import TokenPriorConfig
from hardmax.applications.tokens.model import TokenVAE
from hardmax.applications.tokens.prior_model import TokenPrior
from hardmax.data import Images, load_images
from hardmax.errors import ArgumentError
from hardmax.training.processes import SINGLE_PROCESS, Group
from hardmax.training.task import SPLITS, AbstractTask, Row, draw_initial_weights, prepare_split


@torch.no_grad()
def evaluate(
    model: TokenPrior,
    images: Tensor,
    *,
    batch_size: int = 500,
    on_batch: Callable[[int], None] | None = None,
    group: Group = SINGLE_PROCESS,
) -> dict[str, float]:
    """Return the means of all metrics over images `[N, *shape]`, in nats per image; `bits` are per token.

    `kl` is -log p(z) of their tokens z, and `elbo` is `log p(x | z) + log p(z)`, which is below log p(x).
    """
    totals = torch.zeros(2, dtype=torch.float64)
    for batch in images[group.own_slice(len(images))].split(batch_size):
        bounds = model.bounds(batch)
        totals += torch.stack([bounds.reconstruction.double().sum().cpu(), bounds.kl.double().sum().cpu()])
        if on_batch is not None:
            on_batch(len(batch))
    group.all_reduce(totals)
    reconstruction, kl = (totals / max(len(images), 1)).tolist()
    return {
        "elbo": reconstruction - kl,
        "nll": kl - reconstruction,
        "kl": kl,
        "reconstruction": reconstruction,
        "bits": kl / (model.tokenizer.space.variables * math.log(2)),
    }


@final
class TokenPriorTask(AbstractTask[TokenPriorConfig, TokenPrior]):
    """Trains a `TokenPrior`: maximises log p(z) of the tokens of images, which are computed once."""

    sums = ("kl",)

    def __init__(self, config: TokenPriorConfig, images: Images, model: TokenPrior, group: Group) -> None:
        self.config, self.group = config, group
        self.model = model.to(config.device)
        self.generators = {}
        tokenizer_config = load_tokenizer(config).config
        self.count = len(images.train)
        self._prepare_train_images = lambda: prepare_split(tokenizer_config, images, "train").to(config.device)
        self.held_out = {
            s: prepare_split(tokenizer_config, images, s)[: config.evaluate_images].to(config.device) for s in SPLITS
        }

    @cached_property
    def tokens(self) -> Tensor:
        """The tokens of the training images.

        They are computed when the first step needs them: a resumed run has loaded its own tokenizer by then, while that
        of `config.tokenizer` may have been trained further.
        """
        return tokenize_images(self.model.tokenizer, self._prepare_train_images())

    @staticmethod
    def load_data(config: TokenPriorConfig) -> Images:
        """Return the images, read with the options of the dVAE.

        Raises:
            ArgumentError: the configuration names no dVAE.
        """
        tokenizer_config = load_tokenizer(config).config
        data, data_dir = config.data or tokenizer_config.data, config.data_dir or tokenizer_config.data_dir
        return load_images(
            data,
            data_dir=data_dir,
            size=tokenizer_config.size,
            limit=tokenizer_config.limit,
            seed=tokenizer_config.seed,
        )

    @classmethod
    def build(
        cls, config: TokenPriorConfig, images: Images, start: int = 0, group: Group = SINGLE_PROCESS
    ) -> "TokenPriorTask":
        """Return the task with the initial weights of number `start`; torch's global generator is left unchanged."""
        tokenizer = load_tokenizer(config).model
        with draw_initial_weights(config.seed, start):
            model = TokenPrior.build(tokenizer, width=config.width, layers=config.layers, heads=config.heads)
        return cls(config, images, model, group)

    @classmethod
    def couples_examples(cls, config: TokenPriorConfig) -> bool:
        """Return False: images are independent."""
        return False

    def describe_training(self) -> str:
        """Describe the tokens and the number of training images."""
        space = self.model.tokenizer.space
        return f"predicts {space.variables} tokens of {space.k} codes, one after the other, on {self.count:,} images"

    def add_gradients(self, index: Tensor, epoch: int, step: int) -> Tensor:
        """Add this process's part to the gradients of the mean of -log p(z) over the batch."""
        tokens = self.tokens[index[self.group.own_slice(len(index))].to(self.tokens.device)]
        with torch.autocast(tokens.device.type, torch.bfloat16, enabled=self.config.mixed_precision):
            nats = -self.model.log_prob(tokens).sum()
        (nats / len(index)).backward()
        return torch.stack([nats.detach(), nats.new_tensor(len(tokens))])

    def evaluate(self, split: str) -> dict[str, Any]:
        """Return -log p(tokens) in nats per image, and the bound."""
        return evaluate(self.model, self.held_out[split], group=self.group)

    def summarize_epoch(self, rows: Mapping[str, Row]) -> str:
        """Return a line with -log p(tokens) of each split, bits per token, and the bound."""
        test = rows["test"]
        nats = "  ".join(f"{split} {rows[split]['kl']:.2f}" for split in rows)
        return (
            f"epoch {test['epoch']:>3}  -log p(tokens) {nats}  {test['bits']:.3f} bits each  -ELBO {-test['elbo']:.2f}"
        )


def load_tokenizer(config: TokenPriorConfig) -> LoadedRun[TokenVAE]:
    """Return the run of the dVAE that computes the tokens.

    Raises:
        ArgumentError: the configuration names no run.
        DataError: the run cannot be read, or is not a dVAE.
    """
    if not config.tokenizer:
        raise ArgumentError("name a run of hardmax train --model dvae, whose tokens are learned: --tokenizer RUN")
    return load_run(config.tokenizer, device=config.device, kind=TokenVAE)


def tokenize_images(model: TokenVAE, images: Tensor, batch_size: int = 500) -> Tensor:
    """Return the tokens of images, `[N, *shape] -> [N, h, w]`."""
    return torch.cat([model.tokenize(batch) for batch in images.split(batch_size)])
