"""The user's own arrays from npz (never pickled), csv or parquet; infers classification or regression."""

from __future__ import annotations

import os
import stat
import warnings
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Literal
from zipfile import BadZipFile

import numpy as np
from pydantic import Field

from gradlab.data.base import Array, Dataset, Facts, Task
from gradlab.errors import DataError, nearest, shortened

MAX_CLASSES = 1000
Fraction = Annotated[float, Field(ge=0, lt=1)]


class File(Task):
    """Samples by row. npz: arrays `x` and `y`; csv and parquet: one column is the target, the others are inputs.

    Integer or text targets with at most 1,000 distinct values are classes; anything else is a regression; `kind`
    overrides the guess. Inputs are standardized per column unless `standardize` is off.
    """

    name = "file"
    location = ("path",)

    path: str
    target: str = "y"
    """npz: the array of targets; csv and parquet: the column."""
    inputs: str = "x"
    """npz: the array of inputs."""
    kind: Literal["infer", "classification", "regression"] = "infer"
    validation: Fraction = 0.1
    test: Fraction = 0.1
    standardize: bool = True

    def fingerprint(self) -> str:
        """Hash the file's bytes."""
        self._stat()
        try:
            return sha256(Path(self.path).read_bytes()).hexdigest()
        except OSError as error:
            raise DataError(f"{self.path}: {error.strerror or error}", where="data.path") from None

    def _stat(self) -> os.stat_result:
        """Stat the file and refuse anything but a regular file: reading a pipe or a device could block forever."""
        try:
            found = os.stat(self.path)
        except OSError as error:
            raise DataError(f"{self.path}: {error.strerror or error}", where="data.path") from None
        except ValueError as error:  # not a valid file name
            raise DataError(f"{shortened(self.path)} is not a valid file name: {error}", where="data.path") from None
        if not stat.S_ISREG(found.st_mode):
            raise DataError(f"{self.path} is a folder, a pipe or a device, not a regular file", where="data.path")
        return found

    def facts(self) -> Facts:
        """Read the file to find its sizes."""
        x, y, classes = self._read()
        train, validation, test = self._counts(len(x))
        task = "regression" if classes is None else f"classification with {classes} classes"
        guessed = "inferred" if self.kind == "infer" else "as stated"
        stated = f"{Path(self.path).name}: {len(x):,} samples of {x.shape[1]:,} numbers, {task} ({guessed})"
        outputs = y.shape[1] if classes is None else classes
        return Facts(x.shape[1], outputs, train, classes, 3 * (x.nbytes + y.nbytes), validation, test, stated)

    def load(self, samples: np.random.Generator, split: np.random.Generator) -> Dataset:
        """Shuffle rows by the split's stream, then cut; scaling uses the training rows only."""
        x, y, classes = self._read()
        train, validation, _ = self._counts(len(x))
        order = split.permutation(len(x))
        if self.standardize:
            mean, std = x[order[:train]].mean(0), x[order[:train]].std(0)
            x = (x - mean) / np.where(std > 0, std, 1.0)
        cuts = order[:train], order[train : train + validation], order[train + validation :]
        return Dataset(x, y, *cuts, classes=classes)

    def _counts(self, n: int) -> tuple[int, int, int]:
        validation, test = int(n * self.validation), int(n * self.test)
        train = n - validation - test
        if train < 1:
            raise DataError(f"data file {self.path}: {n} samples leave none for training; lower validation or test")
        return train, validation, test

    def _read(self) -> tuple[Array, Array, int | None]:
        return _read(self.path, self._stat().st_mtime_ns, self.inputs, self.target, self.kind)


@lru_cache(maxsize=4)
def _read(path: str, changed: int, inputs: str, target: str, kind: str) -> tuple[Array, Array, int | None]:
    """Return inputs (n, d) as float64, targets, number of classes; `changed` separates versions of an edited file."""
    readers = {".npz": _npz, ".csv": _csv, ".parquet": _parquet}
    reader = readers.get(Path(path).suffix.lower())
    if reader is None:
        raise DataError(f"data file {path}: unsupported file type; use {', '.join(readers)}")
    try:
        x, y = reader(path, inputs, target)
    except DataError:
        raise
    except MemoryError:
        raise DataError(f"data file {path}: does not fit in memory") from None
    except Exception as error:  # a damaged file can fail anywhere inside its reader
        raise DataError(f"data file {path}: cannot be read, {type(error).__name__}: {str(error)[:200]}") from None
    try:
        return _validate(path, x, _decode_text(path, y), kind)
    except MemoryError:
        raise DataError(f"data file {path}: does not fit in memory") from None


