from __future__ import annotations

import io
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import gradlab
from gradlab.data.file import File
from gradlab.errors import DataError

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 3))
CLASSES = np.array([0, 1, 2] * 20)


def write(folder: Path, kind: str, y: Any = CLASSES) -> str:
    path = folder / f"mine.{kind}"
    if kind == "npz":
        np.savez(path, x=X, y=y)
    else:
        frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y)
        frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path)
    return str(path)


def load(path: str, **fields: Any) -> Any:
    return File(path=path, **fields).load(np.random.default_rng(0), np.random.default_rng(0))


@pytest.mark.parametrize("kind", ["npz", "csv", "parquet"])
def test_the_three_kinds_of_file_give_the_same_data(kind: str, tmp_path: Path) -> None:
    data = load(write(tmp_path, kind), standardize=False)
    np.testing.assert_allclose(data.inputs, X, rtol=1e-12)
    assert data.targets.tolist() == CLASSES.tolist()
    assert data.classes == 3
    assert (len(data.train), len(data.validation), len(data.test)) == (48, 6, 6)


def test_integers_and_strings_are_classes_and_real_numbers_a_regression(tmp_path: Path) -> None:
    assert File(path=write(tmp_path, "csv")).facts().classes == 3
    assert File(path=write(tmp_path, "npz", np.array(["cat", "dog", "eel"] * 20))).facts().classes == 3
    real = File(path=write(tmp_path, "parquet", X[:, 0])).facts()
    assert real.classes is None
    assert "regression (inferred)" in real.stated
    forced = File(path=write(tmp_path, "csv"), kind="regression").facts()
    assert (forced.classes, forced.output_width) == (None, 1)
    assert "regression (as stated)" in forced.stated


def test_inputs_are_standardized_on_the_training_rows(tmp_path: Path) -> None:
    data = load(write(tmp_path, "npz"))
    train = data.inputs[data.train]
    np.testing.assert_allclose(train.mean(0), 0, atol=1e-12)
    np.testing.assert_allclose(train.std(0), 1, atol=1e-12)


def test_a_study_runs_on_a_file_beside_it_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "csv")
    study = tmp_path / "own.yaml"
    study.write_text(
        "question: Does it run?\n"
        "base:\n  data: {task: file, path: mine.csv}\n  model: {depth: 2, width: 4}\n"
        "  train: {loss: cross_entropy, optimizer: adam, lr: 1e-2, batch: 8, epochs: 2}\nseeds: 2\n"
    )
    monkeypatch.chdir(Path(tmp_path.anchor))
    result = gradlab.run(study)
    assert result.measured.counts() == {"done": 2, "failed": 0, "diverged": 0}
    assert result.measured.summary("test_accuracy", "all").n == 2
    assert "classification with 3 classes (inferred)" in result.report()


def test_the_trial_id_follows_the_content_of_the_file_not_its_location(tmp_path: Path) -> None:
    def first_id(path: str) -> str:
        tree = {
            "question": "?",
            "base": {
                "data": {"task": "file", "path": path},
                "model": {"depth": 1, "width": 2},
                "train": {"loss": "cross_entropy", "optimizer": "sgd", "lr": 1, "batch": 8, "steps": 1},
            },
        }
        return gradlab.plan(tree).trials[0].id

    (tmp_path / "other").mkdir()
    here, there = write(tmp_path, "npz"), write(tmp_path / "other", "npz")
    Path(there).write_bytes(Path(here).read_bytes())
    assert first_id(here) == first_id(there)
    changed = write(tmp_path / "other", "npz", CLASSES[::-1].copy())
    assert first_id(here) != first_id(changed)


