"""The story of a result: computed once, told the same everywhere, kept with the run."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import gradlab
from gradlab.cli import show
from gradlab.report import story as stories
from gradlab.report.charts import LineChart
from gradlab.report.markdown import relative_links

CLAIM = {"text": "The plain arm ends higher", "metric": "final_loss", "arms": ["plain", "residual"], "op": ">"}


def test_every_teller_reads_the_same_story_and_computes_nothing_again(
    tree: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed = Counter[str]()

    def count(name: str) -> None:
        real = getattr(stories, name)

        def counted(*arguments: Any) -> Any:
            computed[name] += 1
            return real(*arguments)

        monkeypatch.setattr(stories, name, counted)

    names = ("answer", "findings", "make_pictures", "make_tables", "describe_methods", "make_explorer")
    for name in names:
        count(name)
    result = gradlab.run({**tree, "claims": [CLAIM]}, out=tmp_path / "run")
    result.rewrite()
    result.report()
    result._repr_html_()
    result.export("latex")
    result.to_json()
    show.result(result, tmp_path / "run")
    assert computed == dict.fromkeys(names, 1)


def test_the_answer_alone_makes_no_figures(tree: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    result = gradlab.run(tree)
    monkeypatch.delattr(stories, "make_pictures")
    assert result.answer.endswith(" seeds).") or "settled" in result.answer
    assert "residual" in repr(result)


def test_a_claim_does_not_link_to_a_figure_that_could_not_be_drawn(
    tree: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Any, ax: Any) -> None:
        raise ValueError("no ink")

    tree |= {"claims": [CLAIM], "figures": ["training_loss", "gradient_heat_map"]}
    monkeypatch.setattr(LineChart, "draw_marks", fail)
    result = gradlab.run(tree, out=tmp_path / "run")
    assert result.verdicts[0].figure == "training_loss"
    text = (tmp_path / "run/report.md").read_text()
    assert "training_loss.png" not in relative_links(text)
    assert "training\\_loss: ValueError: no ink" in text
    assert 'href="#figure-training_loss"' not in (tmp_path / "run/report.html").read_text()


def test_a_saved_result_keeps_its_audit_and_its_micro_world(tree: dict[str, Any], tmp_path: Path) -> None:
    tree["base"]["model"]["depth"] = 5
    tree["arms"]["residual"]["model.init.scale"] = 0.5
    first = gradlab.run({**tree, "figures": ["training_loss"]}, out=tmp_path / "first")
    assert first.recording is not None
    gradlab.open_run(tmp_path / "first").save(tmp_path / "second")
    second = gradlab.open_run(tmp_path / "second")
    assert first.audit is not None
    assert second.audit is not None
    assert not second.audit.fair
    assert second.audit.to_json() == first.audit.to_json()
    assert second.recording is not None
    assert second.recording.arms == first.recording.arms
    assert second.story.facts[0].code == "saved_afterwards"  # its ledger begins when it is saved
    assert [table.rows for table in second.story.tables] == [table.rows for table in first.story.tables]


def test_without_figures_the_report_has_none_and_the_result_still_draws(tree: dict[str, Any], tmp_path: Path) -> None:
    result = gradlab.run({**tree, "claims": [CLAIM]}, out=tmp_path / "run", figures=False)
    assert relative_links((tmp_path / "run/report.md").read_text()) == []
    assert result.figure("training_loss").axes
