"""The audit of factories: builds the arms, compares the first with each of the others, puts the answer together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from gradlab.audits.audit import BY_FACTOR, ONE_SEED, SAME, UNDECLARED, Audit, Row, Status
from gradlab.audits.factories.arms import BATCHES, Arm, Factory, build
from gradlab.audits.factories.factors import FORWARD, read_factor
from gradlab.audits.factories.first_step import Step, step_points, take_step
from gradlab.audits.factories.forward import forward_points
from gradlab.audits.factories.guest import guarded
from gradlab.audits.factories.losses import loss_points
from gradlab.audits.factories.matching import parameters_of
from gradlab.audits.factories.points import Point
from gradlab.audits.factories.samples import sample_points
from gradlab.audits.factories.shortcuts import skip_norms, skip_parameters
from gradlab.audits.factories.structure import LAYERS, NORMS, structure_points
from gradlab.audits.factories.updates import DECAY, OPTIMIZER, RATE, update_points
from gradlab.errors import InvalidInput
from gradlab.trials.seeding import seeded

NOTHING = "none, in anything that was compared"
NEITHER = ("none", "none")
APART = 10.0
"""Outputs before training that are further apart are remarked on."""
DRAWS = frozenset({"init", "model", "skip", "norm", "activation", "data", "seed"})
"""Factors that may change how many random numbers building a model draws."""
ORDER = "order of samples"
LOOP = (
    "The training loop: gradient clipping, weight averaging (EMA), schedulers, the number of epochs and early stopping "
    "inside it are not part of the factories."
)


@dataclass(frozen=True)
class Pair:
    """The first arm and another one, compared."""

    names: tuple[str, str]
    points: tuple[Point, ...]
    status: Mapping[str, Status]
    """Trait -> whether and why the arms differ in it."""
    remarks: tuple[str, ...]
    unseen: tuple[str, ...]
    steps: tuple[Step, Step]

    @property
    def undeclared(self) -> Iterator[Point]:
        """Differences that the factor does not explain and that do not follow from another one."""
        apart = {point.trait for point in self.points if point.differs}
        for point in self.points:
            if self.status[point.trait] == UNDECLARED and not apart & set(point.follows):
                yield point


def audit_code(factories: Mapping[str, Factory], seed: int = 0, factor: str | Iterable[str] | None = None) -> Audit:
    """Both answers for arms that are built by functions; the first is compared with each of the others."""
    declared = read_factor(factor)
    if len(factories) < 2:
        raise InvalidInput("audit: give at least two factories, {'plain': make_plain, 'residual': make_residual}")
    arms = [(str(name), factory) for name, factory in factories.items()]
    with seeded(seed), guarded():
        first = build(*arms[0], seed)
        pairs = [_compared(first, build(name, factory, seed), seed, declared) for name, factory in arms[1:]]
    names = tuple(name for name, _ in arms)
    undeclared: dict[str, str] = {}
    for pair in pairs:
        for point in pair.undeclared:
            undeclared.setdefault(point.trait, point.sentence)
    remarks = dict.fromkeys(remark for pair in pairs for remark in pair.remarks)
    unseen = dict.fromkeys(sentence for pair in pairs for sentence in pair.unseen)
    return Audit(
        " and ".join(names),
        declared,
        f"{len(names)} factories under seed {seed}: what they build, {BATCHES} batches and a first step of each",
        names,
        _rows(pairs),
        tuple(undeclared.values()),
        None if undeclared else _only(pairs),
        (*remarks, ONE_SEED),
        _hashes(names, pairs),
        cannot_see=(*unseen, LOOP),
    )


def _compared(a: Arm, b: Arm, seed: int, declared: Sequence[str]) -> Pair:
    names = (a.name, b.name)
    moved = not a.built.same(b.built)
    points = [
        *structure_points(a, b, names),
        *forward_points(a, b, names, seed),
        *loss_points(a, b, names, seed),
        *sample_points(a.samples, b.samples, names, moved),
        *update_points(a, b, names, declared),
    ]
    points = [_widened(point, a, b, seed, declared, moved) for point in points]
    steps = take_step(a), take_step(b)
    points += step_points(a, b, steps, tuple(point.trait for point in points))
    status = _statuses(points, declared)
    remarks = tuple(_remarks(a, b, points, steps, declared, moved))
    return Pair(names, tuple(points), status, remarks, tuple(_unseen(a, b)), steps)


def _widened(point: Point, a: Arm, b: Arm, seed: int, declared: Sequence[str], moved: bool) -> Point:
    """Consequences that a factor has in these arms: a shortcut's own weights, other draws after a longer building."""
    if not point.differs:
        return point
    shortcut = point.trait == LAYERS or (point.trait == NORMS and skip_norms(a, b))
    if "skip" in declared and shortcut and skip_parameters(a, b, seed):
        return replace(point, factors=point.factors | {"skip"})
    if point.trait == ORDER and moved:
        return replace(point, factors=point.factors | DRAWS)
    return point


