"""Wiring: parameters without a gradient, frozen ones, and those that the optimizer does not hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gradlab.torch.findings import Finding, join_names
from gradlab.torch.rules.inside import expert_of

if TYPE_CHECKING:
    from gradlab.torch.results import ProbeResults
    from gradlab.torch.weights import Weight


def find(probe: ProbeResults) -> Iterator[Finding]:
    """Judge every parameter tensor by whether it can learn."""
    ran = probe.records.backwards > 0 or any(weight.grad_l2 is not None for weight in probe.weights)
    idle = {expert for name in probe.records.never_called if (expert := expert_of(name)) is not None}
    opening = find_opening(probe.weights)
    without = [
        w.names[0]
        for w in probe.weights
        if w.trainable
        and w.entries  # another process may hold all of it
        and (w.grad_l2 is None or (w.grad_l2 == 0 and not _is_behind(w, opening)))
        and expert_of(w.names[0]) not in idle
    ]
    if ran and without:
        unused = [name for name in without if name.rpartition(".")[0] in probe.records.never_called]
        if probe.records.passes and len(unused) == len(without):
            evidence = (
                f"{len(without)} of {len(probe.weights)} parameter tensors belong to modules that are never called"
            )
            helps = "call the module in forward, or remove it if it is not needed"
        else:
            evidence = f"{len(without)} of {len(probe.weights)} parameter tensors get no gradient, or exactly 0"
            helps = (
                "is the module used in forward? is there a detach, an argmax, a rounding or a no_grad on the way? does "
                "the loss still depend on the outputs?"
            )
        yield Finding("no gradient", join_names(without), evidence, helps)
    frozen = [w.names[0] for w in probe.weights if not w.trainable]
    if frozen:
        share = sum(w.entries for w in probe.weights if not w.trainable) / max(1, sum(w.entries for w in probe.weights))
        yield Finding(
            "frozen", join_names(frozen), f"requires_grad is False for {100 * share:.0f} % of the parameters",
            "nothing if this is intended; otherwise call requires_grad_(True)",
        )  # fmt: skip
    loose = [w.names[0] for w in probe.weights if w.held is False and w.trainable and not w.moved]
    if loose:
        yield Finding(
            "not in the optimizer", join_names(loose),
            "the optimizer does not have these parameters, so they never change",
            "build the optimizer after the model is complete, from model.parameters()",
        )  # fmt: skip


def find_opening(weights: Sequence[Weight]) -> tuple[str, ...]:
    """Return the scopes of branches that start at 0 and are about to open.

    Behind a tensor that is 0 and has a gradient (ReZero, a norm's scale, LoRA, a head) nothing gets a gradient until it
    has moved. Its scope is the block that holds it, three levels up; of a tensor near the root, the whole network.
    """
    zeros = [w.names[0] for w in weights if w.weight_l2 == 0 and w.grad_l2 and not w.names[0].endswith("bias")]
    return tuple({".".join(name.split(".")[:-3]) for name in zeros})


def _is_behind(weight: Weight, scopes: Sequence[str]) -> bool:
    return any(not scope or weight.names[0].startswith(f"{scope}.") for scope in scopes)
