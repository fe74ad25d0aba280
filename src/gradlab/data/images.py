"""Image sets in MNIST's format that the user has downloaded: Fashion-MNIST and KMNIST, verified by their checksums."""

from __future__ import annotations

from functools import lru_cache
from hashlib import md5
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from gradlab.data.base import Dataset, Facts, Task
from gradlab.data.file import read_idx
from gradlab.errors import DataError, StudyError

TRAIN, TEST, PIXELS = 60_000, 10_000, 784
FILES = (
    "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz",
)  # fmt: skip
MD5: dict[str, tuple[str, ...]] = {
    "fashion_mnist": (
        "8d4fb7e6c68d591d4c3dfef9ec88bf0d", "25c81989df183df01b3e8a0aad5dffbe",
        "bef4ecab320f06d8554ea6380940ec79", "bb300cfdad3c16e7a12a480ee83cd310",
    ),
    "kmnist": (
        "bdb82020997e1d708af4cf47b453dcf7", "e144d726b3acfaa3e44228e80efcd344",
        "5c965bf0a639b31b8f53240b1b52f4d7", "7320c461ea6c1c855c0b718fb2a4b134",
    ),
}  # fmt: skip
"""The published checksums of the four files."""


class Images(Task):
    """Fashion-MNIST or KMNIST from a folder with its four files: 28 × 28 pixels, 10 classes, the official test set."""

    name = "images"
    location = ("folder",)
    set: Literal["fashion_mnist", "kmnist"] = "fashion_mnist"
    folder: str = "."
    """Where the four .gz files are; a path of the machine, not relative to the study."""
    train: Annotated[int, Field(ge=1, le=TRAIN)] = 55_000
    validation: Annotated[int, Field(ge=0, le=TRAIN - 1)] = 5_000
    test: Annotated[int, Field(ge=0, le=TEST)] = 10_000

    def fingerprint(self) -> str:
        """The checksums."""
        return " ".join(MD5[self.set])

    def facts(self) -> Facts:
        """784 pixels in, 10 classes out."""
        if self.train + self.validation > TRAIN:
            raise StudyError(f"train and validation are more than {TRAIN:,} images", where="data.validation")
        missing = [name for name in FILES if not (Path(self.folder).expanduser() / name).is_file()]
        if missing:
            raise DataError(
                f"{self.set}: {missing[0]} is not in {self.folder}; download the four files of {self.set} and name "
                "their folder: data.folder"
            )
        size = (TRAIN + TEST) * PIXELS
        return Facts(PIXELS, 10, self.train, 10, size, validation=self.validation, test=self.test)

    def source(self) -> str:
        """All images, whatever the split."""
        return f"images {self.set}"

    def read(self) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """All images and labels, training images first."""
        return read(self.set, str(Path(self.folder).expanduser()))

    def load(self, samples: np.random.Generator, split: np.random.Generator) -> Dataset:
        """Pixels as stored, divided by 255; rows drawn for each split."""
        images, labels = self.stored()
        order = split.permutation(TRAIN)
        tests = split.permutation(TEST) if self.test < TEST else np.arange(TEST)
        parts = np.split(order[: self.train + self.validation], [self.train])
        return Dataset(
            images, labels, train=parts[0], validation=parts[1], test=TRAIN + tests[: self.test], classes=10,
            factor=1 / 255,
        )  # fmt: skip


@lru_cache(maxsize=2)
def read(name: str, folder: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Read the four files after verifying their checksums."""
    for file, expected in zip(FILES, MD5[name], strict=True):
        path = Path(folder) / file
        try:
            digest = md5(path.read_bytes(), usedforsecurity=False).hexdigest()
        except OSError as error:
            raise DataError(f"{path}: {error.strerror or error}") from None
        if digest != expected:
            raise DataError(f"{path} is not {name}'s: its MD5 is {digest[:12]}…, expected {expected[:12]}…")
    first, second, third, fourth = (read_idx(str(Path(folder) / file)) for file in FILES)
    images = np.concatenate([first.reshape(-1, PIXELS), third.reshape(-1, PIXELS)])
    return images, np.concatenate([second, fourth]).astype(np.int64)
