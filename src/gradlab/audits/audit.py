"""The audit's two answers, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

MARK = "not a controlled comparison"
SAME, BY_FACTOR, UNDECLARED = "same", "differs by the factor", "DIFFERS, undeclared"
ONE_SEED = "One seed was looked at: whether a difference in results is luck, only several seeds can tell."
"""What can be said of any comparison that was looked at but not run."""


@dataclass(frozen=True)
class Row:
    """One trait of every arm, side by side."""

    trait: str
    cells: tuple[str, ...]
    status: str
    """One of the three words above."""


@dataclass(frozen=True, repr=False)
class Audit:
    """1. Same set-up except the declared factor? 2. What can the design not attribute, even so?"""

    study: str
    factor: tuple[str, ...]
    compared: str
    """What was set against what, in words."""
    arms: tuple[str, ...]
    rows: tuple[Row, ...]
    undeclared: tuple[str, ...]
    """Every difference that the factor does not explain, in words."""
    only_difference: str | None
    """In one line, where there is only one."""
    limits: tuple[str, ...]
    """What the design cannot attribute."""
    hashes: Mapping[str, Mapping[str, str]]
    """Arm -> trait -> hash or value, at the first seed."""
    suggestion: Mapping[str, Any] | None = None
    """A study that separates the causes, as a tree; None where nothing is left to separate."""
    cannot_see: tuple[str, ...] = ()
    """What this audit did not look at, one sentence each."""

    @property
    def fair(self) -> bool:
        """Answer 1."""
        return not self.undeclared

    @property
    def mark(self) -> str | None:
        """What reports and figures of an unfair study carry."""
        return None if self.fair else MARK

    @property
    def answer(self) -> str:
        """Answer 1 in one sentence."""
        factor = ", ".join(self.factor) or "none is declared"
        if not self.fair:
            return f"No. Besides the declared factor ({factor}) they differ in: {'; '.join(self.undeclared)}."
        if len(self.arms) < 2:
            return "Yes: there is one group, and nothing to compare it with."
        only = f" The only difference: {self.only_difference}." if self.only_difference else ""
        return f"Yes: the set-ups are the same except for the declared factor ({factor}).{only}"

    def __repr__(self) -> str:
        return f"<Audit of {self.study}: {self.answer[:200]}>"

    def _repr_html_(self) -> str:
        """Both answers and the table, for notebooks."""
        head = "".join(f"<th>{escape(name)}</th>" for name in ("what", *self._columns, ""))
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in (row.trait, *row.cells, row.status)) + "</tr>"
            for row in self.rows
        )
        limits = "".join(f"<li>{escape(limit)}</li>" for limit in self.limits)
        unseen = "".join(f"<li>{escape(sentence)}</li>" for sentence in self.cannot_see)
        return (
            f"<p><b>Same set-up except the declared factor?</b> {escape(self.answer)}</p>"
            f"<p><b>What this design cannot attribute</b></p><ul>{limits}</ul>"
            f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
            + (f"<p><b>What this audit cannot see</b></p><ul>{unseen}</ul>" if unseen else "")
        )

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
            "table": [{"trait": row.trait, "cells": list(row.cells), "status": row.status} for row in self.rows],
            "undeclared": list(self.undeclared),
            "only_difference": self.only_difference,
            "cannot_attribute": list(self.limits),
            "cannot_see": list(self.cannot_see),
            "hashes": {arm: dict(found) for arm, found in self.hashes.items()},
        }

    @staticmethod
    def from_json(tree: Mapping[str, Any]) -> Audit:
        """An audit that was kept with a run."""
        return Audit(
            tree["study"],
            tuple(tree["factor"]),
            tree["compared"],
            tuple(tree["arms"]),
            tuple(Row(row["trait"], tuple(row["cells"]), row["status"]) for row in tree["table"]),
            tuple(tree["undeclared"]),
            tree["only_difference"],
            tuple(tree["cannot_attribute"]),
            tree["hashes"],
            cannot_see=tuple(tree.get("cannot_see", ())),
        )
