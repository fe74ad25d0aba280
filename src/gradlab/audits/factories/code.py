"""The audit of factories: builds the arms, compares the first with each of the others, puts the answer together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from gradlab.audits.audit import ONE_SEED, Audit
from gradlab.audits.compare import BY_FACTOR, Comparison, Trait, compare
from gradlab.audits.factories.arms import BATCHES, ArmPair, Factory, build, parameters_of
from gradlab.audits.factories.guest import Switches, guarded
from gradlab.audits.factories.losses import (
    DIFFERS,
    GRADIENT,
    UNCLEAR,
    classes_left_out,
    compare_derivatives,
    compare_losses,
)
from gradlab.audits.factories.models import (
    FORWARD,
    FORWARD_HOOKS,
    GRADIENT_HOOKS,
    PINNED,
    SEEDED,
    SHIFTED,
    WEIGHTS,
    belongs_to_skip,
    compare_passes,
    compare_structure,
    follows_seed,
)
from gradlab.audits.factories.samples import ORDER, compare_samples
from gradlab.audits.factories.updates import (
    DECAY,
    OPTIMIZER,
    RATE,
    STEP_HOOKS,
    Step,
    compare_optimizers,
    compare_steps,
    take_step,
)
from gradlab.audits.side_by_side import (
    PairResult,
    collect_sentences,
    find_statuses,
    find_undeclared,
    named_factors,
    pair_hashes,
    pair_rows,
)
from gradlab.errors import InvalidInput
from gradlab.facts import Fact
from gradlab.trials.seeding import seeded
from gradlab.words import join, written

NOTHING = "none, in anything that was compared"
SWITCHED = "switches of torch"
APART = 10.0
"""Outputs before training that are further apart are remarked on."""
DRAWS = frozenset({"init", "model", "skip", "norm", "activation", "data", "seed"})
"""Factors that may change how many random numbers building a model draws."""
LATER = (
    "What changes later: dropout, noise or a rate that depends on the number of calls or steps; weight averaging "
    "(EMA), Lookahead; augmentation such as mixup that begins after the first batches."
)
LOOP = (
    "The training loop: gradient clipping, weight averaging (EMA), schedulers, the number of epochs and early stopping "
    "inside it are not part of the factories."
)


def audit_code(factories: Mapping[str, Factory], seed: int = 0, factor: str | Iterable[str] | None = None) -> Audit:
    """Both answers for arms that are built by functions; the first is compared with each of the others."""
    declared = read_factor(factor)
    if len(factories) < 2:
        raise InvalidInput("audit: give at least two factories, {'plain': make_plain, 'residual': make_residual}")
    arms = [(str(name), factory) for name, factory in factories.items()]
    with seeded(seed), guarded():
        base = Switches.take()
        first = build(*arms[0], seed)
        seeded_first = Trait.of_words(SEEDED, follows_seed(first, arms[0][1], seed))
        results = []
        for name, factory in arms[1:]:
            base.put()
            other = build(name, factory, seed)
            pair = ArmPair(first, other, seed, declared)
            seeded_other = Trait.of_words(SEEDED, follows_seed(other, factory, seed))
            if other.turned != first.turned:
                base.put()
            results.append(_compare(pair, compare(seeded_first, seeded_other, pair.names, ("seed", "init"))))
    names = tuple(name for name, _ in arms)
    undeclared = find_undeclared(results)
    return Audit(
        join(names),
        declared,
        f"{len(names)} factories under seed {seed}: what they build, {BATCHES} batches and a first step of each",
        names,
        pair_rows(results),
        (
            *undeclared,
            *{remark.words: remark for result in results for remark in result.remarks}.values(),
            ONE_SEED,
        ),
        None if undeclared else _describe_only(collect_sentences(results, BY_FACTOR)),
        pair_hashes(names, results),
        cannot_see=(*dict.fromkeys(sentence for result in results for sentence in result.unseen), LATER, LOOP),
    )


def _compare(pair: ArmPair, seeded_weights: Comparison) -> PairResult:
    found = [
        *compare_structure(pair),
        seeded_weights,
        pair.items(SWITCHED, lambda arm: arm.turned, "precision"),
        *compare_passes(pair),
        compare_derivatives(pair),
        compare_losses(pair),
        *compare_samples(pair),
        *compare_optimizers(pair),
    ]
    found = [_widen(each, pair) for each in found]
    steps = take_step(pair.a), take_step(pair.b)
    found += compare_steps(pair, steps, tuple(each.trait for each in found))
    comparisons = {each.trait: each for each in found}
    statuses = find_statuses(comparisons, pair.declared)
    remarks, unseen = tuple(_remarks(pair, comparisons, steps)), tuple(_find_unseen(pair, comparisons))
    return PairResult(pair.names, comparisons, statuses, remarks, unseen)


def _widen(found: Comparison, pair: ArmPair) -> Comparison:
    """Consequences that a factor has in these arms: a shortcut's own weights, other draws after a longer building."""
    if not found.differs:
        return found
    if "skip" in pair.declared and belongs_to_skip(found, pair):
        return replace(found, factors=found.factors | {"skip"})
    if found.trait == ORDER and pair.moved:
        return replace(found, factors=found.factors | DRAWS)
    return found


