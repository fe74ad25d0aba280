"""Scaling fitted on the training rows, wrong labels, and the tasks that are made or come with scikit-learn."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradlab
from gradlab.data import images
from gradlab.data.base import Dataset
from gradlab.engines.fused import Fused
from gradlab.engines.reference import Reference
from gradlab.errors import DataError, StudyError
from gradlab.parts import BUILT_IN
from gradlab.trials.setup import Setup, prepare

MNIST = {"task": "mnist", "train": 300, "validation": 0, "test": 50}


def tree(data: dict[str, Any]) -> dict[str, Any]:
    classes = BUILT_IN.make("task", data["task"], {}).facts().classes is not None
    return {
        "question": "What are the data?",
        "base": {
            "data": data,
            "model": {"depth": 1, "width": 8},
            "train": {
                "loss": "cross_entropy" if classes else "mse",
                "optimizer": "sgd",
                "lr": 0.01,
                "batch": 50,
                "steps": 4,
            },
        },
        "seeds": 1,
    }


def setup_of(data: dict[str, Any]) -> Setup:
    return prepare(gradlab.plan(tree(data)).trials[0])


def load(**data: Any) -> Dataset:
    return setup_of(data).dataset


def columns(data: Dataset) -> np.ndarray:
    return data.gather(data.train, np.float64)[0]


def test_scaling_of_all_numbers_and_of_columns_is_what_it_says() -> None:
    raw = columns(load(**MNIST, scaling="none"))
    assert raw.max() == 255
    np.testing.assert_allclose(columns(load(**MNIST, scaling="unit")), raw / 255)
    np.testing.assert_allclose(columns(load(**MNIST, scaling="standardized")), (raw - raw.mean()) / raw.std())
    varies = raw.std(0) > 0
    each = columns(load(**MNIST, scaling="per_feature"))
    np.testing.assert_allclose(each[:, varies].mean(0), 0, atol=1e-12)
    np.testing.assert_allclose(each[:, varies].std(0), 1)
    assert not each[:, ~varies].any()
    low = columns(load(**MNIST, scaling="min_max"))
    assert (low.min(), low.max()) == (0, 1)


def test_quantiles_are_ranks_among_the_training_rows() -> None:
    data = load(task="random_regression", dim=3, samples=101, test=30, scaling="quantile")
    x = columns(data)
    np.testing.assert_allclose(np.sort(x[:, 0]), np.linspace(0, 1, 101), atol=0.006)
    assert 0 <= data.gather(data.test, np.float64)[0].min() <= data.gather(data.test, np.float64)[0].max() <= 1


def test_what_is_fitted_does_not_see_the_test_rows() -> None:
    few, many = (load(task="random_regression", dim=3, samples=40, test=n, scaling="per_feature") for n in (5, 50))
    assert abs(columns(few).mean()) < 1e-12
    assert abs(columns(many).mean()) < 1e-12
    assert abs(many.gather(many.test, float)[0].mean()) > 1e-3


def test_wrong_labels_are_as_many_as_asked_for_and_only_in_training_rows() -> None:
    clean, noisy = (setup_of({**MNIST, "label_noise": share}) for share in (0.0, 0.3))
    same = clean.dataset.targets == noisy.dataset.targets
    assert (~same[clean.dataset.train]).sum() == 90
    assert same[clean.dataset.test].all()
    np.testing.assert_array_equal(clean.theta, noisy.theta)
    with pytest.raises(StudyError, match="no classes"):
        load(task="random_regression", label_noise=0.1)


def test_engines_agree_on_scaled_data_and_plain_data_keep_their_ids() -> None:
    for scaling in ("none", "min_max", "standardized"):
        setup = setup_of({**MNIST, "scaling": scaling})
        np.testing.assert_allclose(Fused().train(setup).theta, Reference().train(setup).theta, rtol=2e-3, atol=1e-4)
    ids = [gradlab.plan(tree({**MNIST, **more})).trials[0].id for more in ({}, {"scaling": "task", "label_noise": 0})]
    assert ids[0] == ids[1]


def test_the_audit_sees_scaling_and_wrong_labels() -> None:
    for setting, value in (("data.label_noise", 0.2), ("data.scaling", "unit")):
        study = {**tree(MNIST), "seeds": 3, "arms": {"plain": {}, "other": {setting: value}}}
        assert gradlab.audit({**study, "factor": setting}).passed
        hidden = {"plain": {}, "other": {setting: value, "train.lr": 0.02}}
        assert not gradlab.audit({**study, "factor": "train.lr", "arms": hidden}).passed


def test_a_teacher_gives_the_same_targets_for_the_same_inputs() -> None:
    data = load(task="teacher_student", dim=5, hidden=1, teacher="linear", samples=50, test=20)
    every = np.concatenate([data.train, data.test])
    x, y = data.inputs[every], data.targets[every]
    solved = np.linalg.lstsq(x, y, rcond=None)[0]
    np.testing.assert_allclose(x @ solved, y, atol=1e-9)
    noisy = load(task="teacher_student", dim=5, hidden=1, teacher="linear", samples=50, test=20, noise=0.5)
    apart = noisy.targets - data.targets
    assert apart[data.train].std() == pytest.approx(0.5, rel=0.3)
    assert not apart[data.test].any()


def test_parity_is_the_product_of_the_relevant_signs() -> None:
    data = load(task="parity", bits=6, relevant=2, samples=200)
    assert ((data.inputs[:, 0] * data.inputs[:, 1] < 0) == (data.targets == 1)).all()
    with pytest.raises(StudyError, match="bits"):
        load(task="parity", bits=3, relevant=4)


def test_modular_addition_has_every_pair_once() -> None:
    data = load(task="modular_addition", modulus=7, train=0.4)
    a, b = data.inputs[:, :7].argmax(1), data.inputs[:, 7:].argmax(1)
    assert ((a + b) % 7 == data.targets).all()
    assert len({*zip(a.tolist(), b.tolist(), strict=True)}) == 49
    assert (len(data.train), len(data.test)) == (20, 29)


@pytest.mark.parametrize("name", ["digits", "wine", "iris", "breast_cancer", "diabetes"])
def test_scikit_learns_sets_have_their_sizes(name: str) -> None:
    if name != "iris":
        pytest.importorskip("sklearn")
    task = BUILT_IN.make("task", "scikit", {"set": name, "validation": 0.1})
    data, facts = task.load(np.random.default_rng(0), np.random.default_rng(0)), task.facts()
    sizes = (data.input_width, data.output_width, len(data.train), len(data.validation), len(data.test))
    assert sizes == (facts.input_width, facts.output_width, facts.samples, facts.validation, facts.test)


def test_without_scikit_learn_a_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradlab.data.scikit.find_spec", lambda name: None)
    with pytest.raises(DataError, match="pip install"):
        BUILT_IN.make("task", "scikit", {"set": "wine"}).facts()
    assert BUILT_IN.make("task", "scikit", {"set": "iris"}).facts().samples == 120


def test_image_files_are_found_verified_and_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match="download"):
        BUILT_IN.make("task", "images", {"folder": str(tmp_path)}).facts()
    rng = np.random.default_rng(0)
    for name, count in zip(images.FILES, (60, 60, 10, 10), strict=True):
        shape = (count, 28, 28) if "images" in name else (count,)
        header = bytes([0, 0, 8, len(shape)]) + b"".join(size.to_bytes(4, "big") for size in shape)
        body = rng.integers(0, 10, shape, np.uint8).tobytes()
        (tmp_path / name).write_bytes(gzip.compress(header + body))
    with pytest.raises(DataError, match="MD5"):
        images.read("kmnist", str(tmp_path))
    sums = tuple(images.md5((tmp_path / name).read_bytes()).hexdigest() for name in images.FILES)
    monkeypatch.setitem(images.MD5, "kmnist", sums)
    x, y = images.read("kmnist", str(tmp_path))
    assert (x.shape, y.shape) == ((70, 784), (70,))