BROKEN: dict[str, tuple[str, bytes]] = {
    "not an archive": ("a.npz", b"hello"),
    "empty npz": ("b.npz", b""),
    "empty csv": ("c.csv", b""),
    "not parquet": ("d.parquet", b"PAR1 but not really"),
    "binary csv": ("e.csv", bytes(range(256))),
    "unknown kind": ("f.xlsx", b"x"),
    "text column": ("g.csv", b"a,y\nred,1\nblue,0\n"),
    "no target": ("h.csv", b"a,b\n1,2\n"),
    "a hole": ("i.csv", b"a,y\n1,0\n,1\n"),
    "one class": ("j.csv", b"a,y\n1,0\n2,0\n"),
    "no rows": ("k.csv", b"a,y\n"),
    "only a target": ("l.csv", b"y\n1\n0\n"),
    "holes in the labels": ("m.csv", b"a,y\n1,cat\n2,\n3,dog\n"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_file_that_cannot_be_used_is_named(case: str, tmp_path: Path) -> None:
    name, content = BROKEN[case]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError, match=rf"data file .*{name}"):
        File(path=str(path)).facts()


@pytest.mark.parametrize("cut", range(0, 2000, 97))
def test_a_truncated_archive_is_an_error_at_every_length(cut: int, tmp_path: Path) -> None:
    whole = Path(write(tmp_path, "npz")).read_bytes()
    path = tmp_path / "cut.npz"
    path.write_bytes(whole[: min(cut, len(whole) - 1)])
    with pytest.raises(DataError, match=r"cut\.npz"):
        File(path=str(path)).facts()


def test_wrong_shapes_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "bad.npz"
    np.savez(path, x=X, y=CLASSES[:-1])
    with pytest.raises(DataError, match=r"\(60, 3\).*\(59,\)"):
        File(path=str(path)).facts()


def test_nothing_is_ever_unpickled(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return (Path(tmp_path / "sprung").write_text, ("!",))

    path = tmp_path / "trap.npz"
    np.savez(path, x=X, y=np.array([Trap()] * 60, dtype=object))
    with pytest.raises(DataError, match=r"trap\.npz: the array 'y' holds Python objects"):
        File(path=str(path)).facts()
    (tmp_path / "plain.npz").write_bytes(pickle.dumps(Trap()))
    with pytest.raises(DataError, match="plain"):
        File(path=str(tmp_path / "plain.npz")).facts()
    assert not (tmp_path / "sprung").exists()


def test_an_archive_whose_members_are_no_arrays_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "raw.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", b"hello")
        archive.writestr("y.npy", b"hello")
    with pytest.raises(DataError, match="'x' is not a NumPy array"):
        File(path=str(path)).facts()


def test_a_missing_target_is_named_with_its_column_and_row(tmp_path: Path) -> None:
    path = tmp_path / "gaps.csv"
    path.write_text("a,b,y\n1,2,k\n3,4,\n5,6,m\n")
    with pytest.raises(DataError, match=r"gaps\.csv: column 'y' has no value in 1 of 3 rows \(first in row 2\)"):
        File(path=str(path), target="y").facts()


def test_integers_stored_as_floats_or_in_a_column_can_be_classes(tmp_path: Path) -> None:
    path = tmp_path / "floats.npz"
    np.savez(path, x=X, y=CLASSES.astype(float)[:, None])
    assert File(path=str(path)).facts().classes is None
    assert File(path=str(path), kind="classification").facts().classes == 3


def test_data_files_of_arms_and_axes_are_found_beside_the_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "csv")
    write(tmp_path, "npz")
    base = "question: Q\nbase:\n  data: {task: file, path: mine.csv}\n  model: {depth: 1, width: 4}\n"
    base += "  train: {loss: cross_entropy, optimizer: sgd, lr: 0.1, batch: 8, steps: 2}\nseeds: 1\n"
    monkeypatch.chdir(Path(tmp_path.anchor))
    for name, rest in (
        ("arms", "arms:\n  a: {}\n  b: {data.path: mine.npz}\n  c: {data: {task: file, path: mine.npz}}\n"),
        ("axes", "axes: {data.path: [mine.csv, mine.npz]}\n"),
    ):
        (tmp_path / f"{name}.yaml").write_text(base + rest)
        assert gradlab.run(tmp_path / f"{name}.yaml").measured.counts()["failed"] == 0


# ---------------------------------------------------------------------- misleading files


@pytest.mark.parametrize("targets", [np.array([b"\xe9t\xe9", b"hiver"] * 20), np.array(["été", "hiver"] * 20)])
def test_targets_may_be_strings_in_any_script(targets: Any, tmp_path: Path) -> None:
    path = tmp_path / "words.npz"
    np.savez(path, x=np.random.default_rng(0).standard_normal((40, 3)), y=targets)
    assert File(path=str(path)).facts().classes == 2


