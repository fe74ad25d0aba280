"""The audit of a study: every pair of arms at every seed, as realized, with the factor exchanged.

Arm A with B's factor has to be B, and B with A's factor has to be A, trait by trait and bit by bit: the same tensors,
rows and rates, and networks that compute the same outputs, δ and updates. What then differs between A and B follows
from the factor; any other difference is undeclared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from gradlab.audits.audit import BY_FACTOR, FOLLOWS, SAME, TUNED, UNDECLARED, Audit, Row, Status
from gradlab.audits.blind_spots import list_blind_spots
from gradlab.audits.caveats.base import Caveat, Design, Remark
from gradlab.audits.only_difference import describe_only_difference
from gradlab.audits.pairs import Pair, classes_of, factor_of, overlap, pairs_of, with_factor_of
from gradlab.audits.realize import Realize, TraitReader
from gradlab.audits.settings import find_varied, name_settings, plain_path, read_settings
from gradlab.audits.start import start_of
from gradlab.audits.suggest import suggest_study
from gradlab.audits.traits import Realized, describe_difference
from gradlab.audits.tuning import describe_tuning, find_unequal_tuning, tuned_paths
from gradlab.engines.base import one_blas_thread
from gradlab.errors import StudyError
from gradlab.plans.plan import Plan
from gradlab.spec.config import Config
from gradlab.spec.expand import Group
from gradlab.spec.paths import value_at
from gradlab.spec.study import Tolerance
from gradlab.trials.setup import prepare
from gradlab.trials.trial import Trial

Item = TypeVar("Item")
MOST_COLUMNS = 4
"""Arms that get a column of their own in the table."""
HELD = {"parameters": "parameters", "flops": "FLOPs per step", "updates": "updates", "samples": "samples seen"}
"""Field of `consequences` -> trait."""


@dataclass(frozen=True)
class _Found:
    """What differs between the arms of one pair at one seed."""

    undeclared: Mapping[str, str]
    """Trait -> words."""
    follows: frozenset[str]
    """Traits that differ as a result of the undeclared ones."""
    apart: frozenset[str]
    """All traits in which the arms differ."""
    tuned: frozenset[str] = frozenset()
    """Of those, the traits in which the tuning alone makes them differ."""


@dataclass(frozen=True)
class _Reader:
    """Reads the traits of groups at one seed; those of a group that takes part in many pairs only once."""

    plan: Plan
    seed: int
    traits: TraitReader
    known: dict[str, Realized]

    def read(self, group: Group) -> Realized:
        if group.name not in self.known:
            self.known[group.name] = self.traits.read_traits(_trial(self.plan, group, self.seed))
        return self.known[group.name]

    def read_exchanged(self, group: Group, config: Config) -> Realized | None:
        """The group with another configuration; None if that cannot be built."""
        try:
            return self.traits.read_traits(_trial(self.plan, replace(group, config=config), self.seed))
        except StudyError:
            return None


def audit_plan(plan: Plan, *, seeds: int | None = None, pairs: int | None = None, realize: Realize = prepare) -> Audit:
    """Answer both questions for a study; `seeds` and `pairs` limit how many are compared (all, if not given)."""
    with one_blas_thread():
        return _audit(plan, seeds, pairs, realize)


def _audit(plan: Plan, seeds: int | None, pairs: int | None, realize: Realize) -> Audit:
    study, catalog = plan.resolved.study, plan.resolved.catalog
    groups = [planned.group for planned in plan.groups]
    factor, all_pairs, reader = factor_of(study), pairs_of(study, groups), TraitReader(realize)
    chosen, compared = _spread(study.trial_seeds, seeds), _spread(all_pairs, pairs)
    undeclared: dict[str, str] = {}
    follows: set[str] = set()
    apart: set[str] = set()
    tuned: set[str] = set()
    for seed in chosen if compared else chosen[:1]:
        at_seed = _Reader(plan, seed, reader, {})
        for pair in compared:
            found = _compare(at_seed, pair, factor, tuned_paths(study))
            undeclared = {**found.undeclared, **undeclared}
            follows |= found.follows
            apart |= found.apart
            tuned |= found.tuned
        if seed == chosen[0]:
            first = {group.name: at_seed.read(group) for group in groups}
    undeclared = {**find_unequal_tuning(plan), **_find_excess(plan, compared, first), **undeclared}
    remarks = _remarks(design_of(plan, compared, realize))
    paths = _undeclared_paths(compared, (*factor, *tuned_paths(study))) if undeclared else {}
    return Audit(
        study.name,
        factor,
        _describe_scope(len(compared), len(all_pairs), len(chosen), len(study.trial_seeds)),
        tuple(group.name for group in groups),
        _rows(first, undeclared, follows, apart, tuned),
        tuple(undeclared.values()),
        describe_only_difference(compared, factor, first, catalog) if not undeclared else None,
        (*_find_twins(compared, first), *(remark.words for remark in remarks), *study.limits),
        {name: {trait.name: trait.value[:200] for trait in own.values()} for name, own in first.items()},
        suggest_study(plan, factor, remarks, paths),
        list_blind_spots(plan, chosen, compared, all_pairs),
        name_settings(find_varied(classes_of(compared), factor), groups[0].config),
        identical=bool(compared) and not apart,
        caveats=tuple(remark.short for remark in remarks if remark.short),
        tuned=describe_tuning(plan),
    )


def _spread(items: Sequence[Item], count: int | None) -> tuple[Item, ...]:
    """At most this many of them, evenly from the first to the last."""
    if count is None or len(items) <= count:
        return tuple(items)
    return tuple(items[round(index * (len(items) - 1) / max(count - 1, 1))] for index in range(count))


def _trial(plan: Plan, group: Group, seed: int) -> Trial:
    return Trial("", group.name, seed, plan.resolved.study.seed, group.config, plan.resolved.catalog)


def _compare(reader: _Reader, pair: Pair, factor: Sequence[str], tuned: Sequence[str] = ()) -> _Found:
    """Compare both arms as they are, and each with the other's factor and the values that were tuned for it."""
    a, b = reader.read(pair.a), reader.read(pair.b)
    apart = {name for name in {*a, *b} if not _same(a, b, name)}
    undeclared: dict[str, str] = {}
    computed: set[str] = set()
    for own, other, target in ((pair.a, pair.b, b), (pair.b, pair.a, a)):
        config = with_factor_of(own.config, other.config, (*factor, *tuned), reader.plan.resolved.catalog)
        exchanged = None if config is None else reader.read_exchanged(own, config)
        if config is None or exchanged is None:
            undeclared.setdefault("configuration", f"{own.name} cannot take over the factor of {other.name}")
            continue
        order = (exchanged, target) if own is pair.a else (target, exchanged)
        differing = [name for name in {**exchanged, **target} if not _same(exchanged, target, name)]
        direct = [name for name in differing if not _is_computed(name, *order)]
        computed |= set(differing) - set(direct)
        if differing and not direct:
            settings = (config, other.config) if own is pair.a else (other.config, config)
            undeclared.setdefault(differing[0], _describe_hidden(pair, settings, differing[0], order))
        for name in direct:
            undeclared.setdefault(name, _describe(name, *order, pair.a.name, pair.b.name))
    by_tuning = _by_tuning(reader, pair, tuned) & apart if tuned else frozenset()
    return _Found(undeclared, frozenset(computed - set(undeclared)), frozenset(apart), by_tuning)


