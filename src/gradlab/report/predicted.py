"""What theory says of a study before it is run: tables, a figure, sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradlab.errors import InvalidInput, offer
from gradlab.plans.plan import Plan
from gradlab.report.charts import Line, LineChart, Panels
from gradlab.report.pictures import choose
from gradlab.report.tables import Table
from gradlab.spec.naming import Names
from gradlab.tell.predictions import conclude, tell
from gradlab.theory.predicting import predict_groups
from gradlab.theory.prediction import Forecast, Kind, Prediction, to_json
from gradlab.words import written

TABULATED = ("activation_std.pre", "delta_l2", "grad_l2")
PROMISES: dict[Kind, str] = {
    "exact": "exact (the limit with its correction for the width)",
    "order": "an order of magnitude (a factor of 2)",
    "simulated": "simulated (initial networks were drawn)",
}
MOST_LINES = 8
"""Groups in one figure."""


@dataclass(frozen=True)
class Predicted:
    """The predictions for a study's groups, by name."""

    plan: Plan
    groups: Mapping[str, Prediction]

    @property
    def names(self) -> Names:
        """What people call the groups."""
        conditions = [planned.group for planned in self.plan.groups]
        study = self.plan.study
        return Names(conditions, self.plan.catalog, arms=study.arms is not None, labels=study.labels)

    def __getitem__(self, group: str) -> Prediction:
        if group not in self.groups:
            raise InvalidInput(f"{group!r} is not a group of this study{offer(group, list(self.groups))}")
        return self.groups[group]

    def sentences(self, group: str) -> list[str]:
        """What theory says of a group, in words."""
        return tell(self[group])

    @property
    def conclusion(self) -> str:
        """Which groups should train, and why."""
        return conclude(self.groups, {group: self.names.group(group) for group in self.groups})

    def frame(self) -> Any:
        """Every forecast as a pandas table: group, measure, layer, center, low, high, kind."""
        import pandas as pd

        rows = [
            (group, measure, layer, one.center, one.low, one.high, one.kind)
            for group, prediction in self.groups.items()
            for measure, by in prediction.forecasts.items()
            for layer, one in sorted(by.items())
        ]
        return pd.DataFrame(rows, columns=["group", "measure", "layer", "center", "low", "high", "kind"])

    def table(self, group: str) -> Table:
        """One row per layer: moments and overlap of the signal, δ with its band, the gradient."""
        signal, delta = self.halves(group)
        rows = tuple((*left, *right[1:]) for left, right in zip(signal.rows, delta.rows, strict=True))
        header = (*signal.header, *delta.header[1:])
        numbers = tuple(place for place, name in enumerate(header) if name not in ("layer", "kind"))
        return Table(f"Theory: {self.names.group(group)}", header, rows, delta.notes, numbers)

    def halves(self, group: str) -> tuple[Table, Table]:
        """The table as two: the signal on its way forward, and δ and the gradient on their way back."""
        prediction, name = self[group], self.names.group(group)
        forward: list[tuple[str, ...]] = []
        back: list[tuple[str, ...]] = []
        for layer in prediction.layers:
            number = str(layer.number)
            pre, delta, gradient = (prediction.forecast(one, layer.number) for one in TABULATED)
            moments = (_cell(one) for one in (layer.second_moment, layer.mean, layer.overlap))
            forward.append((number, *moments, _center(pre)))
            band = ("–", "–") if delta is None else (written(delta.low, 2), written(delta.high, 2))
            back.append((number, _center(delta), *band, _center(gradient), layer.kind))
        header: tuple[str, ...] = ("layer", "‖δ‖", "95 % from", "95 % to", "‖dL/dW‖", "kind")
        notes: tuple[str, ...] = ()
        if len(kinds := {layer.kind for layer in prediction.layers}) == 1:  # a sentence takes less room than a column
            header, back = header[:-1], [row[:-1] for row in back]
            notes = (f"‖δ‖ is {PROMISES[kinds.pop()]} in every layer.",)
        return (
            Table(
                f"Theory of the signal: {name}",
                ("layer", "E x²", "E x", "overlap", "std of Wx+b"),
                tuple(forward),
                numbers=(1, 2, 3, 4),
            ),
            Table(f"Theory of δ: {name}", header, tuple(back), notes, (1, 2, 3, 4)),
        )

    def chart(self) -> Panels:
        """δ and signal by layer with their bands, for the first groups."""
        panels = tuple(
            LineChart(
                title, "layer", label,
                tuple(line for place, group in enumerate(self.shown) if (line := self._line(group, measure, place))),
                log_y=True, whole_x=True,
            )
            for measure, title, label in (
                ("delta_l2", "Backprop signal", "‖δ‖₂"),
                ("activation_std.post", "Signal", "std behind the nonlinearity"),
            )
        )  # fmt: skip
        more = len(self.groups) - len(self.shown)
        left_out = f"{more} more groups are not shown; name them with --groups." if more else ""
        note = "theory at initialization; line: geometric mean, band: 95 % of seeds"
        title = f"What theory expects of {self.plan.study.name}" if self.plan.study.name else "What theory expects"
        return Panels(
            title, "layer", "size", panels, same_x=True, same_y=False, own_labels=True, note=note, left_out=left_out
        )

    @property
    def shown(self) -> tuple[str, ...]:
        """The groups in the figure: the first ones."""
        return tuple(self.groups)[:MOST_LINES]

    def figure(self, *, size: str = "page") -> Any:
        """The chart, drawn by matplotlib."""
        from gradlab.report.draw import draw_one

        return draw_one(self.chart(), size=size)

    def _line(self, group: str, measure: str, place: int) -> Line | None:
        by = {layer: one for layer, one in self.groups[group].forecasts.get(measure, {}).items() if one.center > 0}
        if not by:
            return None
        x = np.array(sorted(by), float)
        y, low, high = (np.array([getattr(by[int(layer)], edge) for layer in x]) for edge in ("center", "low", "high"))
        return Line(self.names.group(group), x, y, low, high, place, markers=True)

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain data."""
        return {
            "study": self.plan.study.name,
            "groups": {
                group: {**to_json(prediction), "sentences": tell(prediction)}
                for group, prediction in self.groups.items()
            },
            "conclusion": self.conclusion,
        }

    def __repr__(self) -> str:
        lines = [f"{self.names.group(group)}: {' '.join(self.sentences(group)[:2])}" for group in self.groups]
        return "\n".join(lines)


def _center(forecast: Forecast | None) -> str:
    return "–" if forecast is None else written(forecast.center, 3)


def _cell(value: float | None) -> str:
    return "–" if value is None else written(value, 3)


def choose_planned(plan: Plan, groups: Sequence[str]) -> Plan:
    """The same plan with some of its groups: names, or settings such as `depth=5|20`."""
    conditions = [planned.group for planned in plan.groups]
    names = Names(conditions, plan.catalog, arms=plan.study.arms is not None, labels=plan.study.labels)
    return plan.choose(choose(names, list(groups)))


def predict_plan(plan: Plan) -> Predicted:
    """What theory says of every group of a plan."""
    configs = {planned.group.name: planned.config for planned in plan.groups}
    return Predicted(plan, predict_groups(configs, plan.catalog, plan.study.seed))
