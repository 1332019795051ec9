"""Training of a completion model: the gradients of one step, with an optional discriminator, and evaluation."""

from collections.abc import Mapping
from typing import final

import torch
from torch import Tensor, nn

from hardmax.applications.completion.config import RANDOM_MASKS, CompletionConfig
from hardmax.applications.completion.evaluation import evaluate
from hardmax.applications.completion.masks import draw_masks, prepare_masked_split
from hardmax.applications.completion.model import CompletionModel
from hardmax.data import Images, binarize
from hardmax.data.augmentation import augment_images
from hardmax.nn import build_conv_trunk
from hardmax.nn.linear import Linear
from hardmax.objectives import discriminator_loss
from hardmax.spaces import Categorical
from hardmax.training.estimators import choose_estimator
from hardmax.training.processes import SINGLE_PROCESS, Group
from hardmax.training.task import SPLITS, AbstractTask, Row, choose_likelihood, choose_networks, draw_initial_weights

_HIDDEN, _WIDTH = 64, 16


def make_critic(shape: tuple[int, ...]) -> nn.Module:
    """Return a small convolutional network from images `[B, *shape]` to logits of being real, `[B, 1]`."""
    return nn.Sequential(build_conv_trunk(shape, _HIDDEN, _WIDTH), Linear(_HIDDEN, 1))


def adversarial_loss(critic: nn.Module, real: Tensor, completed: Tensor, weight: float) -> Tensor:
    """Return `-log D(real) - log(1 - D(completed))`, `[B]`, with the gradient reversed for the completions.

    One backward pass trains both networks: the critic minimises the loss, the completions maximise it, times a weight.

    Args:
        critic: D, which returns logits.
        real: `[B, *shape]`, real images.
        completed: `[B, *shape]`, completed images, with their gradient.
        weight: factor of the gradient of the completed images.

    References:
        Goodfellow et al., "Generative adversarial nets", 2014; Ganin & Lempitsky, "Unsupervised domain adaptation by
        backpropagation", 2015 (gradient reversal).
    """
    reversed_ = _ReverseGradient.apply(completed, weight)
    real_loss, completed_loss = discriminator_loss(critic(real).squeeze(-1), critic(reversed_).squeeze(-1))
    return real_loss + completed_loss


class _ReverseGradient(torch.autograd.Function):
    """The identity; its backward pass returns minus the gradient times a weight."""

    @staticmethod
    def forward(ctx, x: Tensor, weight: float) -> Tensor:
        ctx.weight = weight
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return -ctx.weight * gradient, None


