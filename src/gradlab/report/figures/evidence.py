"""How each claim was decided: its evidence against the number of seeds, and the line at which it is settled."""

from __future__ import annotations

import numpy as np

from gradlab.analysis.claims import judge
from gradlab.analysis.claims.verdict import Verdict
from gradlab.analysis.measured import Measured
from gradlab.report.charts import Line, LineChart, Panels
from gradlab.report.figures.base import Figure
from gradlab.words import counted

MOST_CLAIMS = 12
MOST_LOOKS = 12
"""Numbers of seeds at which evidence is computed again."""
FEWEST_SEEDS = 5
WEAKEST, STRONGEST = 1.0, 1e-6
"""Between these p is drawn: beyond, nothing more is decided."""


class Evidence(Figure):
    """p of every claim after so many seeds, one panel each; below the dotted line it is settled."""

    name = "evidence"
    rank = 46

    def chart(self, measured: Measured) -> Panels | None:
        """Of a study whose seeds are added until its claims are settled."""
        if measured.study.until_settled is None:
            return None
        verdicts = judge(measured)
        shown = [index for index, verdict in enumerate(verdicts) if verdict.p is not None and verdict.groups]
        counts = _looks(measured)
        if not shown or len(counts) < 2:
            return None
        courses = [judge(measured.first(count)) for count in counts]
        panels = tuple(
            _panel(measured, index, verdicts[index], counts, [course[index] for course in courses])
            for index in shown[:MOST_CLAIMS]
        )
        unsettled = sum(verdicts[index].outcome == "not settled" for index in shown)
        return Panels(
            "Evidence by seeds",
            "seeds",
            "p",
            panels,
            "claim",
            same_y=False,
            note="p after so many seeds of the claim's groups, valid at every number of them; dotted: the level at "
            "which it is settled now",
            finding=f"{len(shown) - unsettled} of {counted(len(shown), 'claim')} settled, with up to "
            f"{counted(measured.seed_counts[1], 'seed')}.",
            left_out=f"{len(shown) - MOST_CLAIMS} more claims" if len(shown) > MOST_CLAIMS else "",
        )


def _looks(measured: Measured) -> list[int]:
    """Numbers of seeds from the fewest that decide anything to all of them, at about equal ratios."""
    most = measured.seed_counts[1]
    if most <= FEWEST_SEEDS:
        return []
    return sorted({round(count) for count in np.geomspace(FEWEST_SEEDS, most, MOST_LOOKS)})


def _panel(measured: Measured, index: int, verdict: Verdict, counts: list[int], course: list[Verdict]) -> LineChart:
    own = max(len(measured.planned_seeds[group]) for group in verdict.groups)
    points = [(n, min(max(v.p, STRONGEST), WEAKEST)) for n, v in zip(counts, course, strict=True) if v.p and n <= own]
    x, y = np.array(points, float).reshape(-1, 2).T
    line = Line("p", x, y, y, y, 0, markers=True)
    return LineChart(
        f"{index + 1}: {verdict.words.partition(' (')[0]}",
        "seeds",
        "p",
        (line,),
        log_y=True,
        whole_x=True,
        levels=((verdict.level, ""),) if verdict.level else (),
    )
