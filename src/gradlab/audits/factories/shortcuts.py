"""Whether what only one arm has belongs to its skip connections: projections, their norms, scales of a branch."""

from __future__ import annotations

from collections import Counter

from gradlab.audits.factories.arms import Arm
from gradlab.audits.factories.forward import run
from gradlab.audits.factories.matching import NORM, match, parameters_of
from gradlab.audits.factories.structure import norm_words


def skip_parameters(a: Arm, b: Arm, seed: int) -> bool:
    """Whether every parameter without a partner belongs to a shortcut: its result goes straight into a sum."""
    matched = match(parameters_of(a.model), parameters_of(b.model))
    for arm, slots in ((a, matched.only_first), (b, matched.only_second)):
        if slots:
            graph = run(arm, arm.batches[0][0], seed, True).graph
            if graph is None or not all(graph.in_shortcut(slot.name) for slot in slots):
                return False
    return True


def skip_norms(a: Arm, b: Arm) -> bool:
    """Whether the norms differ only by those that hold parameters without a partner."""
    ours, theirs = (Counter(norm_words(arm.model)) for arm in (a, b))
    matched = match(parameters_of(a.model), parameters_of(b.model))
    lonely = (*matched.only_first, *matched.only_second)
    holders = {slot.name.rpartition(".")[0] for slot in lonely if slot.kind == NORM}
    extra = (ours - theirs).total(), (theirs - ours).total()
    return 0 in extra and sum(extra) == len(holders)
