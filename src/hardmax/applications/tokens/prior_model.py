"""A prior over the tokens of a dVAE: a small causal transformer, which generates images token by token."""

from typing import Any, final

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from hardmax.applications.tokens.model import TokenVAE
from hardmax.errors import ArgumentError
from hardmax.models.pretrained import AbstractModel
from hardmax.nn.linear import Linear
from hardmax.objectives import Bounds


@final
class CausalTransformer(nn.Module):
    """A causal transformer: the scores of every token given the tokens before it, for sequences of a fixed length.

    Args:
        tokens: K, the number of values of a token.
        length: n, the number of tokens of a sequence.
        width: size of the hidden vectors, a multiple of heads.
        layers: number of layers.
        heads: number of attention heads of each layer.

    Raises:
        ArgumentError: width is not a multiple of heads, or a number is below 1.

    Example:
        >>> import torch
        >>> network = CausalTransformer(tokens=128, length=49, width=64, layers=2, heads=2)
        >>> network(torch.zeros(5, 49, dtype=torch.long)).shape
        torch.Size([5, 49, 128])

    References:
        Radford et al., "Language models are unsupervised multitask learners", 2019.
    """

    def __init__(self, tokens: int, length: int, width: int = 128, layers: int = 3, heads: int = 4) -> None:
        super().__init__()
        if min(tokens, length, width, layers, heads) < 1 or width % heads:
            raise ArgumentError(
                f"a transformer needs numbers of at least 1 and a width that is a multiple of heads, got {tokens=}, "
                f"{length=}, {width=}, {layers=}, {heads=}"
            )
        self.tokens = nn.Embedding(tokens, width)
        self.start = nn.Parameter(0.02 * torch.randn(width))
        self.places = nn.Parameter(0.02 * torch.randn(length, width))
        self.blocks = nn.Sequential(*(_Block(width, heads) for _ in range(layers)))
        self.scores = nn.Sequential(nn.LayerNorm(width), Linear(width, tokens))
        nn.init.normal_(self.tokens.weight, std=0.02)

    def forward(self, tokens: Int64[Tensor, "B m"]) -> Float[Tensor, "B m_or_n K"]:
        """Return the scores of each token given the tokens before it.

        For m < n tokens, it returns m + 1 rows of scores: those of the given tokens, and those of the next one.
        """
        shifted = torch.cat([self.start.expand(len(tokens), 1, -1), self.tokens(tokens)], 1)[:, : len(self.places)]
        return self.scores(self.blocks(shifted + self.places[: shifted.shape[1]]))


@final
class _Block(nn.Module):
    """Transformer block: causal self-attention, then a feed-forward network, each with a residual connection."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        # before: queries, keys and values; mixed: output of the attention; thought: the feed-forward network.
        self.before, self.mixed = Linear(width, 3 * width), Linear(width, width)
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.thought = nn.Sequential(Linear(width, 4 * width), nn.GELU(), Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        split = self.before(self.norms[0](x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        attended = scaled_dot_product_attention(*split, is_causal=True).transpose(1, 2).flatten(2)
        x = x + self.mixed(attended)
        return x + self.thought(self.norms[1](x))


@final
class TokenPrior(AbstractModel):
    r"""A generative model of images: a frozen `TokenVAE`, and an autoregressive prior over its tokens.

    $$ p(z) = \prod_i p(z_i \mid z_1, \ldots, z_{i-1}) $$

    The tokens are in row-major order of the grid. This prior replaces the uniform prior $K^{-n}$ with which the tokens
    were learned. An image is generated token by token, and then decoded.

    Args:
        tokenizer: the dVAE whose tokens are modelled; it is frozen.
        network: maps tokens `[B, m]` to the scores of each token and of the next one, `[B, min(m + 1, n), K]`.

    Example:
        >>> import torch
        >>> from hardmax.applications.tokens import TokenPrior, TokenVAE
        >>> prior = TokenPrior.build(TokenVAE.build((1, 28, 28), codes=16), width=32, layers=1)
        >>> tokens = prior.tokenizer.tokenize(torch.rand(8, 1, 28, 28))
        >>> (-prior.log_prob(tokens).mean()).backward()
        >>> images, tokens = prior.sample(4)
        >>> images.shape, tokens.shape
        (torch.Size([4, 1, 28, 28]), torch.Size([4, 7, 7]))

    References:
        van den Oord, Vinyals & Kavukcuoglu, "Neural discrete representation learning", 2017, section 3.3.
    """

    kind = "token-prior"

    def __init__(self, tokenizer: TokenVAE, network: CausalTransformer) -> None:
        super().__init__()
        self.tokenizer, self.network = tokenizer.requires_grad_(False).eval(), network

    @classmethod
    def build(cls, tokenizer: TokenVAE, *, width: int = 128, layers: int = 3, heads: int = 4) -> "TokenPrior":
        """Return a model with the built-in transformer.

        Args:
            tokenizer: the dVAE; a model that is to be saved needs one from `TokenVAE.build`.
            width: width of the transformer.
            layers: number of its layers.
            heads: number of attention heads of each layer.

        Raises:
            ArgumentError: a number is below 1, or width is not a multiple of heads.
        """
        space = tokenizer.space
        model = cls(tokenizer, CausalTransformer(space.k, space.variables, width, layers, heads))
        if tokenizer._config is not None:
            model._config = {
                "architecture": "transformer",
                "tokenizer": tokenizer._config,
                "width": width,
                "layers": layers,
                "heads": heads,
            }
        return model

    def log_prob(self, tokens: Int64[Tensor, "B h w"]) -> Float[Tensor, " B"]:
        r"""Return $\log p(z)$ of the tokens z of each image, in nats."""
        flat = tokens.flatten(1)
        log_p = self.network(flat).log_softmax(-1)
        return log_p.gather(-1, flat[..., None]).sum((1, 2))

    @torch.no_grad()
    def bounds(self, x: Tensor) -> Bounds:
        r"""Return the bounds of images `[B, *shape]` for their tokens: $\log p(x \mid z) + \log p(z) \le \log p(x)$."""
        bounds = self.tokenizer.token_bounds(x)
        kl = -self.log_prob(self.tokenizer.tokenize(x))
        return Bounds(bounds.reconstruction - kl, bounds.reconstruction - kl, bounds.reconstruction, kl)

    @torch.no_grad()
    def sample(
        self, count: int, *, generator: torch.Generator | None = None
    ) -> tuple[Float[Tensor, "N *shape"], Int64[Tensor, "N h w"]]:
        """Sample tokens one after the other; return the mean image of each grid, and the tokens."""
        space = self.tokenizer.space
        flat = torch.empty(count, 0, dtype=torch.int64, device=next(self.parameters()).device)
        for _ in range(space.variables):
            probabilities = self.network(flat)[:, -1].softmax(-1)
            flat = torch.cat([flat, torch.multinomial(probabilities, 1, generator=generator)], 1)
        tokens = flat.unflatten(1, self.tokenizer.grid)
        return self.tokenizer.detokenize(tokens), tokens

    @classmethod
    def _from_config(cls, config: dict[str, Any]) -> "TokenPrior":
        tokenizer = TokenVAE._from_config(config["tokenizer"])
        return cls.build(tokenizer, width=config["width"], layers=config["layers"], heads=config["heads"])