@pytest.mark.parametrize("odd", [[1, 2], {"a": 1}, None])
def test_targets_that_are_neither_numbers_nor_strings_are_refused(odd: Any, tmp_path: Path) -> None:
    import pandas as pd

    path = tmp_path / "odd.parquet"
    pd.DataFrame({"a": [1.0, 2.0, 3.0], "y": [odd, odd, odd]}).to_parquet(path)
    with pytest.raises(DataError, match=r"odd\.parquet"):
        File(path=str(path)).facts()


def test_bytes_in_parquet_are_decoded_as_strings(tmp_path: Path) -> None:
    import pandas as pd

    path = tmp_path / "bytes.parquet"
    pd.DataFrame({"a": np.arange(40.0), "y": [b"\xff\xfe", b"ok"] * 20}).to_parquet(path)
    assert File(path=str(path)).facts().classes == 2


def test_a_name_that_no_file_can_have_is_refused(tmp_path: Path) -> None:
    for method in ("facts", "fingerprint"):
        with pytest.raises(DataError, match="file name"):
            getattr(File(path="a\0b.npz"), method)()


def test_a_pipe_or_a_folder_is_refused_without_blocking(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "folder.npz").mkdir()
    for name in ("pipe.csv", "folder.npz"):
        for method in ("facts", "fingerprint"):
            with pytest.raises(DataError, match="regular file"):
                getattr(File(path=str(tmp_path / name)), method)()


@pytest.mark.parametrize(
    ("y", "kind", "message"),
    [
        (np.array([["a", "b"], ["c", "d"]] * 20), "infer", "such as 'a' are neither numbers nor"),
        (np.empty((40, 0)), "infer", "do not fit"),
        (np.array([1.0, np.inf] * 20), "classification", "NaN or infinite"),
    ],
)
def test_targets_that_cannot_be_trained_on_are_refused_by_the_plan(
    y: Any, kind: Any, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "odd.npz"
    np.savez(path, x=np.random.default_rng(0).standard_normal((40, 3)), y=y)
    with pytest.raises(DataError, match=message):
        File(path=str(path), kind=kind).facts()


def test_a_csv_row_longer_than_the_header_is_refused(tmp_path: Path) -> None:
    (tmp_path / "long.csv").write_text("a,y\n1,2,3\n4,5,6\n")
    with pytest.raises(DataError, match=r"long\.csv"):
        File(path=str(tmp_path / "long.csv")).facts()


def test_what_numpy_would_advise_to_load_all_the_same_is_refused_with_the_reason(tmp_path: Path) -> None:
    np.savez(tmp_path / "objects.npz", x=np.ones((3, 2)), y=np.array([{}, 1, "a"], object))
    (tmp_path / "pickle.npz").write_bytes(pickle.dumps({"x": 1}))
    for name, where in (("objects.npz", "the array 'y'"), ("pickle.npz", "it")):
        with pytest.raises(DataError) as refused:
            File.parse({"path": str(tmp_path / name)}).facts()
        words = str(refused.value)
        assert f"{name}: {where} holds Python objects" in words
        assert "can run code" in words
        assert "allow_pickle" not in words


def test_an_impossible_shape_is_named_with_its_array_and_value(tmp_path: Path) -> None:
    good, bad = io.BytesIO(), io.BytesIO()
    np.save(good, np.arange(3))
    np.save(bad, np.ones((3, 2)))
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x.npy", bad.getvalue().replace(b"(3, 2)", b"(-3,2)"))
        archive.writestr("y.npy", good.getvalue())
    with pytest.raises(DataError, match=r"a.npz: the array 'x' of shape \(-3,2\)"):
        File.parse({"path": str(tmp_path / "a.npz")}).facts()


def test_a_single_class_is_named_with_its_column_even_if_it_is_empty(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.ones((3, 2)), kind=np.array(["", "", ""]))
    with pytest.raises(DataError, match=r"a.npz: all targets \(kind\) are ''"):
        File.parse({"path": str(tmp_path / "a.npz"), "target": "kind"}).facts()
