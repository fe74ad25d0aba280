"""The user's own arrays from npz (never pickled), csv, parquet or idx; infers classification or regression."""

from __future__ import annotations

import gzip
import os
import re
import stat
import warnings
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from math import prod
from pathlib import Path
from typing import IO, Annotated, Any, Literal, NamedTuple
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from gradlab.data.base import Dataset, Facts, Rows, Task
from gradlab.errors import DataError, StudyError, nearest, shortened

# idx files, as MNIST and its relatives are distributed: an array with its type and shape in front, maybe gzipped.
#
#     0 0 type n   |   n sizes of 4 bytes, big-endian   |   the entries, big-endian

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
        counted = "more" if len(entries) > size else f"{len(entries):,}"
        raise DataError(f"data file {path}: {size:,} bytes of entries are expected after its header, it has {counted}")
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


# Read the user's files: npz (never pickled), csv, parquet, idx. Several files of one format give one table.

Array = NDArray[Any]
MAX_CLASSES = 1000


class Source(NamedTuple):
    """A file, and the file with its targets if they are in another one; times separate versions of an edited file."""

    path: str
    changed: int
    target_path: str = ""
    target_changed: int = 0


class Table(NamedTuple):
    """What a file holds: inputs, targets, and the names of the input columns if they have any."""

    x: Any
    y: Any
    names: tuple[str, ...] | None = None


class Samples(NamedTuple):
    """All samples: inputs (rows, numbers), targets, number of classes (None: regression), rows of each file."""

    x: Array
    y: Array
    classes: int | None
    rows: tuple[int, ...]


@lru_cache(maxsize=4)
def read_samples(sources: tuple[Source, ...], inputs: str, target: str, kind: str) -> Samples:
    """Read the files one after the other; a `DataError` if one cannot be used or does not fit the first."""
    path = sources[0].path
    try:
        tables = [_read_table(source, inputs, target) for source in sources]
        tables = [
            _in_order_of(tables[0], table, path, source.path) for table, source in zip(tables, sources, strict=True)
        ]
        pairs = list(zip(tables, sources, strict=True))
        x = [_check_inputs(source.path, table.x, table.y, is_idx(source.path)) for table, source in pairs]
        for further, source in zip(x[1:], sources[1:], strict=True):
            if further.shape[1] != x[0].shape[1]:
                raise DataError(
                    f"data file {source.path}: {further.shape[1]:,} inputs per sample, and {x[0].shape[1]:,} in {path}"
                )
        targets, classes = _check_targets(path, target, _join([table.y for table in tables], path), kind)
        return Samples(x[0] if len(x) == 1 else np.concatenate(x), targets, classes, tuple(map(len, x)))
    except MemoryError:
        raise DataError(f"data file {path}: does not fit in memory") from None


def _read_table(source: Source, inputs: str, target: str) -> Table:
    path = source.path
    readers = {".npz": _npz, ".csv": _csv, ".parquet": _parquet}
    reader = _idx if is_idx(path) else readers.get(Path(path).suffix.lower())
    if reader is None:
        raise DataError(f"data file {path}: unsupported file type; use {', '.join(readers)}, .idx or .idx.gz")
    try:
        table = reader(source, inputs, target)
    except (DataError, MemoryError):
        raise
    except Exception as error:  # a damaged file can fail anywhere inside its reader
        raise DataError(f"data file {path}: cannot be read, {type(error).__name__}: {str(error)[:200]}") from None
    return table._replace(y=_decode_text(path, table.y))


def _in_order_of(first: Table, table: Table, path: str, further: str) -> Table:
    """The columns of a further file in the order of the first file's; they need the same names."""
    if first.names is None or table.names is None or table.names == first.names:
        return table
    if sorted(table.names) != sorted(first.names):
        odd = sorted({*table.names} ^ {*first.names})
        raise DataError(f"data file {further}: its columns are not those of {path}; {shortened(odd[0])} is in one only")
    return Table(table.x[:, [table.names.index(name) for name in first.names]], table.y, first.names)


def _join(targets: Sequence[Any], path: str) -> Any:
    """The targets of all files as one array."""
    if len(targets) == 1:
        return targets[0]
    texts = {y.dtype.kind in "OUS" for y in targets}
    if len(texts) > 1 or len({y.shape[1:] for y in targets}) > 1:
        raise DataError(
            f"data file {path}: its targets and those of its validation or test file are of different kinds"
        )
    return np.concatenate(targets)


