"""Files that contain others behind a checksum or a length: mutations of the content, with a container that is valid.

Without this, nearly every mutation of a compressed file would be refused by its checksum, and never reach the reader of
what is in it.
"""

import gzip
import io
import json
import struct
import zipfile
import zlib
from collections.abc import Callable
from random import Random

Mutate = Callable[[bytes], bytes]
_LONGEST_NAME = 10_000  # characters; a zip file has 16 bits for the number of bytes


def mutate_content(content: bytes, chance: Random, mutate: Mutate, mutate_json: Mutate) -> bytes | None:
    """Return a valid container with mutated content; None if this is not a container that we know.

    Args:
        content: the file.
        chance: the source of randomness.
        mutate: mutates bytes.
        mutate_json: mutates the text of JSON.
    """
    if content.startswith(b"\x1f\x8b"):
        return gzip.compress(mutate(gzip.decompress(content)), 1, mtime=0)
    if content.startswith(b"PK"):
        return _mutate_member(content, chance, mutate)
    if content.startswith(b"\x89PNG"):
        return _mutate_chunk(content, chance, mutate)
    if len(content) > 10 and content[8:10] == b'{"':
        return _mutate_safetensors(content, mutate_json)
    return None


def _mutate_member(content: bytes, chance: Random, mutate: Mutate) -> bytes:
    """Mutate one member of a zip file, or its name."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
    number = chance.randrange(len(members))
    name, data = members[number]
    if chance.random() < 0.1:
        name = mutate(name.encode()).decode(errors="replace").replace("\x00", "")[:_LONGEST_NAME] or "x"
    else:
        data = mutate(data)
    members[number] = (name, data)
    file = io.BytesIO()
    with zipfile.ZipFile(
        file, "w", chance.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)), compresslevel=1
    ) as archive:
        for name, data in members:
            archive.writestr(zipfile.ZipInfo(name), data)
    return file.getvalue()


def _mutate_chunk(content: bytes, chance: Random, mutate: Mutate) -> bytes:
    """Mutate one chunk of a PNG, or its decompressed pixels, and compute its checksum."""
    chunks, place = [], 8
    while place + 12 <= len(content):
        (length,) = struct.unpack(">I", content[place : place + 4])
        chunks.append((content[place + 4 : place + 8], content[place + 8 : place + 8 + length]))
        place += 12 + length
    number = chance.randrange(len(chunks))
    kind, data = chunks[number]
    if kind == b"IDAT" and chance.random() < 0.5:
        data = zlib.compress(mutate(zlib.decompress(data)), 1)
    else:
        data = mutate(data)
    chunks[number] = (kind, data)
    pieces = [struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in chunks]
    return content[:8] + b"".join(pieces)


def _mutate_safetensors(content: bytes, mutate_json: Mutate) -> bytes:
    """Mutate the header of a file of tensors, and store its new length."""
    (length,) = struct.unpack("<Q", content[:8])
    header = mutate_json(json.dumps(json.loads(content[8 : 8 + length])).encode())
    return struct.pack("<Q", len(header)) + header + content[8 + length :]
