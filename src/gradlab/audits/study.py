"""The audit of a study: every pair of arms at every seed, as realized, with the factor exchanged.

`audit_plan` is the entry. Around it: the one difference in one line, what the audit cannot see, and the study that
would separate the causes it found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import Any, TypeVar

from gradlab.arithmetic import one_blas_thread
from gradlab.audits.audit import UNDECLARED_CODE, Audit
from gradlab.audits.caveats.base import Caveat, Design, Remark
from gradlab.audits.compare import (
    BY_FACTOR,
    FOLLOWS,
    SAME,
    TUNED,
    UNDECLARED,
    Realized,
    Row,
    Status,
    find_differences,
    in_each,
    make_table,
)
from gradlab.audits.pairs import (
    Pair,
    classes_of,
    factor_of,
    find_varied,
    name_settings,
    overlap,
    pairs_of,
    plain_path,
    read_settings,
    with_factor_of,
)
from gradlab.audits.realize import MOST_EPOCHS, UPDATES, Realize, TraitReader
from gradlab.audits.start import Start, start_of
from gradlab.audits.tuning import describe_tuning, find_unequal_tuning, tuned_paths
from gradlab.data.base import Dataset
from gradlab.errors import StudyError
from gradlab.facts import Fact
from gradlab.notices import say
from gradlab.parts import Catalog
from gradlab.plans.plan import Plan
from gradlab.spec.base import canonical_json
from gradlab.spec.config import Config, Group
from gradlab.spec.naming import short
from gradlab.spec.paths import distinct, value_at, with_value
from gradlab.spec.study import Tolerance
from gradlab.trials.setup import prepare
from gradlab.trials.trial import Trial
from gradlab.words import SHOWN, counted, join, listed

# The one difference between the arms in one line, if there is exactly one.

MOST_VALUES = 6
BLOCK = "forward pass of a block"


def describe_only_difference(
    pairs: Sequence[Pair], factor: Sequence[str], first: Mapping[str, Realized], catalog: Catalog
) -> str | None:
    """Name the setting that varies with all its values, or for a skip what the blocks compute: `x +`."""
    classes = classes_of(pairs)
    varied = find_varied(classes, factor)
    if len(varied) != 1:
        return None
    path = plain_path(varied[0])
    groups = [group for groups in classes for group in groups]
    if path == "model.skip.kind":
        formulas = list(dict.fromkeys(first[group.name][BLOCK].words for group in groups))
        if len(formulas) == len({group.config.model.skip.kind for group in groups}):
            return _describe_formulas(formulas)
    shown = path.removesuffix(".kind").removesuffix(".task") if path.count(".") > 1 else path
    trees = (group.config.model_dump(mode="json") for group in groups)
    values = list(dict.fromkeys(short(shown, value_at(tree, shown), catalog) for tree in trees))
    return f"`{shown}` = {' / '.join(values[:MOST_VALUES])}{' / …' if len(values) > MOST_VALUES else ''}"


def _describe_formulas(formulas: Sequence[str]) -> str:
    if len(formulas) > 2:
        return f"a block computes {', or '.join(f'`{formula}`' for formula in formulas[:MOST_VALUES])}"
    a, b = formulas
    changes = [(tag, b[j1:j2]) for tag, _, _, j1, j2 in _opcodes(a, b) if tag != "equal"]
    if len(changes) == 1 and changes[0][0] == "insert":
        added = changes[0][1].strip()
        if added.startswith("+") or added.endswith("+"):
            return f"`{added}`"
    return f"a block computes `{a}` or `{b}`"


def _opcodes(a: str, b: str) -> list[tuple[str, int, int, int, int]]:
    return list(SequenceMatcher(None, a, b, autojunk=False).get_opcodes())


# What the audit of a study cannot see, said at its end.


def list_blind_spots(
    plan: Plan, seeds: Sequence[int], compared: Sequence[Pair], pairs: Sequence[Pair], *, affordable: bool
) -> tuple[str, ...]:
    """One sentence for each thing that was not compared; `affordable`: whether `gradlab audit` would compare all."""
    if not pairs:
        return ()
    all_seeds = len(plan.resolved.study.trial_seeds)
    trained = any(planned.cost.steps for planned in plan.groups)
    epochs = max(-(-planned.cost.steps // max(planned.cost.steps_per_epoch, 1)) for planned in plan.groups)
    found = []
    if any(_reacts(planned.config, plan.resolved.catalog) for planned in plan.groups):
        found.append(
            "When a rule acts: early stopping and reductions of the learning rate follow from what training gives. The "
            "rules were compared, not what they do; see epochs_trained and the curve learning_rate of the run."
        )
    if trained:
        found.append(
            f"What happens after the first {UPDATES} updates: data, order of samples, learning rates and budgets are "
            "fixed beforehand and were compared, but rounding, divergence and running times show only in training."
        )
    else:
        found.append("How the engine rounds: the audit runs the networks in plain NumPy.")
    if plan.resolved.catalog.files:
        found.append(
            f"Your own parts were run on the probe batch and for {UPDATES} updates. A part that behaves differently on "
            "other inputs, at later steps or from call to call is not noticed."
        )
    if epochs > MOST_EPOCHS + 1:
        found.append(f"The order of samples was compared in the first {MOST_EPOCHS} epochs and the last.")
    if len(seeds) < all_seeds or len(compared) < len(pairs):
        found.append(
            f"{len(compared):,} of {len(pairs):,} pairs were compared at {len(seeds):,} of {all_seeds:,} seeds; "
            + ("`gradlab audit` compares all." if affordable else "the networks are too large to compare all.")
        )
    return tuple(found)


def _reacts(config: Config, catalog: Catalog) -> bool:
    """Whether training depends on a metric of its own epochs."""
    train = config.train
    return train.early_stopping is not None or train.schedule.build(catalog).reaction(train.lr) is not None


# The study that would separate the causes: the factor crossed with the other causes that the audit found.

FEWEST_SEEDS = 5
CARRIED = ("parts", "measure", "headline", "levels", "seed")
"""Sections of the study that the suggested one keeps as they are."""


def suggest_study(
    plan: Plan, factor: Sequence[str], remarks: Sequence[Remark], undeclared: Mapping[str, tuple[Any, ...]]
) -> dict[str, Any] | None:
    """Build a study tree, ready for YAML; None if there is nothing left to separate."""
    study = plan.resolved.study
    causes: dict[str, tuple[Any, ...]] = dict(undeclared)
    changes: dict[str, Any] = {}
    for remark in remarks:
        causes |= {path: values for path, values in remark.axes.items() if path not in causes}
        changes |= remark.base
    own = {path: _values(plan, path) for path in dict.fromkeys([*factor, *(study.axes or {}), *(study.zip or {})])}
    axes = {path: values for path, values in own.items() if len(values) > 1}
    new = {path: values for path, values in causes.items() if not any(overlap(path, own) for own in axes)}
    if not new and not changes:
        return None
    tree = study.model_dump(mode="json", exclude_unset=True)
    base = dict(tree["base"])
    for path, value in changes.items():
        base = with_value(base, path, value)
        if value is None:
            del base[path.split(".")[0]][path.split(".")[1]]
    names = join([path.split(".")[-1] for path in [*axes, *new]])
    kept = {key: tree[key] for key in CARRIED if key in tree}
    return {
        "name": f"{study.name[:48]}-separated",
        "question": f"Which of {names} makes the difference?" if len([*axes, *new]) > 1 else study.question,
        "source": f"The factorial study that separates the causes of `{study.name}`, as its audit proposes",
        "factor": [*axes, *new],
        "base": base,
        "axes": {path: [_plain(value) for value in values] for path, values in {**axes, **new}.items()},
        "seeds": max(FEWEST_SEEDS, len(study.trial_seeds)),
        **kept,
    }


def _values(plan: Plan, path: str) -> tuple[Any, ...]:
    """The distinct values of all groups at a path."""
    return tuple(distinct(value_at(planned.config.model_dump(mode="json"), path) for planned in plan.groups))


def _plain(value: Any) -> Any:
    """A part without parameters by its name alone."""
    if isinstance(value, Mapping):
        given = {key: item for key, item in value.items() if item is not None}
        return given["kind"] if set(given) == {"kind"} else given
    return value


# The audit of a study: every pair of arms at every seed, as realized, with the factor exchanged.
#
# Arm A with B's factor has to be B, and B with A's factor has to be A, trait by trait and bit by bit: the same tensors,
# rows and rates, and networks that compute the same outputs, δ and updates. What then differs between A and B follows
# from the factor; any other difference is undeclared.

Item = TypeVar("Item")
MOST_COLUMNS = 4
"""Arms that get a column of their own in the table."""
MOST_NUMBERS = 10**8
"""Parameters and steps that an audit realizes, in some 10 s; one seed is compared however many they are."""
SECONDS_PER_NUMBER = 1.5e-7
"""On a typical machine, for Adam; good enough for an announcement."""
LONG = 5.0
"""An audit that may take longer, in seconds, is announced."""
HELD = {"parameters": "parameters", "flops": "FLOPs per step", "updates": "updates", "samples": "samples seen"}
"""Field of `consequences` -> trait."""


@dataclass(frozen=True)
class _Differences:
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
            return self.traits.read_traits(_trial(self.plan, replace(group, network=config), self.seed))
        except StudyError:
            return None


def audit_plan(plan: Plan, *, seeds: int | None = None, pairs: int | None = None, realize: Realize = prepare) -> Audit:
    """Answer both questions for a study; `seeds` and `pairs` limit how many are compared (all, if not given).

    Large networks are compared at fewer seeds (`MOST_NUMBERS`). What takes long all the same is announced on stderr.
    """
    groups = [planned.group for planned in plan.groups]
    all_pairs = pairs_of(plan.resolved.study, groups)
    compared = _spread(all_pairs, pairs)
    cost = max(_count_numbers(plan, compared), 1)
    affordable = max(1, MOST_NUMBERS // cost)
    chosen = _spread(plan.resolved.study.trial_seeds, affordable if seeds is None else min(seeds, affordable))
    seconds = cost * len(chosen) * SECONDS_PER_NUMBER
    if seconds > LONG:
        say(f"audit: {counted(len(compared), 'pair')} at {counted(len(chosen), 'seed')}, about {seconds:.0f} s")
    with one_blas_thread():
        return _audit(plan, chosen, compared, all_pairs, realize)


def _count_numbers(plan: Plan, pairs: Sequence[Pair]) -> int:
    """How many parameters and learning rates one seed takes: those of every group, and both of a pair's exchange."""
    sizes = {planned.group.name: planned.cost.parameters + planned.cost.steps for planned in plan.groups}
    return sum(sizes.values()) + sum(sizes[pair.a.name] + sizes[pair.b.name] for pair in pairs)


