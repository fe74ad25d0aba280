"""Diagnose any network from a probe's numbers: name the problem, the evidence, and what usually helps.

Each rule is a file of `rules/`. They look at ratios, hardly ever at absolute sizes: how the backprop signal and the
activations change along the network, how far a step moved each weight, what the loss is against a guess.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gradlab.torch.findings import NOTHING_SEEN, Finding, Findings, join_names
from gradlab.torch.rules import inputs, inside, loss, nonfinite, signals, steps, units, wiring

if TYPE_CHECKING:
    from gradlab.torch.overfitting import Overfit
    from gradlab.torch.results import ProbeResults

MAX_ERROR_LENGTH = 160
"""Maximum length of an error message in a note."""
SHARDED = (
    "Parameters are sharded over processes (as under FSDP): gradients, sizes and updates of parameters are those of "
    "the shard that this process holds, not of the whole tensor."
)
LOCAL = (
    "Several processes train together: activations, the backprop signal and the loss are those of this process. "
    "Gradients are as they were after the backward pass: under DistributedDataParallel, their mean over processes."
)
NO_BACKWARD = "No backward pass was seen: only activations are judged."
NO_ACTIVATIONS = "Activations could not be seen: gradients, updates and the loss are judged."
SEVERITY = (
    "NaN or infinity", "wrong sign of the loss", "probabilities instead of logits", "gradients not cleared",
    "no gradient", "not in the optimizer", "frozen", "does not move", "steps too large", "steps too small",
    "weight decay too strong", "identical samples", "input scale", "identical units", "dead units", "saturated units",
    "initial loss too high", "exploding gradients", "exploding activations", "vanishing gradients",
    "vanishing activations", "samples look alike", "saturated attention", "experts never chosen", "loss rises",
    "does not generalize", "cannot overfit one batch",
)  # fmt: skip
"""The names of all findings, the most severe first."""
SYMPTOMS = ("frozen", "loss does not fall", "loss spikes")
"""Findings that are only noted."""


def diagnose_probe(probe: ProbeResults, overfit: Overfit | None = None) -> Findings:
    """Diagnose the numbers of a probe and the attempt to overfit, if there was one."""
    skipped = _describe_skipped(probe)
    records = probe.records
    if not records.passes and not records.backwards and not probe._gradients:
        return Findings(tuple(check_overfit(probe, overfit)), overfit, (NOTHING_SEEN, *skipped))
    found = list(find_problems(probe))
    found += check_overfit(probe, overfit)
    faults = sorted((one for one in found if one.name not in SYMPTOMS or not one.helps), key=_rank)
    noted = tuple(one for one in found if one.name in SYMPTOMS and one.helps)
    return Findings(tuple(faults), overfit, (*describe_limits(probe), *skipped), noted)


def find_problems(probe: ProbeResults) -> Iterator[Finding]:
    """Apply every rule to one pass. Where numbers are not finite, trends over depth say nothing."""
    broken = list(nonfinite.find(probe))
    yield from broken
    yield from loss.find(probe)
    yield from inputs.find(probe)
    if not broken:
        yield from signals.find(probe)
        yield from units.find(probe)
        yield from inside.find(probe)
    yield from wiring.find(probe)
    yield from steps.find(probe)


def describe_limits(probe: ProbeResults) -> list[str]:
    """Say what was not there to be judged."""
    limits = []
    if not probe.records.passes:
        limits.append(NO_ACTIVATIONS)
    if not probe.records.backwards and not probe._gradients:
        limits.append(NO_BACKWARD)
    if probe.sharded:
        limits.append(SHARDED)
    elif _trains_with_others():
        limits.append(LOCAL)
    return limits


def rank_of(name: str) -> int:
    """The place of a finding among the others."""
    return SEVERITY.index(name) if name in SEVERITY else len(SEVERITY)


def _rank(finding: Finding) -> int:
    return rank_of(finding.name)


def _trains_with_others() -> bool:
    import torch.distributed as dist

    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def _describe_skipped(probe: ProbeResults) -> list[str]:
    if not probe.skipped:
        return []
    why = next(iter(probe.skipped.values()))
    shown = why if len(why) < MAX_ERROR_LENGTH else why[:MAX_ERROR_LENGTH] + "…"
    return [f"Not looked into: {join_names(list(probe.skipped))} ({shown})."]


def check_overfit(probe: ProbeResults, overfit: Overfit | None) -> Sequence[Finding]:
    """The finding of a network that could not learn one batch."""
    if overfit is None or overfit.ok:
        return ()
    return (
        Finding(
            "cannot overfit one batch", type(probe.model).__name__, overfit.words,
            "before any question of depth or data: do inputs and targets belong together, does the loss fit the "
            "output, do all parameters get a gradient and move, is the learning rate of the right size?",
        ),
    )  # fmt: skip
