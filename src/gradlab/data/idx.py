"""idx files, as MNIST and its relatives are distributed: an array with its type and shape in front, maybe gzipped.

0 0 type n   |   n sizes of 4 bytes, big-endian   |   the entries, big-endian
"""

from __future__ import annotations

import gzip
import os
import re
from math import prod
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from gradlab.errors import DataError

NAME = re.compile(r"idx\d*(-ubyte)?(\.gz)?$")
"""How the names of such files end: `digits.idx`, `digits.idx.gz`, `train-images-idx3-ubyte.gz`."""
TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
MOST_AXES = 8
MOST_PACKED = 1040
"""gzip packs at most about this many bytes into one: a header that promises more is wrong."""


def is_idx(path: str) -> bool:
    """Whether a file is an idx file, by its name."""
    return NAME.search(path.lower()) is not None


def read_idx(path: str) -> NDArray[Any]:
    """Return the array in a file. Nothing is allocated before the header was compared with the size of the file."""
    packed = path.lower().endswith(".gz")
    with gzip.open(path, "rb") if packed else open(path, "rb") as opened:
        dtype, shape = _read_header(path, opened)
        size = prod(shape) * dtype.itemsize
        if size > os.stat(path).st_size * (MOST_PACKED if packed else 1):
            raise DataError(f"data file {path}: its header says {_times(shape)} entries, more than the file can hold")
        entries = opened.read(size + 1)  # one more, to see whether the file ends there
    if len(entries) != size:
        found = "more" if len(entries) > size else f"{len(entries):,}"
        raise DataError(f"data file {path}: {size:,} bytes of entries are expected after its header, it has {found}")
    return np.frombuffer(entries, dtype).reshape(shape).astype(dtype.newbyteorder("="), copy=False)


def _read_header(path: str, opened: IO[bytes] | gzip.GzipFile) -> tuple[np.dtype[Any], tuple[int, ...]]:
    start = opened.read(4)
    if len(start) < 4 or start[:2] != b"\0\0" or start[2] not in TYPES or not 1 <= start[3] <= MOST_AXES:
        raise DataError(f"data file {path}: it does not start like an idx file")
    sizes = opened.read(4 * start[3])
    if len(sizes) < 4 * start[3]:
        raise DataError(f"data file {path}: it ends within its header")
    return np.dtype(TYPES[start[2]]), tuple(int(size) for size in np.frombuffer(sizes, ">u4"))


def _times(shape: tuple[int, ...]) -> str:
    return " × ".join(f"{size:,}" for size in shape)
