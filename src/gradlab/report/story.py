"""All that a report tells: Markdown and the page write the same story down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gradlab.analysis.claims.verdict import Verdict
from gradlab.analysis.measured import Measured
from gradlab.audits.audit import Audit
from gradlab.report.charts import Chart
from gradlab.report.inside.explanation import Diagnosis
from gradlab.report.inside.film import Film


@dataclass(frozen=True)
class Story:
    """All that a report tells, whichever way it is written down."""

    measured: Measured
    audit: Audit | None
    verdicts: Sequence[Verdict]
    charts: Mapping[str, Chart]
    missing: Sequence[str]
    environment: Mapping[str, Any]
    command: str
    notes: Sequence[str]
    film: Film | None = None
    diagnoses: Sequence[Diagnosis] = ()
    layer_names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Group -> what its layers are called, where they have names."""
