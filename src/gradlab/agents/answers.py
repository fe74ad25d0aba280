"""What the tools answer: small models with a bound on their size. Texts that people or agents wrote are quoted."""

from __future__ import annotations

import json
from typing import Any, Literal

from pydantic import BaseModel

from gradlab.spec.base import plain_json
from gradlab.words import visible

MOST_CHARACTERS, MOST_TEXT = 12_000, 1_200
"""Of a whole answer, and of one text in it."""
DIGITS = 6
"""Of a number in an answer."""
Row = dict[str, str | float | int | bool | None]


class Answer(BaseModel):
    """What every answer has."""

    ledger: str = ""
    """Head hash of the project's ledger, and what it counts."""
    truncated: bool = False
    """Whether something was left out; ask for more with `limit`, or for less with `where` and `query`."""


class Listing(Answer):
    """Studies, runs, or entries of the ledger."""

    items: list[Row]
    total: int


class Checked(Answer):
    """A study before anything is run."""

    valid: bool
    problems: str = ""
    question: str = ""
    groups: list[str] = []
    trials: int = 0
    seconds: float | None = None
    unsettleable: str = ""
    explored_before: int = 0


class Predicted(Answer):
    """What theory expects, by group."""

    expects: dict[str, list[str]]


class Audited(Answer):
    """Whether a comparison is fair."""

    fair: bool
    passed: bool
    answer: str
    differs: list[Row]
    cannot_attribute: list[str]
    cannot_see: list[str]


class Explored(Answer):
    """Numbers of an exploration; there is no verdict."""

    exploration_id: str
    state: Literal["finished", "stopped", "failed"]
    numbers: list[Row]
    figures: list[str]
    error: str = ""
    verdict: None = None


class FrozenClaims(Answer):
    """Claims that were frozen."""

    claims: list[Row]
    claim_ids: list[str]
    hash: str
    question: str
    standing: str


class Run(Answer):
    """A run and its verdicts so far."""

    run_id: str
    state: Literal["starting", "running", "finished", "interrupted", "deleted"]
    percent: float
    seconds_left: float | None = None
    claim_ids: list[str]
    verdicts: list[Row] = []
    facts: list[str] = []
    error: str = ""
    folder: str = ""
    next: str = ""


class Table(Answer):
    """Rows of a table."""

    rows: list[Row]
    total: int


class Told(Answer):
    """The answer to a question about a run, with the place that it comes from."""

    answer: str
    source: list[str]
    rows: list[Row] = []


class Diagnosed(Answer):
    """What the probe found in a model."""

    findings: list[Row]


class Report(Answer):
    """A report that was written."""

    path: str
    text: str


class Failure(BaseModel):
    """An error: a code for programs, what is wrong, and what to do."""

    code: str
    message: str
    do: str


def quoted(text: object, most: int = 300) -> str:
    """A text that somebody wrote, as data: on one line, invisible characters spelled out, in quotation marks."""
    line = " ".join(visible(str(text)).replace("“", '"').replace("”", '"').split())
    return f"“{line if len(line) <= most else line[: most - 1] + '…'}”"


def bounded(answer: Answer) -> dict[str, Any]:
    """An answer as plain data within the bound; what is longest is shortened first."""
    whole = plain_json(answer.model_dump(mode="json"))
    fields = type(answer).model_fields
    kept = {key: value for key, value in whole.items() if value not in ("", [], {}) or fields[key].is_required()}
    tree: dict[str, Any] = {key: _cut(value) for key, value in kept.items()}
    if isinstance(answer, Report):
        tree["text"] = visible(answer.text)[: MOST_CHARACTERS - 2000]
        tree["truncated"] = tree["truncated"] or len(answer.text) > MOST_CHARACTERS - 2000
    while len(text := json.dumps(tree, ensure_ascii=False)) > MOST_CHARACTERS:
        lists = {key: value for key, value in tree.items() if isinstance(value, list | dict) and len(value) > 1}
        if not lists:
            break
        longest = max(lists, key=lambda key: len(json.dumps(lists[key])))
        value, half = lists[longest], len(lists[longest]) // 2
        tree[longest] = value[:half] if isinstance(value, list) else dict(list(value.items())[:half])
        tree["truncated"] = True
    assert len(text) < 4 * MOST_CHARACTERS
    return tree


def _cut(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, str):
        text = visible(value)
        return text if len(text) <= MOST_TEXT else text[: MOST_TEXT - 1] + "…"
    if isinstance(value, list):
        return [_cut(item) for item in value]
    if isinstance(value, dict):
        return {visible(str(key))[:200]: _cut(item) for key, item in value.items()}
    return value
