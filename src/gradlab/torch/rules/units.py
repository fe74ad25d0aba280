"""Units: dead ones, saturated ones, and units that all compute the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gradlab.torch.findings import Finding, join_names
from gradlab.torch.operations import BOUNDED_OPERATIONS

if TYPE_CHECKING:
    from gradlab.torch.results import ProbeResults
    from gradlab.torch.statistics import ModuleStatistics

DEAD, SATURATED = 0.9, 0.9
BOUNDED = ("Tanh", "Sigmoid", "Hardtanh", "Hardsigmoid", "Softsign", *BOUNDED_OPERATIONS)


def find(probe: ProbeResults) -> Iterator[Finding]:
    """Judge nonlinearities by what they return, and matrices by their rows."""
    records = probe.records
    owners = {weight.names[0].rpartition(".")[0] for weight in probe.weights}
    rows = {row.name: row for row in records.all_rows()}
    judged = [
        row for row in rows.values() if row.name not in owners and row.name not in records.blocks and not row.idle
    ]
    dead = [row for row in judged if row.dead > DEAD and not _was_dead(rows.get(row.source))]
    if dead:
        yield Finding(
            "dead units", dead[0].name,
            f"{100 * dead[0].dead:.0f} % of its units are 0 on the whole batch{_count_others(dead)}",
            "use a smaller learning rate, biases that do not start far below 0, or an activation with a slope on both "
            "sides",
        )  # fmt: skip
    full = [row for row in judged if row.saturated > SATURATED and row.kind in BOUNDED]
    if full:
        yield Finding(
            "saturated units", full[0].name,
            f"{100 * full[0].saturated:.0f} % of its outputs are at the ends of their range{_count_others(full)}",
            "use smaller weights or inputs (Xavier init), or normalize before the nonlinearity",
        )  # fmt: skip
    same = [weight.names[0] for weight in probe.weights if weight.same_rows and weight.trainable]
    if same:
        yield Finding(
            "identical units", join_names(same), "all units of the layer have the same weights and will stay the same",
            "draw initial weights at random (PyTorch's default, He, Xavier)",
        )  # fmt: skip


def _was_dead(source: ModuleStatistics | None) -> bool:
    """Whether what a row received was already 0: a branch that starts at 0 is no dead unit."""
    return source is not None and source.dead > DEAD


def _count_others(found: Sequence[ModuleStatistics]) -> str:
    return f"; the same holds for {len(found) - 1} more" if len(found) > 1 else ""
