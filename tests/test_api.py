"""The public functions: one module, which the command line calls too; all kinds of runs end in one function."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

import gradlab
from gradlab import api
from gradlab.errors import InvalidInput, StudyError
from gradlab.plans.plan import Plan
from gradlab.report.result import Result
from gradlab.running import start

FUNCTIONS = [name for name in gradlab.__all__ if name[0].islower() and not name.startswith("__")]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_public_function_is_the_one_of_the_api_module_and_is_documented(name: str) -> None:
    function = getattr(gradlab, name)
    assert function is getattr(api, name)
    assert name in api.__all__
    assert inspect.getdoc(function)


def test_importing_the_package_imports_no_room() -> None:
    import subprocess
    import sys

    code = "import sys, gradlab; print([m for m in sys.modules if m.startswith('gradlab.')])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_a_plan_names_every_trial_and_runs_nothing(tree: dict[str, Any]) -> None:
    planned = gradlab.plan(tree, seeds=3)
    assert isinstance(planned, Plan)
    assert [(trial.group, trial.seed) for trial in planned.trials][:3] == [("plain", 0), ("residual", 0), ("plain", 1)]
    assert gradlab.plan(planned) is planned
    with pytest.raises(StudyError, match="do not apply to a Plan"):
        gradlab.plan(planned, seeds=2)
    with pytest.raises(StudyError, match="do not apply to a Plan"):
        gradlab.run(planned, overrides={"train.lr": 1.0})


def test_a_result_in_memory_and_one_in_a_folder_have_the_same_bits(tree: dict[str, Any], tmp_path: Path) -> None:
    memory = gradlab.run(tree)
    kept = gradlab.run(tree, out=tmp_path / "run", figures=False)
    assert memory.folder is None
    assert memory.measured.hash == kept.measured.hash == gradlab.open_run(tmp_path / "run").measured.hash


def test_the_call_that_made_a_result_is_kept(tree: dict[str, Any], tmp_path: Path) -> None:
    result = gradlab.run(tree, seeds=1, overrides={"train.lr": 0.2}, out=tmp_path / "run", figures=False)
    assert result.command == "gradlab.run(\"study.yaml\", overrides={'train.lr': 0.2}, seeds=1)"
    assert gradlab.open_run(tmp_path / "run").command == result.command
    assert gradlab.run("gradflow", seeds=1).command == "gradlab.run('gradflow', seeds=1)"


def train(width: int, seed: int) -> dict[str, Any]:
    return {"loss": [1.0 / width, 0.5 / width], "score": float(width + seed)}


def test_a_study_a_comparison_and_a_watch_end_in_the_same_function(
    tree: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    ended: list[Path] = []
    real = start.finish

    def counted(folder: Any, *arguments: Any, **options: Any) -> Result:
        ended.append(folder.path)
        return real(folder, *arguments, **options)

    monkeypatch.setattr("gradlab.running.start.finish", counted)
    monkeypatch.setattr("gradlab.comparing.saving.finish", counted)
    gradlab.run(tree, out=tmp_path / "study", figures=False)
    gradlab.compare(train, {"thin": {"width": 1}, "wide": {"width": 4}}, 2, out=tmp_path / "comparison", figures=False)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with gradlab.watch(model, optimizer, every=1, quiet=True) as watch:
        model(torch.ones(2, 3)).sum().backward()
        optimizer.step()
    watch.save(tmp_path / "watch", figures=False)
    assert [path.name for path in ended] == ["study", "comparison", "watch"]
    for path in ended:
        assert (path / "report.html").is_file()
        assert gradlab.open_run(path).answer


def test_the_command_line_calls_compare_as_users_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from commands import gradlab as command

    (tmp_path / "compared_by_api.py").write_text(inspect.getsource(train).replace("Any", "object"))
    given: list[dict[str, Any]] = []
    real = api.compare

    def seen(*arguments: Any, **options: Any) -> Result:
        inspect.signature(real).bind(*arguments, **options)
        given.append(options)
        return real(*arguments, **{**options, "figures": False})

    monkeypatch.setattr(api, "compare", seen)
    monkeypatch.chdir(tmp_path)
    words = [
        "compare",
        "compared_by_api.py:train",
        "--arm",
        "thin: {width: 1}",
        "--arm",
        "wide: {width: 4}",
        "--seeds",
        "2",
    ]
    found = command(*words, cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    assert given[0]["command"].startswith("gradlab compare compared_by_api.py:train")


def test_an_audit_of_no_functions_says_what_it_takes() -> None:
    with pytest.raises(InvalidInput, match="functions without arguments"):
        gradlab.audit({"plain": lambda: None, "residual": 3})
