"""Official splits of a user's own data, and idx files as they come."""

from __future__ import annotations

import gzip
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import gradlab
from gradlab.data.file import File
from gradlab.errors import DataError, GradlabError, StudyError

RNG = np.random.default_rng(1)
IMAGES, LABELS = RNG.integers(0, 256, (50, 4, 3), np.uint8), (np.arange(50) % 3).astype(np.uint8)
TESTS, TEST_LABELS = RNG.integers(0, 256, (9, 4, 3), np.uint8), (np.arange(9) % 3).astype(np.uint8)


def idx(array: Any, code: int = 0x08) -> bytes:
    return bytes([0, 0, code, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def write_idx(folder: Path, packed: bool = True) -> dict[str, str]:
    """The four files of an MNIST-like set, under the names that MNIST's have."""
    arrays = {
        "path": ("train-images-idx3-ubyte", IMAGES),
        "target_path": ("train-labels-idx1-ubyte", LABELS),
        "test_path": ("t10k-images-idx3-ubyte", TESTS),
        "test_target_path": ("t10k-labels-idx1-ubyte", TEST_LABELS),
    }
    found = {}
    for key, (name, array) in arrays.items():
        path = folder / (f"{name}.gz" if packed else name)
        path.write_bytes(gzip.compress(idx(array)) if packed else idx(array))
        found[key] = str(path)
    return found


def write_csv(folder: Path, name: str, x: np.ndarray, y: Any, columns: str = "abc") -> str:
    path = folder / name
    pd.DataFrame(x, columns=list(columns)).assign(y=y).to_csv(path, index=False)
    return str(path)


def load(seed: int = 0, **fields: Any) -> Any:
    return File(**fields).load(np.random.default_rng(0), np.random.default_rng(seed))


@pytest.mark.parametrize("packed", [True, False])
def test_idx_files_are_read_as_they_come(tmp_path: Path, packed: bool) -> None:
    data = load(**write_idx(tmp_path, packed), standardize=False)
    assert data.inputs.dtype == np.uint8
    np.testing.assert_array_equal(data.inputs[:50], IMAGES.reshape(50, 12))
    np.testing.assert_array_equal(data.inputs[data.test], TESTS.reshape(9, 12))
    np.testing.assert_array_equal(data.targets[data.test], TEST_LABELS)
    assert (len(data.train), len(data.validation), len(data.test), data.classes) == (45, 5, 9, 3)


def test_idx_files_of_every_type_and_name(tmp_path: Path) -> None:
    for code, kind in {0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}.items():
        values = np.array([[1, -2], [3, 4]] * 5, kind)
        for name in (f"x{code}.idx", f"x{code}.idx.gz", f"x{code}.idx2-ubyte"):
            content = idx(values, code)
            (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
            (tmp_path / "y.idx").write_bytes(idx(np.arange(10, dtype=np.uint8) % 2))
            data = load(path=str(tmp_path / name), target_path=str(tmp_path / "y.idx"), standardize=False)
            np.testing.assert_array_equal(data.inputs, values.astype(float))


def test_a_network_trains_on_idx_files_named_beside_the_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {key: Path(path).name for key, path in write_idx(tmp_path).items()}
    study = tmp_path / "own.yaml"
    named = ", ".join(f"{key}: {name}" for key, name in files.items())
    study.write_text(
        f"question: Does it run?\nbase:\n  data: {{task: file, {named}, standardize: false}}\n"
        "  model: {blocks: 1, width: 4}\n"
        "  train: {loss: cross_entropy, optimizer: adam, lr: 1e-2, batch: 8, epochs: 2}\nseeds: 1\n"
    )
    monkeypatch.chdir(Path(tmp_path.anchor))
    result = gradlab.run(study)
    assert result.measured.counts() == {"done": 1, "failed": 0, "diverged": 0}
    assert "test: t10k-images-idx3-ubyte.gz" in result.report()


def test_engines_agree_on_pixels_that_are_stored_as_bytes(tmp_path: Path) -> None:
    from gradlab.runs.worker import run_trial

    data = {"task": "file", **write_idx(tmp_path), "standardize": False}
    found = {}
    for engine in ("reference", "fused"):
        train = {"loss": "cross_entropy", "optimizer": "sgd", "lr": 1e-5, "batch": 8, "epochs": 2, "engine": engine}
        base = {"data": data, "model": {"depth": 2, "width": 4}, "train": {**train, "precision": "float64"}}
        outcome = run_trial(gradlab.plan({"question": "?", "base": base}).trials[0]).outcome
        assert outcome is not None
        found[engine] = outcome.theta
    np.testing.assert_allclose(found["fused"], found["reference"], rtol=1e-9)


BROKEN = {
    "not idx": b"hello, world",
    "too short": b"\0\0\x08",
    "no such type": b"\0\0\x01\x01" + bytes(20),
    "no axes": b"\0\0\x08\0",
    "ends in its header": b"\0\0\x08\x03\0\0\0\x01",
    "entries are missing": idx(IMAGES)[:-1],
    "entries too many": idx(IMAGES) + b"x",
    "a header that promises a terabyte": b"\0\0\x08\x02" + struct.pack(">2I", 10**6, 10**6) + bytes(100),
}


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("case", BROKEN)
def test_a_damaged_idx_file_is_named(case: str, packed: bool, tmp_path: Path) -> None:
    files = write_idx(tmp_path, packed)
    content = BROKEN[case]
    Path(files["path"]).write_bytes(gzip.compress(content) if packed else content)
    with pytest.raises(DataError, match=r"data file .*train-images-idx3-ubyte"):
        File(**files).facts()


def test_what_is_not_gzip_or_ends_too_early_is_named(tmp_path: Path) -> None:
    files = write_idx(tmp_path)
    whole = Path(files["path"]).read_bytes()
    for content in (b"not gzip at all", whole[: len(whole) // 2], b""):
        Path(files["path"]).write_bytes(content)
        with pytest.raises(DataError, match=r"data file .*train-images"):
            File(**files).facts()


def test_images_need_the_file_with_their_targets(tmp_path: Path) -> None:
    files = write_idx(tmp_path)
    with pytest.raises(DataError, match="name the file with its targets by target_path"):
        File(path=files["path"]).facts()
    with pytest.raises(DataError, match="do not fit"):
        File(path=files["path"], target_path=files["test_target_path"]).facts()


def test_pipes_and_folders_are_refused_wherever_a_file_is_named(tmp_path: Path) -> None:
    files = write_idx(tmp_path)
    os.mkfifo(tmp_path / "pipe.idx")
    for key in files:
        for place in (tmp_path / "pipe.idx", tmp_path):
            with pytest.raises(DataError, match="regular file"):
                File(**{**files, key: str(place)}).facts()
            with pytest.raises(DataError, match="regular file"):
                File(**{**files, key: str(place)}).fingerprint()


def test_a_test_file_is_the_test_set_whatever_the_split_draws(tmp_path: Path) -> None:
    x, y = RNG.standard_normal((30, 3)), np.arange(30) % 2
    path = write_csv(tmp_path, "train.csv", x, y)
    tests = write_csv(tmp_path, "test.csv", x[:7, ::-1] + 9, y[:7], "cba")
    for seed in (0, 1):
        data = load(seed, path=path, test_path=tests, standardize=False)
        np.testing.assert_allclose(data.inputs[data.test], x[:7] + 9)  # columns by name, not by place
        assert sorted([*data.train, *data.validation]) == list(range(30))
        assert len(data.validation) == 3
    facts = File(path=path, test_path=tests).facts()
    assert (facts.samples, facts.validation, facts.test) == (27, 3, 7)
    assert "test: test.csv" in facts.stated


def test_scaling_uses_the_training_rows_only(tmp_path: Path) -> None:
    x, y = RNG.standard_normal((30, 3)), np.arange(30) % 2
    path, tests = write_csv(tmp_path, "a.csv", x, y), write_csv(tmp_path, "b.csv", 1000 * x, y)
    data = load(path=path, test_path=tests, validation=0)
    np.testing.assert_allclose(data.inputs[data.train].mean(0), 0, atol=1e-12)
    assert np.abs(data.inputs[data.test]).max() > 100


def test_fixed_rows_are_kept_and_the_rest_is_drawn(tmp_path: Path) -> None:
    path = write_csv(tmp_path, "a.csv", RNG.standard_normal((40, 3)), np.arange(40) % 2)
    data = load(path=path, test_rows=(30, 40), validation_rows=(0, 5))
    assert data.test.tolist() == list(range(30, 40))
    assert data.validation.tolist() == list(range(5))
    assert sorted(data.train) == list(range(5, 30))
    drawn = load(path=path, test_rows=(30, 40))
    assert (len(drawn.train), len(drawn.validation)) == (27, 3)
    assert max(*drawn.train, *drawn.validation) < 30


def ids(**data: Any) -> str:
    train = {"loss": "cross_entropy", "optimizer": "sgd", "lr": 1, "batch": 8, "steps": 1}
    base = {"data": {"task": "file", **data}, "model": {"depth": 1, "width": 2}, "train": train}
    return gradlab.plan({"question": "?", "base": base}).trials[0].id


def test_the_trial_id_follows_the_content_of_every_file_and_the_fixed_rows(tmp_path: Path) -> None:
    x, y = RNG.standard_normal((30, 3)), np.arange(30) % 2
    a, b = write_csv(tmp_path, "a.csv", x, y), write_csv(tmp_path, "b.csv", x + 1, y)
    copy = tmp_path / "copy.csv"
    copy.write_bytes(Path(b).read_bytes())
    assert ids(path=a, test_path=b) == ids(path=a, test_path=str(copy))
    assert len({ids(path=a), ids(path=a, test_path=b), ids(path=a, test_path=a), ids(path=a, validation_path=b)}) == 4
    assert len({ids(path=a), ids(path=a, test_rows=[20, 30]), ids(path=a, test_rows=[21, 30])}) == 3
    assert ids(path=a) == ids(path=a, test_rows=None, test_path="")


WRONG = {
    "rows beyond the file": ({"test_rows": (20, 31)}, "not rows of a file with 30 samples"),
    "rows backwards": ({"test_rows": (20, 10)}, "not rows of a file"),
    "rows in both": ({"test_rows": (20, 30), "validation_rows": (19, 21)}, "also in validation_rows"),
    "a file and rows": ({"test_rows": (20, 30), "test_path": "b.csv"}, "give one of them"),
    "a file and a fraction": ({"test": 0.2, "test_path": "b.csv"}, "leave the fraction out"),
    "targets of nothing": ({"test_target_path": "b.csv"}, "belongs to test_path"),
    "nothing to train on": ({"test_rows": (0, 30)}, "leave none for training"),
    "other columns": ({"test_path": "other.csv"}, "its columns are not those of"),
    "other targets": ({"test_path": "text.csv"}, "different kinds"),
    "no such file": ({"test_path": "none.csv"}, "No such file"),
    "a class that is not a number": ({"test_path": "hole.csv"}, "column .y. has no value in 15 of 30 rows"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_split_that_cannot_be_kept_is_refused(case: str, tmp_path: Path) -> None:
    x, y = RNG.standard_normal((30, 3)), np.arange(30) % 2
    path = write_csv(tmp_path, "a.csv", x, y)
    write_csv(tmp_path, "b.csv", x, y)
    write_csv(tmp_path, "other.csv", x, y, "abd")
    write_csv(tmp_path, "text.csv", x, ["cat", "dog"] * 15)
    write_csv(tmp_path, "hole.csv", x, [None, 1] * 15)
    fields, message = WRONG[case]
    fields = {k: str(tmp_path / v) if k.endswith("path") else v for k, v in fields.items()}
    with pytest.raises(GradlabError, match=message) as raised:
        File(path=path, **fields).facts()
    assert isinstance(raised.value, DataError | StudyError)
