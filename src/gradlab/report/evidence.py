"""Which figure shows what a claim is about."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from gradlab.analysis.claims.verdict import Verdict
from gradlab.parts import Catalog
from gradlab.report.figures.base import Figure
from gradlab.spec.claims import Claim


def link_figures(verdicts: Iterable[Verdict], drawn: Sequence[str], catalog: Catalog) -> tuple[Verdict, ...]:
    """The verdicts, each with the figure of the report that shows it."""
    return tuple(replace(verdict, figure=find_figure(verdict.claim, drawn, catalog)) for verdict in verdicts)


def find_figure(claim: Claim, drawn: Sequence[str], catalog: Catalog) -> str | None:
    """The figure that the claim names, or the first drawn one that shows its metric at the claim's step."""
    if claim.figure in drawn:
        return claim.figure
    if claim.metric is None:
        return None
    metrics = [metric.strip() for metric in claim.metric.split("/")]
    wanted = [f"{metric}@{claim.at.step or 'end'}" for metric in metrics] + metrics
    for metric in wanted:
        for name in drawn:
            figure: type[Figure] = catalog.get("figure", name)  # type: ignore[assignment]
            if metric in figure.shows:
                return name
    return None