def _decode_text(path: str, y: Any) -> Any:
    """Decode targets that are bytes to text; leave numeric targets unchanged."""
    if y.dtype.kind not in "OS":
        return y
    flat = y.ravel().tolist()
    odd = next((value for value in flat if not isinstance(value, str | bytes | bool | int | float)), None)
    if odd is not None:
        raise DataError(f"data file {path}: targets contain {shortened(odd)}; give one number or string per sample")
    words = [value.decode("utf8", "backslashreplace") if isinstance(value, bytes) else str(value) for value in flat]
    return np.array(words, dtype=str).reshape(y.shape)


def _npz(source: Source, inputs: str, target: str) -> Table:
    path = source.path
    try:
        with open(path, "rb") as opened, np.load(opened, allow_pickle=False) as arrays:
            if not hasattr(arrays, "files"):
                raise DataError(f"data file {path}: a single array, not an npz archive with {inputs!r} and {target!r}")
            for name in (inputs, target):
                if name not in arrays.files:
                    names = ", ".join(arrays.files)
                    raise DataError(f"data file {path}: no array {name!r}; it has {names}{nearest(name, arrays.files)}")
            return Table(_array(path, arrays, inputs), _array(path, arrays, target))
    except BadZipFile:
        raise DataError(f"data file {path}: damaged or not an npz archive") from None
    except ValueError as error:
        raise (DataError(f"data file {path}: it {PICKLED}") if _is_pickled(error) else error) from None


PICKLED = (
    "holds Python objects (a pickle); objects are not loaded, because loading them can run code; save plain numbers "
    "or text with numpy.savez"
)


def _is_pickled(error: ValueError) -> bool:
    return "pickle" in str(error)  # what NumPy says; its advice is to load it all the same


def _array(path: str, arrays: Any, name: str) -> Any:
    """An array of an archive; a `DataError` names the array that cannot be read, and what its header says."""
    try:
        array = arrays[name]
        if isinstance(array, bytes):  # what NumPy gives of a member that does not begin as an array does
            raise DataError(f"data file {path}: {name!r} is not a NumPy array")
        return array
    except ValueError as error:
        if _is_pickled(error):
            raise DataError(f"data file {path}: the array {name!r} {PICKLED}") from None
        with arrays.zip.open(f"{name}.npy") as member:
            begins = member.read(200)
        shape = re.search(rb"'shape': *(\([^)]*\))", begins)
        said = f" of shape {shape[1].decode('latin-1')}, by its header" if shape else ""
        raise DataError(f"data file {path}: the array {name!r}{said} cannot be read: {error}") from None


def _csv(source: Source, inputs: str, target: str) -> Table:
    import pandas as pd

    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)  # refuse a row longer than the header, do not cut it
        return _columns(source.path, pd.read_csv(source.path, index_col=False), target)


def _parquet(source: Source, inputs: str, target: str) -> Table:
    import pandas as pd

    return _columns(source.path, pd.read_parquet(source.path), target)


def _idx(source: Source, inputs: str, target: str) -> Table:
    if not source.target_path:
        raise DataError(
            f"data file {source.path}: an idx file holds one array; name the file with its targets by target_path "
            "(of test files by test_target_path, of validation files by validation_target_path)"
        )
    x = read_idx(source.path)
    return Table(x[:, None] if x.ndim == 1 else x, read_idx(source.target_path))


def _columns(path: str, frame: Any, target: str) -> Table:
    names = [str(name) for name in frame.columns]
    if target not in names:
        raise DataError(
            f"data file {path}: no column {target!r}; it has {', '.join(names[:12])}{nearest(target, names)}"
        )
    x = frame.drop(columns=target)
    if len(names) == 1:
        raise DataError(f"data file {path}: {target!r} is its only column; there are no inputs")
    if frame[target].isna().any():
        absent = frame[target].isna().to_numpy()
        raise DataError(
            f"data file {path}: column {shortened(target)} has no value in {int(absent.sum())} of {len(frame)} rows "
            f"(first in row {int(absent.argmax()) + 1}); fill it in or leave these rows out"
        )
    if len(frame) == 0:
        raise DataError(f"data file {path}: it has a header but no rows")
    for name in x.columns:
        if x[name].dtype.kind not in "biuf":
            raise DataError(f"data file {path}: column {name!r} is not numeric; encode it as numbers")
    return Table(x.to_numpy(np.float64), frame[target].to_numpy(), tuple(map(str, x.columns)))


