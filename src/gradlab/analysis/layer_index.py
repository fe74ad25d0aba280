"""Layer measures of a whole run, found by measure, group and step without walking through the table each time."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradlab.plan.outline import Outline


class LayerIndex:
    """The layers table, sorted once by (measure, step, group)."""

    def __init__(self, table: Any, plan: Outline) -> None:
        self._groups = {identity: code for code, identity in enumerate({p.id: None for p in plan.groups})}
        self._found: dict[tuple[str, str, int], dict[tuple[int, int], float]] = {}
        group_of, seed_of = self._owners(table, plan)
        trial = table["trial"].combine_chunks().indices.to_numpy(zero_copy_only=False)
        measure = table["measure"].combine_chunks()
        group = group_of[trial]
        kept = group >= 0
        codes = measure.indices.to_numpy(zero_copy_only=False)[kept]
        step = table["step"].to_numpy()[kept]
        self._measures = {name: code for code, name in enumerate(measure.dictionary.to_pylist())}
        self._steps, step_code = np.unique(step, return_inverse=True)
        key = self._key(codes.astype(np.int64), step_code, group[kept].astype(np.int64))
        order = np.argsort(key, kind="stable")
        self._sorted = key[order]
        self._seed = seed_of[trial][kept][order]
        self._layer = table["layer"].to_numpy()[kept][order]
        self._value = table["value"].to_numpy()[kept][order]
        there = np.unique(codes)
        self.measures = tuple(name for name, code in self._measures.items() if code in there)

    def _owners(self, table: Any, plan: Outline) -> tuple[Any, Any]:
        """Group code and seed of every trial in the table's dictionary; −1 for one that the plan does not have."""
        owner = {trial.id: trial for trial in plan.trials}
        by_name = {planned.group.name: planned.id for planned in plan.groups}
        names = table["trial"].combine_chunks().dictionary.to_pylist()
        known = [owner.get(name) for name in names]
        groups = [-1 if trial is None else self._groups[by_name[trial.group]] for trial in known]
        seeds = [-1 if trial is None else trial.seed for trial in known]
        return np.array(groups, np.int64), np.array(seeds, np.int64)

    def _key(self, measure: Any, step: Any, group: Any) -> Any:
        return (measure * max(len(self._steps), 1) + step) * len(self._groups) + group

    def layer_count(self, group: str) -> int:
        """The highest layer in which anything was measured in the group with this id."""
        return int(max(self._layer[self._of(group)], default=0))

    def steps(self, group: str) -> tuple[int, ...]:
        """The steps after which anything was measured in it."""
        place = np.unique(self._sorted[self._of(group)] // len(self._groups) % max(len(self._steps), 1))
        return tuple(int(step) for step in self._steps[place])

    def _of(self, group: str) -> Any:
        return self._sorted % len(self._groups) == self._groups[group]

    def values(self, measure: str, group: str, step: int) -> dict[tuple[int, int], float]:
        """(seed, layer) -> value, in the group with this id; what was not measured is not there."""
        wanted = (measure, group, step)
        if wanted not in self._found:
            self._found[wanted] = self._look_up(measure, group, step)
        return self._found[wanted]

    def _look_up(self, measure: str, group: str, step: int) -> dict[tuple[int, int], float]:
        place = int(np.searchsorted(self._steps, step))
        if measure not in self._measures or place == len(self._steps) or self._steps[place] != step:
            return {}
        key = self._key(self._measures[measure], place, self._groups[group])
        low, high = np.searchsorted(self._sorted, [key, key + 1])
        window = slice(int(low), int(high))
        keys = zip(self._seed[window].tolist(), self._layer[window].tolist(), strict=True)
        return dict(zip(keys, self._value[window].tolist(), strict=True))
