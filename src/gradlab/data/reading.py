"""Read the user's files: npz (never pickled), csv, parquet, idx. Several files of one format give one table."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from gradlab.data.idx import is_idx, read_idx
from gradlab.errors import DataError, nearest, shortened

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
        for own, source in zip(x[1:], sources[1:], strict=True):
            if own.shape[1] != x[0].shape[1]:
                raise DataError(
                    f"data file {source.path}: {own.shape[1]:,} inputs per sample, and {x[0].shape[1]:,} in {path}"
                )
        targets, classes = _check_targets(path, _join([table.y for table in tables], path), kind)
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
        found = reader(source, inputs, target)
    except (DataError, MemoryError):
        raise
    except Exception as error:  # a damaged file can fail anywhere inside its reader
        raise DataError(f"data file {path}: cannot be read, {type(error).__name__}: {str(error)[:200]}") from None
    return found._replace(y=_decode_text(path, found.y))


def _in_order_of(first: Table, table: Table, path: str, own: str) -> Table:
    """The columns of a further file in the order of the first file's; they need the same names."""
    if first.names is None or table.names is None or table.names == first.names:
        return table
    if sorted(table.names) != sorted(first.names):
        odd = sorted({*table.names} ^ {*first.names})
        raise DataError(f"data file {own}: its columns are not those of {path}; {shortened(odd[0])} is in one only")
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
    odd = next((each for each in flat if not isinstance(each, str | bytes | bool | int | float)), None)
    if odd is not None:
        raise DataError(f"data file {path}: targets contain {shortened(odd)}; give one number or string per sample")
    words = [each.decode("utf8", "backslashreplace") if isinstance(each, bytes) else str(each) for each in flat]
    return np.array(words, dtype=str).reshape(y.shape)


def _npz(source: Source, inputs: str, target: str) -> Table:
    path = source.path
    try:
        with open(path, "rb") as opened, np.load(opened, allow_pickle=False) as arrays:
            if not hasattr(arrays, "files"):
                raise DataError(f"data file {path}: a single array, not an npz archive with {inputs!r} and {target!r}")
            for name in (inputs, target):
                if name not in arrays.files:
                    found = ", ".join(arrays.files)
                    raise DataError(f"data file {path}: no array {name!r}; it has {found}{nearest(name, arrays.files)}")
            return Table(arrays[inputs], arrays[target])
    except BadZipFile:
        raise DataError(f"data file {path}: damaged or not an npz archive") from None


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
        raise DataError(f"data file {path}: {int(frame[target].isna().sum())} targets are missing")
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


def _check_targets(path: str, y: Any, kind: str) -> tuple[Array, int | None]:
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
            raise DataError(f"data file {path}: all targets are {classes[0]}; a classification needs two classes")
        return np.searchsorted(classes, y.astype(classes.dtype)), len(classes)
    if y.dtype.kind not in "biuf":
        raise DataError(f"data file {path}: targets are {y.dtype}, neither numbers nor at most {MAX_CLASSES} classes")
    y = y.reshape(len(y), -1).astype(np.float64)
    if not np.isfinite(y).all():
        raise DataError(f"data file {path}: {int((~np.isfinite(y)).sum())} targets are NaN or infinite")
    return y, None
