"""Main effects of a factorial study."""

from __future__ import annotations

from gradlab.analysis.effects import effects_of, is_full_grid
from gradlab.analysis.estimate import Estimate
from gradlab.analysis.measured import Measured
from gradlab.errors import InvalidInput
from gradlab.report.charts import EffectChart
from gradlab.report.figures.base import Figure
from gradlab.spec.numerals import counted
from gradlab.tell.answers import headline_of
from gradlab.tell.findings import say_shares


class Effects(Figure):
    """Mean of every level of every factor over all others, with intervals over seeds; largest effect first."""

    name = "effects"
    rank = 7

    def chart(self, measured: Measured) -> EffectChart | None:
        """Only for a full grid of two factors or more."""
        headline = headline_of(measured)
        if headline is None or headline.at.layer is not None:
            return None
        found = effects_of(measured, headline.metric)
        if found is None:
            if is_full_grid(measured):
                counts = measured.counts()
                lost = f"{counts['diverged']} trials diverged, {counts['failed']} failed"
                raise InvalidInput(f"no seed has a number in every group ({lost})")
            return None

        def undo_logs(value: float | None) -> float | None:
            return 10**value if found.logs and value is not None else value

        def bounds(center: Estimate) -> tuple[float | None, float | None]:
            return (None, None) if center.bounded else (undo_logs(center.low), undo_logs(center.high))

        names = measured.names
        factors = tuple(
            (
                f"{names.axis(main.path)} ({100 * main.share:.0f} %)",
                tuple(
                    (level, undo_logs(e.value) or 0.0, *bounds(e))
                    for level, e in zip(_levels(measured, main.path, main.levels), main.centers, strict=True)
                ),
            )
            for main in found.mains
        )
        pairs = ", ".join(
            f"{' × '.join(names.axis(path) for path in pair.paths)} {100 * pair.share:.0f} %"
            for pair in found.interactions[:3]
        )
        note = f"share of the variance between groups; interactions: {pairs}; {counted(found.seeds, 'seed')}"
        note += f"; {counted(found.left_out, 'seed')} left out because a cell has no number" if found.left_out else ""
        note += f"; {found.diverged} of {found.trials} trials diverged" if found.diverged else ""
        y_label = headline.metric.replace("_", " ")
        finding = f"{say_shares(names, found)}."
        return EffectChart(
            "What each factor does", f"mean {y_label}", "level", factors, found.logs, note=note, finding=finding
        )


def _levels(measured: Measured, path: str, levels: tuple[str, ...]) -> tuple[str, ...]:
    """The levels of a factor in the order of its axis, named for people."""
    values = measured.names.axes.get(path, ())
    return tuple(measured.names.level(path, value) for value in values) if len(values) == len(levels) else levels
