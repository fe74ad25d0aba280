"""The sentences about a run's history, each from the event or the history that it tells."""

from __future__ import annotations

from typing import Any

import pytest

from gradlab.runs.store.history import Event, History
from gradlab.runs.store.ledger import Entry
from gradlab.tell.history import history_json, tell_history

CLAIM = {"text": "The skip ends lower", "metric": "final_loss", "arms": ["residual", "plain"], "op": "<"}
LOW = {"text": "Low", "metric": "final_loss", "arms": "plain", "op": "<", "value": 2}


def event(what: str, looks: int = 1, **detail: Any) -> Event:
    return Event(what, "2026-11-18 09:00", 8, looks, detail)


SENTENCES = [
    (
        event("claim changed", claim=1, was=CLAIM, **{"is": {**CLAIM, "op": ">"}}),
        "Claim 1 (“The skip ends lower”) was changed after results were known: op was <, is >.",
    ),
    (
        event("claim changed", claim=1, was=CLAIM, **{"is": {**CLAIM, "text": "The skip is better"}}),
        "Claim 1 was changed after results were known: text was “The skip ends lower”, is “The skip is better”.",
    ),
    (
        event("claim removed", claim=1, was=CLAIM),
        "A claim was removed after results were known: “The skip ends lower” (final_loss, residual < plain).",
    ),
    (
        event("claim added", claim=2, **{"is": LOW}),
        "Claim 2 was added after results were known: “Low” (final_loss, plain < 2).",
    ),
    (
        event("seeds added", added=[2, 3], seen=2, was=[0, 1], **{"is": [0, 1, 2, 3]}),
        "2 seeds were added after 2 had been seen; verdicts had been looked at once before.",
    ),
    (
        event("seeds removed", removed=[2, 3], lost_trials=4),
        "2 seeds were removed after results were known (2, 3); 4 finished trials of them are not in this report.",
    ),
    (
        event("seeds removed", removed=[2], lost_trials=1),
        "1 seed was removed after results were known (2); 1 finished trial of it is not in this report.",
    ),
    (
        event("settings changed", group="residual", was={"model.skip": "identity"}, **{"is": {"train.lr": 0.02}}),
        "The settings of residual were changed after results were known: model.skip was identity, is not given; "
        "train.lr was not given, is 0.02.",
    ),
    (
        event("settings changed", group="plain", was={}, **{"is": {}}),
        "The settings of plain were changed after results were known: what all groups share.",
    ),
    (
        event("group renamed", was="plain", **{"is": "none"}),
        "The group plain was renamed to none after results were known.",
    ),
    (event("groups added", added=["a", "b"]), "2 groups were added after results were known: a, b."),
    (
        event("groups removed", removed=["plain"], lost_trials=2),
        "1 group was removed after results were known: plain (2 finished trials).",
    ),
    (
        event("field changed", field="tune", was={"train.lr": [1, 2]}, **{"is": None}),
        "The study's tune was changed after results were known: it was train.lr: [1, 2], it is not given.",
    ),
    (
        event("labels changed", was={"plain": "good"}, **{"is": {"plain": "bad"}}),
        "Labels were changed after results were known: plain was good, is bad.",
    ),
    (
        event("trials removed", trials=[f"plain · seed {seed}" for seed in range(7)]),
        "7 trials were removed from the folder and run again (2026-11-18 09:00): plain · seed 0, plain · seed 1, "
        "plain · seed 2, plain · seed 3, plain · seed 4 and 2 more.",
    ),
    (
        event("chunk altered", chunk="000001", trials=["plain · seed 0"]),
        "Chunk 000001 was altered after it was committed: results differ for plain · seed 0.",
    ),
    (
        event("chunk altered", chunk="000001", trials=[]),
        "Chunk 000001 was altered after it was committed: the same trials, other bytes.",
    ),
    (
        event("chunk damaged", chunk="000001", kept="damaged/000001", trials=["a", "b"]),
        "Chunk 000001 was damaged and is kept in damaged/000001; its 2 trials were run again (2026-11-18 09:00).",
    ),
    (event("ledger cut", entries=1), "1 entry at the end of the ledger had been removed (2026-11-18 09:00)."),
    (event("ledger cut", entries=2), "2 entries at the end of the ledger had been removed (2026-11-18 09:00)."),
    (
        event("ledger repaired"),
        "The last line of the ledger was torn, by a process that died, and repaired (2026-11-18 09:00).",
    ),
]


@pytest.mark.parametrize(("given", "sentence"), SENTENCES, ids=lambda value: getattr(value, "what", ""))
def test_an_event_is_told_in_one_sentence_with_its_code(given: Event, sentence: str) -> None:
    (fact,) = tell_history(History((begun(),), happened=(given,)))
    assert fact.words == sentence
    assert fact.code == given.what.replace(" ", "_")
    assert fact.numbers["looks"] == given.looks


def begun(**data: Any) -> Entry:
    return Entry(1, "2026-11-18 08:00", "begun", data, "", "")


HISTORIES = [
    (
        History(missing=True),
        "ledger_missing",
        "The ledger of this run is missing: whether claims or seeds were changed is not known.",
    ),
    (History(), "no_ledger", "Claims not frozen: this run was made before gradlab kept a ledger."),
    (
        History((begun(unknown=True),)),
        "ledger_removed",
        "Claims not frozen: the ledger was removed and begins at 2026-11-18 08:00; what was changed or looked at "
        "earlier is not known.",
    ),
    (
        History((begun(attempt=2),)),
        "earlier_attempts",
        "An earlier attempt was moved aside and is no longer there.",
    ),
    (History((begun(),), beside=("run~1",)), "earlier_attempts", "An earlier attempt lies in run~1."),
    (
        History((begun(attempt=4),), beside=("run~1", "run~2")),
        "earlier_attempts",
        "3 earlier attempts were moved aside, only the last is reported here: 2 lie in run~1, run~2; 1 is no longer "
        "there.",
    ),
    (
        History((begun(),), picked=(3, 17)),
        "seeds_picked",
        "Seeds were listed by hand (3, 17), not taken as 0 to 1.",
    ),
    (
        History((begun(),), rerun=("plain · seed 0",)),
        "rerun_differs",
        "1 trial run twice gave different results: plain · seed 0.",
    ),
    (
        History(
            (begun(),),
            changes=(
                event("seeds added", added=[2], seen=2, was=[0, 1], **{"is": [0, 1, 2]}),
                event("seeds added", 2, added=[3, 4], seen=3, was=[0, 1, 2], **{"is": [0, 1, 2, 3, 4]}),
            ),
        ),
        "seeds_added",
        "Seeds were added 2 times after results were known (2 → 3 → 5); verdicts had been looked at 2 times before the "
        "last.",
    ),
]


@pytest.mark.parametrize(("history", "code", "sentence"), HISTORIES, ids=[code for _, code, _ in HISTORIES])
def test_a_history_is_told_in_one_sentence_with_its_code(history: History, code: str, sentence: str) -> None:
    (fact,) = tell_history(history)
    assert (fact.code, fact.words) == (code, sentence)
    tree = history_json(history)
    assert tree["remarks"] == [sentence]
    assert tree["facts"][0]["code"] == code


def test_a_change_before_any_result_is_no_remark() -> None:
    change = Event("labels changed", "", 0, 0, {"was": {}, "is": {"a": "b"}})
    assert tell_history(History((begun(),), changes=(change,))) == ()