def _check_inputs(path: str, x: Any, y: Any, stored: bool) -> Array:
    """Return the inputs as (rows, numbers): pixels as `stored`, anything else as float64."""
    if x.dtype.kind not in "biuf":
        raise DataError(f"data file {path}: inputs are {x.dtype}, not numbers")
    if x.ndim < 2 or x.size == 0 or y.ndim < 1 or y.size == 0 or len(x) != len(y) or len(x) == 0:
        raise DataError(
            f"data file {path}: inputs {x.shape} and targets {y.shape} do not fit; "
            "give one row per sample in both, at least one"
        )
    flat: Array = x.reshape(len(x), -1)
    if stored and flat.dtype == np.uint8:
        return flat
    numbers: Array = flat.astype(np.float64)
    if not np.isfinite(numbers).all():
        raise DataError(f"data file {path}: {int((~np.isfinite(numbers)).sum())} inputs are NaN or infinite")
    return numbers


def _check_targets(path: str, target: str, y: Any, kind: str) -> tuple[Array, int | None]:
    """Return the targets as class numbers with the number of classes, or as (rows, values) with None."""
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
            only = shortened(classes[0].item())
            raise DataError(f"data file {path}: all targets ({target}) are {only}; a classification needs two classes")
        return np.searchsorted(classes, y.astype(classes.dtype)), len(classes)
    if y.dtype.kind not in "biuf":
        raise DataError(
            f"data file {path}: targets ({target}) such as {shortened(y.ravel()[0].item())} are neither numbers nor at "
            f"most {MAX_CLASSES:,} classes"
        )
    y = y.reshape(len(y), -1).astype(np.float64)
    if not np.isfinite(y).all():
        raise DataError(f"data file {path}: {int((~np.isfinite(y)).sum())} targets are NaN or infinite")
    return y, None


# The task.

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
        files = [(name, path) for name in self.location if (path := getattr(self, name))]
        hashes = [(name, self._hash(path)) for name, path in files]
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
        x, y, classes, rows = samples = self._samples()
        split = self._split(samples)
        task = "regression" if classes is None else f"classification with {classes} classes"
        guessed = "inferred" if self.kind == "infer" else "as stated"
        stated = f"{Path(self.path).name}: {rows[0]:,} samples of {x.shape[1]:,} numbers, {task} ({guessed})"
        for word, fixed in (("validation", split.validation), ("test", split.test)):
            if len(fixed):
                path, span = getattr(self, f"{word}_path"), getattr(self, f"{word}_rows")
                stated += f"; {word}: {Path(path).name if path else f'rows {span[0]:,} to {span[1] - 1:,}'}"
        outputs = y.shape[1] if classes is None else classes
        validation, test = len(split.validation) + split.drawn_validation, len(split.test) + split.drawn_test
        size = 3 * ((8 * x.size if self.standardize else x.nbytes) + y.nbytes)
        return Facts(x.shape[1], outputs, split.train, classes, size, validation, test, stated)

    def load(self, samples: np.random.Generator, split: np.random.Generator) -> Dataset:
        """Shuffle the rows that are not fixed by the split's stream, then cut; scaling uses the training rows only."""
        x, y, classes, _ = read = self._samples()
        parts = self._split(read)
        order = parts.rest[split.permutation(len(parts.rest))]
        train, validation = order[: parts.train], order[parts.train : parts.train + parts.drawn_validation]
        test = order[parts.train + parts.drawn_validation :]
        if self.standardize:
            mean, std = x[train].mean(0), x[train].std(0)
            x = (x - mean) / np.where(std > 0, std, 1.0)
        validation = parts.validation if len(parts.validation) else validation
        return Dataset(x, y, train, validation, parts.test if len(parts.test) else test, classes=classes)

    def _split(self, samples: Samples) -> Split:
        """Which rows are fixed, and how many are drawn from the others."""
        n = samples.rows[0]
        fixed: dict[str, Rows] = {}
        start = n
        further = iter(samples.rows[1:])
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
        samples: Samples = self.stored()
        return samples

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
        status = os.stat(path)
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}", where="data.path") from None
    except ValueError as error:  # not a valid file name
        raise DataError(f"{shortened(path)} is not a valid file name: {error}", where="data.path") from None
    if not stat.S_ISREG(status.st_mode):
        raise DataError(f"{path} is a folder, a pipe or a device, not a regular file", where="data.path")
    return status
