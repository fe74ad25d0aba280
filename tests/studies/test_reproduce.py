"""The write-ups: every claim exists, every confound is shown, and the scoreboard lists the results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import gradlab
from gradlab import studies
from gradlab.cli import app
from gradlab.errors import StudyError

RUNNER = CliRunner()


def test_the_four_write_ups_hold_all_built_in_studies_but_those_of_the_theory() -> None:
    held = [study for writeup in studies.writeups().values() for study in writeup.studies]
    theory = ["batch-norm-explodes", "depth-of-information", "width-correction"]
    assert sorted([*held, *theory]) == gradlab.list_studies()
    assert studies.topics()["Theory beside measurement"] == theory
    assert list(studies.writeups()) == ["depth", "scaling", "identity", "gradflow"]


@pytest.mark.parametrize("name", gradlab.list_studies())
def test_every_study_has_claims_and_no_claim_is_duplicated(name: str) -> None:
    texts = [claim.text for claim in gradlab.load(name).study.claims]
    assert texts
    assert len(set(texts)) == len(texts)


def test_every_confound_is_shown_by_claims_that_exist() -> None:
    for writeup in studies.writeups().values():
        assert writeup.confounds
        for confound in writeup.confounds:
            for study, texts in confound.shown.items():
                assert study in writeup.studies
                assert set(texts) <= {claim.text for claim in gradlab.load(study).study.claims}


def test_stored_verdicts_match_the_current_claims() -> None:
    kept = studies.kept_verdicts()
    assert kept.keys() <= set(gradlab.list_studies())
    assert len(kept) >= 19
    for name in kept:
        keys = {studies.claim_key(claim) for claim in gradlab.load(name).study.claims}
        stored = {key for key, found in kept[name].items() if "claim" in found}
        assert keys == stored, f"{name}: run scripts/make_results.py"


@pytest.mark.shipped
def test_reproduce_writes_a_scoreboard_and_exits_with_0_although_one_audit_fails(tmp_path: Path) -> None:
    done = RUNNER.invoke(app(), ["reproduce", "gradflow", "identity", "--quick", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "NO, as expected" in done.output
    page = (tmp_path / "reproduce-quick/scoreboard.md").read_text()
    assert "full run, kept: " in page
    assert "What this design cannot attribute" in page
    for link in ("../identity-quick/report.md", "../gradflow-quick/report.md"):
        assert f"]({link})" in page
        assert (tmp_path / "reproduce-quick" / link).is_file()
    board = json.loads((tmp_path / "reproduce-quick/scoreboard.json").read_text())
    by_text = {claim["text"]: claim for study in board["studies"] for claim in study["claims"]}
    early = by_text["They are larger most of all in the early layers (first against last)"]
    assert early["verdict"] == "not reproduced"
    assert by_text["The residual net ends at a lower loss"]["full_run"]["verdict"] == "reproduced"
    assert set(board["counts"]) == {"sentences", "numbers", "statements"}
    assert all(judged["rests_on"] and judged["stands"] for judged in board["conclusions"])
    assert all(shown["shown_by"] for shown in board["confounds"])


def test_an_unknown_write_up_is_refused_with_the_nearest() -> None:
    with pytest.raises(StudyError, match="did you mean 'identity'"):
        gradlab.reproduce(["identty"], quick=True)
