"""Metrics say what they are; only one function reads it off a name."""

from __future__ import annotations

import re
from math import inf
from pathlib import Path

import pytest

import gradlab
from gradlab.parts import BUILT_IN
from gradlab.probes import Probe
from gradlab.spec.metric import TRAITS, Metric, Metrics, infer
from gradlab.trials.metrics import EVALUATED, METRICS

SOURCE = Path(gradlab.__file__).parent


@pytest.mark.parametrize(
    ("name", "kind", "better", "scale"),
    [
        ("final_loss", "loss", "lower", "log"),
        ("test_accuracy", "accuracy", "higher", "linear"),
        ("val.acc", "accuracy", "higher", "linear"),
        ("bleu", "score", "higher", "linear"),
        ("rmse", "error", "lower", "log"),
        ("fit_seconds", "time", "lower", "log"),
        ("steps_to_target", "steps", "lower", "log"),
        ("grad_l2", "size", "none", "log"),
        ("activation_std.pre", "size", "none", "log"),
        ("activation_mean.pre", "signed", "none", "linear"),
        ("collapsed", "flag", "none", "linear"),
        ("temperature", "other", "none", "linear"),
    ],
)
def test_an_undeclared_name_is_inferred(name: str, kind: str, better: str, scale: str) -> None:
    found = infer(name)
    assert (found.kind, found.better, found.scale) == (kind, better, scale)


def test_one_metric_over_another_is_a_quotient_on_logs() -> None:
    found = Metrics()["final_loss/initial_loss"]
    assert (found.kind, found.on_logs, found.worst) == ("quotient", True, None)


def test_what_is_declared_comes_before_what_a_name_suggests() -> None:
    declared = Metric.of("shape_score", "error")
    assert Metrics({"shape_score": declared})["shape_score"].better == "lower"
    assert Metrics()["shape_score"].better == "higher"


def test_the_worst_is_on_the_bad_side_and_unknown_where_nothing_is_better() -> None:
    assert infer("test_loss").worst == inf
    assert infer("accuracy").worst == -inf
    assert infer("grad_l2").worst == inf  # a size that is not finite is larger than any
    assert infer("temperature").worst is None
    assert infer("steps_to_target").worst_if_missing == inf
    assert infer("test_loss").worst_if_missing is None


def test_the_recorder_declares_every_number_it_gives() -> None:
    assert set(EVALUATED) <= set(METRICS)
    assert METRICS["test_accuracy"].bounds == (0, 1)
    assert METRICS["validation_loss"].split == "validation"
    assert all(name == metric.name for name, metric in METRICS.items())


def test_every_probe_declares_the_kind_of_every_measure() -> None:
    for name in BUILT_IN.names("probe"):
        probe = BUILT_IN.get("probe", name)
        assert issubclass(probe, Probe)
        assert set(probe.kinds) == set(probe.measures)
        assert [metric.name for metric in probe.metrics()] == list(probe.measures)
        assert all(metric.kind in TRAITS for metric in probe.metrics())


def test_nothing_else_decides_by_the_end_of_a_metrics_name() -> None:
    """`metric.endswith("loss")` and its like stand in `spec/metric.py` only."""
    words = r"(accuracy|loss|seconds|to_target|grad(?!lab)|delta|activation|share|epoch)"
    decision = re.compile(rf"(endswith|startswith)\(\(?[^)]*[\"']_?{words}|(HIGHER|LOWER|SKEWED|SIZES)\b")
    found = [
        f"{path.relative_to(SOURCE)}:{number}"
        for path in sorted(SOURCE.rglob("*.py"))
        if path.relative_to(SOURCE).as_posix() != "spec/metric.py"
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if decision.search(line) or re.search(r"metric(\.metric)?\.(ends|starts)with", line)
    ]
    assert found == []