def _describe_only(sentences: Mapping[str, str]) -> str:
    """What sets the arms apart."""
    if set(sentences) == {FORWARD}:
        return f"the {sentences[FORWARD]}"
    return "; ".join(sentences.values()) or NOTHING


def _remarks(pair: ArmPair, found: Mapping[str, Comparison], steps: tuple[Step, Step]) -> Iterator[Fact]:
    """What the design cannot attribute, even if every difference is declared."""
    a, b = pair
    declared = set(pair.declared)
    (small, least), (large, most) = sorted(zip((step.size for step in steps), pair.names, strict=True))
    if large > APART * max(small, 1e-300):
        words = (
            f"Initial scale: before any training the output (root mean square) is {written(small)} in {least} and "
            f"{written(large)} in {most}. Gradients and losses carry this factor."
        )
        yield Fact("output_scale", words, most, numbers={"smallest": small, "largest": large})
    counts = [sum(slot.tensor.numel() for slot in parameters_of(arm.model)) for arm in pair]
    if counts[0] != counts[1]:
        words = f"Size: {counts[0]:,} parameters in {a.name}, {counts[1]:,} in {b.name}."
        yield Fact("capacity", words, b.name, numbers={"smallest": min(counts), "largest": max(counts)})
    also = join([trait for trait in (RATE, DECAY) if found[trait].differs])
    if found[OPTIMIZER].differs and also and "optimizer" in declared:
        yield Fact("several_factors", f"The optimizers also differ in {also}: the result belongs to both together.")
    if found[ORDER].differs and pair.moved and DRAWS & declared:
        yield Fact(
            "other_order",
            "The order of samples differs because building draws different numbers of random numbers. "
            "Give the loader its own generator to compare on the same batches.",
        )
    drawn = [found[trait] for trait in WEIGHTS if trait in found and found[trait].differs]
    if any(each.factors & SHIFTED & declared for each in drawn):
        yield Fact(
            "other_draws",
            "Initial weights: those that both arms have are other draws, because building draws others in between. "
            "One pair of draws does not tell the factor from luck; several seeds can.",
        )
    if all(cell == PINNED for cell in found[SEEDED].cells):
        words = "Both factories build the same weights under every seed: repeated trials are not independent."
        yield Fact("seed_without_effect", words)
    hooks = [found[trait] for trait in (FORWARD_HOOKS, GRADIENT_HOOKS, STEP_HOOKS)]
    if any(not kind.differs and kind.cells[0] != kind.cells[1] for kind in hooks):
        yield Fact("idle_hooks", "Hooks that only one arm has change neither outputs nor gradients before training.")
    if all(cell.startswith(DIFFERS) for cell in found[GRADIENT].cells):
        yield Fact(
            "gradient_not_derivative",
            "In both arms the gradient is not the derivative of the loss (a straight-through estimator, a detached "
            "path, a hook): whether it is off by the same amount cannot be compared between different models.",
        )
    if a.model is b.model:
        words = "Both factories return the same model object: the second training starts where the first one ends."
        yield Fact("same_model", words)


def _find_unseen(pair: ArmPair, found: Mapping[str, Comparison]) -> Iterator[str]:
    for arm, cell in zip(pair, found[GRADIENT].cells, strict=True):
        if cell == UNCLEAR:
            yield f"Whether backward gives the derivative of the loss in {arm.name}: the loss is too rough or fails."
    for arm in pair:
        samples, read = arm.samples, len(arm.samples.read)
        if not read:
            yield f"The data of {arm.name} beyond its first {len(arm.batches)} batches: it can be read once."
        elif samples.partly:
            of = "" if samples.size is None else f" of {samples.size:,}"
            yield f"The data of {arm.name} beyond {read:,}{of} {samples.unit}: reading them all takes too long."
        if left := classes_left_out(arm):
            yield f"The loss on {left[1] - left[0]:,} of {left[1]:,} classes: {arm.name} has too many to try them all."
        if samples.random:
            yield f"Whether augmentation that is random each time has the same distribution: {arm.name}."
        if arm.hides_scheduler:
            yield (
                f"What the learning-rate scheduler of {arm.name} does: the factory makes one and does not return it. "
                "Return it as a fifth value."
            )


def read_factor(given: str | Iterable[str] | None) -> tuple[str, ...]:
    """The declared factors, each once; without any, only the connections of the forward pass may differ."""
    return (FORWARD,) if given is None else named_factors(given)
