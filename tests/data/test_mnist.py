from __future__ import annotations

import lzma
from pathlib import Path

import numpy as np
import pytest

from gradlab.data.mnist import PACKED, SHA256, Mnist, images_and_labels, unpack
from gradlab.errors import DataError, StudyError


def load(seed: int = 0, **fields: object) -> object:
    return Mnist.parse(fields).load(np.random.default_rng(0), np.random.default_rng(seed))


def test_all_seventy_thousand_digits_are_present() -> None:
    images, labels = images_and_labels()
    assert images.shape == (70_000, 784)
    assert np.bincount(labels[:60_000]).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert np.bincount(labels[60_000:]).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert labels[:5].tolist() == [5, 0, 4, 1, 9]
    assert not images.flags.writeable
    assert not labels.flags.writeable


def test_the_split_is_55k_5k_10k_and_depends_on_its_seed() -> None:
    a, b = load(0), load(1)
    assert (len(a.train), len(a.validation), len(a.test)) == (55_000, 5_000, 10_000)
    assert not np.array_equal(a.train, b.train)
    assert np.array_equal(a.test, b.test)
    assert np.array_equal(a.train, load(0).train)
    assert a.train.max() < 60_000 <= a.test.min()


def test_a_subset_draws_training_rows_from_the_60k_and_test_rows_from_the_10k() -> None:
    data = load(train=28_900, validation=0, test=1_000)
    assert (len(data.train), len(data.validation), len(data.test)) == (28_900, 0, 1_000)
    assert data.train.max() < 60_000 <= data.test.min()


def test_pixels_are_scaled_as_configured() -> None:
    rows = np.arange(2000)
    standard = load().gather(rows, np.float64)[0]
    raw = images_and_labels()[0][rows] / 255
    np.testing.assert_allclose(standard, (raw - 0.1307) / 0.3081, atol=1e-12)
    unit = load(pixels="unit").gather(rows, np.float32)[0]
    assert unit.dtype == np.float32
    assert unit.max() == 1
    assert unit.min() == 0
    assert load(pixels="raw").gather(rows, np.float32)[0].max() == 255


def test_more_images_than_exist_are_refused() -> None:
    with pytest.raises(StudyError, match=r"data\.validation.*60,000"):
        Mnist(train=58_000, validation=5_000).facts()


@pytest.mark.parametrize("damage", ["flip", "cut", "empty"])
def test_a_damaged_file_is_named(damage: str, tmp_path: Path) -> None:
    packed = bytearray(PACKED.read_bytes())
    if damage == "flip":
        packed[len(packed) // 2] ^= 1
    broken = tmp_path / "mnist.xz"
    broken.write_bytes(packed[: {"flip": len(packed), "cut": 1000, "empty": 0}[damage]])
    with pytest.raises(DataError, match=r"mnist\.xz is damaged.*SHA-256.*reinstall"):
        unpack(broken, SHA256)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="such file"):
        unpack(tmp_path / "mnist.xz", SHA256)


def test_the_packed_file_is_xz() -> None:
    assert len(lzma.decompress(PACKED.read_bytes())) == 70_000 * 785


def test_an_unpacked_copy_is_cached_and_a_damaged_one_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRADLAB_CACHE", str(tmp_path))
    fresh = images_and_labels.__wrapped__
    images, _ = fresh()
    (copy,) = (tmp_path / "gradlab/data").iterdir()
    whole = copy.read_bytes()
    assert whole == unpack()
    monkeypatch.setattr("gradlab.data.mnist.unpack", lambda: pytest.fail("unpacked although there is a copy"))
    assert np.array_equal(fresh()[0], images)
    monkeypatch.undo()
    monkeypatch.setenv("GRADLAB_CACHE", str(tmp_path))
    copy.write_bytes(whole[:-1] + b"x")
    assert np.array_equal(fresh()[0], images)
    assert copy.read_bytes() == whole


def test_without_a_cache_the_images_are_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradlab.data.mnist.cache_folder", lambda name: None)
    assert images_and_labels.__wrapped__()[0].shape == (70_000, 784)
