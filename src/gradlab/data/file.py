"""The user's own arrays from npz (never pickled), csv, parquet or idx; infers classification or regression."""

from __future__ import annotations

import os
import stat
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import numpy as np
from pydantic import Field

from gradlab.data.base import Dataset, Facts, Rows, Task
from gradlab.data.reading import Samples, Source, read_samples
from gradlab.errors import DataError, StudyError, shortened

Fraction = Annotated[float, Field(ge=0, lt=1)]
Row = Annotated[int, Field(ge=0)]


class Split(NamedTuple):
    """Rows that are validation or test samples whatever the split's stream draws, and how many more it draws."""

    validation: Rows
    test: Rows
    rest: Rows
    """Rows of the file that are not fixed."""
    drawn_validation: int
    drawn_test: int

    @property
    def train(self) -> int:
        """Training samples."""
        return len(self.rest) - self.drawn_validation - self.drawn_test


class File(Task):
    """Samples by row. npz: arrays `x` and `y`; csv and parquet: one column is the target; idx: two files.

    Integer or text targets with at most 1,000 distinct values are classes; anything else is a regression; `kind`
    overrides the guess. Inputs are standardized per column unless `standardize` is off. An official split is kept by
    a test file (`test_path`) or fixed rows (`test_rows`), and likewise for validation.
    """

    name = "file"
    location = (
        "path", "target_path", "validation_path", "validation_target_path", "test_path", "test_target_path",
    )  # fmt: skip
    later = ("validation_rows", "test_rows")

    path: str
    target: str = "y"
    """npz: the array of targets; csv and parquet: the column."""
    inputs: str = "x"
    """npz: the array of inputs."""
    kind: Literal["infer", "classification", "regression"] = "infer"
    validation: Fraction = 0.1
    test: Fraction = 0.1
    standardize: bool = True
    target_path: str = ""
    """idx: the file with the targets."""
    validation_path: str = ""
    """A file whose samples are the validation samples; the fraction `validation` is then not used."""
    validation_target_path: str = ""
    test_path: str = ""
    """A file whose samples are the test samples; the fraction `test` is then not used."""
    test_target_path: str = ""
    validation_rows: tuple[Row, Row] | None = None
    """Rows of the file that are the validation samples: the first, and one behind the last; counted from 0."""
    test_rows: tuple[Row, Row] | None = None

    def fingerprint(self) -> str:
        """Hash the bytes of the file; of several files, also what each of them is for."""
        found = [(name, path) for name in self.location if (path := getattr(self, name))]
        hashes = [(name, self._hash(path)) for name, path in found]
        if len(hashes) == 1:
            return hashes[0][1]
        return sha256("\n".join(f"{name} {digest}" for name, digest in hashes).encode()).hexdigest()

    def _hash(self, path: str) -> str:
        _stat(path)
        try:
            return sha256(Path(path).read_bytes()).hexdigest()
        except OSError as error:
            raise DataError(f"{path}: {error.strerror or error}", where="data.path") from None

    def facts(self) -> Facts:
        """Read the files to find their sizes."""
        x, y, classes, rows = found = self._samples()
        split = self._split(found)
        task = "regression" if classes is None else f"classification with {classes} classes"
        guessed = "inferred" if self.kind == "infer" else "as stated"
        stated = f"{Path(self.path).name}: {rows[0]:,} samples of {x.shape[1]:,} numbers, {task} ({guessed})"
        for word, fixed in (("validation", split.validation), ("test", split.test)):
            if len(fixed):
                path, own = getattr(self, f"{word}_path"), getattr(self, f"{word}_rows")
                stated += f"; {word}: {Path(path).name if path else f'rows {own[0]:,} to {own[1] - 1:,}'}"
        outputs = y.shape[1] if classes is None else classes
        validation, test = len(split.validation) + split.drawn_validation, len(split.test) + split.drawn_test
        size = 3 * ((8 * x.size if self.standardize else x.nbytes) + y.nbytes)
        return Facts(x.shape[1], outputs, split.train, classes, size, validation, test, stated)

    def load(self, samples: np.random.Generator, split: np.random.Generator) -> Dataset:
        """Shuffle the rows that are not fixed by the split's stream, then cut; scaling uses the training rows only."""
        x, y, classes, _ = found = self._samples()
        parts = self._split(found)
        order = parts.rest[split.permutation(len(parts.rest))]
        train, validation = order[: parts.train], order[parts.train : parts.train + parts.drawn_validation]
        test = order[parts.train + parts.drawn_validation :]
        if self.standardize:
            mean, std = x[train].mean(0), x[train].std(0)
            x = (x - mean) / np.where(std > 0, std, 1.0)
        validation = parts.validation if len(parts.validation) else validation
        return Dataset(x, y, train, validation, parts.test if len(parts.test) else test, classes=classes)

    def _split(self, found: Samples) -> Split:
        """Which rows are fixed, and how many are drawn from the others."""
        n = found.rows[0]
        fixed: dict[str, Rows] = {}
        start = n
        further = iter(found.rows[1:])
        for word in ("validation", "test"):
            if getattr(self, f"{word}_path"):
                stop = start + next(further)
                fixed[word] = np.arange(start, stop)
                start = stop
            elif (rows := getattr(self, f"{word}_rows")) is not None:
                if not rows[0] < rows[1] <= n:
                    raise StudyError(
                        f"rows {rows[0]:,} up to {rows[1]:,} (not included) are not rows of a file with {n:,} samples",
                        where=f"data.{word}_rows",
                    )
                fixed[word] = np.arange(*rows)
        validation, test = (fixed.get(word, np.empty(0, np.intp)) for word in ("validation", "test"))
        if len(np.intersect1d(validation, test)):
            raise StudyError(
                "some rows are also in validation_rows; a sample belongs to one split", where="data.test_rows"
            )
        rest = np.setdiff1d(np.arange(n), np.concatenate([validation, test]))
        drawn = [0 if word in fixed else int(len(rest) * getattr(self, word)) for word in ("validation", "test")]
        if len(rest) - sum(drawn) < 1:
            raise DataError(f"data file {self.path}: {n} samples leave none for training; lower validation or test")
        return Split(validation, test, rest, *drawn)

    def source(self) -> str:
        """The files, and how they are read."""
        return repr([self.name, *(getattr(self, name) for name in (*self.location, "target", "inputs", "kind"))])

    def _samples(self) -> Samples:
        found: Samples = self.stored()
        return found

    def read(self) -> Samples:
        """Read the files; what was read last is remembered."""
        self._check()
        files = (
            (self.path, self.target_path),
            (self.validation_path, self.validation_target_path),
            (self.test_path, self.test_target_path),
        )
        sources = tuple(_source(path, targets) for path, targets in files if path)
        return read_samples(sources, self.inputs, self.target, self.kind)

    def _check(self) -> None:
        """Refuse two ways of saying the same thing."""
        if not self.path:
            raise StudyError("name the file with the samples", where="data.path")
        for word in ("validation", "test"):
            path, rows = getattr(self, f"{word}_path"), getattr(self, f"{word}_rows")
            if path and rows is not None:
                raise StudyError(
                    f"the {word} samples come from {word}_path; give one of them", where=f"data.{word}_rows"
                )
            if (path or rows is not None) and getattr(self, word) != self.default(word):
                other = f"{word}_path" if path else f"{word}_rows"
                raise StudyError(f"the {word} samples come from {other}; leave the fraction out", where=f"data.{word}")
            if getattr(self, f"{word}_target_path") and not path:
                raise StudyError(f"it belongs to {word}_path, which is not given", where=f"data.{word}_target_path")


def _source(path: str, target_path: str) -> Source:
    changed = _stat(path).st_mtime_ns
    return Source(path, changed, target_path, _stat(target_path).st_mtime_ns if target_path else 0)


def _stat(path: str) -> os.stat_result:
    """Stat a file and refuse anything but a regular file: reading a pipe or a device could block forever."""
    try:
        found = os.stat(path)
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}", where="data.path") from None
    except ValueError as error:  # not a valid file name
        raise DataError(f"{shortened(path)} is not a valid file name: {error}", where="data.path") from None
    if not stat.S_ISREG(found.st_mode):
        raise DataError(f"{path} is a folder, a pipe or a device, not a regular file", where="data.path")
    return found
