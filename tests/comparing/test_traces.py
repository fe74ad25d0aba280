"""The audit of a script that nobody edits: it sees what differs, changes no bit, and never ends a training."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from commands import gradlab as run

import gradlab
from gradlab.comparing.commands import HOOK, command, make_arms, plan_commands
from gradlab.comparing.traces import audit_traces, declared_factors, read_trace

SCRIPT = Path(__file__).parents[2] / "examples" / "scripts" / "train_digits.py"


def train(tmp_path: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    call = [sys.executable, str(SCRIPT), "--seed", "3", "--epochs", "1", *words]
    return subprocess.run(call, capture_output=True, text=True, cwd=tmp_path, env={**os.environ, **environment})


def test_the_trace_changes_no_bit_and_its_own_failure_ends_nothing(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("sklearn")
    path = os.pathsep.join(filter(None, [str(HOOK), os.environ.get("PYTHONPATH")]))
    plain = train(tmp_path)
    traced = train(tmp_path, PYTHONPATH=path, GRADLAB_TRACE=str(tmp_path / "trace"))
    nowhere = train(tmp_path, PYTHONPATH=path, GRADLAB_TRACE=str(tmp_path / "missing" / "trace"))
    assert plain.stdout.startswith("epoch 1 val_loss: ")
    assert traced.stdout == plain.stdout
    assert nowhere.stdout == plain.stdout
    assert (traced.returncode, traced.stderr, nowhere.returncode) == (0, "", 0)
    seen = json.loads(read_trace(tmp_path))
    assert seen["steps"] == 30
    assert seen["failures"] == []
    assert seen["seed"] == 3
    assert list(seen["tensors"]) == ["conv.weight", "conv.bias", "head.weight", "head.bias"]
    assert seen["loaders"] == [
        {"class": "TensorDataset", "batches": seen["loaders"][0]["batches"], "length": 1200, "batch": 40}
    ]
    assert len(seen["loaders"][0]["batches"]) == 3
    assert len(seen["losses"]) == 3
    assert seen["in no optimizer"] == []
    assert seen["optimizers"][0]["class"] == "SGD"
    assert len(seen["optimizers"][0]["rates"]) == 30  # a cosine


def test_a_hidden_difference_is_named_through_the_command_line(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("sklearn")
    words = [
        "--arm",
        "relu: --act relu",
        "--arm",
        "gelu: --act gelu-loud",
        "--seeds",
        "1",
        "--aa",
        "0",
        "--metric",
        "val_loss",
    ]
    done = run("compare", *words, "--", sys.executable, str(SCRIPT), "--seed", "{seed}", "--epochs", "1", cwd=tmp_path)
    assert done.returncode == 3
    assert "those of gelu are 3 × those of relu, in conv.weight" in done.stdout
    audit = gradlab.open_run(tmp_path / "runs" / "compare").audit
    assert audit is not None
    assert [finding.code for finding in audit.findings] == ["undeclared_difference"]
    assert any("not follow" in sentence for sentence in audit.cannot_see)


@pytest.mark.slow
def test_real_and_null_effects_of_the_digits_get_their_verdicts(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    words = ["--metric", "val_loss", "--aa", "0", "--seeds", "5", "--json", "--", sys.executable, str(SCRIPT), "--seed",
             "{seed}"]  # fmt: skip
    rates = run("compare", "--arm", "slow: --lr 0.01", "--arm", "fast: --lr 0.05", *words, cwd=tmp_path)
    assert rates.returncode == 0
    assert json.loads(rates.stdout)["claims"][0]["verdict"] == "reproduced"
    draws = run("compare", "--arm", "body:", "--arm", "head: --head-first", "--factor", "init", *words, cwd=tmp_path)
    assert draws.returncode == 0
    assert json.loads(draws.stdout)["claims"][0]["verdict"] == "not settled"


def test_a_sitecustomize_of_the_users_own_is_still_run(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('mine', __name__)\n")
    path = os.pathsep.join([str(HOOK), str(tmp_path)])
    environment = {**os.environ, "PYTHONPATH": path, "GRADLAB_TRACE": str(tmp_path / "trace")}
    done = subprocess.run([sys.executable, "-c", "print('hello')"], env=environment, capture_output=True, text=True)
    assert done.stdout == "mine sitecustomize\nhello\n"
    assert json.loads(read_trace(tmp_path))["steps"] == 0


def tensor(*shape: int, scale: float = 1.0, name: str = "a") -> dict[str, Any]:
    sample = [scale * 0.1 * (place + 1) for place in range(8)]
    return {"shape": list(shape), "dtype": "float32", "hash": f"{name}{scale}", "sample": sample, "trained": True}


def trace(**changes: Any) -> dict[str, Any]:
    """What a trace says of a small training, with changes."""
    group = {"parameters": 80, "tensors": 1, "lr": 0.1, "weight_decay": 0.0, "momentum": 0.9}
    return {
        "python": "3.11", "torch": "2.13", "steps": 10, "failures": [], "losses": [2.0], "modules": ["Net", "Linear"],
        "tensors": {"w": tensor(8, 10)}, "in no optimizer": [], "seed": 0, "flags": ["threads 1"],
        "optimizers": [{"class": "SGD", "groups": [group], "steps": 10, "rates": [[1, [0.1]]]}],
        "loaders": [{"class": "Data", "batches": ["x", "y"], "length": 100, "batch": 10}], **changes,
    }  # fmt: skip


def audited(other: dict[str, Any], factor: list[str] | None = None, words: str = "x {seed} {norm}") -> Any:
    made = command(words, trace=True)
    plan = plan_commands(made, make_arms(made, {"a": {"norm": 1}, "b": {"norm": 2}}), 1)
    traces = [trace(), other]
    return audit_traces(
        plan, {t.id: json.dumps(tree).encode() for t, tree in zip(plan.trials, traces, strict=True)}, factor
    )


SGD = {"parameters": 80, "tensors": 1, "lr": 0.2, "weight_decay": 0.0, "momentum": 0.9}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"tensors": {"w": tensor(8, 10, scale=2.0)}}, "initial weights: those of b are 2 × those of a"),
        ({"optimizers": [{"class": "SGD", "groups": [SGD], "steps": 10, "rates": [[1, [0.2]]]}]}, "learning rate"),
        ({"optimizers": [{"class": "SGD", "groups": [SGD], "steps": 10, "rates": [[1, [0.1]], [5, [0.01]]]}]},
         "learning rate: not the same in a and in b from step 5 on"),
        ({"loaders": [{"class": "Data", "batches": ["x", "z"], "length": 100, "batch": 10}]}, "first batches"),
        ({"loaders": [{"class": "Data", "batches": ["x", "y"], "length": 90, "batch": 10}]}, "data: Data of 100 in a"),
        ({"steps": 12}, "steps: 10 in a, 12 in b"),
        ({"seed": 7}, "seed of torch: 0 in a, 7 in b"),
        ({"flags": ["threads 2"]}, "switches of torch"),
        ({"in no optimizer": ["w"]}, "parameters in no optimizer: only b has w"),
    ],
)  # fmt: skip
def test_every_difference_beyond_the_declared_switch_fails_the_audit(change: dict[str, Any], says: str) -> None:
    audit = audited(trace(**change))
    assert not audit.passed
    assert any(says in words for words in audit.undeclared), audit.undeclared


def test_what_the_switch_entails_is_declared(tmp_path: Path) -> None:
    other = trace(
        tensors={"w": tensor(8, 10, name="b"), "n": tensor(8)}, modules=["Net", "Linear", "LayerNorm"], losses=[3.0]
    )
    audit = audited(other)
    assert audit.passed
    assert "parameters: only b has n" in audit.only_difference
    other["tensors"]["w"]["sample"][-1] *= 2
    assert "scale of initial weights" in audited(other).undeclared[0]
    assert audited(trace(tensors={"w": tensor(8, 10, scale=2.0)}), ["init"]).passed


def test_an_undeclared_switch_lists_differences_and_judges_none() -> None:
    audit = audited(trace(steps=12), words="x {seed} {norm}")
    assert not audit.passed
    made = command("x {seed} {foo}", trace=True)
    plan = plan_commands(made, make_arms(made, {"a": {"foo": 1}, "b": {"foo": 2}}), 1)
    assert declared_factors(plan, None) is None
    traces = {t.id: json.dumps(tree).encode() for t, tree in zip(plan.trials, [trace(), trace(steps=12)], strict=True)}
    found = audit_traces(plan, traces, None)
    assert found is not None
    assert found.passed
    assert "steps: 10 in a, 12 in b" in str(found.only_difference)
    assert any("not declared" in limit for limit in found.limits)
    assert audit_traces(plan, dict.fromkeys(traces, b"{}"), None) is None


def test_declared_factors_are_read_off_arguments() -> None:
    made = command("x {seed}", trace=True)
    plan = plan_commands(made, make_arms(made, {"a": "--lr 0.1 --norm pre", "b": "--lr 0.2 --norm pre"}), 1)
    assert declared_factors(plan, None) == ("lr",)
    assert declared_factors(plan, ["init", "steps"]) == ("init", "steps")
