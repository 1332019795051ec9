"""Tokens of pictures in an .npz file: written and read, and whose they are."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from hardmax.data.npz import read_npz, write_npz
from hardmax.errors import DataError

_ARRAYS = ("tokens", "names", "codes", "model")


@dataclass(frozen=True, eq=False)
class Tokens:
    """Tokens of pictures.

    Attributes:
        tokens: `[N, h, w]`, whole numbers below codes.
        names: of the pictures.
        codes: K, how many codes there are.
        model: fingerprint of the model that made them, without which they mean nothing.
    """

    tokens: Int64[Tensor, "N h w"]
    names: list[str]
    codes: int
    model: str


def write_tokens(path: Path, found: Tokens) -> None:
    """Write an .npz file; tokens are as few bytes as hold them.

    Raises:
        DataError: the file cannot be written.
    """
    write_npz(
        path,
        tokens=found.tokens.cpu().numpy().astype(np.min_scalar_type(found.codes - 1)),
        names=np.array(found.names, dtype=np.str_),
        codes=np.array(found.codes),
        model=np.array(found.model),
    )


def read_tokens(path: Path) -> Tokens:
    """Read what `write_tokens` wrote; nothing is unpickled.

    Raises:
        DataError: the file is missing or broken, or holds no tokens.
    """
    arrays = read_npz(path, only=_ARRAYS)
    if missing := [name for name in _ARRAYS if name not in arrays]:
        raise DataError(f"{path} holds no tokens: {', '.join(missing)} missing; make it with hardmax tokenize")
    tokens, names, codes, model = (arrays[name] for name in _ARRAYS)
    if tokens.ndim != 3 or tokens.dtype.kind not in "iu":
        raise DataError(f"{path}: tokens are {tokens.dtype} {list(tokens.shape)}, expected whole numbers [N, h, w]")
    if names.shape != tokens.shape[:1] or names.dtype.kind != "U":
        raise DataError(f"{path}: names are {names.dtype} {list(names.shape)} for {len(tokens):,} grids of tokens")
    if codes.ndim or codes.dtype.kind not in "iu" or model.ndim or model.dtype.kind != "U":
        raise DataError(f"{path}: codes and model are no number and no text; make it with hardmax tokenize")
    return Tokens(torch.from_numpy(tokens.astype(np.int64)), names.tolist(), int(codes), str(model))
