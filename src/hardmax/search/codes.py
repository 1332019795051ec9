"""Codes of bits in words of 64, and Hamming distances between them."""

import numpy as np
from jaxtyping import Bool, UInt8, UInt16, UInt64

from hardmax.errors import ShapeError

_WORD = 64
_AT_ONCE = 1 << 22  # words that are compared before they are counted: what fits into a cache goes faster


def pack(bits: Bool[np.ndarray, "N n"]) -> UInt64[np.ndarray, "N words"]:
    """Return bits as words of 64, the first bit the lowest of the first word; what is left of the last word is zero.

    Example:
        >>> pack(np.array([[True, False, True], [False, True, True]]))
        array([[5],
               [6]], dtype=uint64)
    """
    count, n = bits.shape
    padded = np.zeros((count, -(-n // _WORD) * _WORD), dtype=bool)
    padded[:, :n] = bits
    # Little-endian on every machine: the file of an index is the same everywhere.
    return np.packbits(padded, axis=1, bitorder="little").view("<u8").astype(np.uint64)


def unpack(codes: UInt64[np.ndarray, "N words"], n: int) -> Bool[np.ndarray, "N n"]:
    """Return the bits of packed codes."""
    octets = np.ascontiguousarray(codes.astype("<u8")).view(np.uint8)
    return np.unpackbits(octets, axis=1, bitorder="little")[:, :n].astype(bool)


def hamming(queries: UInt64[np.ndarray, "Q words"], codes: UInt64[np.ndarray, "N words"]) -> UInt16[np.ndarray, "Q N"]:
    """Return how many bits differ, for every query and every code.

    Raises:
        ShapeError: codes of another length.

    Example:
        >>> hamming(np.array([[5]], dtype=np.uint64), np.array([[5], [6], [0]], dtype=np.uint64))
        array([[0, 2, 2]], dtype=uint16)
    """
    if queries.shape[1] != codes.shape[1]:
        raise ShapeError(f"codes of {codes.shape[1]} words cannot be compared with queries of {queries.shape[1]}")
    found = np.zeros((len(queries), len(codes)), dtype=np.uint16)
    step = max(_AT_ONCE // max(len(codes), 1), 1)
    for begin in range(0, len(queries), step):
        part = slice(begin, begin + step)
        for word in range(codes.shape[1]):
            found[part] += _ones(queries[part, word, None] ^ codes[None, :, word])
    return found


def _ones(words: UInt64[np.ndarray, "Q N"]) -> UInt8[np.ndarray, "Q N"]:
    """Return how many bits of each word are one."""
    if hasattr(np, "bitwise_count"):  # numpy 2
        return np.bitwise_count(words)
    # Ones of every two bits side by side, of every four, of every eight; the product adds those up in its top byte.
    words = words - ((words >> _1) & _TWOS)
    words = (words & _FOURS) + ((words >> _2) & _FOURS)
    return ((((words + (words >> _4)) & _EIGHTS) * _SUM) >> _56).astype(np.uint8)


_1, _2, _4, _56 = (np.uint64(places) for places in (1, 2, 4, 56))
_TWOS, _FOURS, _EIGHTS, _SUM = (np.uint64(int(digits * 8, 16)) for digits in ("55", "33", "0f", "01"))
