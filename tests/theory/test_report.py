"""Theory beside measurement: figures, tables, findings, claims, the audit, and the command."""

from __future__ import annotations

import io
import json
import re
from contextlib import redirect_stdout
from dataclasses import replace
from typing import Any

import pytest
from commands import gradlab as command

import gradlab
from gradlab.analysis.measured import Measured
from gradlab.analysis.theory import agreements, predictions_of, theory_sentence
from gradlab.cli import show
from gradlab.errors import StudyError
from gradlab.report.charts import LineChart
from gradlab.report.inside.views import expect, make_views
from gradlab.report.story import make_explorer
from gradlab.report.tables import tabulate_layers
from gradlab.running.inside import record_inside

LOWERED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
CLAIM = {"text": "as theory says", "metric": "delta_l2", "arms": "plain", "at": {"layer": [1, 3], "step": "start"}}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADLAB_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


def study(**more: Any) -> dict[str, Any]:
    return {
        "question": "q",
        "factor": "model.skip",
        "base": {
            "data": {"task": "identity", "dim": 24, "samples": 64},
            "model": {"depth": 4, "width": 24, "init": {"kind": "he_normal", "scale": 0.3}},
            "train": {"loss": "mse", "optimizer": "sgd", "lr": 1e-3, "batch": 32, "steps": 2},
        },
        "arms": {"plain": {}, "residual": {"model.skip": "identity"}},
        "seeds": 6,
        "measure": {"layers": ["start", "end"], "probe": {"batch": "fresh", "size": 16}},
        **more,
    }


def test_a_run_is_held_against_theory() -> None:
    result = gradlab.run(study(), figures=False)
    measured = result.measured
    assert set(predictions_of(measured)) == {"plain", "residual"}
    own = {(one.group, one.measure): one for one in agreements(measured)}
    delta = own["plain", "delta_l2"]
    assert 0.7 < delta.ratio < 1.4
    assert delta.low <= delta.ratio <= delta.high
    chart = result.chart("signal_by_layer")
    assert isinstance(chart, LineChart)
    assert [line.group for line in chart.theory] == [line.group for line in chart.lines]
    assert all((line.low <= line.y).all() and (line.y <= line.high).all() for line in chart.theory)
    after = result.chart("gradient_by_layer")
    assert isinstance(after, LineChart)
    assert after.theory == ()  # theory is about networks before training


def test_a_claim_can_be_that_theory_is_right() -> None:
    claims = [
        {**CLAIM, "op": "ratio", "value": "theory", "within": 1.0},
        {**CLAIM, "text": "not so", "op": "ratio", "value": [50, 100]},
    ]
    verdicts = gradlab.run(study(claims=claims, seeds=12), figures=False).verdicts
    assert verdicts[0].outcome == "reproduced"
    assert verdicts[1].outcome == "not reproduced"


@pytest.mark.parametrize(
    ("claim", "words"),
    [
        ({**CLAIM, "op": ">", "value": "theory"}, "near or ratio"),
        ({**CLAIM, "op": "ratio", "value": "theory", "at": {"layer": [1, 3], "step": "end"}}, "before training"),
    ],
)
def test_a_claim_against_theory_has_to_be_one_that_theory_can_answer(claim: dict[str, Any], words: str) -> None:
    with pytest.raises(StudyError, match=words):
        gradlab.plan(study(claims=[claim]))


def test_predict_tells_every_group_in_words_and_numbers() -> None:
    found = gradlab.predict(study())
    assert found["plain"].phase.word == "ordered"
    assert any("δ loses" in sentence for sentence in found.sentences("plain"))
    assert len(found.table("plain").rows) == 5
    assert set(found.frame()["group"]) == {"plain", "residual"}
    assert len(found.chart().panels) == 2
    assert "plain" in repr(found)


def test_predict_prints_one_json_object(tmp_path: Any) -> None:
    ended = command("predict", "identity", "--groups", "plain", "--json", cwd=tmp_path)
    assert ended.returncode == 0
    said = json.loads(ended.stdout)
    assert said["groups"]["plain"]["phase"]["word"] == "ordered"


def test_predict_refuses_what_it_cannot_draw_or_find(tmp_path: Any) -> None:
    assert command("predict", "identity", "--figure", "x.gif", cwd=tmp_path).returncode == 2
    assert command("predict", "nothing-of-the-kind", cwd=tmp_path).returncode == 2
    assert command("predict", "identity", "--groups", "nobody", cwd=tmp_path).returncode == 2
    ended = command("predict", "identity", "--set", "model.depth=none at all", cwd=tmp_path)
    assert ended.returncode == 2
    assert "depth" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("columns", [80, 120])
