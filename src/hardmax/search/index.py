"""An index: the codes of many pictures, the pictures, and what made the codes; one file."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8, UInt64

from hardmax.errors import DataError
from hardmax.writing import replacing

_VERSION = 1


@dataclass(frozen=True, eq=False)
class Index:
    """Codes of N pictures.

    Attributes:
        codes: packed, `bits` bits each.
        bits: of a code.
        names: what each picture is called: its file, or its place in a data set.
        pictures: as the encoder saw them, to be shown.
        run: folder of the run that made the codes.
        checkpoint: which of its checkpoints.
        weights: SHA-256 of that model's weights: codes of other weights mean nothing here.
    """

    codes: UInt64[np.ndarray, "N words"]
    bits: int
    names: tuple[str, ...]
    pictures: UInt8[np.ndarray, "N channels H W"]
    run: str
    checkpoint: str
    weights: str

    def __len__(self) -> int:
        return len(self.codes)

    def save(self, path: Path) -> None:
        """Write an .npz file of plain arrays, under a temporary name first.

        Raises:
            DataError: it cannot be written.
        """
        with replacing(path) as temporary, temporary.open("wb") as file:
            np.savez_compressed(
                file,
                version=np.array(_VERSION),
                codes=self.codes,
                bits=np.array(self.bits),
                names=np.array(self.names, dtype=np.str_),
                pictures=self.pictures,
                made_by=np.array([self.run, self.checkpoint, self.weights]),
            )

    @classmethod
    def of_arrays(cls, arrays: dict[str, np.ndarray], path: Path) -> "Index":
        """Return the index that the arrays of a file make; they come from elsewhere, so all of them are looked at.

        Raises:
            DataError: they are not those of an index.
        """
        missing = [name for name in ("version", "codes", "bits", "names", "pictures", "made_by") if name not in arrays]
        if missing:
            raise _wrong(path, f"{', '.join(missing)} is missing")
        if arrays["version"].shape != () or arrays["version"] != _VERSION:
            raise _wrong(path, f"it is of version {arrays['version']}, and this hardmax reads {_VERSION}")
        codes, names, pictures, made_by = (arrays[name] for name in ("codes", "names", "pictures", "made_by"))
        count = len(codes) if codes.ndim else 0
        bits = int(arrays["bits"]) if arrays["bits"].shape == () and arrays["bits"].dtype.kind in "iu" else 0
        fits = (
            (codes.dtype == np.uint64 and codes.ndim == 2 and bits > 0 and codes.shape[1] == -(-bits // 64), "codes"),
            (names.dtype.kind == "U" and names.shape == (count,), "names"),
            (pictures.dtype == np.uint8 and pictures.ndim == 4 and len(pictures) == count, "pictures"),
            (made_by.dtype.kind == "U" and made_by.shape == (3,), "made_by"),
        )
        for fit, name in fits:
            if not fit:
                raise _wrong(path, f"{name} has shape {arrays[name].shape} and dtype {arrays[name].dtype}")
        made: Any = made_by.tolist()
        return cls(codes, bits, tuple(names.tolist()), pictures, *made)


def _wrong(path: Path, reason: str) -> DataError:
    return DataError(f"{path} is no index of pictures: {reason}; make one with hardmax index RUN IMAGES --out {path}")
