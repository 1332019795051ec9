"""Binary codes as packed words, the search for the nearest codes, and the index file. Imports no torch."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Int64, UInt8, UInt16, UInt64

from hardmax._deprecation import RenamedMember
from hardmax.errors import DataError, ShapeError
from hardmax.files import write_output

_WORD = 64  # bits
_CHUNK = 1 << 22  # words compared at a time: chunks that fit into a cache are faster


def pack(bits: Bool[np.ndarray, "N n"]) -> UInt64[np.ndarray, "N words"]:
    """Pack bits into words of 64 bits; the first bit is the lowest one of the first word, and unused bits are zero.

    Example:
        >>> pack(np.array([[True, False, True], [False, True, True]]))
        array([[5],
               [6]], dtype=uint64)
    """
    count, n = bits.shape
    padded = np.zeros((count, -(-n // _WORD) * _WORD), dtype=bool)
    padded[:, :n] = bits
    # Little-endian on every machine, so that index files are portable.
    return np.packbits(padded, axis=1, bitorder="little").view("<u8").astype(np.uint64)


def unpack(codes: UInt64[np.ndarray, "N words"], n: int) -> Bool[np.ndarray, "N n"]:
    """Return the bits of packed codes."""
    octets = np.ascontiguousarray(codes.astype("<u8")).view(np.uint8)
    return np.unpackbits(octets, axis=1, bitorder="little")[:, :n].astype(bool)


def hamming_distance(
    queries: UInt64[np.ndarray, "Q words"], codes: UInt64[np.ndarray, "N words"]
) -> UInt16[np.ndarray, "Q N"]:
    """Return the Hamming distance, the number of bits that differ, of every query and every code.

    Raises:
        ShapeError: queries and codes have different numbers of words.

    Example:
        >>> hamming_distance(np.array([[5]], dtype=np.uint64), np.array([[5], [6], [0]], dtype=np.uint64))
        array([[0, 2, 2]], dtype=uint16)
    """
    if queries.shape[1] != codes.shape[1]:
        raise ShapeError(f"codes of {codes.shape[1]} words cannot be compared with queries of {queries.shape[1]}")
    distances = np.zeros((len(queries), len(codes)), dtype=np.uint16)
    step = max(_CHUNK // max(len(codes), 1), 1)
    for begin in range(0, len(queries), step):
        part = slice(begin, begin + step)
        for word in range(codes.shape[1]):
            distances[part] += _count_ones(queries[part, word, None] ^ codes[None, :, word])
    return distances


def _count_ones(words: UInt64[np.ndarray, "Q N"]) -> UInt8[np.ndarray, "Q N"]:
    """Return the number of one bits of each word."""
    if hasattr(np, "bitwise_count"):  # numpy 2
        return np.bitwise_count(words)
    # Count the ones of every two adjacent bits, of every four, of every eight; the product sums these in its top byte.
    words = words - ((words >> _1) & _TWOS)
    words = (words & _FOURS) + ((words >> _2) & _FOURS)
    return ((((words + (words >> _4)) & _EIGHTS) * _SUM) >> _56).astype(np.uint8)


_1, _2, _4, _56 = (np.uint64(shift) for shift in (1, 2, 4, 56))
_TWOS, _FOURS, _EIGHTS, _SUM = (np.uint64(int(digits * 8, 16)) for digits in ("55", "33", "0f", "01"))


def find_nearest(
    query: UInt64[np.ndarray, "words"], codes: UInt64[np.ndarray, "N words"], count: int
) -> tuple[Int64[np.ndarray, "K"], UInt16[np.ndarray, "K"]]:
    """Return the positions of the codes nearest to a query, and their distances; of tied codes the first come first.

    Every code is compared, so the result is exact; for a few million codes this is as fast as any index structure.

    Args:
        query: `[words]`, one packed code.
        codes: `[N, words]`, packed codes to search.
        count: K, the number of codes to return; all are returned if there are fewer.

    Example:
        >>> find_nearest(np.array([5], dtype=np.uint64), np.array([[6], [4], [5]], dtype=np.uint64), 2)
        (array([2, 1]), array([0, 1], dtype=uint16))
    """
    distances = hamming_distance(query[None], codes)[0]
    count = min(count, len(codes))
    if count == 0:
        return np.zeros(0, dtype=np.int64), distances[:0]
    # Only codes that are at most as far as the count-th nearest are sorted.
    furthest = np.partition(distances, count - 1)[count - 1]
    candidates = np.flatnonzero(distances <= furthest)
    order = candidates[np.argsort(distances[candidates], kind="stable")[:count]]
    return order, distances[order]


_VERSION = 1


@dataclass(frozen=True, eq=False)
class Index:
    """The contents of an index file: the codes of N images, and the model that computed them.

    Attributes:
        codes: `[N, words]`, packed codes of `bits` bits.
        bits: number of bits of a code.
        names: name of each image: its file, or its position in a data set.
        images: `[N, channels, H, W]`, the images in the size that the encoder reads, for display.
        run: folder of the run that computed the codes.
        checkpoint: name of the checkpoint of that run.
        weights: SHA-256 of the model's weights; codes of a model with other weights cannot be compared with these.
    """

    codes: UInt64[np.ndarray, "N words"]
    bits: int
    names: tuple[str, ...]
    images: UInt8[np.ndarray, "N channels H W"]
    run: str
    checkpoint: str
    weights: str

    def __len__(self) -> int:
        return len(self.codes)

    def save(self, path: Path) -> None:
        """Write an .npz file of plain arrays, atomically.

        Raises:
            DataError: the file cannot be written.
        """
        arrays: dict[str, Any] = {
            "version": np.array(_VERSION),
            "codes": self.codes,
            "bits": np.array(self.bits),
            "names": np.array(self.names, dtype=np.str_),
            "pictures": self.images,
            "made_by": np.array([self.run, self.checkpoint, self.weights]),
        }
        with write_output(path) as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, **arrays)

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], path: Path) -> "Index":
        """Build an index from the arrays of a file, and check all of them: the file may come from anyone.

        Raises:
            DataError: the arrays are not those of an index.
        """
        missing = [name for name in ("version", "codes", "bits", "names", "pictures", "made_by") if name not in arrays]
        if missing:
            raise _make_error(path, f"{', '.join(missing)} is missing")
        if arrays["version"].shape != () or arrays["version"] != _VERSION:
            raise _make_error(path, f"it is of version {arrays['version']}, and this hardmax reads {_VERSION}")
        codes, names, images, made_by = (arrays[name] for name in ("codes", "names", "pictures", "made_by"))
        count = len(codes) if codes.ndim else 0
        bits = int(arrays["bits"]) if arrays["bits"].shape == () and arrays["bits"].dtype.kind in "iu" else 0
        fits = (
            (codes.dtype == np.uint64 and codes.ndim == 2 and bits > 0 and codes.shape[1] == -(-bits // 64), "codes"),
            (names.dtype.kind == "U" and names.shape == (count,), "names"),
            (images.dtype == np.uint8 and images.ndim == 4 and len(images) == count, "pictures"),
            (made_by.dtype.kind == "U" and made_by.shape == (3,), "made_by"),
        )
        if bits > np.iinfo(np.uint16).max:  # of distances
            raise _make_error(path, f"its codes have {bits} bits, more than {np.iinfo(np.uint16).max}")
        for fit, name in fits:
            if not fit:
                raise _make_error(path, f"{name} has shape {arrays[name].shape} and dtype {arrays[name].dtype}")
        origin: Any = made_by.tolist()
        return cls(codes, bits, tuple(names.tolist()), images, *origin)

    of_arrays = RenamedMember("from_arrays")


def _make_error(path: Path, reason: str) -> DataError:
    return DataError(f"{path} is not an index of images: {reason}; make one with hardmax index RUN IMAGES --out {path}")
