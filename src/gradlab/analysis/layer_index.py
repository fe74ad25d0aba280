"""Layer measures of a whole run, found by measure, group and step without walking through the table each time."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from gradlab.plans.outline import Outline


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

    @cached_property
    def _extents(self) -> dict[int, tuple[int, dict[int | None, tuple[int, ...]]]]:
        """Group code -> its highest layer, and the steps that were looked at: of each seed, and (None) of all."""
        group = self._sorted % max(len(self._groups), 1)
        step = self._steps[self._sorted // max(len(self._groups), 1) % max(len(self._steps), 1)]
        found = {}
        for code in np.unique(group):
            own = group == code
            seeds: dict[int | None, tuple[int, ...]] = {None: tuple(np.unique(step[own]).tolist())}
            for seed in np.unique(self._seed[own]):
                seeds[int(seed)] = tuple(np.unique(step[own & (self._seed == seed)]).tolist())
            found[int(code)] = int(self._layer[own].max()), seeds
        return found

    def layer_count(self, group: str) -> int:
        """The highest layer in which anything was measured in the group with this id."""
        return self._extents.get(self._groups[group], (0, {}))[0]

    def steps(self, group: str, seed: int | None = None) -> tuple[int, ...]:
        """The steps after which anything was measured in it, in one trial or in any."""
        return self._extents.get(self._groups[group], (0, {}))[1].get(seed, ())

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