def _by_tuning(reader: _Reader, pair: Pair, tuned: Sequence[str]) -> frozenset[str]:
    """Traits in which the first arm, at the second one's tuned values and with its own factor, is like the second."""
    config = with_factor_of(pair.a.config, pair.b.config, tuned, reader.plan.resolved.catalog)
    exchanged = None if config is None else reader.read_exchanged(pair.a, config)
    if exchanged is None:
        return frozenset()
    b = reader.read(pair.b)
    return frozenset(name for name in exchanged if _same(exchanged, b, name))


def _same(a: Realized, b: Realized, name: str) -> bool:
    return name in a and name in b and a[name].same(b[name])


def _is_computed(name: str, first: Realized, second: Realized) -> bool:
    return all(realized[name].computed for realized in (first, second) if name in realized)


def _describe(name: str, first: Realized, second: Realized, a: str, b: str) -> str:
    if name not in first or name not in second:
        return f"{name}: only {b if name in second else a} has them"
    return describe_difference(name, first[name], second[name], a, b)


def _describe_hidden(pair: Pair, configs: tuple[Config, Config], name: str, realized: tuple[Realized, Realized]) -> str:
    """A difference that shows only in what the networks compute: name the setting behind it, if there is one."""
    first, second = (read_settings(config) for config in configs)
    paths = [path for path in {**first, **second} if first.get(path) != second.get(path)]
    words = [
        f"{plain_path(path)} is {first.get(path)} in {pair.a.name} and {second.get(path)} in {pair.b.name}"
        for path in paths
    ]
    return "; ".join(words) or _describe(name, *realized, pair.a.name, pair.b.name)


