"""Users' training code: seeded, called once per arm and seed, stored, judged, reported."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import random
import signal
import threading
from functools import partial
from pathlib import Path
from time import sleep
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import gradlab
from gradlab.analysis.claims import judge
from gradlab.analysis.comparison import best_of
from gradlab.audits.audit import ONE_SEED, Audit
from gradlab.cli import app
from gradlab.errors import GradlabError, InvalidInput, StudyError
from gradlab.spec.claims import Claim
from gradlab.tell.findings import findings

RUNNER = CliRunner()
ARMS = {"slow": {"rate": 0.1}, "fast": {"rate": 0.3}}
CALLS: list[tuple[float, int]] = []


def train(rate: float, seed: int) -> dict[str, Any]:
    CALLS.append((rate, seed))
    noise = np.random.normal(0, 0.01)
    curve = [float(np.exp(-rate * step)) for step in range(1, 21)]
    return {"loss": curve, "miss": curve[-1] * (1 + noise), "drawn": random.random() + np.random.random()}


def broken(rate: float, seed: int) -> dict[str, float]:
    if rate > 0.2 and seed == 1:
        raise ValueError("it exploded")
    return {"miss": rate + seed / 10}


@pytest.fixture(autouse=True)
def _no_calls() -> None:
    CALLS.clear()


def test_every_arm_is_called_with_every_seed_and_the_same_draws(tmp_path: Path) -> None:
    claim = {"text": "fast is better", "metric": "miss", "arms": ["fast", "slow"], "op": "<"}
    wrong = {"text": "slow is better", "metric": "miss", "arms": ["slow", "fast"], "op": "<"}
    out = tmp_path / "run"
    result = gradlab.compare(train, ARMS, 5, metric="miss", claims=[claim, wrong], question="Which rate?", out=out)
    assert sorted(CALLS) == sorted((arm["rate"], seed) for arm in ARMS.values() for seed in range(5))
    drawn = result.trials().pivot(index="seed", columns="group", values="drawn")
    assert (drawn["slow"] == drawn["fast"]).all()
    assert drawn["slow"].nunique() == 5
    assert [verdict.outcome for verdict in result.verdicts] == ["reproduced", "not reproduced"]
    assert result.answer.startswith("Miss is ")
    assert ": 0.135 higher" in result.answer
    assert {"training_loss", "by_seed"} <= set(result.charts)
    assert result.study.factor == ("rate",)
    text = (out / "report.md").read_text()
    assert text.startswith("# Which rate?")
    assert "Not audited" in text
    assert "def train" in (out / "code.py").read_text()
    assert (out / "report.html").read_text().count("Which rate?") >= 2
    assert len(result.curves().query("metric == 'loss'")) == 2 * 5 * 20


def noisy(rate: float, seed: int) -> dict[str, float]:
    return {"score": rate + np.random.default_rng([seed, int(10 * rate)]).normal(0, 0.2)}


def test_the_callers_random_state_is_restored() -> None:
    random.seed(5)
    np.random.seed(5)
    expected = random.random(), np.random.random()
    random.seed(5)
    np.random.seed(5)
    gradlab.compare(train, ARMS, 1)
    assert (random.random(), np.random.random()) == expected


def test_finished_trials_are_not_called_again_until_something_changes(tmp_path: Path) -> None:
    plain: Any = {"out": tmp_path / "run", "figures": False}
    first = gradlab.compare(train, ARMS, 2, **plain)
    CALLS.clear()
    again = gradlab.compare(train, ARMS, 2, **plain, metric="miss")
    assert CALLS == []
    assert again.measured.hash == first.measured.hash
    more = gradlab.compare(train, {**ARMS, "faster": {"rate": 0.5}}, 3, **plain)
    assert sorted(CALLS) == [(0.1, 2), (0.3, 2), (0.5, 0), (0.5, 1), (0.5, 2)]
    assert not more.unfinished
    CALLS.clear()
    gradlab.compare(train, ARMS, 2, **plain, force=True)
    assert len(CALLS) == 4
    assert (tmp_path / "run~1").is_dir()


def test_a_comparison_adds_seeds_until_its_claim_is_settled_and_checks_out(tmp_path: Path) -> None:
    claim = {"text": "fast beats slow", "metric": "score", "arms": ["fast", "slow"], "op": ">"}
    options: Any = {"claims": [claim], "metric": "score", "better": "higher", "out": tmp_path, "figures": False}
    result = gradlab.compare(noisy, ARMS, gradlab.until_settled(most=60, first=5), **options)
    assert [verdict.outcome for verdict in result.verdicts] == ["reproduced"]
    assert 5 < len(result.measured.planned_seeds["fast"]) < 60
    assert gradlab.status(tmp_path).finished
    assert gradlab.verify(tmp_path, call=noisy, arms=ARMS, sample=None).ok


def test_a_saved_comparison_is_an_ordinary_run(tmp_path: Path) -> None:
    out = tmp_path / "run"
    result = gradlab.compare(train, ARMS, 3, metric="miss", out=out)
    opened = gradlab.open_run(out)
    assert opened.answer == result.answer
    assert opened.measured.hash == result.measured.hash
    assert gradlab.status(out).finished
    for words in (["report", str(out)], ["status", str(out)], ["export", str(out), "--to", "csv"]):
        done = RUNNER.invoke(app(), words)
        assert done.exit_code == 0, done.output
    beside = RUNNER.invoke(app(), ["report", str(out), "--against", str(out), "--json"])
    assert json.loads(beside.stdout)["same_bits"] == 6
    refused = RUNNER.invoke(app(), ["report", str(out), "--pair", "slow", "fast"])
    assert isinstance(refused.exception, StudyError)
    assert "gradlab.watch" in str(refused.exception)


def test_an_error_is_stored_with_its_location_and_other_trials_continue() -> None:
    result = gradlab.compare(broken, ARMS, 3, metric="miss")
    assert result.measured.counts() == {"done": 5, "failed": 1, "diverged": 0}
    (error,) = result.measured.errors()
    assert error.startswith("ValueError: it exploded (line ")
    assert "test_compare.py, broken" in error
    assert len(gradlab.compare(broken, ARMS, 3, metric="miss", fail_fast=True).measured.trials) < 6


def test_a_failed_trial_is_retried(tmp_path: Path) -> None:
    def flaky(arm: str, seed: int) -> float:
        if seed == 1 and not os.environ.get("FIXED"):
            raise RuntimeError("not yet")
        return float(len(arm) + seed)

    first = gradlab.compare(flaky, ["a", "bb"], 2, out=tmp_path / "run", figures=False)
    assert first.measured.counts()["failed"] == 2
    os.environ["FIXED"] = "yes"
    try:
        second = gradlab.compare(flaky, ["a", "bb"], 2, out=tmp_path / "run", figures=False)
    finally:
        del os.environ["FIXED"]
    assert second.measured.counts() == {"done": 4, "failed": 0, "diverged": 0}


def test_ctrl_c_aborts_the_current_trial_and_keeps_the_finished_ones(tmp_path: Path) -> None:
    def long(arm: str, seed: int) -> float:
        if seed == 1:
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
            sleep(30)
        return float(seed)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
    try:
        result = gradlab.compare(long, ["a", "b"], 3, out=tmp_path / "run", figures=False)
    finally:
        signal.signal(signal.SIGINT, before)
    assert result.stopped
    assert result.unfinished
    assert result.measured.counts()["done"] == 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gradlab.compare(train, {"a": {"rte": 1}}), r"would be called as train\(rte=1, seed=0\)"),
        (lambda: gradlab.compare(lambda rate: rate, {"a": {"rate": 1}}), "seed"),
        (lambda: gradlab.compare("train", ARMS), "must be a training function"),  # type: ignore[arg-type]
        (lambda: gradlab.compare(train, "slow"), "arms must be names"),
        (lambda: gradlab.compare(train, {}), "arms"),
        (lambda: gradlab.compare(train, ARMS, 0), "seeds"),
        (lambda: gradlab.compare(train, ARMS, 2.5), "seeds"),  # type: ignore[arg-type]
        (lambda: gradlab.compare(train, 5), "arms must be names"),  # type: ignore[arg-type]
        (lambda: gradlab.compare(train, ["a", "a"]), "twice"),
        (lambda: gradlab.compare(train, ARMS, claims=5), "claims"),  # type: ignore[arg-type]
        (lambda: gradlab.compare(train, ARMS, [1, 1]), "seed"),
        (lambda: gradlab.compare(train, {"a": {"rate": object()}}), "cannot be recognized"),
        (
            lambda: gradlab.compare(
                train, ARMS, claims=[{"text": "x", "metric": "m", "arms": "slw", "op": "<", "value": 1}]
            ),
            "did you mean 'slow'",
        ),
        (lambda: gradlab.compare(train, ARMS, claims=[{"text": "x", "metrc": "m"}]), "metrc"),
    ],
)
def test_an_invalid_call_is_refused_before_the_function_is_called(call: Any, message: str) -> None:
    with pytest.raises((InvalidInput, StudyError, GradlabError), match=message):
        call()
    assert CALLS == []


def test_a_value_that_cannot_be_stored_stops_the_run() -> None:
    def returns_nonsense(rate: float, seed: int) -> dict[str, Any]:
        CALLS.append((rate, seed))
        return {"word": "good"}

    with pytest.raises(InvalidInput, match="under 'word'"):
        gradlab.compare(returns_nonsense, ARMS, 3)
    assert len(CALLS) == 1


def test_a_misspelled_metric_is_reported_after_the_first_trial_which_is_kept(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"the function does not return 'mis'; .* did you mean 'miss'"):
        gradlab.compare(train, ARMS, 3, metric="mis", out=tmp_path / "run", figures=False)
    assert len(CALLS) == 1
    CALLS.clear()  # a list that the function appends to is part of what it uses
    gradlab.compare(train, ARMS, 3, metric="miss", out=tmp_path / "run", figures=False)
    assert len(CALLS) == 5


def test_arms_of_any_kind_are_distinguished() -> None:
    class Trainer:
        def __init__(self, rate: float) -> None:
            self.rate = rate

        def rated(self) -> float:
            return self.rate

    def call(make: Any, seed: int) -> float:
        return float(make() + seed)

    pairs: list[tuple[Any, Any]] = [
        (lambda: 1, lambda: 2),
        (Trainer(1).rated, Trainer(2).rated),
        (partial(np.sum, np.arange(3000)), partial(np.sum, np.arange(3000) + 1)),
    ]
    for first, second in pairs:
        result = gradlab.compare(call, {"one": {"make": first}, "two": {"make": second}}, 2)
        one, two = (list(result.measured.values("score", arm).values()) for arm in ("one", "two"))
        assert one != two


def test_seeds_may_be_numpy_integers_and_settings_infinite(tmp_path: Path) -> None:
    out = tmp_path / "run"
    arms = {"a": {"rate": math.inf}, "b": {"rate": np.float32(0.5)}}
    gradlab.compare(train, arms, np.arange(3), out=out, figures=False)  # type: ignore[arg-type]
    assert gradlab.open_run(out).study.trial_seeds == (0, 1, 2)


def test_a_function_that_modifies_its_settings_does_not_affect_other_calls() -> None:
    def pops(options: dict[str, float], seed: int) -> float:
        return options.pop("rate") + seed

    result = gradlab.compare(pops, {"a": {"options": {"rate": 1.0}}}, 3)
    assert result.measured.counts()["failed"] == 0


def test_a_function_that_catches_ctrl_c_has_not_finished(tmp_path: Path) -> None:
    def catches(arm: str, seed: int) -> float:
        if seed == 1:
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
            try:
                sleep(30)
            except KeyboardInterrupt:
                return -1.0
        return float(seed)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        result = gradlab.compare(catches, ["a", "b"], 3, out=tmp_path / "run", figures=False)
    finally:
        signal.signal(signal.SIGINT, before)
    assert result.stopped
    assert list(result.trials()["score"]) == [0.0, 0.0]


def test_metric_names_with_slashes_are_kept() -> None:
    def named(arm: str, seed: int) -> dict[str, float]:
        return {"train/loss": 1.0, "error": 0.5, "seconds": 2.0}

    result = gradlab.compare(named, ["a", "b"], 2)
    assert {"train.loss", "returned_error", "returned_seconds"} <= set(result.measured.metrics)


def test_the_answer_gives_the_reason_if_every_trial_fails() -> None:
    def fails(arm: str, seed: int) -> float:
        raise ValueError("no data " + 1000 * "x")

    result = gradlab.compare(fails, ["a", "b"], 2)
    assert "ValueError: no data" in result.answer
    assert len(result.answer) < 1000


def test_an_earlier_audit_is_kept_only_for_the_same_arms(tmp_path: Path) -> None:
    audit = Audit("x", ("f",), "nothing", ("slow", "fast"), (), (ONE_SEED,), None, {})
    gradlab.compare(train, ARMS, 2, out=tmp_path / "run", audit=audit, figures=False)
    again = gradlab.compare(train, ARMS, 2, out=tmp_path / "run", figures=False)
    assert again.audit == gradlab.open_run(tmp_path / "run").audit
    assert again.audit is not None
    other = gradlab.compare(train, {**ARMS, "c": {"rate": 1}}, 2, out=tmp_path / "run", figures=False)
    assert other.audit is None
    assert gradlab.open_run(tmp_path / "run").audit is None


def of(metric: str, **arms: list[float]) -> gradlab.Result:
    """A result with these values by seed."""

    def given(values: list[float], seed: int) -> dict[str, float]:
        return {metric: values[seed]}

    count = len(next(iter(arms.values())))
    return gradlab.compare(given, {name: {"values": values} for name, values in arms.items()}, count)


@pytest.mark.parametrize("metric", ["solved", "accuracy", "test_acc"])
def test_zeros_and_ones_are_summarized_by_their_shares(metric: str) -> None:
    answer = of(metric, a=[0, 0, 1, 1, 0, 1, 0, 0, 0, 1], b=[1, 1, 1, 1, 1, 1, 1, 1, 0, 1]).answer
    assert "0.9" in answer
    assert "0.4" in answer
    assert " 0.5 " in answer


def test_counts_with_many_zeros_have_no_ratio() -> None:
    answer = of("failures", a=[0, 0, 0, 0, 1], b=[5, 6, 4, 5, 7]).answer
    assert "5 lower (95 %: " in answer or "5 higher (95 %: " in answer


def test_the_better_direction_is_inferred_only_from_known_names() -> None:
    for metric, better in (("mse", "good"), ("iou", "bad")):
        best = best_of(of(metric, bad=[2, 2.1, 1.9], good=[1, 1.1, 0.9]).measured, metric)
        assert best is not None
        assert best.group == better
    assert findings(of("wobble", bad=[2, 2.1, 1.9], good=[1, 1.1, 0.9]).measured) == ""


def test_nan_counts_as_worse_if_the_direction_is_known_and_settles_nothing_otherwise() -> None:
    nan = math.nan
    for metric, outcome in (("iou", "reproduced"), ("wobble", "not settled")):
        result = of(metric, good=[0.8, 0.7, 0.9, 0.8, 0.7] * 2, broken=[nan] * 10)
        claim = {"text": "good wins", "metric": metric, "arms": ["good", "broken"], "op": ">"}
        study = result.study.model_copy(update={"claims": (Claim.model_validate(claim),)})  # type: ignore[attr-defined]
        plan = result.measured.plan
        plan = dataclasses.replace(plan, resolved=dataclasses.replace(plan.resolved, study=study))
        (verdict,) = judge(dataclasses.replace(result.measured, plan=plan))
        assert verdict.outcome == outcome


def test_a_claim_about_a_number_that_was_not_returned_is_not_tested() -> None:
    claim = {"text": "x", "metric": "nothing", "arms": "slow", "op": "<", "value": 1}
    (verdict,) = gradlab.compare(train, ARMS, 2, claims=[claim]).verdicts
    assert verdict.outcome == "not tested"


FILE = """
ARMS = {"one": {"power": 1}, "two": {"power": 2}}

