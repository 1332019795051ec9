"""Samples of a dVAE alone: of tokens that know nothing of each other."""

from hardmax.cli.sample import Options, write_grid
from hardmax.models import TokenVAE


def sample(options: Options) -> None:
    """Write a grid of pictures."""
    write_grid(options, TokenVAE)
    print(
        "these tokens are drawn without heed of each other; for pictures learn how they go together: "
        f"hardmax train --model token-prior --tokenizer {options.run}"
    )