def _find_excess(plan: Plan, pairs: Sequence[Pair], first: Mapping[str, Realized]) -> dict[str, str]:
    """Find consequences of the factor that are larger than the study allows."""
    found: dict[str, str] = {}
    allowed = plan.resolved.study.consequences
    for field, trait in HELD.items():
        tolerance: Tolerance | None = getattr(allowed, field)
        if tolerance is None:
            continue
        for pair in pairs:
            x, y = (first[group.name][trait].number or 0 for group in (pair.a, pair.b))
            limit = 0.0 if tolerance == "equal" else tolerance
            if abs(x - y) > limit * min(x, y):
                said = "equal" if tolerance == "equal" else f"within {100 * tolerance:g} %"
                found[trait] = f"{trait}: {x:,.0f} in {pair.a.name}, {y:,.0f} in {pair.b.name} (declared: {said})"
                break
    return found


def design_of(plan: Plan, pairs: Sequence[Pair] | None = None, realize: Realize = prepare) -> Design:
    """What caveats examine: the pairs, and each of their groups before its first step, at the first seed."""
    if pairs is None:
        pairs = pairs_of(plan.resolved.study, [planned.group for planned in plan.groups])
    groups = {group.name: group for pair in pairs for group in (pair.a, pair.b)}
    seed = plan.resolved.study.trial_seeds[0]
    starts = {name: start_of(realize(_trial(plan, group, seed))) for name, group in groups.items()}
    return Design(plan, tuple(pairs), starts)


def _remarks(design: Design) -> list[Remark]:
    catalog = design.plan.resolved.catalog
    kinds: list[Caveat] = [catalog.make("caveat", name, {}) for name in catalog.ranked("caveat")]
    found = [remark for kind in kinds for remark in kind.remarks(design)]
    axes = tuple(design.plan.resolved.study.axes or ())
    return [remark for remark in found if not _is_separated(remark, axes)]


def _is_separated(remark: Remark, axes: Sequence[str]) -> bool:
    """Whether the axes of a grid vary what would separate the causes: then its effects tell them apart."""
    return bool(remark.axes) and all(any(overlap(path, axis) for axis in axes) for path in remark.axes)


def _find_twins(pairs: Sequence[Pair], first: Mapping[str, Realized]) -> list[str]:
    """Name groups of one class that are the same set-up."""
    found = []
    for groups in classes_of(pairs):
        alike: dict[tuple[tuple[str, str], ...], list[str]] = {}
        for group in groups:
            values = tuple((trait.name, trait.value) for trait in first[group.name].values())
            alike.setdefault(values, []).append(group.name)
        found += [_describe_twins(names) for names in alike.values() if len(names) > 1]
    return found


def _describe_twins(names: Sequence[str]) -> str:
    shown = [*names[:4], *([f"{len(names) - 4:,} more"] if len(names) > 4 else [])]
    return f"Nothing varies: {', '.join(shown[:-1])} and {shown[-1]} are the same set-up, so their results are equal."


def _describe_scope(pairs: int, all_pairs: int, seeds: int, all_seeds: int) -> str:
    def count(some: int, every: int, word: str) -> str:
        return f"{some} of {every:,} {word}s" if some < every else f"{every:,} {word}{'s' * (every != 1)}"

    both = f"{count(pairs, all_pairs, 'pair')} of groups at {count(seeds, all_seeds, 'seed')}"
    return f"{both}, each also with the other's factor"


def _rows(
    first: Mapping[str, Realized],
    undeclared: Mapping[str, str],
    follows: set[str],
    apart: set[str],
    tuned: set[str],
) -> tuple[Row, ...]:
    """Every trait that any arm has, arms side by side; of many arms the distinct values."""

    def status(name: str) -> Status:
        if name in undeclared:
            return UNDECLARED
        return FOLLOWS if name in follows else TUNED if name in tuned else BY_FACTOR if name in apart else SAME

    names = list(dict.fromkeys(trait for own in first.values() for trait in own))
    rows = []
    for name in names:
        cells = [own[name].words if name in own else "–" for own in first.values()]
        if len(first) > MOST_COLUMNS:
            distinct = list(dict.fromkeys(cells))
            shown = "; ".join(distinct[:MOST_COLUMNS])
            cells = [shown + (f"; and {len(distinct) - MOST_COLUMNS} more" if len(distinct) > MOST_COLUMNS else "")]
        rows.append(Row(name, tuple(cells), status(name)))
    return tuple(sorted(rows, key=lambda row: (UNDECLARED, FOLLOWS, BY_FACTOR, TUNED, SAME).index(row.status)))


def _undeclared_paths(pairs: Sequence[Pair], factor: Sequence[str]) -> dict[str, tuple[object, ...]]:
    """Paths outside the factor in which the configurations of a pair differ, with both values."""
    found: dict[str, tuple[object, ...]] = {}
    for pair in pairs:
        trees = [group.config.model_dump(mode="json") for group in (pair.a, pair.b)]
        for path in {*pair.a.settings, *pair.b.settings} - set(factor):
            values = tuple(value_at(tree, path) for tree in trees)
            if values[0] != values[1]:
                found.setdefault(path, values)
    return found