def _audit(
    plan: Plan, chosen: Sequence[int], compared: Sequence[Pair], all_pairs: Sequence[Pair], realize: Realize
) -> Audit:
    study, catalog = plan.resolved.study, plan.resolved.catalog
    groups = [planned.group for planned in plan.groups]
    factor, reader = factor_of(study), TraitReader(realize)
    undeclared: dict[str, str] = {}
    differences: list[_Differences] = []
    for seed in chosen if compared else chosen[:1]:
        at_seed = _Reader(plan, seed, reader, {})
        for pair in compared:
            differences.append(_compare(at_seed, pair, factor, tuned_paths(study)))
            undeclared = {**differences[-1].undeclared, **undeclared}
        if seed == chosen[0]:
            first = {group.name: at_seed.read(group) for group in groups}
    undeclared = {**find_unequal_tuning(plan), **_find_excess(plan, compared, first), **undeclared}
    statuses: dict[str, Status] = {name: BY_FACTOR for found in differences for name in found.apart}
    statuses |= {name: TUNED for found in differences for name in found.tuned}
    statuses |= {name: FOLLOWS for found in differences for name in found.follows}
    identical = bool(compared) and not any(found.apart for found in differences)
    remarks = _remarks(design_of(plan, compared, realize))
    paths = _undeclared_paths(compared, (*factor, *tuned_paths(study))) if undeclared else {}
    return Audit(
        study.name,
        factor,
        _describe_scope(len(compared), len(all_pairs), len(chosen), len(study.trial_seeds)),
        tuple(group.name for group in groups),
        _rows(first, statuses | dict.fromkeys(undeclared, UNDECLARED)),
        (
            *(Fact(UNDECLARED_CODE, words, trait, "problem") for trait, words in undeclared.items()),
            *_find_twins(compared, first),
            *(Fact(one.code, one.words, one.subject, one.severity, one.numbers) for one in remarks),
            *(Fact("limit", words) for words in study.limits),
        ),
        describe_only_difference(compared, factor, first, catalog) if not undeclared else None,
        {name: {trait.name: trait.value[:200] for trait in own.values()} for name, own in first.items()},
        suggest_study(plan, factor, remarks, paths),
        list_blind_spots(
            plan,
            chosen,
            compared,
            all_pairs,
            affordable=_count_numbers(plan, all_pairs) * len(study.trial_seeds) <= MOST_NUMBERS,
        ),
        name_settings(find_varied(classes_of(compared), factor), groups[0].config),
        identical=identical,
        caveats=tuple(remark.short for remark in remarks if remark.short and remark.severity != "problem"),
        tuned=describe_tuning(plan),
    )


