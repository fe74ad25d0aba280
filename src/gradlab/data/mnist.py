"""MNIST: 70,000 handwritten digits of 28 × 28 pixels, inside the package (see MNIST-NOTICE.md)."""

from __future__ import annotations

import lzma
import os
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from gradlab.cache import cache_folder
from gradlab.data.base import Dataset, Facts, Task
from gradlab.errors import DataError, StudyError

PACKED = Path(__file__).with_name("mnist.xz")
SHA256 = "e9b40985d011bd5a36195bdeb447f26b7824f3acd02e51a1636098d784d5fe98"
RAW_SHA256 = "c2069063c1105f2bf96266aef1ff68c6e13bdda7a54e37bf19c16f1db24efc83"
"""SHA-256 of the unpacked bytes."""
TRAIN, TEST, PIXELS = 60_000, 10_000, 784

MEAN, STD = 0.1307, 0.3081


class Mnist(Task):
    """Digits 0–9; training and validation images are drawn from the 60,000, test images from the 10,000."""

    name = "mnist"
    zeros = 0.81

    train: Annotated[int, Field(ge=1, le=TRAIN)] = 55_000
    validation: Annotated[int, Field(ge=0, le=TRAIN - 1)] = 5_000
    test: Annotated[int, Field(ge=0, le=TEST)] = 10_000
    pixels: Literal["standardized", "unit", "raw"] = "standardized"
    """(p/255 − 0.1307)/0.3081, or p/255, or p itself."""

    def fingerprint(self) -> str:
        """The hash of the packed file."""
        return SHA256

    def facts(self) -> Facts:
        """784 pixels in, 10 classes out."""
        if self.train + self.validation > TRAIN:
            raise StudyError(
                f"{self.train:,} training and {self.validation:,} validation images are more "
                f"than MNIST's {TRAIN:,}; make one of them smaller",
                where="data.validation",
            )
        size = (TRAIN + TEST) * PIXELS
        return Facts(PIXELS, 10, self.train, 10, size, validation=self.validation, test=self.test)

    def source(self) -> str:
        """All images, whatever the sizes of the splits."""
        return f"mnist {RAW_SHA256}"

    def read(self) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """All images and labels."""
        return images_and_labels()

    def load(self, samples: np.random.Generator, split: np.random.Generator) -> Dataset:
        """Return the images as stored, with rows drawn for each split."""
        images, labels = self.stored()
        factor, offset = {
            "standardized": (1 / (255 * STD), -MEAN / STD),
            "unit": (1 / 255, 0.0),
            "raw": (1.0, 0.0),
        }[self.pixels]
        order = split.permutation(TRAIN)
        tests = split.permutation(TEST) if self.test < TEST else np.arange(TEST)
        return Dataset(
            images,
            labels,
            train=order[: self.train],
            validation=order[self.train : self.train + self.validation],
            test=TRAIN + tests[: self.test],
            classes=10,
            factor=factor,
            offset=offset,
        )


@lru_cache(maxsize=1)
def images_and_labels() -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return all 70,000 images (training images first) and labels, read-only.

    Unpacking takes most of a second, so an unpacked copy is kept in the cache. Its checksum is verified too.
    """
    folder = cache_folder("data")
    copy = None if folder is None else folder / f"mnist-{RAW_SHA256[:16]}.raw"
    raw = _read_copy(copy)
    if raw is None:
        raw = unpack()
        _write_copy(copy, raw)
    pixels = (TRAIN + TEST) * PIXELS
    flat = np.frombuffer(raw, np.uint8)
    images, labels = flat[:pixels].reshape(-1, PIXELS), flat[pixels:].astype(np.int64)
    labels.setflags(write=False)
    return images, labels


def _read_copy(copy: Path | None) -> bytes | None:
    try:
        raw = copy.read_bytes() if copy is not None else b""
    except OSError:
        return None
    return raw if sha256(raw).hexdigest() == RAW_SHA256 else None


def _write_copy(copy: Path | None, raw: bytes) -> None:
    if copy is None:
        return
    temporary = copy.with_name(f".{copy.name}.{os.getpid()}")
    with suppress(OSError):
        temporary.write_bytes(raw)
        os.replace(temporary, copy)
    with suppress(OSError):
        temporary.unlink(missing_ok=True)


def unpack(path: Path = PACKED, expected: str = SHA256) -> bytes:
    """Return the pixels of all images, then the labels, after verifying the packed file's checksum."""
    try:
        packed = path.read_bytes()
    except OSError as error:
        raise DataError(f"MNIST file {path}: {error.strerror or error}; reinstall gradlab") from None
    digest = sha256(packed).hexdigest()
    if digest != expected:
        raise DataError(
            f"MNIST file {path} is damaged: its SHA-256 is {digest[:16]}…, expected {expected[:16]}…; reinstall gradlab"
        )
    return lzma.decompress(packed)
