"""Arms that people wrote, the first beside each of the others: which declared factor explains which difference.

Factories that build PyTorch objects and traces of scripts are compared this way; torch is not needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gradlab.audits.audit import UNDECLARED_CODE
from gradlab.audits.compare import BY_FACTOR, SAME, UNDECLARED, Comparison, Row, Status, make_table
from gradlab.errors import InvalidInput, nearest, shortened
from gradlab.facts import Fact

FACTORS: dict[str, str] = {
    "model": "the architecture: layers, shapes, connections, and all that skip, activation, norm and dropout name",
    "skip": "how layers are connected: sums of earlier activations, concatenations, the scale of a branch",
    "activation": "activation functions",
    "norm": "normalization layers, with their parameters and buffers",
    "dropout": "dropout, as modules or as functions",
    "init": "initial values of the parameters",
    "frozen": "which parameters are trained",
    "optimizer": "the optimizer and its settings; if it is of another class, with its learning rate and weight decay",
    "lr": "learning rates",
    "schedule": "a learning-rate scheduler made in the factory",
    "weight_decay": "weight decay",
    "clip": "hooks on gradients and on the optimizer's step",
    "loss": "the loss",
    "data": "samples, labels, their number, their preprocessing",
    "order": "the sampler and the order of samples",
    "batch": "batch size and whether the last batch is dropped",
    "precision": "dtype, device and switches of PyTorch",
    "mode": "training or evaluation mode",
    "seed": "draws of initial values and the order of samples, from the same distributions",
}
"""Name -> what may differ when it is declared."""
NEITHER = ("none", "none")


@dataclass(frozen=True)
class PairResult:
    """The first arm and another one, compared."""

    names: tuple[str, str]
    comparisons: Mapping[str, Comparison]
    """By trait."""
    statuses: Mapping[str, Status]
    """Trait -> whether and why the arms differ in it."""
    remarks: tuple[Fact, ...]
    unseen: tuple[str, ...]

    def find(self, *statuses: Status) -> Iterator[Comparison]:
        """Differences of some status that do not follow from another one."""
        apart = {trait for trait, found in self.comparisons.items() if found.differs}
        for trait, found in self.comparisons.items():
            if found.differs and self.statuses[trait] in statuses and not apart & set(found.follows):
                yield found


def find_statuses(comparisons: Mapping[str, Comparison], declared: Sequence[str]) -> dict[str, Status]:
    """Trait -> whether the arms differ in it, and whether a declared factor or another difference explains it."""
    known: dict[str, Status] = {}

    def find(trait: str) -> Status:
        if trait not in known:
            known[trait] = SAME  # ends a circle
            known[trait] = decide(comparisons[trait])
        return known[trait]

    def decide(found: Comparison) -> Status:
        if not found.differs:
            return SAME
        if found.factors & set(declared):
            return BY_FACTOR
        causes = {find(name) for name in found.follows if name in comparisons and comparisons[name].differs}
        return BY_FACTOR if causes == {BY_FACTOR} else UNDECLARED

    return {trait: find(trait) for trait in comparisons}


def pair_rows(results: Sequence[PairResult]) -> tuple[Row, ...]:
    """The table of all arms."""
    cells, statuses = {}, {}
    for trait in dict.fromkeys(trait for result in results for trait in result.comparisons):
        found = [result.comparisons.get(trait) for result in results]
        if all(each is None or each.cells == NEITHER for each in found):
            continue  # hooks, noise and the like that no arm has
        first = next(each.cells[0] for each in found if each is not None)
        cells[trait] = (first, *("–" if each is None else each.cells[1] for each in found))
        of_pairs = {result.statuses.get(trait, SAME) for result in results}
        statuses[trait] = next(status for status in Status if status in of_pairs)
    return make_table(cells, statuses)


def find_undeclared(results: Sequence[PairResult]) -> tuple[Fact, ...]:
    """What no declared factor explains, trait by trait."""
    sentences = collect_sentences(results, UNDECLARED)
    return tuple(Fact(UNDECLARED_CODE, words, trait, "problem") for trait, words in sentences.items())


def collect_sentences(results: Sequence[PairResult], status: Status) -> dict[str, str]:
    """Trait -> its sentence in the first pair that differs so, without what follows from other differences."""
    sentences: dict[str, str] = {}
    for result in results:
        for found in result.find(status):
            sentences.setdefault(found.trait, found.sentence)
    return sentences


def pair_hashes(names: Sequence[str], results: Sequence[PairResult]) -> dict[str, dict[str, str]]:
    """Arm -> trait -> hash or value."""
    hashes: dict[str, dict[str, str]] = {name: {} for name in names}
    for result in results:
        for trait, found in result.comparisons.items():
            for name, value in zip(result.names, found.values or found.cells, strict=True):
                hashes[name].setdefault(trait, value[:200])
    return hashes


def named_factors(given: str | Iterable[str], also: Iterable[str] = ()) -> tuple[str, ...]:
    """The declared factors, each once; `InvalidInput` names the nearest of an unknown one."""
    accepted = [*FACTORS, *also]
    if not isinstance(given, str):
        if not isinstance(given, Iterable):
            raise InvalidInput(f"factor: {shortened(given)} is not a name; accepted: {', '.join(accepted)}")
        given = ",".join(str(name) for name in given)
    names = list(dict.fromkeys(name.strip() for name in given.split(",") if name.strip()))
    for name in names:
        if name not in accepted:
            raise InvalidInput(
                f"factor: {shortened(name)} is not known; accepted: {', '.join(accepted)}{nearest(name, accepted)}"
            )
    if not names:
        raise InvalidInput(f"factor: no name is given; accepted: {', '.join(accepted)}")
    return tuple(names)
