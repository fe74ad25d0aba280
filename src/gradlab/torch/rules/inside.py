"""What goes on inside special modules: attention that looks at one key, experts that are never chosen, time steps."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradlab.spec.numerals import written
from gradlab.torch.findings import Finding, join_names

if TYPE_CHECKING:
    from gradlab.torch.recurrence import Recurrence
    from gradlab.torch.results import ProbeResults

SHARP_ENTROPY, SHARP_WEIGHT, FEWEST_KEYS = 0.1, 0.9, 8
GONE, GROWN = 1e-10, 1e6
"""First over last time step: below, what happened first cannot be learned; above, the state or gradient explodes."""
FEWEST_TIMES = 8
EXPERT = re.compile(r"(^|\.)\w*experts?\w*\.(\d+)(\.|$)", re.IGNORECASE)


def find(probe: ProbeResults) -> Iterator[Finding]:
    """Judge what was recognized."""
    yield from _find_sharp_attention(probe)
    for each in probe.records.recurrence.values():
        yield from _judge_time(each.name, each)
    for name, sizes in probe._recorder.sizes.items():
        row = probe.modules.get(name)
        if row is not None and len(sizes) >= FEWEST_TIMES:
            yield from judge_cells(name, sizes, row.deltas[::-1])
    yield from find_idle_experts(probe)


def _find_sharp_attention(probe: ProbeResults) -> Iterator[Finding]:
    judged = [each for each in probe.records.attention.values() if each.keys >= FEWEST_KEYS]
    sharp = [each for each in judged if each.entropy < SHARP_ENTROPY and (each.largest or 0) > SHARP_WEIGHT]
    if sharp and 2 * len(sharp) >= len(judged):
        logit = "" if sharp[0].logit is None else f"; the largest logit is {written(sharp[0].logit)}"
        others = f". The same holds for {len(sharp) - 1} more" if len(sharp) > 1 else ""
        yield Finding(
            "saturated attention", sharp[0].name,
            f"each query attends to a single key: its largest weight averages {sharp[0].largest:.2f}, and the "
            f"entropy is {100 * sharp[0].entropy:.1f} % of uniform{logit}{others}",
            "scale logits by 1/√d, use smaller query and key weights, or normalize both before their product",
        )  # fmt: skip


def _judge_time(name: str, each: Recurrence) -> Iterator[Finding]:
    if len(each.state) >= FEWEST_TIMES:
        yield from _judge_states(name, list(each.state))
    if len(each.delta) >= FEWEST_TIMES:
        yield from _judge_gradients(name, list(each.delta))


def judge_cells(name: str, sizes: list[float], deltas: list[float]) -> Iterator[Finding]:
    """Judge a cell that is called in a loop, call by call."""
    yield from _judge_states(name, sizes)
    if len(deltas) >= FEWEST_TIMES:
        yield from _judge_gradients(name, deltas)


def _judge_states(name: str, sizes: list[float]) -> Iterator[Finding]:
    early = next((size for size in sizes if size > 0), 0.0)
    if early and sizes[-1] / early > GROWN:
        yield Finding(
            "exploding activations", f"{name}, over {len(sizes)} time steps",
            f"the state grows by a factor of {written(sizes[-1] / early)} from the first time step to the last",
            "use an orthogonal recurrent matrix of gain 1, a bounded activation, or an LSTM or GRU",
        )  # fmt: skip


def _judge_gradients(name: str, deltas: list[float]) -> Iterator[Finding]:
    count, first, last = len(deltas), deltas[0], deltas[-1]
    largest = max(deltas)
    if last and first / last > GROWN:
        yield Finding(
            "exploding gradients", f"{name}, over {count} time steps",
            f"the gradient grows by a factor of {written(first / last)} from the last time step back to the first",
            "use an orthogonal recurrent matrix of gain 1, an LSTM or GRU, or clip gradients",
        )  # fmt: skip
    elif largest and first < GONE * largest:
        reach = next(back for back in range(count) if deltas[count - 1 - back] < GONE * largest)
        how = "is 0" if first == 0 else f"is {written(largest / first)} times smaller"
        yield Finding(
            "vanishing gradients", f"{name}, over {count} time steps",
            f"the gradient {how} at the first time step: nothing that happened more than {reach} steps before the end "
            "can be learned",
            "use an LSTM or GRU whose forget gate starts open (bias 1 or more), attention, a loss at every time step, "
            "or shorter sequences",
        )  # fmt: skip


def find_idle_experts(probe: ProbeResults) -> Iterator[Finding]:
    """Report experts that no sample was sent to, by their modules or by their router's choices."""
    idle = sorted({found for name in probe.records.never_called if (found := expert_of(name)) is not None})
    called = {found for name in probe.modules if (found := expert_of(name)) is not None}
    idle = [name for name in idle if name not in called]
    if idle and called:
        yield describe_idle(idle, len(idle) + len(called))
    elif not called:
        for load in probe.records.loads.values():
            unused = [f"{load.name}, expert {number}" for number, count in enumerate(load.counts) if count == 0]
            if unused and sum(load.counts) >= 8 * len(load.counts):
                yield describe_idle(unused, len(load.counts))
                return


def describe_idle(idle: list[str], of: int) -> Finding:
    """The finding of experts that are never chosen."""
    return Finding(
        "experts never chosen", join_names(idle), f"no sample reached {len(idle)} of {of} experts",
        "add a load-balancing loss or noise on the router's logits, or remove the router's bias",
    )  # fmt: skip


def expert_of(name: str) -> str | None:
    """Return the name of the expert that a module belongs to, or None."""
    found = EXPERT.search(name)
    return None if found is None else name[: found.end(2)]