def _spread(items: Sequence[Item], count: int | None) -> tuple[Item, ...]:
    """At most this many of them, evenly from the first to the last."""
    if count is None or len(items) <= count:
        return tuple(items)
    return tuple(items[round(index * (len(items) - 1) / max(count - 1, 1))] for index in range(count))


def _trial(plan: Plan, group: Group, seed: int) -> Trial:
    return Trial("", group.name, seed, plan.resolved.study.seed, group.config, plan.resolved.catalog)


def _compare(reader: _Reader, pair: Pair, factor: Sequence[str], tuned: Sequence[str] = ()) -> _Differences:
    """Compare both arms as they are, and each with the other's factor and the values that were tuned for it."""
    a, b = reader.read(pair.a), reader.read(pair.b)
    apart = frozenset(find_differences(a, b, pair.names))
    undeclared: dict[str, str] = {}
    computed: set[str] = set()
    for own, other, target in ((pair.a, pair.b, b), (pair.b, pair.a, a)):
        config = with_factor_of(own.config, other.config, (*factor, *tuned), reader.plan.resolved.catalog)
        exchanged = None if config is None else reader.read_exchanged(own, config)
        if config is None or exchanged is None:
            undeclared.setdefault("configuration", f"{own.name} cannot take over the factor of {other.name}")
            continue
        in_order = own is pair.a
        differing = find_differences(*((exchanged, target) if in_order else (target, exchanged)), pair.names)
        direct = {name: found.sentence for name, found in differing.items() if not found.computed}
        computed |= set(differing) - set(direct)
        if differing and not direct:
            settings = (config, other.config) if in_order else (other.config, config)
            name = next(iter(differing))
            direct = {name: _name_setting(pair, settings) or differing[name].sentence}
        for name, words in direct.items():
            undeclared.setdefault(name, words)
    by_tuning = frozenset(_by_tuning(reader, pair, tuned) & apart if tuned else ())
    return _Differences(undeclared, frozenset(computed - set(undeclared)), apart, by_tuning)


