"""A run in two phases: resumed wherever it stopped, the same bits from any number of workers, and in the ledger."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tuned import tuned_tree

import gradlab
from gradlab.runs.store.ledger import read_ledger
from gradlab.trials.outcome import TrialResult

CODE = """
import json, os, pathlib, signal, sys, time
import gradlab, gradlab.runs.coordinator as coordinator
coordinator.COMMIT_SECONDS = 0
came = []
def on_results(results):
    came.extend(results)
    if len(came) >= int(sys.argv[3]):
        while not list(pathlib.Path(sys.argv[2]).glob("results/*/chunk.json")):
            time.sleep(0.002)
        os.kill(os.getpid(), signal.SIGKILL)
gradlab.run(
    json.load(open(sys.argv[1])), out=sys.argv[2], executor="inline", figures=False, on_results=on_results
)
"""


def run(out: Path | None, tree: dict[str, Any] | None = None, **options: Any) -> gradlab.Result:
    return gradlab.run(tree or tuned_tree(), out=out, **{"executor": "inline", "figures": False, **options})


def whole(result: gradlab.Result) -> tuple[Any, ...]:
    """Everything that has to be the same, however a run came about."""
    tuning = result.story.tuning
    assert tuning is not None
    return result.measured.hash, tuning.rows(), result.answer, [verdict.to_json() for verdict in result.verdicts]


@pytest.fixture(scope="module")
def expected() -> tuple[Any, ...]:
    return whole(run(None))


def stop_after(trials: int) -> Any:
    """Presses Ctrl-C once so many trials have come."""
    came: list[TrialResult] = []

    def on_results(results: Any) -> None:
        came.extend(results)
        if len(came) >= trials:
            raise KeyboardInterrupt

    return on_results


@pytest.mark.parametrize("trials", [1, 11, 24, 25, 30])
def test_a_run_interrupted_in_either_phase_or_between_them_resumes_to_the_same_bits(
    trials: int, tmp_path: Path, expected: tuple[Any, ...]
) -> None:
    first = run(tmp_path / "run", on_results=stop_after(trials))
    assert first.stopped
    assert first.unfinished
    state = gradlab.status(tmp_path / "run")
    assert state.done >= trials
    assert state.phase == ("tuning" if state.done < 24 else "judging")
    opened = gradlab.open_run(tmp_path / "run")
    assert opened.unfinished
    assert opened.answer == first.answer
    came: list[TrialResult] = []
    again = run(tmp_path / "run", on_results=came.extend)
    assert len(came) == gradlab.status(tmp_path / "run").planned - state.done
    assert whole(again) == expected
    assert whole(gradlab.open_run(tmp_path / "run")) == expected
    assert gradlab.verify(tmp_path / "run", sample=2, seed=0).ok


def test_an_unfinished_tuning_judges_nothing_and_says_what_is_missing(tmp_path: Path) -> None:
    result = run(tmp_path / "run", on_results=stop_after(5))
    assert len(result.measured.trials) == 0
    left = 24 - gradlab.status(tmp_path / "run").done
    assert 0 < left < 24
    fact = result.story.facts[0]
    assert (fact.code, fact.numbers) == ("tuning_unfinished", {"trials": left, "planned": 24})
    assert {verdict.outcome for verdict in result.verdicts} <= {"not tested", "not settled"}
    assert result.tuning is not None
    assert not result.tuning.chosen.any()
    assert "Tuning by" in (tmp_path / "run" / "report.md").read_text()


def test_kills_in_both_phases_lose_nothing(tmp_path: Path) -> None:
    """The run kills itself after so many results, so that the phase does not hang on the machine's speed."""
    tree = {**tuned_tree(), "seeds": 12}
    (tmp_path / "study.json").write_text(json.dumps(tree))
    seen = []
    for results in (5, 26):
        command = [sys.executable, "-c", CODE, str(tmp_path / "study.json"), str(tmp_path / "run"), str(results)]
        assert subprocess.run(command).returncode == -signal.SIGKILL
        state = gradlab.status(tmp_path / "run")
        seen.append((state.phase, 0 < state.done < state.planned))
    assert seen == [("tuning", True), ("judging", True)]
    assert whole(run(tmp_path / "run", tree)) == whole(run(None, tree))
    assert gradlab.verify(tmp_path / "run", sample=0).ok


def test_a_run_killed_between_the_ledger_and_the_plan_makes_the_same_choice(
    tmp_path: Path, expected: tuple[Any, ...]
) -> None:
    """The choice is in the ledger, the plan on disk is still pending."""
    run(tmp_path / "run", on_results=stop_after(23))
    pending = (tmp_path / "run" / "plan.json").read_bytes()
    run(tmp_path / "run", on_results=stop_after(3))
    assert (tmp_path / "run" / "plan.json").read_bytes() != pending
    (tmp_path / "run" / "plan.json").write_bytes(pending)
    assert whole(run(tmp_path / "run")) == expected
    ledger = read_ledger(tmp_path / "run")
    assert ledger is not None
    assert len(ledger.of("tuned")) == 1


@pytest.mark.parametrize(("executor", "workers"), [("pool", 1), ("pool", 3), ("processes", 2)])
def test_the_same_bits_from_any_number_of_workers(
    executor: str, workers: int, tmp_path: Path, expected: tuple[Any, ...]
) -> None:
    assert whole(run(tmp_path / "run", executor=executor, workers=workers)) == expected


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "run"
    run(folder)
    return folder


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "run"))