def _decode_text(path: str, y: Any) -> Any:
    """Decode targets that are bytes to text; leave numeric targets unchanged."""
    if y.dtype.kind not in "OS":
        return y
    flat = y.ravel().tolist()
    odd = next((each for each in flat if not isinstance(each, str | bytes | bool | int | float)), None)
    if odd is not None:
        raise DataError(f"data file {path}: targets contain {shortened(odd)}; give one number or string per sample")
    words = [each.decode("utf8", "backslashreplace") if isinstance(each, bytes) else str(each) for each in flat]
    return np.array(words, dtype=str).reshape(y.shape)


def _npz(path: str, inputs: str, target: str) -> tuple[Any, Any]:
    try:
        with open(path, "rb") as opened, np.load(opened, allow_pickle=False) as arrays:
            if not hasattr(arrays, "files"):
                raise DataError(f"data file {path}: a single array, not an npz archive with {inputs!r} and {target!r}")
            for name in (inputs, target):
                if name not in arrays.files:
                    found = ", ".join(arrays.files)
                    raise DataError(f"data file {path}: no array {name!r}; it has {found}{nearest(name, arrays.files)}")
            return arrays[inputs], arrays[target]
    except BadZipFile:
        raise DataError(f"data file {path}: damaged or not an npz archive") from None


def _csv(path: str, inputs: str, target: str) -> tuple[Any, Any]:
    import pandas as pd

    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)  # refuse a row longer than the header, do not cut it
        return _columns(path, pd.read_csv(path, index_col=False), target)


def _parquet(path: str, inputs: str, target: str) -> tuple[Any, Any]:
    import pandas as pd

    return _columns(path, pd.read_parquet(path), target)


def _columns(path: str, frame: Any, target: str) -> tuple[Any, Any]:
    names = [str(name) for name in frame.columns]
    if target not in names:
        raise DataError(
            f"data file {path}: no column {target!r}; it has {', '.join(names[:12])}{nearest(target, names)}"
        )
    x = frame.drop(columns=target)
    if len(names) == 1:
        raise DataError(f"data file {path}: {target!r} is its only column; there are no inputs")
    if frame[target].isna().any():
        raise DataError(f"data file {path}: {int(frame[target].isna().sum())} targets are missing")
    if len(frame) == 0:
        raise DataError(f"data file {path}: it has a header but no rows")
    for name in x.columns:
        if x[name].dtype.kind not in "biuf":
            raise DataError(f"data file {path}: column {name!r} is not numeric; encode it as numbers")
    return x.to_numpy(np.float64), frame[target].to_numpy()


def _validate(path: str, x: Any, y: Any, kind: str) -> tuple[Array, Array, int | None]:
    if x.dtype.kind not in "biuf":
        raise DataError(f"data file {path}: inputs are {x.dtype}, not numbers")
    if x.ndim < 2 or x.size == 0 or y.ndim < 1 or y.size == 0 or len(x) != len(y) or len(x) == 0:
        raise DataError(
            f"data file {path}: inputs {x.shape} and targets {y.shape} do not fit; "
            "give one row per sample in both, at least one"
        )
    x = x.reshape(len(x), -1).astype(np.float64)
    if not np.isfinite(x).all():
        raise DataError(f"data file {path}: {int((~np.isfinite(x)).sum())} inputs are NaN or infinite")
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    whole = kind == "classification" and y.dtype.kind == "f" and bool((y == np.round(y)).all())
    integral = (y.dtype.kind in "biuOUS" or whole) and y.ndim == 1
    if integral and y.dtype.kind == "f" and not np.isfinite(y).all():
        raise DataError(f"data file {path}: {int((~np.isfinite(y)).sum())} targets are NaN or infinite")
    classes = None if not integral else np.unique(y.astype(str)) if y.dtype.kind in "OUS" else np.unique(y)
    few = classes is not None and len(classes) <= MAX_CLASSES
    if kind == "classification" and not few:
        raise DataError(f"data file {path}: targets {y.dtype} {y.shape} are not classes; use kind: regression")
    if kind != "regression" and few and classes is not None:
        if len(classes) < 2:
            raise DataError(f"data file {path}: all targets are {classes[0]}; a classification needs two classes")
        return x, np.searchsorted(classes, y.astype(classes.dtype)), len(classes)
    if y.dtype.kind not in "biuf":
        raise DataError(f"data file {path}: targets are {y.dtype}, neither numbers nor at most {MAX_CLASSES} classes")
    y = y.reshape(len(y), -1).astype(np.float64)
    if not np.isfinite(y).all():
        raise DataError(f"data file {path}: {int((~np.isfinite(y)).sum())} targets are NaN or infinite")
    return x, y, None
