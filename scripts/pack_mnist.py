"""Pack MNIST's four idx.gz files into one xz file for the package.

python scripts/pack_mnist.py FOLDER_WITH_IDX_FILES src/gradlab/data/mnist.xz

Prints the SHA-256 for gradlab/data/mnist.py. Takes about a minute.
"""

from __future__ import annotations

import gzip
import lzma
import sys
from hashlib import sha256
from pathlib import Path

FILTERS = [
    {"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": 64 << 20, "lc": 4, "lp": 0, "pb": 0}
]


def idx_body(path: Path) -> bytes:
    """Return the bytes after an idx header: magic 0, 0, 8 (unsigned bytes), number of dimensions, 4 bytes each."""
    raw = gzip.decompress(path.read_bytes())
    if raw[:3] != b"\x00\x00\x08":
        raise SystemExit(f"{path}: not an idx file of unsigned bytes")
    return raw[4 + 4 * raw[3] :]


def main(folder: Path, packed: Path) -> None:
    """Write the images of both sets, then the labels of both sets."""
    names = ["train-images-idx3", "t10k-images-idx3", "train-labels-idx1", "t10k-labels-idx1"]
    raw = b"".join(idx_body(folder / f"{name}-ubyte.gz") for name in names)
    if len(raw) != 70_000 * 785:
        raise SystemExit(f"{folder}: {len(raw):,} bytes of images and labels, expected {70_000 * 785:,}")
    packed.write_bytes(lzma.compress(raw, format=lzma.FORMAT_XZ, filters=FILTERS))
    print(f"{packed}: {packed.stat().st_size:,} bytes, SHA-256 {sha256(packed.read_bytes()).hexdigest()}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
