"""The fused engine refuses a built-in part without a kernel; it never trains it as something else."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import replace
from textwrap import dedent
from typing import Any

import numpy as np
import pytest

from gradlab import parts
from gradlab.engines.fused import Fused
from gradlab.engines.fused.kernels import supported
from gradlab.engines.fused.kernels.supported import Kernel, explain_unsupported
from gradlab.engines.reference import Reference
from gradlab.parts import BUILT_IN
from gradlab.plans.plan import make_plan
from gradlab.runs.worker import run_trial
from gradlab.spec.files import resolve
from gradlab.testing import check_part
from gradlab.testing.base import small_tree

NEW = {
    ("skip", "halved"): """
        class Halved(Skip):
            '''y = x/2 + F(x).'''
            name = "halved"
            formula = "x/2 + f(Wx + b)"
            def forward(self, x, branch, p): return 0.5 * x + branch, None
            def backward(self, dy, p, cache): return 0.5 * dy, dy, {}
    """,
    ("activation", "cubed"): """
        class Cubed(Activation):
            '''f(x) = x + 0.01 x³.'''
            name = "cubed"
            def forward(self, x): return x + x.dtype.type(0.01) * x**3
            def slope(self, x, y): return 1 + x.dtype.type(0.03) * x**2
    """,
}


@pytest.fixture
def new_classes() -> Iterator[None]:
    """A new class in the file of its kind is all that a new built-in part needs."""

    def forget() -> None:
        for cached in (parts.built_in_names, parts.built_in, parts._family):
            cached.cache_clear()

    homes = {kind: importlib.import_module(parts.HOMES[kind]) for kind, _ in NEW}
    before = {kind: dict(vars(home)) for kind, home in homes.items()}
    for (kind, _), source in NEW.items():
        exec(dedent(source), vars(homes[kind]))
    forget()
    yield
    for kind, home in homes.items():
        for name in set(vars(home)) - set(before[kind]):
            delattr(home, name)
    forget()


@pytest.mark.usefixtures("new_classes")
@pytest.mark.parametrize(("kind", "name"), NEW)
def test_a_new_built_in_part_is_trained_by_the_reference_engine(kind: str, name: str) -> None:
    assert name in BUILT_IN.names(kind)
    (trial, *_) = make_plan(resolve({**small_tree(**{kind: name}), "arms": None}, "new")).trials
    assert Fused().refusal(trial.config, trial.catalog) == f"it has no kernel for the {kind} {name!r}"
    engine, reason = trial.config.train.engine.build(trial.catalog).choose(trial.config, trial.catalog)
    assert engine == Reference()
    assert reason
    result = run_trial(trial)
    assert result.status == "done", result.error
    assert check_part(BUILT_IN.make(kind, name, {})).problems == []


@pytest.mark.usefixtures("new_classes")
def test_an_entry_without_a_working_kernel_is_caught_by_the_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "gradlab.engines.fused.kernels.layout.SKIPS", {**supported.SKIPS, "halved": Kernel(supported.ADDS)}
    )
    monkeypatch.setitem(supported._TABLES, "skip", {**supported.SKIPS, "halved": Kernel(supported.ADDS)})
    problems = check_part(BUILT_IN.make("skip", "halved", {})).problems
    assert any("'fused' trains something else" in problem for problem in problems), problems


def test_a_parameter_that_no_kernel_reads_is_a_reason_to_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    less: dict[str, Any] = {**supported.NORMS, "layer": replace(supported.NORMS["layer"], parameters=())}
    monkeypatch.setitem(supported._TABLES, "norm", less)  # type: ignore[index]
    assert explain_unsupported("norm", "layer", BUILT_IN) == "its kernels do not read epsilon of the norm 'layer'"
    assert explain_unsupported("norm", "rms", BUILT_IN) is None


@pytest.mark.parametrize("kind", supported._TABLES)
def test_the_table_names_only_parts_and_parameters_that_exist(kind: str) -> None:
    for name, kernel in supported._TABLES[kind].items():
        assert set(kernel.parameters) <= set(BUILT_IN.get(kind, name).parameter_names())
    codes = [kernel.code for kernel in supported._TABLES[kind].values()]
    assert kind == "skip" or sorted(codes) == list(np.arange(len(codes)))