def _by_tuning(reader: _Reader, pair: Pair, tuned: Sequence[str]) -> set[str]:
    """Traits in which the first arm, at the second one's tuned values and with its own factor, is like the second."""
    config = with_factor_of(pair.a.config, pair.b.config, tuned, reader.plan.resolved.catalog)
    exchanged = None if config is None else reader.read_exchanged(pair.a, config)
    if exchanged is None:
        return set()
    return set(exchanged) - set(find_differences(exchanged, reader.read(pair.b), pair.names))


def _name_setting(pair: Pair, configs: tuple[Config, Config]) -> str:
    """The settings behind a difference that shows only in what the networks compute; nothing if there are none."""
    first, second = (read_settings(config) for config in configs)
    return "; ".join(
        f"{plain_path(path)} is {first.get(path)} in {pair.a.name} and {second.get(path)} in {pair.b.name}"
        for path in {**first, **second}
        if first.get(path) != second.get(path)
    )


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
                found[trait] = f"{trait}: {in_each(f'{x:,.0f}', f'{y:,.0f}', pair.names)} (declared: {said})"
                break
    return found


def design_of(plan: Plan, pairs: Sequence[Pair] | None = None, realize: Realize = prepare) -> Design:
    """What caveats examine: the pairs, and each of their groups before its first step, at the first seed."""
    if pairs is None:
        pairs = pairs_of(plan.resolved.study, [planned.group for planned in plan.groups])
    compared = {group.name: group for pair in pairs for group in (pair.a, pair.b)}
    groups = compared or {group.name: group for group in [plan.groups[0].group]}
    seed = plan.resolved.study.trial_seeds[0]
    starts: dict[str, Start] = {}
    data: dict[str, Dataset] = {}
    shared: dict[str, Dataset] = {}
    for name, group in groups.items():
        setup = realize(_trial(plan, group, seed))
        data[name] = shared.setdefault(canonical_json(group.config.data.model_dump(mode="json")), setup.dataset)
        if name in compared:
            starts[name] = start_of(setup)
    return Design(plan, tuple(pairs), starts, data)


