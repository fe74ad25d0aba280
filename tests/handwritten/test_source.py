"""A function's hash changes with all of the user's own that it uses, and with nothing else."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from gradlab.errors import InvalidInput
from gradlab.handwritten.source import code_of, described

SOURCE = """
import math
import numpy as np
import helper

RATE = 0.1
SIZES = (3, 4)

class Base:
    def start(self):
        return 1

class Net(Base):
    def forward(self, x):
        return inner(x) * RATE

def inner(x):
    return np.tanh(x)

def unused():
    return 5

def train(seed, scale=2.0):
    offset = lambda v: v + SIZES[0]
    return offset(Net().forward(seed) * math.pi * scale) + helper.more()
"""
HELPER = """
def more():
    return 1
"""


def imported(folder: Path, **files: str) -> ModuleType:
    """The module `train` of these files, imported anew."""
    import importlib

    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
        sys.modules.pop(name, None)
    importlib.invalidate_caches()
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module("own_training")
    finally:
        sys.path.remove(str(folder))


def hash_of(folder: Path, change: tuple[str, str] = ("", ""), helper: str = HELPER) -> str:
    folder.mkdir(exist_ok=True)
    module = imported(folder, helper=helper, own_training=SOURCE.replace(*change) if change[0] else SOURCE)
    return code_of(module.train).sha256


@pytest.fixture(autouse=True)
def _no_traces() -> Any:
    yield
    for name in ("own_training", "helper"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    "change",
    [
        ("RATE = 0.1", "RATE = 0.2"),
        ("SIZES = (3, 4)", "SIZES = (3, 5)"),
        ("np.tanh(x)", "np.sin(x)"),
        ("return 1\n\nclass Net", "return 2\n\nclass Net"),
        ("scale=2.0", "scale=3.0"),
        ("math.pi", "math.e"),
    ],
)
def test_whatever_it_uses_changes_the_hash(tmp_path: Path, change: tuple[str, str]) -> None:
    assert hash_of(tmp_path / "a") != hash_of(tmp_path / "b", change)


def test_a_module_of_the_users_own_belongs_to_it(tmp_path: Path) -> None:
    assert hash_of(tmp_path / "a") != hash_of(tmp_path / "b", helper=HELPER.replace("1", "2"))


@pytest.mark.parametrize("change", [("return 5", "return 6"), ("import math\n", "import math\nimport os\n")])
def test_what_it_does_not_use_does_not(tmp_path: Path, change: tuple[str, str]) -> None:
    assert hash_of(tmp_path / "a") == hash_of(tmp_path / "b", change)


def test_closures_partials_and_methods() -> None:
    def made(rate: float) -> Any:
        def train(seed: int) -> float:
            return rate * seed

        return train

    assert code_of(made(1.0)).sha256 != code_of(made(2.0)).sha256
    assert code_of(made(1.0)).sha256 == code_of(made(1.0)).sha256

    def powered(base: int, seed: int) -> int:
        return int(base**seed)

    assert code_of(partial(powered, 2)).sha256 != code_of(partial(powered, 3)).sha256
    assert code_of(powered).function.endswith("powered")


def test_code_typed_at_a_prompt_has_a_hash_of_what_it_was_compiled_to() -> None:
    first: dict[str, Any] = {"__name__": "__main__"}
    second: dict[str, Any] = {"__name__": "__main__"}
    exec("def train(seed): return seed + 1", first)
    exec("def train(seed): return seed + 2", second)
    assert code_of(first["train"]).sha256 != code_of(second["train"]).sha256


def _factory() -> int:
    return 1


def test_settings_are_plain_data_and_an_object_without_a_name_is_refused() -> None:
    assert described({"a": (1, "b"), "c": None}, "arms.x") == {"a": [1, "b"], "c": None}
    assert described(_factory, "arms.x").startswith("_factory (")
    assert described(dict, "arms.x") == "dict"
    with pytest.raises(InvalidInput, match=r"arms\.x\.net: .* cannot be told apart"):
        described({"net": object()}, "arms.x")
