"""The audit of a study: every pair of arms at every seed, as realized, with the factor exchanged.

Arm A with B's factor has to be B, and B with A's factor has to be A, trait by trait and bit by bit. What then differs
between A and B follows from the factor; whatever does not come out is a difference that nobody declared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import TypeVar

from gradlab.audits.audit import BY_FACTOR, SAME, UNDECLARED, Audit, Row
from gradlab.audits.caveats.base import Caveat, Design, Remark
from gradlab.audits.pairs import Pair, differing, factor_of, overlap, pairs_of, with_factor_of
from gradlab.audits.realize import Content, Realize, traits
from gradlab.audits.start import start_of
from gradlab.audits.suggest import suggestion
from gradlab.audits.traits import Realized, difference_words
from gradlab.parts import Catalog
from gradlab.plans.plan import Plan
from gradlab.spec.expand import Group
from gradlab.spec.paths import value_at
from gradlab.spec.short import short
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
    by_factor: frozenset[str]
    """Traits that differ because of the factor."""


def audit_plan(plan: Plan, *, seeds: int | None = None, pairs: int | None = None, realize: Realize = prepare) -> Audit:
    """Both answers for a study; `seeds` and `pairs` limit how many are compared (all, if not given)."""
    study = plan.resolved.study
    groups = [planned.group for planned in plan.groups]
    factor, all_pairs, content = factor_of(study), pairs_of(study, groups), Content()
    all_seeds = study.trial_seeds
    chosen = _spread(all_seeds, seeds)
    compared = _spread(all_pairs, pairs)
    undeclared: dict[str, str] = {}
    by_factor: set[str] = set()
    for seed in chosen if compared else chosen[:1]:
        known: dict[str, Realized] = {}
        for pair in compared:
            found = _compared(plan, pair, seed, factor, known, content, realize)
            by_factor |= found.by_factor
            for trait, words in found.undeclared.items():
                undeclared.setdefault(trait, words)
        if seed == chosen[0]:
            first = {g.name: known.get(g.name) or traits(_trial(plan, g, seed), content, realize) for g in groups}
    for field, words in _beyond(plan, compared, first).items():
        undeclared.setdefault(field, words)
    remarks = _remarks(design_of(plan, compared, realize))
    limits = (*(remark.words for remark in remarks), *study.limits)
    paths = _undeclared_paths(compared, factor) if undeclared else {}
    return Audit(
        study.name,
        factor,
        _what(len(compared), len(all_pairs), len(chosen), len(all_seeds)),
        tuple(group.name for group in groups),
        _rows(first, undeclared, by_factor),
        tuple(undeclared.values()),
        _only(compared, factor, first, plan.resolved.catalog) if not undeclared else None,
        limits,
        {name: {trait.name: trait.value[:200] for trait in own.values()} for name, own in first.items()},
        suggestion(plan, factor, remarks, paths),
    )


def _spread(items: Sequence[Item], count: int | None) -> tuple[Item, ...]:
    """So many of them, from the first to the last."""
    if count is None or len(items) <= count:
        return tuple(items)
    return tuple(items[round(index * (len(items) - 1) / max(count - 1, 1))] for index in range(count))


def _trial(plan: Plan, group: Group, seed: int) -> Trial:
    return Trial("", group.name, seed, plan.resolved.study.seed, group.config, plan.resolved.catalog)


def _compared(
    plan: Plan,
    pair: Pair,
    seed: int,
    factor: Sequence[str],
    known: dict[str, Realized],
    content: Content,
    realize: Realize,
) -> _Found:
    """Both arms as they are, and each with the other's factor."""

    def realized(group: Group, name: str = "") -> Realized:
        if not name:
            return traits(_trial(plan, group, seed), content, realize)
        if name not in known:
            known[name] = traits(_trial(plan, group, seed), content, realize)
        return known[name]

    a, b = realized(pair.a, pair.a.name), realized(pair.b, pair.b.name)
    apart = {name for name in {*a, *b} if not _same(a, b, name)}
    undeclared: dict[str, str] = {}
    for own, other, own_name, other_name, target in (
        (pair.a, pair.b, pair.a.name, pair.b.name, b),
        (pair.b, pair.a, pair.b.name, pair.a.name, a),
    ):
        config = with_factor_of(own.config, other.config, factor, plan.resolved.catalog)
        if config is None:
            undeclared.setdefault("configuration", f"{own_name} cannot take over the factor of {other_name}")
            continue
        exchanged = realized(replace(own, config=config))
        order = (exchanged, target) if own is pair.a else (target, exchanged)
        for name in {**exchanged, **target}:
            if not _same(exchanged, target, name) and name not in undeclared:
                undeclared[name] = _words(name, *order, pair.a.name, pair.b.name)
    return _Found(undeclared, frozenset(apart - set(undeclared)))