@final
class CompletionTask(AbstractTask[CompletionConfig, CompletionModel]):
    """Maximise the bound of the hidden pixels, or minimise the loss of the notes, corrected or as published."""

    sums = ("elbo", "reconstruction", "kl", "loss", "critic_loss")

    def __init__(
        self, config: CompletionConfig, images: Images, model: CompletionModel, critic: nn.Module | None, group: Group
    ) -> None:
        self.config, self.group = config, group
        self.model = model.to(config.device)
        self.critic = None if critic is None else critic.to(config.device)
        self.train_images = images.train
        if config.binarize != "stochastic":  # once for all epochs
            self.train_images = binarize(images.train, config.binarize).to(config.device)
        self.count, self._size = len(images.train), images.shape[1:]
        self._mask = None if config.mask in RANDOM_MASKS else draw_masks(config.mask, 1, self._size).to(config.device)
        self.held_out = {
            s: prepare_masked_split(config, images, s)[: config.evaluate_images].to(config.device) for s in SPLITS
        }
        device = config.device
        names = ("gaussian", "component", "mask", "complete", "distort")
        self.generators = {name: torch.Generator(device) for name in names}
        self.generators["binarize"] = torch.Generator()

    @classmethod
    def build(
        cls, config: CompletionConfig, images: Images, start: int = 0, group: Group = SINGLE_PROCESS
    ) -> "CompletionTask":
        """Return the task with initial weights number `start`; torch's global generator is unchanged."""
        with draw_initial_weights(config.seed, start):
            model = CompletionModel.build(
                images.shape,
                components=config.components,
                latent=config.latent,
                hidden=config.hidden,
                architecture=choose_networks(config.architecture, images.shape),
                likelihood=choose_likelihood(config.likelihood, images.shape),
                fill=-1.0 if config.mask in RANDOM_MASKS else 0.0,
            )
            critic = make_critic(images.shape) if config.adversarial else None
        return cls(config, images, model, critic, group)

    @classmethod
    def couples_examples(cls, config: CompletionConfig) -> bool:
        """Whether the estimator couples the examples of a batch."""
        return config.choice == "encoder" and choose_estimator(config, Categorical(2), 0, 0).couples_examples

    def describe_training(self) -> str:
        """Describe the loss, and how the component is chosen."""
        config = self.config
        if not config.latent:
            return "a deterministic network: there is no latent"
        if not config.components:
            return f"a conditional VAE: {config.latent} dimensions with a standard normal prior"
        how = f"{config.components} components of {config.latent} dimensions, choice {config.choice}"
        if config.choice == "encoder":
            how += f" by {choose_estimator(config, self._space, 0, 0)}"
        if config.loss == "published":
            return f"{how}; the published formula has no minimum: expect this to diverge"
        return f"{how}, loss {config.loss}"

    @property
    def extra_parameters(self) -> list[nn.Parameter]:
        """The critic's parameters, which are not part of the model."""
        return [] if self.critic is None else list(self.critic.parameters())

    @property
    def _space(self) -> Categorical:
        return Categorical(max(self.config.components, 1))

    def add_gradients(self, index: Tensor, epoch: int, step: int) -> Tensor:
        """Add this process's part to the gradients of the mean loss over the batch."""
        config, count, part = self.config, len(index), self.group.own_slice(len(index))
        x, hidden = self._load_batch(index, part), self._draw_masks(count)[part]
        noise = self._draw_noise("gaussian", count)[:, part]
        sums = {"count": torch.full((), float(len(x)), device=config.device)}
        if not len(x):  # the last batch of an epoch may have fewer images than there are processes
            return self._stack_sums(sums)
        if config.loss == "bound":
            estimator = choose_estimator(config, self._space, epoch, step) if config.choice == "encoder" else None
            component_noise = None
            if estimator is not None:
                generator, device = self.generators["component"], config.device
                component_noise = estimator.draw_noise(self._space, config.samples, (count,), generator, device=device)[
                    :, part
                ]
            out = self.model(
                x,
                hidden,
                choice="fair" if epoch < config.warm_up_epochs else config.choice,
                estimator=estimator,
                beta=min(1.0, (epoch + 1) / (config.warm_up_epochs + 1)),
                noise=noise,
                component_noise=component_noise,
            )
            losses = -out.value
            sums |= {"elbo": (out.reconstruction - out.kl).sum()}
            sums |= {"reconstruction": out.reconstruction.sum(), "kl": out.kl.sum()}
        else:
            losses = self.model.max_operation_loss(x, hidden, form=config.loss, rule=config.choice, noise=noise)  # pyright: ignore[reportArgumentType]
        loss = losses.sum() / count
        sums["loss"] = losses.detach().sum()
        if self.critic is not None:
            sums["critic_loss"] = self._add_adversarial_gradients(x, hidden, count, part, loss)
        else:
            loss.backward()
        return self._stack_sums(sums)

    def _add_adversarial_gradients(self, x: Tensor, hidden: Tensor, count: int, part: slice, loss: Tensor) -> Tensor:
        """Add the gradients of the loss and of the critic; return the sum of the losses of the critic."""
        assert self.critic is not None
        visible = self.model.encode_visible(x, hidden)
        noise = self._space.noise((1, count), self.generators["complete"], device=self.config.device)[:, part]
        component = self._space.draw(visible.mixture.scores.detach(), noise)
        mean, log_variance = visible.mixture.select_component(component)
        z = mean + self._draw_noise("complete", count)[:, part] * (log_variance / 2).exp()
        completed = self.model.decode(x, hidden, visible, z)[0]
        losses = adversarial_loss(self.critic, x, completed, self.config.adversarial)
        (loss + losses.sum() / count).backward()
        return losses.detach().sum()

    def _stack_sums(self, sums: Mapping[str, Tensor]) -> Tensor:
        missing = torch.full((), torch.nan, device=sums["count"].device)
        return torch.stack([sums.get(name, missing) for name in (*self.sums, "count")])

    def _load_batch(self, index: Tensor, part: slice) -> Tensor:
        """Return a part of the images of one step; random pixels and distortions are drawn for all of them."""
        if self.config.binarize == "stochastic":
            binarized = binarize(self.train_images[index], "stochastic", self.generators["binarize"])
            images = binarized[part].to(self.config.device)
        else:
            images = self.train_images[index[part].to(self.train_images.device)]
        return augment_images(images, self.config.augment, self.generators["distort"], len(index), part)

    def _draw_masks(self, count: int) -> Tensor:
        """Return the masks of one step, for the images of all processes."""
        if self._mask is not None:
            return self._mask.expand(count, 1, *self._size)
        return draw_masks(self.config.mask, count, self._size, self.generators["mask"])

    def _draw_noise(self, name: str, count: int) -> Tensor:
        """Return the noise of the latents of one step, for the images of all processes, `[1, count, c]`."""
        shape = (1, count, self.config.latent)
        return torch.randn(shape, generator=self.generators[name], device=self.config.device)

    def evaluate(self, split: str) -> Row:
        """Return the bound of the hidden pixels and its terms, and the PSNR of a completion."""
        return evaluate(self.model, self.held_out[split], seed=self.config.seed, group=self.group)

    def summarize_epoch(self, rows: Mapping[str, Row]) -> str:
        """Return a line with the bounds and the PSNR of an epoch."""
        train, test = rows["train"], rows["test"]
        trained = "-ELBO "
        if train["elbo"] is not None:
            trained += f"train {-train['elbo']:.2f}  "
        return (
            f"epoch {test['epoch']:>3}  {trained}validation {-rows['validation']['elbo']:.2f}  "
            f"test {-test['elbo']:.2f}  PSNR {test['psnr']:.2f} dB  components in use {test['components']:.1f}"
        )