def train(power, seed):
    return {"accuracy": 0.5 + 0.1 * power + 0.001 * seed, "curve": [1.0, 2.0 * power]}
"""


def test_the_command_compares_saves_and_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(FILE)
    (tmp_path / "claims.yaml").write_text("- {text: two wins, metric: accuracy, arms: [one, two], op: '>'}\n")
    done = RUNNER.invoke(
        app(), ["compare", "own.py:train", "--seeds", "5", "--json", "--claims", "claims.yaml", "--check"]
    )
    assert done.exit_code == 4, done.output
    printed = json.loads(done.stdout)
    assert printed["trials"]["done"] == 10
    assert printed["claims"][0]["verdict"] == "not reproduced"
    shown = RUNNER.invoke(app(), ["compare", "own.py:train", "--seeds", "5"])
    assert shown.exit_code == 0
    assert " 0.702 for two and 0.602 for one: 0.1 higher (95 %: " in shown.stdout.replace("\n", " ")
    assert (tmp_path / "runs/train/figures/returned_curves.png").is_file()
    named = RUNNER.invoke(app(), ["compare", "own.py:train", "--arm", "third: {power: 3}", "--arm", "one: {power: 1}"])
    assert named.exit_code == 0, named.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["own.py:trian"], "did you mean 'train'"),
        (["nowhere.py:train"], "no such file"),
        (["own.py"], "module:name"),
        (["own.py:train", "--arm", "[1, 2]"], "--arm"),
        (["own.py:train", "--arm", "a: {p: 1}"], "would be called as train"),
        (["own.py:train", "--claims", "nowhere.yaml"], "--claims"),
    ],
)
def test_a_command_line_mistake_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(FILE)
    done = RUNNER.invoke(app(), ["compare", *words])
    assert isinstance(done.exception, GradlabError)
    assert done.exception.exit_code == 2
    assert message in str(done.exception)


@pytest.mark.parametrize("name", ["layers.json", "audit.json"])
def test_a_comparison_resumes_although_a_secondary_file_is_damaged(name: str, tmp_path: Path) -> None:
    def train(rate: float, seed: int) -> dict[str, float]:
        return {"loss": rate + seed}

    arms = {"a": {"rate": 1.0}, "b": {"rate": 2.0}}
    gradlab.compare(train, arms, seeds=2, out=tmp_path / "run", figures=False)
    (tmp_path / "run" / name).write_text("{torn")
    result = gradlab.compare(train, arms, seeds=3, out=tmp_path / "run", figures=False)
    assert len(result.trials()) == 6
    assert gradlab.open_run(tmp_path / "run").notes == ()


@pytest.mark.parametrize("size", [5e-324, 1e-300, 1e-170, 1e170, 1e300])
@pytest.mark.parametrize("metric", ["score", "made_up", "loss"])
def test_numbers_whose_squares_are_none_are_judged_like_any_other(metric: str, size: float) -> None:
    def train(k: int, seed: int) -> dict[str, float]:
        return {metric: size * (k + seed / 10)}

    claims = [{"text": "t", "metric": metric, "arms": ["b", "a"], "op": ">"}]
    result = gradlab.compare(
        train, {"a": {"k": 1}, "b": {"k": 2}}, seeds=5, metric=metric, claims=claims, figures=False
    )
    (verdict,) = result.verdicts
    assert verdict.outcome == ("not settled" if size < 1e-320 else "reproduced")
    assert result.report()