def _same(a: Realized, b: Realized, name: str) -> bool:
    if name not in a or name not in b:
        return False
    return a[name].same(b[name])


def _words(name: str, first: Realized, second: Realized, a: str, b: str) -> str:
    if name not in first or name not in second:
        return f"{name}: only {b if name in second else a} has them"
    return difference_words(name, first[name], second[name], a, b)


def _beyond(plan: Plan, pairs: Sequence[Pair], first: Mapping[str, Realized]) -> dict[str, str]:
    """Consequences of the factor that go further than the study allows."""
    found: dict[str, str] = {}
    allowed = plan.resolved.study.consequences
    for field, trait in HELD.items():
        tolerance: Tolerance | None = getattr(allowed, field)
        if tolerance is None:
            continue
        for pair in pairs:
            x, y = (float(first[group.name][trait].value.replace(",", "")) for group in (pair.a, pair.b))
            limit = 0.0 if tolerance == "equal" else tolerance
            if abs(x - y) > limit * min(x, y):
                said = "equal" if tolerance == "equal" else f"within {100 * tolerance:g} %"
                found[trait] = f"{trait}: {x:,.0f} in {pair.a.name}, {y:,.0f} in {pair.b.name} (declared: {said})"
                break
    return found


def design_of(plan: Plan, pairs: Sequence[Pair] | None = None, realize: Realize = prepare) -> Design:
    """What caveats look at: the pairs, and each of their groups before its first step, at the first seed."""
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
    study = design.plan.resolved.study
    return [remark for remark in found if study.axes is None or not _separated(remark, factor_of(study))]


def _separated(remark: Remark, factor: Sequence[str]) -> bool:
    """Whether a grid varies what would separate the causes: then its effects tell them apart."""
    return bool(remark.axes) and all(any(overlap(path, own) for own in factor) for path in remark.axes)


def _what(pairs: int, all_pairs: int, seeds: int, all_seeds: int) -> str:
    def counted(some: int, every: int, word: str) -> str:
        return f"{some} of {every:,} {word}s" if some < every else f"{every:,} {word}{'s' * (every != 1)}"

    both = f"{counted(pairs, all_pairs, 'pair')} of groups at {counted(seeds, all_seeds, 'seed')}"
    return f"{both}, each also with the other's factor"


def _rows(first: Mapping[str, Realized], undeclared: Mapping[str, str], by_factor: set[str]) -> tuple[Row, ...]:
    """Every trait that any arm has, arms side by side; of many arms the distinct values."""
    names = list(dict.fromkeys(trait for own in first.values() for trait in own))
    rows = []
    for name in names:
        cells = [own[name].words if name in own else "–" for own in first.values()]
        if len(first) > MOST_COLUMNS:
            distinct = list(dict.fromkeys(cells))
            shown = "; ".join(distinct[:MOST_COLUMNS])
            cells = [shown + (f"; and {len(distinct) - MOST_COLUMNS} more" if len(distinct) > MOST_COLUMNS else "")]
        status = SAME if name not in by_factor else BY_FACTOR
        rows.append(Row(name, tuple(cells), UNDECLARED if name in undeclared else status))
    return tuple(sorted(rows, key=lambda row: (UNDECLARED, BY_FACTOR, SAME).index(row.status)))


def _only(pairs: Sequence[Pair], factor: Sequence[str], first: Mapping[str, Realized], catalog: Catalog) -> str | None:
    """What sets the arms of a single pair apart, where that is one thing: `x +`."""
    changed = {path for pair in pairs for path in differing(pair.a.config, pair.b.config, factor)}
    if len(changed) != 1:
        return None
    (path,) = changed
    a, b = pairs[0].a, pairs[0].b
    name = "forward pass of a block"
    if path == "model.skip":
        return f"`{_inserted(first[a.name][name].words, first[b.name][name].words)}`"
    values = dict.fromkeys(
        short(path, value_at(g.config.model_dump(mode="json"), path), catalog) for p in pairs for g in (p.a, p.b)
    )
    shown = list(values)[:6]
    return f"`{path}` = {' / '.join(shown)}{' / …' if len(values) > 6 else ''}"


def _inserted(a: str, b: str) -> str:
    """What b has and a lacks, where b is a with something put in; else both."""
    blocks = SequenceMatcher(None, a, b, autojunk=False).get_opcodes()
    changes = [(tag, b[j1:j2]) for tag, _, _, j1, j2 in blocks if tag != "equal"]
    if len(changes) == 1 and changes[0][0] == "insert":
        return changes[0][1].strip()
    return f"{a}  against  {b}"


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
