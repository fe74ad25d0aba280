"""Compare two probes: before a fix and after it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from gradlab.report.charts import Line, LineChart
from gradlab.report.draw import draw_one
from gradlab.report.layer_names import LAYER
from gradlab.torch.findings import Finding, Findings

if TYPE_CHECKING:
    import pandas as pd

    from gradlab.torch.results import ProbeResults
    from gradlab.torch.statistics import ModuleStatistics


@dataclass(frozen=True)
class Change:
    """The effect of a fix: `after.against(before)`."""

    before: ProbeResults
    after: ProbeResults

    @cached_property
    def _found(self) -> tuple[Findings, Findings]:
        return self.before.diagnose(), self.after.diagnose()

    @property
    def gone(self) -> tuple[Finding, ...]:
        """Findings of the first probe that the second does not have."""
        first, second = self._found
        return tuple(finding for finding in first.found if finding.name not in second.names)

    @property
    def new(self) -> tuple[Finding, ...]:
        """Findings of the second probe that the first does not have."""
        first, second = self._found
        return tuple(finding for finding in second.found if finding.name not in first.names)

    @property
    def still(self) -> tuple[Finding, ...]:
        """Findings that both probes have, as the second reports them."""
        first, second = self._found
        return tuple(finding for finding in second.found if finding.name in first.names)

    def table(self) -> pd.DataFrame:
        """One row per module: activations and backprop signal before and after. Modules are paired by name."""
        import pandas as pd

        rows = []
        for name in dict.fromkeys([*_modules_by_name(self.before), *_modules_by_name(self.after)]):
            first, second = _modules_by_name(self.before).get(name), _modules_by_name(self.after).get(name)
            rows.append(
                {
                    "name": name,
                    "rms_before": None if first is None else first.rms,
                    "rms_after": None if second is None else second.rms,
                    "delta_before": None if first is None else first.delta,
                    "delta_after": None if second is None else second.delta,
                    "dead_before": None if first is None else first.dead,
                    "dead_after": None if second is None else second.dead,
                }
            )
        return pd.DataFrame(rows)

    def figure(self, ax: Any = None) -> Any:
        """The backprop signal by module, before and after."""
        table, lines = self.table(), []
        for index, label in enumerate(("before", "after")):
            deltas = table[f"delta_{label}"].to_numpy(float)
            finite = np.isfinite(deltas)
            if finite.any():
                places, values = np.arange(1.0, len(deltas) + 1)[finite], deltas[finite]
                lines.append(Line(label, places, values, values, values, index, markers=True))
        chart = LineChart(
            "Backprop signal before and after",
            LAYER,
            "δ (root mean square)",
            tuple(lines),
            log_y=True,
            whole_x=True,
        )
        return draw_one(chart.with_layers(list(table["name"])), ax)

    def to_json(self) -> dict[str, Any]:
        """Findings that are gone, new and still present, and the table."""
        parts = {"gone": self.gone, "new": self.new, "still": self.still}
        return {
            **{name: [vars(f) for f in found] for name, found in parts.items()},
            "modules": self.table().to_dict("records"),
        }

    def __str__(self) -> str:
        lines = [f"Gone: {finding.name} ({finding.where}): {finding.evidence}." for finding in self.gone]
        lines += [f"New: {finding}" for finding in self.new]
        lines += [f"Still: {finding}" for finding in self.still]
        lines += [_describe_signal(self.before, self.after)]
        nothing = "" if self.gone or self.new or self.still else "Nothing was wrong before, and nothing is now. "
        return nothing + "\n".join(filter(None, lines))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from html import escape

        return "".join(f"<p>{escape(line)}</p>" for line in str(self).splitlines()) + str(self.table().to_html())


def _modules_by_name(probe: ProbeResults) -> dict[str, ModuleStatistics]:
    return {seen.name: seen for seen in sorted(probe.modules.values(), key=lambda each: each.order)}


def _describe_signal(before: ProbeResults, after: ProbeResults) -> str:
    """Describe how far the backprop signal carries before and after."""
    ratios = []
    for probe in (before, after):
        deltas = [seen.delta for seen in _modules_by_name(probe).values() if seen.delta]
        ratios.append(f"{deltas[0] / deltas[-1]:.2g}" if len(deltas) > 1 else "–")
    return f"The backprop signal at the first module over that at the last: {ratios[0]} before, {ratios[1]} after."
