"""The write-ups: every claim exists, every confound is shown, and the scoreboard lists the results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from given_numbers import GivenNumbers
from typer.testing import CliRunner

import gradlab
from gradlab import studies
from gradlab.analysis.claims import judge
from gradlab.cli import app
from gradlab.errors import StudyError
from gradlab.report.scoreboard import summarize
from gradlab.spec.claims import list_stated
from gradlab.studies.reproduce import make_scoreboard

RUNNER = CliRunner()


def test_the_write_ups_and_the_gallery_hold_all_built_in_studies_but_those_of_the_theory() -> None:
    held = [study for writeup in (*studies.writeups().values(), studies.gallery()) for study in writeup.studies]
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


def test_every_conclusion_rests_on_claims_that_exist() -> None:
    for writeup in studies.writeups().values():
        for conclusion in writeup.conclusions:
            for study, texts in (*conclusion.rests_on.items(), *conclusion.limited_by.items()):
                assert study in writeup.studies
                assert set(texts) <= {claim.text for claim in gradlab.load(study).study.claims}


def test_every_sentence_of_a_write_up_says_how_it_was_read() -> None:
    silent = [
        (name, claim.text)
        for name in gradlab.list_studies()
        for claim in gradlab.load(name).study.claims
        if claim.origin is not None and claim.note is None
    ]
    assert not silent


def test_no_sentence_is_read_so_that_the_write_up_s_own_numbers_refute_it() -> None:
    """A plateau that its own two numbers leave is read too narrowly. One sentence does contradict its own table."""
    seeds, refuted = 40, []
    names = [name for writeup in studies.writeups().values() for name in writeup.studies]
    for name in (name for name in names if gradlab.load(name).study.published):
        plan, numbers = gradlab.plan(name, seeds=seeds), {}
        for entry in sorted(plan.study.published, key=lambda entry: entry.origin == "code"):  # code has more digits
            for place, stated in zip(entry.at.places(), list_stated(entry.value), strict=True):
                near = stated.value * (1 + 1e-5 * np.linspace(-1, 1, seeds))
                numbers[entry.arms, entry.metric, place.layer] = near.tolist()
        verdicts = judge(GivenNumbers(plan, numbers=numbers))
        refuted += [v.claim.text for v in verdicts if v.claim.origin is not None and v.outcome == "not reproduced"]
    assert refuted == ["They are larger most of all in the early layers (first against last)"]


def test_studies_of_one_write_up_agree_on_what_can_be_compared() -> None:
    """What was published for other data is judged as such in every study that judges it."""
    for writeup in studies.writeups().values():
        held = [gradlab.load(name).study for name in writeup.studies]
        judging = [study for study in held if any(claim.origin for claim in study.claims)]
        assert len({study.other_data for study in judging}) == 1
        printing = [study for study in judging if study.published]
        assert len({study.not_comparable for study in printing}) <= 1


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


def test_the_scoreboard_counts_what_is_not_comparable_apart_and_last(tree: dict[str, Any]) -> None:
    reason = "measured on other data"
    entry = {"metric": "initial_loss", "arms": "plain", "value": "1e9"}
    first = gradlab.run({**tree, "seeds": 3, "published": [entry]}, figures=False)
    second = gradlab.run(
        {**tree, "seeds": 3, "published": [entry, {**entry, "from": "code"}], "not_comparable": reason}, figures=False
    )
    writeup = studies.WriteUp("w", "A write-up", ("one", "two"), (), (), ())
    board = make_scoreboard([writeup], {"one": first, "two": second}, quick=False, command="c")
    assert board.counts["numbers"] == {"not comparable": 2, "not consistent": 1}
    assert board.incomparable == {reason: 2}
    assert board.to_json()["not_comparable"] == {reason: 2}
    said = summarize(board)
    assert "1 published number: 0 of 1 consistent" in said
    assert said.index("0 of 1 consistent") < said.index(f"2 more are not comparable: {reason}")


def test_every_study_of_a_write_up_says_beforehand_how_far_it_may_go() -> None:
    for writeup in studies.writeups().values():
        assert set(writeup.most_seeds) == set(writeup.studies)
        for name, most in writeup.most_seeds.items():
            rule = gradlab.load(name, seeds=gradlab.until_settled(most=most)).study.until_settled
            assert rule is not None
            assert rule.first < rule.most == most


def test_reproduce_until_settled_hands_every_study_its_own_cap() -> None:
    asked = {}

    def run_study(plan: Any, **options: Any) -> Any:
        asked[plan.study.name] = (plan.study.until_settled.most, options["command"], options["budget"])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gradlab.reproduce(["gradflow"], until_settled=True, budget=60.0, run_study=run_study)
    assert asked == {"gradflow": (4000, "gradlab run gradflow --until settled --most-seeds 4000", 60.0)}


def test_a_reduced_budget_settles_nothing() -> None:
    with pytest.raises(gradlab.GradlabError, match="until_settled"):
        gradlab.reproduce(["gradflow"], quick=True, until_settled=True)
