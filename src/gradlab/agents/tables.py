"""Rows of a run's tables as an agent gets them: claims with verdicts, numbers, traits of the arms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gradlab.agents.answers import Row, quoted
from gradlab.audits.audit import Audit
from gradlab.audits.compare import Row as Trait
from gradlab.errors import InvalidInput, nearest, shortened
from gradlab.report.result import Result
from gradlab.runs.store.project import ProjectRun
from gradlab.spec.base import plain_json


def claim_rows(run: ProjectRun, result: Result) -> list[Row]:
    """A row per claim: the verdict of its study, whether it is settled over the project, and what was measured."""
    rows: list[Row] = []
    for claim, verdict in zip(run.batch.claims, result.verdicts, strict=True):
        row: Row = {
            "claim_id": claim.id, "text": quoted(claim.text), "verdict": verdict.words, "reason": verdict.reason,
            "measured": verdict.measured, "p": verdict.p, "level": verdict.level,
            "settled_over_project": claim.settled or "no",
        }  # fmt: skip
        for number, reading in enumerate(verdict.readings):
            estimate = reading.estimate
            place = f"{number}." if number else ""
            row |= {f"{place}of": reading.label, f"{place}value": estimate.value, f"{place}low": estimate.low,
                    f"{place}high": estimate.high, f"{place}seeds": estimate.n}  # fmt: skip
        rows.append(row)
    return rows


def table_rows(
    run: ProjectRun, result: Result, name: str, where: Mapping[str, Any], limit: int
) -> tuple[list[Row], int]:
    """The rows of a table in which every named column has the value, and how many there are."""
    if name == "claims":
        rows = claim_rows(run, result)
        _check_columns(where, {key for row in rows for key in row})
        found = [row for row in rows if all(str(row.get(key)) == str(value) for key, value in where.items())]
        return found[:limit], len(found)
    import pyarrow as pa
    import pyarrow.compute as pc

    table = result.arrow(name)
    _check_columns(where, set(table.column_names))
    for column, value in where.items():
        table = table.filter(pc.equal(table[column].cast(pa.string()), str(value)))
    rows = plain_json(table.slice(0, limit).to_pylist())
    return [{key: value for key, value in row.items() if value is not None} for row in rows], table.num_rows


def _check_columns(where: Mapping[str, Any], columns: set[str]) -> None:
    for column in where:
        if column not in columns:
            known = sorted(columns)
            raise InvalidInput(f"there is no column {shortened(column)}{nearest(column, known)}; there are {known}")


def differing_row(audit: Audit, trait: Trait) -> Row:
    """A trait of every arm, side by side."""
    cells = (
        zip(audit.arms, trait.cells, strict=True) if len(audit.arms) == len(trait.cells) else [("all", trait.cells[0])]
    )
    return {"trait": trait.trait, "status": trait.status.text, **{arm: cell[:200] for arm, cell in cells}}
