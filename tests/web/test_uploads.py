"""The user's own data on the page: checked, limited, never unpickled."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import numpy as np
import pytest

from gradlab.errors import DataError
from gradlab.web.settings import UPLOAD
from gradlab.web.uploads import Uploads


def npz(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def test_a_csv_and_an_npz_say_what_they_hold(uploads: Uploads) -> None:
    table = b"a,b,kind\n" + b"".join(b"%d,%d,%s\n" % (i, -i, [b"cat", b"dog"][i % 2]) for i in range(40))
    found = uploads.add("pets.csv", table)
    assert found.stated.startswith("pets.csv: 40 samples of 2 numbers, classification with 2 classes")
    assert found.data["target"] == "kind"
    arrays = uploads.add("deep.npz", npz(x=np.ones((30, 5)), y=np.linspace(0, 1, 30)))
    assert "regression" in arrays.stated
    assert uploads.add("again.npz", arrays.path.read_bytes()).id == arrays.id
    assert uploads.get(found.id) == found


class Bomb:
    def __reduce__(self) -> Any:
        return (pytest.fail, ("unpickled",))


BAD = {
    "not a file type": ("x.pkl", b"1"),
    "no name": ("", b"1"),
    "empty csv": ("x.csv", b""),
    "only a header": ("x.csv", b"a,y\n"),
    "text": ("x.csv", b"a,y\nred,1\nblue,2\n"),
    "missing value": ("x.csv", b"a,y\n,1\n2,0\n"),
    "not utf8": ("x.csv", b"\xff\xfe\x00"),
    "not a zip": ("x.npz", b"hello"),
    "torn": ("x.npz", npz(x=np.ones((9, 2)), y=np.arange(9))[:80]),
    "no y": ("x.npz", npz(x=np.ones((9, 2)))),
    "pickled": ("x.npz", npz(x=np.array([[Bomb()]] * 4, object), y=np.arange(4))),
    "one class": ("x.npz", npz(x=np.ones((9, 2)), y=np.zeros(9, int))),
    "nan": ("x.npz", npz(x=np.full((9, 2), np.nan), y=np.arange(9) % 2)),
    "too wide": ("x.npz", npz(x=np.zeros((3, 3000)), y=np.arange(3) % 2)),
    "too large": ("x.csv", b"a" * (UPLOAD + 1)),
    "a bomb": ("x.npz", npz(x=np.zeros((3000, 3000)), y=np.arange(3000) % 2)),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_file_is_refused_with_a_sentence_that_names_the_file(case: str, uploads: Uploads) -> None:
    name, content = BAD[case]
    with pytest.raises(DataError) as refused:
        uploads.add(name, content)
    assert str(uploads._folder.path) not in str(refused.value)
    assert repr(name) in str(refused.value)
    assert [path.name for path in uploads._folder.path.iterdir()] == ["lock"]


def test_an_archive_that_lies_about_its_size_unpacks_no_more_than_it_says(uploads: Uploads) -> None:
    content = bytearray(npz(x=np.zeros((3000, 3000)), y=np.arange(3000) % 2))
    with zipfile.ZipFile(io.BytesIO(bytes(content))) as archive:
        sizes = [entry.file_size for entry in archive.infolist()]
    for size in sizes:
        content = bytearray(bytes(content).replace(size.to_bytes(4, "little"), (1000).to_bytes(4, "little")))
    with pytest.raises(DataError):
        uploads.add("x.npz", bytes(content))


def test_a_name_with_a_path_stays_a_name(uploads: Uploads) -> None:
    found = uploads.add("../../etc/points.csv", b"a,y\n1,0\n2,1\n3,0\n4,1\n5,0\n6,1\n")
    assert found.name == "points.csv"
    assert found.path.parent == uploads._folder.path