def _statuses(points: Sequence[Point], declared: Sequence[str]) -> dict[str, Status]:
    by_name = {point.trait: point for point in points}
    known: dict[str, Status] = {}

    def status(point: Point) -> Status:
        if point.trait not in known:
            known[point.trait] = SAME  # ends a circle
            known[point.trait] = decided(point)
        return known[point.trait]

    def decided(point: Point) -> Status:
        if not point.differs:
            return SAME
        if point.factors & set(declared):
            return BY_FACTOR
        causes = {status(by_name[name]) for name in point.follows if name in by_name and by_name[name].differs}
        return BY_FACTOR if causes == {BY_FACTOR} else UNDECLARED

    return {point.trait: status(point) for point in points}


def _rows(pairs: Sequence[Pair]) -> tuple[Row, ...]:
    by_name = [{point.trait: point for point in pair.points} for pair in pairs]
    rows = []
    for trait in dict.fromkeys(name for own in by_name for name in own):
        there = [own.get(trait) for own in by_name]
        first = next(point.cells[0] for point in there if point is not None)
        if all(point is None or point.cells == NEITHER for point in there):
            continue  # hooks, noise and the like that no arm has
        statuses = {pair.status.get(trait, SAME) for pair in pairs}
        status = next(word for word in (UNDECLARED, BY_FACTOR, SAME) if word in statuses)
        rows.append(Row(trait, (first, *("–" if p is None else p.cells[1] for p in there)), status))
    return tuple(sorted(rows, key=lambda row: (UNDECLARED, BY_FACTOR, SAME).index(row.status)))


def _only(pairs: Sequence[Pair]) -> str:
    """What sets the arms apart, without what follows from it."""
    found: dict[str, str] = {}
    for pair in pairs:
        apart = {point.trait for point in pair.points if point.differs}
        for point in pair.points:
            if point.differs and not apart & set(point.follows):
                found.setdefault(point.trait, point.sentence)
    if set(found) == {FORWARD}:
        return f"the {found[FORWARD]}"
    return "; ".join(found.values()) or NOTHING


def _hashes(names: Sequence[str], pairs: Sequence[Pair]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {name: {} for name in names}
    for pair in pairs:
        for point in pair.points:
            for name, value in zip(pair.names, point.values or point.cells, strict=True):
                found[name].setdefault(point.trait, value[:200])
    return found


def _remarks(
    a: Arm, b: Arm, points: Sequence[Point], steps: tuple[Step, Step], declared: Sequence[str], moved: bool
) -> Iterator[str]:
    """What the design cannot attribute, even if every difference is declared."""
    differing = {point.trait for point in points if point.differs}
    sizes = sorted(((step.size, arm.name) for step, arm in zip(steps, (a, b), strict=True)), key=lambda each: each[0])
    (small, least), (large, most) = sizes
    if large > APART * max(small, 1e-300):
        yield (
            f"Initial scale: before any training the output (root mean square) is {small:.3g} in {least} and "
            f"{large:.3g} in {most}. Gradients and losses carry this factor."
        )
    counts = [sum(slot.tensor.numel() for slot in parameters_of(arm.model)) for arm in (a, b)]
    if counts[0] != counts[1]:
        yield f"Size: {counts[0]:,} parameters in {a.name}, {counts[1]:,} in {b.name}."
    if OPTIMIZER in differing and differing & {RATE, DECAY} and "optimizer" in declared:
        also = " and ".join(trait for trait in (RATE, DECAY) if trait in differing)
        yield f"The optimizers also differ in {also}: the result belongs to both together."
    if ORDER in differing and moved and DRAWS & set(declared):
        yield (
            "The order of samples differs because building draws different numbers of random numbers. "
            "Give the loader its own generator to compare on the same batches."
        )
    if a.model is b.model:
        yield "Both factories return the same model object: the second training starts where the first one ends."


def _unseen(a: Arm, b: Arm) -> Iterator[str]:
    for arm in (a, b):
        samples, read = arm.samples, len(arm.samples.read)
        if not read:
            yield f"The data of {arm.name} beyond its first {len(arm.batches)} batches: it can be read once."
        elif samples.partly:
            of = "" if samples.size is None else f" of {samples.size:,}"
            yield f"The data of {arm.name} beyond {read:,}{of} {samples.unit}: reading them all takes too long."
        if arm.samples.random:
            yield f"Whether augmentation that is random each time has the same distribution: {arm.name}."
