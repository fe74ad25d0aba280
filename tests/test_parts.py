"""The file is the plug-in: built-in parts exist because their file does, a user's because a study names it."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest

import gradlab
from gradlab.errors import PartError
from gradlab.parts import BASES, BUILT_IN, COMPANIONS, HOMES, Catalog, Figure, Part, PartFile, is_own, load_file

HALF = """
    from gradlab.network import Skip

    class Half(Skip):
        '''y = share·x + F(x).'''
        name = "half"
        formula = "share x + f(Wx + b)"
        share: float = 0.5

        def forward(self, x, branch, p):
            return self.share * x + branch, None

        def backward(self, dy, p, cache):
            return self.share * dy, dy, {}
"""


def write(folder: Path, source: str, name: str = "mine.py") -> Path:
    path = folder / name
    path.write_text(dedent(source))
    return path


@pytest.mark.parametrize("kind", HOMES)
def test_a_built_in_part_has_its_kind_and_its_name_and_is_described(kind: str) -> None:
    assert BUILT_IN.names(kind)
    for name in BUILT_IN.names(kind):
        part = BUILT_IN.get(kind, name)
        assert part.name == name
        assert part.part == kind
        assert part.summary()


def test_parts_are_shown_by_rank_and_then_by_name() -> None:
    class Early(Figure):
        """Stands first."""

        name, rank = "early", 1

    class Twin(Early):
        """Has the same rank."""

        name = "a_twin"

    class Unranked(Early):
        """Has the rank of those that state none."""

        name, rank = "unranked", Part.rank

    own = {("figure", figure.name): figure for figure in (Early, Twin, Unranked)}
    names = Catalog((), own).ranked("figure")
    assert names[:2] == ["a_twin", "early"]
    assert names[-1] == "unranked"
    assert names[2:-1] == BUILT_IN.ranked("figure")


def test_parts_are_frozen() -> None:
    relu = BUILT_IN.make("activation", "leaky_relu", {})
    with pytest.raises(AttributeError):
        relu.negative_slope = 2


def test_a_users_skip_is_used_like_a_built_in_one(tmp_path: Path, tree: dict[str, Any]) -> None:
    tree["parts"] = [str(write(tmp_path, HALF))]
    tree["arms"]["half"] = {"model.skip": "half"}
    tree["arms"]["whole"] = {"model.skip": {"kind": "half", "share": 1.0}}
    result = gradlab.run(tree)
    assert result.measured.counts()["done"] == 8
    final = {name: list(result.measured.values("final_loss", name).values()) for name in tree["arms"]}
    assert final["whole"] == pytest.approx(final["residual"], rel=1e-10)
    assert final["half"] != final["residual"]


def test_activation_init_schedule_task_and_probe_of_the_users_own(tmp_path: Path, tree: dict[str, Any]) -> None:
    path = write(
        tmp_path,
        """
        import numpy as np
        from gradlab.network import Activation, Init
        from gradlab.optim import Schedule
        from gradlab.data import Dataset, Task
        from gradlab.data.base import Facts
        from gradlab.probes import Probe

        class Cube(Activation):
            '''f(x) = x³.'''
            name = "cube"
            def forward(self, x): return x**3
            def slope(self, x, y): return 3 * x * x

        class Tiny(Init):
            '''W ~ U(0, 0.1).'''
            name = "tiny"
            def quantile(self, u, fan_in, fan_out): return 0.1 * u

        class Inverse(Schedule):
            '''lr/(1 + t).'''
            name = "inverse"
            def factor(self, step, horizon): return 1 / (1 + step)

        class Parity(Task):
            '''The sign of a product.'''
            name = "own_parity"
            def facts(self): return Facts(4, 1, 16, None, 1000)
            def load(self, samples, split):
                x = samples.choice([-1.0, 1.0], (16, 4))
                return Dataset(x, x.prod(1, keepdims=True), train=np.arange(16))

        class Largest(Probe):
            '''Largest weight.'''
            name = "largest"
            measures = ("weight_max",)
            def measure(self, layer): return {"weight_max": float(np.abs(layer.weight).max())}
        """,
    )
    tree["parts"] = [str(path)]
    tree["base"] = {
        "data": {"task": "own_parity"},
        "model": {"depth": 2, "width": 3, "activation": "cube", "init": "tiny"},
        "train": {"loss": "mse", "optimizer": "sgd", "lr": 0.1, "schedule": "inverse", "batch": 4, "steps": 4},
    }
    result = gradlab.run(tree)
    assert result.measured.counts()["failed"] == 0
    largest = result.layers().query("measure == 'weight_max' and step == 0")
    assert 0 < largest.value.max() <= 0.1


def test_the_files_content_enters_the_trial_id_and_its_place_does_not(tmp_path: Path, tree: dict[str, Any]) -> None:
    def first_id(path: Path) -> str:
        return gradlab.plan({**tree, "parts": [str(path)]}).trials[0].id

    (tmp_path / "there").mkdir()
    here, there = write(tmp_path, HALF), write(tmp_path / "there", HALF, "other_name.py")
    changed = write(tmp_path, HALF.replace("0.5", "0.25"), "changed.py")
    assert first_id(here) == first_id(there)
    assert len({first_id(here), first_id(changed), gradlab.plan(tree).trials[0].id}) == 3


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("x = 1", "defines no part"),
        ("def f(:\n", "SyntaxError"),
        ("1/0", "ZeroDivisionError"),
        ("import sys; sys.exit(3)", "SystemExit"),
        (HALF.replace('"half"', '"identity"'), "there already is a skip named 'identity'"),
        (HALF.replace('"half"', '"../half"'), "is not a name for a skip"),
    ],
)
def test_a_broken_parts_file_is_refused_by_name(source: str, words: str, tmp_path: Path, tree: dict[str, Any]) -> None:
    path = write(tmp_path, source)
    with pytest.raises(PartError) as caught:
        gradlab.load({**tree, "parts": [str(path)]})
    assert words in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_missing_parts_file_is_refused(tree: dict[str, Any]) -> None:
    with pytest.raises(PartError, match=r"nowhere\.py: No such file"):
        gradlab.load({**tree, "parts": ["nowhere.py"]})


def test_a_part_that_fails_while_training_is_a_failed_trial_and_the_others_go_on(
    tmp_path: Path, tree: dict[str, Any]
) -> None:
    source = HALF.replace("return self.share * x + branch, None", "raise RuntimeError('no luck')")
    tree["parts"] = [str(write(tmp_path, source))]
    tree["arms"]["half"] = {"model.skip": "half"}
    result = gradlab.run(tree)
    assert result.measured.counts() == {"done": 4, "failed": 2, "diverged": 0}
    assert "2 × RuntimeError: no luck" in result.report()


def test_no_engine_or_tracker_is_imported_until_it_is_asked_for() -> None:
    import subprocess
    import sys

    code = (
        "import sys; from gradlab.parts import BUILT_IN; BUILT_IN.names('engine'), BUILT_IN.names('tracker');"
        "print('gradlab.engines.fused' in sys.modules or 'gradlab.trackers.mlflow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_unknown_parts_are_named_with_the_nearest() -> None:
    with pytest.raises(PartError, match=r"'gellu' is not an activation; did you mean 'gelu'\? Accepted: elu, gelu, "):
        BUILT_IN.get("activation", "gellu")


def test_catalogs_with_the_same_files_are_equal(tmp_path: Path) -> None:
    path = write(tmp_path, HALF)
    assert Catalog.with_files([path]) == Catalog.with_files([path])
    assert "half" in Catalog.with_files([path]).names("skip")
    assert "half" not in BUILT_IN.names("skip")


@pytest.mark.parametrize("kind", HOMES)
def test_the_base_of_every_kind_is_imported_from_parts(kind: str) -> None:
    base = getattr(importlib.import_module("gradlab.parts"), kind.capitalize())
    assert issubclass(base, Part)
    assert base.part == kind


def test_type_checkers_see_the_names_that_are_looked_up_when_asked_for() -> None:
    source = Path(importlib.import_module("gradlab.parts").__file__ or "").read_text()
    for name, home in (BASES | COMPANIONS).items():
        homes = (home, f"{home}.base")
        assert any(f"    from {module} import {name} as {name}\n" in source for module in homes)
        assert getattr(importlib.import_module("gradlab.parts"), name)
    with pytest.raises(ImportError, match="Skipp"):
        exec("from gradlab.parts import Skipp")


def test_importing_parts_imports_no_numerics() -> None:
    code = "import sys, gradlab.parts; print('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_bases_are_importable_from_their_rooms() -> None:
    for room, names in {
        "network": ["Activation", "Init", "Loss", "Norm", "Skip"],
        "optim": ["Optimizer", "Schedule"],
        "data": ["Task", "Dataset"],
        "probes": ["Probe"],
    }.items():
        for name in names:
            assert getattr(importlib.import_module(f"gradlab.{room}"), name)


def test_a_trial_with_parts_of_the_users_own_travels_to_another_process(tmp_path: Path, tree: dict[str, Any]) -> None:
    import pickle

    path = write(tmp_path, HALF)
    plan = gradlab.plan({**tree, "parts": [str(path)], "arms": {"half": {"model.skip": "half"}}})
    (tmp_path / "trial.pickle").write_bytes(pickle.dumps(plan.trials[0]))
    code = (
        "import pickle, sys; from gradlab.runs.worker import run_trial;"
        "print(run_trial(pickle.load(open(sys.argv[1], 'rb'))).outcome.metrics['final_loss'])"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "trial.pickle")]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert float(found) == gradlab.run(plan).measured.values("final_loss", "half")[0]
    path.write_text(path.read_text() + "# edited")
    assert "has changed since" in subprocess.run(command, capture_output=True, text=True).stderr


def test_a_class_without_a_base_or_with_a_clashing_parameter_is_refused(tmp_path: Path, tree: dict[str, Any]) -> None:
    bare = write(tmp_path, "from gradlab.parts import Part\nclass X(Part):\n    name = 'x'\n", "bare.py")
    with pytest.raises(PartError, match="extends no base"):
        gradlab.load({**tree, "parts": [str(bare)]})
    source = """
        from gradlab.network import Init
        class Own(Init):
            "Has a scale of its own."
            name = "own"
            scale: float = 3.0
            def quantile(self, u, fan_in, fan_out): return u
    """
    clash = write(tmp_path, source, "clash.py")
    tree["base"]["model"]["init"] = "own"
    with pytest.raises(gradlab.GradlabError, match="'scale', which is a reserved name"):
        gradlab.load({**tree, "parts": [str(clash)]})


# ---------------------------------------------------------------------- what a part imports of the user's own

USES_HELPER = """
import my_helper_{n}
from gradlab.optim import Schedule

