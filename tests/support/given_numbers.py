"""Results with numbers of a test's own, seen through a real plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gradlab.analysis.measured import Measured
from gradlab.runs.store.records import Records
from gradlab.spec.claims import At


@dataclass(frozen=True)
class GivenNumbers(Measured):
    """(group, metric, layer), (group, metric) or group -> values by seed."""

    records: Records = field(default_factory=lambda: Records(()))
    numbers: Mapping[Any, Any] = field(default_factory=dict)

    @property
    def by_group(self) -> Mapping[str, tuple[Any, ...]]:  # type: ignore[override]
        return dict.fromkeys(self.group_names, ())

    def values(self, metric: str, group: str, at: At | None = None) -> dict[int, Any]:
        layer = None if at is None else at.layer
        keys = ((group, metric, layer), (group, metric), group)
        return dict(enumerate(next((self.numbers[key] for key in keys if key in self.numbers), ())))

    def resolution(self, metric: str) -> float:
        return 1e-9