def _remarks(design: Design) -> list[Remark]:
    catalog = design.plan.resolved.catalog
    kinds: list[Caveat] = [catalog.make("caveat", name, {}) for name in catalog.ranked("caveat")]
    found = [remark for kind in kinds for remark in kind.remarks(design)]
    axes = tuple(design.plan.resolved.study.axes or ())
    return [remark for remark in found if not _is_separated(remark, axes)]


def _is_separated(remark: Remark, axes: Sequence[str]) -> bool:
    """Whether the axes of a grid vary what would separate the causes: then its effects tell them apart."""
    return bool(remark.axes) and all(any(overlap(path, axis) for axis in axes) for path in remark.axes)


def _find_twins(pairs: Sequence[Pair], first: Mapping[str, Realized]) -> list[Fact]:
    """Name groups of one class that are the same set-up."""
    found = []
    for groups in classes_of(pairs):
        alike: dict[tuple[tuple[str, str], ...], list[str]] = {}
        for group in groups:
            values = tuple((trait.name, trait.value) for trait in first[group.name].values())
            alike.setdefault(values, []).append(group.name)
        found += [_describe_twins(names) for names in alike.values() if len(names) > 1]
    return found


def _describe_twins(names: Sequence[str]) -> Fact:
    shown = listed(names) if len(names) > SHOWN else join(names)
    words = f"Nothing varies: {shown} are the same set-up, so their results are equal."
    return Fact("nothing_varies", words, names[0], numbers={"groups": len(names)})


def _describe_scope(pairs: int, all_pairs: int, seeds: int, all_seeds: int) -> str:
    def count(some: int, every: int, word: str) -> str:
        return f"{some} of {every:,} {word}s" if some < every else counted(every, word)

    both = f"{count(pairs, all_pairs, 'pair')} of groups at {count(seeds, all_seeds, 'seed')}"
    return f"{both}, each also with the other's factor"


def _rows(first: Mapping[str, Realized], statuses: Mapping[str, Status]) -> tuple[Row, ...]:
    """Every trait that any arm has, arms side by side; of many arms the distinct values."""
    table = {}
    for name in dict.fromkeys(trait for traits in first.values() for trait in traits):
        cells = [traits[name].words if name in traits else "–" for traits in first.values()]
        if len(first) > MOST_COLUMNS:
            cells = [listed(dict.fromkeys(cells), MOST_COLUMNS, apart="; ")]
        table[name] = cells
    return make_table(table, {name: statuses.get(name, SAME) for name in table})


def _undeclared_paths(pairs: Sequence[Pair], factor: Sequence[str]) -> dict[str, tuple[object, ...]]:
    """Paths outside the factor in which the configurations of a pair differ, with both values."""
    found: dict[str, tuple[object, ...]] = {}
    for pair in pairs:
        trees = [group.config.model_dump(mode="json") for group in (pair.a, pair.b)]
        for path in {**pair.a.settings, **pair.b.settings}:
            values = tuple(value_at(tree, path) for tree in trees)
            if path not in factor and values[0] != values[1]:
                found.setdefault(path, values)
    return found