def test_the_table_of_a_prediction_fits_the_terminal_without_folding_a_number(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    terminal = Terminal()
    found = gradlab.predict(study())
    with redirect_stdout(terminal):
        show.predicted(found, layers=True)
    printed = re.sub(r"\x1b\[\d*m", "", terminal.getvalue()).splitlines()
    assert max(map(len, printed)) <= columns
    row = next(line for line in printed if line.startswith("│ 1 "))
    assert found.table("plain").rows[0][1] in row
    assert sum("Theory of δ" in line for line in printed) == (2 if columns == 80 else 0)


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_the_page_gets_what_theory_expects_at_initialization_beside_what_was_measured() -> None:
    result = gradlab.run(study(), figures=False)
    found = make_explorer(result.measured)
    assert found is not None
    assert found["has_theory"]
    shown = {measure["name"]: measure for measure in found["measures"]}
    predicted = gradlab.predict(study())
    for name in ("delta_l2", "grad_l2", "activation_std.pre"):
        for group, theory in zip(found["groups"], shown[name]["theory"], strict=True):
            for layer, center in enumerate(theory["center"], 1):
                assert center == pytest.approx(predicted[group].forecast(name, layer).center, rel=1e-3)
            assert all(
                low <= center <= high
                for low, center, high in zip(theory["low"], theory["center"], theory["high"], strict=True)
            )
    assert shown["update_ratio"]["theory"] == [None, None]
    late = make_explorer(gradlab.run(study(measure={"layers": ["end"]}), figures=False).measured)
    assert late is not None
    assert not late["has_theory"]


@pytest.mark.parametrize("skip", ["identity", "pre_activation", "add_then_activate"])
def test_the_first_step_of_the_micro_world_has_theory_beside_it(skip: str) -> None:
    raw = study(arms={"plain": {}, "residual": {"model.skip": skip}}, seeds=2)
    raw["base"]["model"] |= {"depth": 5, "width": 48, "init": {"kind": "he_normal", "scale": 0.7}}
    raw["base"]["data"]["dim"] = 48
    raw["measure"]["probe"]["size"] = 200  # more than an inspection looks at
    result = gradlab.run(raw, figures=False)
    recording = record_inside(result.measured, ("plain", "residual"))
    assert recording is not None
    configs = {planned.group.name: planned.config for planned in result.measured.plan.groups}
    views = {view.name: view for view in make_views(recording, expect(result.measured, configs))}
    for panel in views["gradient_flow"].panels:
        assert [line.arm for line in panel.theory] == [0, 1]
        for theory, measured in zip(panel.theory, panel.lines, strict=True):
            ratios = [m / t for m, t in zip(measured.values[0], theory.center, strict=True) if m and t]
            assert len(ratios) >= 4
            assert all(0.5 < ratio < 2 for ratio in ratios), (panel.title, skip, ratios)
    assert not any(panel.theory for view in make_views(recording) for panel in view.panels)


def test_the_layer_table_has_a_column_of_theory_before_training_and_none_after() -> None:
    raw = study(headline={"metric": "delta_l2", "at": {"layer": 1, "step": "start"}})
    result = gradlab.run(raw, figures=False)
    table = tabulate_layers(result.measured)
    assert table is not None
    assert table.header[3].endswith("(theory)")
    assert table.header[6].endswith("(theory)")
    expected = gradlab.predict(raw)["plain"].forecast("delta_l2", 1)
    assert expected is not None
    assert float(table.rows[0][3].split(" [")[0].replace(" × 10⁻", "e-").translate(LOWERED)) == pytest.approx(
        expected.center, rel=0.01
    )
    assert table.rows[0][6].endswith("*")  # simulated
    assert "95 %" in table.notes[0]
    after = study(headline={"metric": "delta_l2", "at": {"layer": 1, "step": "end"}})
    later = tabulate_layers(gradlab.run(after, figures=False).measured)
    assert later is not None
    assert not any("theory" in column for column in later.header)


@pytest.mark.parametrize(
    ("depth", "width", "words"),
    [(4, 32, "discovery"), (33, 32, "33 layers"), (4, 16, "16 units")],
)
def test_a_deviation_is_a_discovery_only_where_the_band_should_hold(depth: int, width: int, words: str) -> None:
    raw = study(seeds=3)
    raw["base"]["model"] |= {"depth": depth, "width": width}
    raw["base"]["data"]["dim"] = width
    raw["base"]["train"]["steps"] = 0
    measured = gradlab.run(raw, figures=False).measured
    off = [replace(one, ratio=4.0, outside=tuple(range(1, one.layers + 1))) for one in agreements(measured)]
    seen = Measured(measured.plan, measured.records)
    seen.remember("agreements", lambda _: off)
    assert words in theory_sentence(seen)
    assert ("discovery" in theory_sentence(seen)) == (words == "discovery")