def test_the_ledger_freezes_the_values_before_and_records_the_choice_after_the_tuning(made: Path) -> None:
    ledger = read_ledger(made)
    assert ledger is not None
    (plan,), (tuned,) = ledger.of("plan"), ledger.of("tuned")
    assert len(plan.data["tuning"]["groups"]) == 12
    assert plan.data["fields"]["tune"]["by"] == "final_loss"
    assert set(tuned.data["chosen"]) == {"plain", "residual"}
    trials = ledger.of("trials")
    before = [row[0] for entry in trials if entry.number < tuned.number for row in entry.data["trials"]]
    after = [row[0] for entry in trials if entry.number > tuned.number for row in entry.data["trials"]]
    plan_now = gradlab.open_run(made).measured.plan
    assert set(before) == {trial.id for trial in plan_now.tuning.plan.trials}  # type: ignore[attr-defined]
    assert set(before).isdisjoint(after)


def test_verify_checks_the_choice_and_trains_tuning_trials_again(made: Path) -> None:
    found = gradlab.verify(made, sample=None)
    assert found.ok, found.findings
    checks = {check.name: check for check in found.checks}
    assert "24 tuning trials; " in checks["tuning"].summary
    planned = gradlab.status(made).planned
    assert f"{planned} of {planned} trials" in checks["retrained"].summary


def test_verify_finds_an_arm_that_is_not_at_the_value_its_tuning_chose(copy: Path) -> None:
    from gradlab.runs.store.files import read_sealed
    from gradlab.runs.store.folder import RunFolder

    tree = read_sealed(copy / "plan.json")
    assert tree is not None
    tree["tuning"]["chosen"]["plain"] = "plain, lr=0.0001"
    RunFolder(copy).write_sealed("plan.json", tree)
    facts = [fact for check in gradlab.verify(copy, sample=0).checks for fact in check.facts]
    assert {("other_choice", "plain"), ("settings_edited", "plain")} <= {(fact.code, fact.subject) for fact in facts}


def test_added_seeds_keep_the_choice_and_run_no_tuning_trial_again(copy: Path) -> None:
    before = gradlab.open_run(copy)
    came: list[TrialResult] = []
    after = run(copy, seeds=4, on_results=came.extend)
    assert {result.trial.seed for result in came} == {2, 3}
    assert after.measured.plan.tuning.chosen == before.measured.plan.tuning.chosen  # type: ignore[attr-defined]
    (fact,) = after.story.facts
    assert (fact.code, fact.numbers["added"], fact.numbers["seen"]) == ("seeds_added", 2, 2)
    assert gradlab.verify(copy, sample=0).ok
    assert whole(after) == whole(run(None, seeds=4))


def test_a_wider_range_is_another_study_that_reuses_what_it_shares_and_says_so(copy: Path) -> None:
    wider = tuned_tree(**{"train.lr": {"log": [1e-5, 1e1], "points": 7}})
    came: list[TrialResult] = []
    result = run(copy, wider, on_results=came.extend)
    tuning = [found for found in came if found.trial.seed < 0]
    assert {found.trial.config.train.lr for found in tuning} == {1e-5}
    assert ("field_changed", "tune") in {(fact.code, fact.subject) for fact in result.story.facts}
    assert gradlab.verify(copy, sample=0).ok


def test_a_tuning_trial_that_fails_stops_before_judging_and_is_retried(tmp_path: Path) -> None:
    part = tmp_path / "moody.py"
    part.write_text(
        "from pathlib import Path\n"
        "from gradlab.optim.optimizers import Sgd\n\n\n"
        "class Moody(Sgd):\n"
        '    """Fails while a file is there."""\n\n'
        '    name = "moody"\n\n'
        "    def update(self, *arguments):\n"
        f"        if Path({str(tmp_path / 'storm')!r}).exists():\n"
        '            raise RuntimeError("not today")\n'
        "        return super().update(*arguments)\n"
    )
    tree = tuned_tree()
    tree["parts"] = [str(part)]
    tree["base"]["train"]["optimizer"] = "moody"
    (tmp_path / "storm").touch()
    first = run(tmp_path / "run", tree)
    assert first.story.tuning is not None
    assert first.story.tuning.failed == 24
    assert len(first.measured.trials) == 0
    assert any("not today (tuning)" in line for line in first.story.failures)
    (tmp_path / "storm").unlink()
    again = run(tmp_path / "run", tree)
    assert not again.unfinished
    assert whole(gradlab.open_run(tmp_path / "run")) == whole(again)  # without running the part
    assert gradlab.verify(tmp_path / "run", sample=1, seed=0, trust=True).ok


def test_force_starts_the_tuning_over_beside_the_old_run(copy: Path) -> None:
    came: list[TrialResult] = []
    run(copy, force=True, on_results=came.extend)
    assert sum(result.trial.seed < 0 for result in came) == 24
    assert (copy.parent / "run~1").is_dir()


def test_a_result_in_memory_is_saved_with_its_tuning(tmp_path: Path, expected: tuple[Any, ...]) -> None:
    run(None).save(tmp_path / "saved")
    assert whole(gradlab.open_run(tmp_path / "saved")) == expected
    assert gradlab.verify(tmp_path / "saved", sample=1, seed=0).ok