class Helped(Schedule):
    'By a helper.'
    name = "helped"
    def factor(self, step, horizon):
        import my_late_{n}
        return my_helper_{n}.VALUE * my_late_{n}.VALUE
"""


def helped(folder: Path, n: int) -> PartFile:
    (folder / "mine.py").write_text(USES_HELPER.format(n=n))
    code = (
        "import sys; from pathlib import Path; from gradlab.parts import load_file\n"
        "file, _ = load_file(Path(sys.argv[1])); print(repr(file))"
    )
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    found = subprocess.run(
        [sys.executable, "-c", code, str(folder / "mine.py")], env=environment, capture_output=True, text=True
    )
    assert found.returncode == 0, found.stderr
    return eval(found.stdout, {"PartFile": PartFile})  # type: ignore[no-any-return]


def test_an_edit_of_a_module_that_a_part_imports_is_another_part(tmp_path: Path) -> None:
    (tmp_path / "my_package_1").mkdir()
    (tmp_path / "my_package_1/__init__.py").write_text("")
    (tmp_path / "my_package_1/inner.py").write_text("from .core import VALUE\n")
    (tmp_path / "my_package_1/core.py").write_text("VALUE = 1.0\n")
    (tmp_path / "my_deep_1.py").write_text("from my_package_1 import inner\nVALUE = inner.VALUE\n")
    (tmp_path / "my_helper_1.py").write_text("import numpy, my_deep_1\nVALUE = my_deep_1.VALUE\n")
    (tmp_path / "my_late_1.py").write_text("VALUE = 1.0\n")
    before = helped(tmp_path, 1)
    assert [name for name, _ in before.helpers] == [
        "my_deep_1",
        "my_helper_1",
        "my_late_1",
        "my_package_1",
        "my_package_1.core",
        "my_package_1.inner",
    ]
    assert helped(tmp_path, 1).identity == before.identity
    seen = {before.identity}
    for module in ("my_helper_1", "my_late_1", "my_deep_1", "my_package_1/inner", "my_package_1/core"):
        path = tmp_path / f"{module}.py"
        path.write_text(path.read_text() + "OTHER = 2\n")
        after = helped(tmp_path, 1)
        assert after.sha256 == before.sha256
        assert after.identity not in seen, module
        seen.add(after.identity)


def test_a_part_without_helpers_keeps_the_identity_of_its_file(tmp_path: Path) -> None:
    file, _ = load_file(write(tmp_path, HALF))
    assert file.helpers == ()
    assert file.identity == file.sha256


def test_a_helper_that_was_edited_while_it_is_loaded_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "my_helper_2.py").write_text("VALUE = 1.0\n")
    (tmp_path / "my_late_2.py").write_text("VALUE = 1.0\n")
    (tmp_path / "mine.py").write_text(USES_HELPER.format(n=2))
    before, _ = load_file(tmp_path / "mine.py")
    assert load_file(tmp_path / "mine.py")[0] == before
    (tmp_path / "my_helper_2.py").write_text("VALUE = 2.0\n")
    with pytest.raises(PartError, match=r"my_helper_2\.py: has changed since it was imported.*start Python again"):
        load_file(tmp_path / "mine.py")


def test_what_a_part_is_does_not_depend_on_what_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module in a folder without __init__.py, imported only when the part is used."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "my_folder_3").mkdir()
    (tmp_path / "my_folder_3/late.py").write_text("K = 2.0\n")
    source = HALF.replace("return self.share * x", "from my_folder_3.late import K; return self.share * x")
    before, parts = load_file(write(tmp_path, source))
    assert [name for name, _ in before.helpers] == ["my_folder_3.late"]
    parts["skip", "half"]().forward(np.ones((1, 2)), np.ones((1, 2)), {})  # type: ignore[attr-defined]
    assert "my_folder_3.late" in sys.modules
    assert load_file(tmp_path / "mine.py")[0] == before


@pytest.mark.parametrize("place", ["lib/python3.11/site-packages/x.py", "usr/lib/python3/dist-packages/x/y.py"])
def test_installed_packages_are_not_the_users_own_wherever_they_are(place: str, tmp_path: Path) -> None:
    assert not is_own(tmp_path / place)
    assert is_own(tmp_path / "mine/x.py")
