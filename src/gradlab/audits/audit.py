"""The result of an audit: two answers, the table behind them, and what the audit cannot see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from html import escape
from typing import Any

MARK = "not a controlled comparison"
ONE_SEED = "One seed was looked at: whether a difference in results is luck, only several seeds can tell."
"""What holds for any comparison that was audited but not run."""


class Status(Enum):
    """How the arms compare in one trait."""

    SAME = "same"
    BY_FACTOR = "by_factor"
    UNDECLARED = "undeclared"
    FOLLOWS = "follows"
    TUNED = "tuned"

    @property
    def text(self) -> str:
        """The words shown in tables."""
        return TEXTS[self]

    @staticmethod
    def parse(stored: str) -> Status:
        """The status in a stored audit; audits before version 2 stored the words of the table."""
        older = {text: status for status, text in TEXTS.items()}
        return older[stored] if stored in older else Status(stored)


SAME, BY_FACTOR, UNDECLARED, FOLLOWS = Status.SAME, Status.BY_FACTOR, Status.UNDECLARED, Status.FOLLOWS
TUNED = Status.TUNED
TEXTS = {
    SAME: "same",
    BY_FACTOR: "differs by the factor",
    UNDECLARED: "DIFFERS, undeclared",
    FOLLOWS: "differs as a result",
    TUNED: "differs by the tuning",
}


@dataclass(frozen=True)
class Row:
    """One trait of every arm, side by side."""

    trait: str
    cells: tuple[str, ...]
    status: Status


@dataclass(frozen=True, repr=False)
class Audit:
    """1. Same set-up except the declared factor? 2. What can the design not attribute, even so?"""

    study: str
    factor: tuple[str, ...]
    compared: str
    """What was compared with what, in words."""
    arms: tuple[str, ...]
    rows: tuple[Row, ...]
    undeclared: tuple[str, ...]
    """Every difference that the factor does not explain, in words."""
    only_difference: str | None
    """The difference in one line, if there is exactly one."""
    limits: tuple[str, ...]
    """What the design cannot attribute."""
    hashes: Mapping[str, Mapping[str, str]]
    """Arm -> trait -> hash or value, at the first seed."""
    suggestion: Mapping[str, Any] | None = None
    """A study that separates the causes, as a tree; None if there is nothing left to separate."""
    cannot_see: tuple[str, ...] = ()
    """What this audit cannot see, one sentence each."""
    varied: tuple[str, ...] = ()
    """The settings below the declared factor in which the arms differ."""
    identical: bool = False
    """Whether all arms are equal in everything that was compared."""
    caveats: tuple[str, ...] = ()
    """The limits that the audit found, one clause each."""
    tuned: str = ""
    """What each arm was tuned in and with which budget, as a sentence; empty if the study tunes nothing."""

    @property
    def fair(self) -> bool:
        """Answer 1."""
        return not self.undeclared

    @property
    def mark(self) -> str | None:
        """The warning on reports and figures of an unfair study."""
        return None if self.fair else MARK

    @property
    def answer(self) -> str:
        """Answer 1 in words."""
        factor = ", ".join(self.factor) or "none is declared"
        if not self.fair:
            return f"No. Besides the declared factor ({factor}) they differ in: {'; '.join(self.undeclared)}."
        if len(self.arms) < 2:
            return "Yes: there is one group, and nothing to compare it with."
        if self.identical and not self.tuned:
            return "Yes, but nothing varies: the arms are identical in everything that was compared."
        besides = " and the tuning" if self.tuned else ""
        sentences = [f"Yes: the set-ups are the same except for the declared factor ({factor}){besides}."]
        if self.only_difference:
            sentences.append(
                f"{'Besides the tuning, the' if self.tuned else 'The'} only difference: {self.only_difference}."
            )
        elif len(self.varied) > 1:
            sentences.append(f"{len(self.varied)} settings vary: {', '.join(self.varied)}.")
        return " ".join([*sentences, *([self.tuned] if self.tuned else [])])

    def __repr__(self) -> str:
        return f"<Audit of {self.study}: {self.answer[:200]}>"

    def _repr_html_(self) -> str:
        """Both answers, the table and what was not seen, for notebooks."""
        head = "".join(f"<th>{escape(name)}</th>" for name in ("what", *self._columns, ""))
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in (row.trait, *row.cells, row.status.text)) + "</tr>"
            for row in self.rows
        )
        html = (
            f"<p><b>Same set-up except the declared factor?</b> {escape(self.answer)}</p>"
            f"<p><b>What this design cannot attribute</b></p>{_html_list(self.limits)}"
            f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        )
        return html + f"<p><b>What this audit cannot see</b></p>{_html_list(self.cannot_see)}" * bool(self.cannot_see)

    @property
    def _columns(self) -> tuple[str, ...]:
        return self.arms if self.rows and len(self.rows[0].cells) == len(self.arms) else ("all groups",)

    def to_json(self) -> dict[str, Any]:
        """Both answers, the table and the hashes."""
        return {
            "study": self.study,
            "same_setup_except_factor": self.fair,
            "answer": self.answer,
            "factor": list(self.factor),
            "compared": self.compared,
            "arms": list(self.arms),
            "table": [{"trait": row.trait, "cells": list(row.cells), "status": row.status.value} for row in self.rows],
            "undeclared": list(self.undeclared),
            "only_difference": self.only_difference,
            "varied": list(self.varied),
            "identical": self.identical,
            "tuned": self.tuned or None,
            "cannot_attribute": list(self.limits),
            "caveats": list(self.caveats),
            "cannot_see": list(self.cannot_see),
            "hashes": {arm: dict(found) for arm, found in self.hashes.items()},
        }

    @staticmethod
    def from_json(tree: Mapping[str, Any]) -> Audit:
        """An audit that was stored with a run, also by an older version."""
        return Audit(
            tree["study"],
            tuple(tree["factor"]),
            tree["compared"],
            tuple(tree["arms"]),
            tuple(Row(row["trait"], tuple(row["cells"]), Status.parse(row["status"])) for row in tree["table"]),
            tuple(tree["undeclared"]),
            tree["only_difference"],
            tuple(tree["cannot_attribute"]),
            tree["hashes"],
            cannot_see=tuple(tree.get("cannot_see", ())),
            varied=tuple(tree.get("varied", ())),
            identical=tree.get("identical", False),
            caveats=tuple(tree.get("caveats", ())),
            tuned=tree.get("tuned") or "",
        )


def _html_list(sentences: tuple[str, ...]) -> str:
    return f"<ul>{''.join(f'<li>{escape(sentence)}</li>' for sentence in sentences)}</ul>"
