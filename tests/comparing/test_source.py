"""A function's hash changes with all user code that it uses, and with nothing else."""

from __future__ import annotations

import math
import sys
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from gradlab.comparing.planning import describe_setting, hash_code
from gradlab.errors import InvalidInput

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
    """Import the module `train` of these files afresh."""
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
    return hash_code(module.train).sha256


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
def test_a_change_in_used_code_changes_the_hash(tmp_path: Path, change: tuple[str, str]) -> None:
    assert hash_of(tmp_path / "a") != hash_of(tmp_path / "b", change)


def test_an_imported_user_module_is_part_of_the_hash(tmp_path: Path) -> None:
    assert hash_of(tmp_path / "a") != hash_of(tmp_path / "b", helper=HELPER.replace("1", "2"))


@pytest.mark.parametrize("change", [("return 5", "return 6"), ("import math\n", "import math\nimport os\n")])
def test_a_change_in_unused_code_does_not_change_the_hash(tmp_path: Path, change: tuple[str, str]) -> None:
    assert hash_of(tmp_path / "a") == hash_of(tmp_path / "b", change)


def test_closures_partials_and_methods_are_hashed() -> None:
    def made(rate: float) -> Any:
        def train(seed: int) -> float:
            return rate * seed

        return train

    assert hash_code(made(1.0)).sha256 != hash_code(made(2.0)).sha256
    assert hash_code(made(1.0)).sha256 == hash_code(made(1.0)).sha256

    def powered(base: int, seed: int) -> int:
        return int(base**seed)

    assert hash_code(partial(powered, 2)).sha256 != hash_code(partial(powered, 3)).sha256
    assert hash_code(powered).function.endswith("powered")


def test_interactive_code_is_hashed_by_its_bytecode() -> None:
    first: dict[str, Any] = {"__name__": "__main__"}
    second: dict[str, Any] = {"__name__": "__main__"}
    exec("def train(seed): return seed + 1", first)
    exec("def train(seed): return seed + 2", second)
    assert hash_code(first["train"]).sha256 != hash_code(second["train"]).sha256


def _factory() -> int:
    return 1


def test_settings_are_plain_data_and_an_object_without_a_name_is_refused() -> None:
    assert describe_setting({"a": (1, "b"), "c": None}, "arms.x") == {"a": [1, "b"], "c": None}
    assert describe_setting(_factory, "arms.x").startswith("_factory (")
    assert describe_setting(dict, "arms.x") == "builtins.dict"
    assert describe_setting(math.sin, "arms.x") == "math.sin"
    assert describe_setting([math.inf, np.float64(2.5)], "arms.x") == ["inf", 2.5]
    with pytest.raises(InvalidInput, match=r"arms\.x\.net: .* cannot be recognized"):
        describe_setting({"net": object()}, "arms.x")


def test_lambdas_on_one_line_have_different_hashes() -> None:
    first, second = lambda: 1, lambda: 100
    assert hash_code(first).sha256 != hash_code(second).sha256


CASES = {
    "a constant of the same name elsewhere": ("from other import B\nA = 1\n", "A + B", "other", "B = {}"),
    "a module behind a module": ("import outer\n", "outer.inner.value()", "inner", "def value():\n    return {}"),
    "an import inside the function": ("", "__import__('math').pi", "late", "X = {}"),
    "a package's module": ("import pack.models\n", "pack.models.build()", "pack/models", "def build(): return {}"),
}


@pytest.mark.parametrize("name", CASES)
def test_user_modules_count_however_they_are_reached(name: str, tmp_path: Path) -> None:
    head, body, changing, text = CASES[name]
    inside = "    import late\n" if changing == "late" else ""
    found = []
    for value in (1, 2):
        folder = tmp_path / str(value)
        (folder / "pack").mkdir(parents=True)
        (folder / "pack/__init__.py").write_text("")
        (folder / "outer.py").write_text("import inner\n")
        (folder / f"{changing}.py").write_text(text.format(value) + "\n")
        (folder / "inner.py").write_text(text.format(value) + "\n") if changing == "inner" else None
        for known in ("pack", "pack.models", "outer", "inner", "late", "other"):
            sys.modules.pop(known, None)
        (folder / "helper.py").write_text("")
        sys.path.insert(0, str(folder))
        try:
            module = imported(folder, own_training=f"{head}def train(seed):\n{inside}    return {body}\n")
            found.append(hash_code(module.train).sha256)
        finally:
            sys.path.remove(str(folder))
    for known in ("pack", "pack.models", "outer", "inner", "late", "other"):
        sys.modules.pop(known, None)
    assert found[0] != found[1]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("C = {'m': {'d': 1}}", "C = {'m': {'d': 2}}"),
        ("def f(): return 1\nC = {'f': f}", "def f(): return 2\nC = {'f': f}"),
        ("from functools import partial\ndef f(d): return d\nC = partial(f, d=1)",
         "from functools import partial\ndef f(d): return d\nC = partial(f, d=2)"),
        ("class O:\n    pass\nC = O(); C.x = 1", "class O:\n    pass\nC = O(); C.x = 2"),
        ("import dataclasses\n@dataclasses.dataclass\nclass O:\n    x: int = 0\nC = O(1)",
         "import dataclasses\n@dataclasses.dataclass\nclass O:\n    x: int = 0\nC = O(2)"),
        ("A = 1\nclass C:\n    x = A", "A = 2\nclass C:\n    x = A"),
        ("def g(): return 1\nclass C:\n    g = staticmethod(g)",
         "def g(): return 2\nclass C:\n    g = staticmethod(g)"),
        ("def C(a=1, b=2): return a", "def C(a=3, b=2): return a"),
    ],
)  # fmt: skip
def test_the_value_behind_a_name_changes_the_hash(tmp_path: Path, first: str, second: str) -> None:
    found = []
    for number, text in enumerate((first, second)):
        (tmp_path / str(number)).mkdir()
        module = imported(tmp_path / str(number), own_training=f"{text}\ndef train(seed):\n    return C\n")
        found.append(hash_code(module.train).sha256)
    assert found[0] != found[1]


def test_the_body_of_a_decorator_changes_the_hash(tmp_path: Path) -> None:
    text = (
        "from functools import wraps\ndef d(f):\n    @wraps(f)\n    def g(seed):\n        return f(seed) + {}\n"
        "    return g\n@d\ndef train(seed):\n    return seed\n"
    )
    found = []
    for value in (1, 2):
        (tmp_path / str(value)).mkdir()
        found.append(hash_code(imported(tmp_path / str(value), own_training=text.format(value)).train).sha256)
    assert found[0] != found[1]


def test_a_secret_that_is_not_in_the_source_is_not_stored(tmp_path: Path) -> None:
    text = "import os\nTOKEN = os.environ.get('PATH')\ndef train(seed):\n    return TOKEN\n"
    module = imported(tmp_path, own_training=text)
    assert module.TOKEN not in hash_code(module.train).text
