"""Diagnose a watch: all steps that it saw, not the last one, and the curves of the loss and of what was logged."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean, median
from typing import TYPE_CHECKING

from gradlab.spec.numerals import written
from gradlab.torch.diagnosis import SYMPTOMS, describe_limits, rank_of
from gradlab.torch.findings import Finding, Findings
from gradlab.torch.rules import inside, signals, steps

if TYPE_CHECKING:
    from gradlab.torch.watching import Moment

AT_FIRST = ("initial loss too high",)
"""Findings that only the first moment can give."""
LASTING = (
    "no gradient", "does not move", "steps too small", "vanishing gradients", "vanishing activations", "dead units",
    "saturated units", "saturated attention", "experts never chosen", "samples look alike", "identical units", "frozen",
)  # fmt: skip
"""Findings that count if they last: at the last moment, or at most moments. The others count wherever they were."""
FEWEST = 10
"""Losses that a judgment of the curve needs."""
RISEN, SPIKE = 1.5, 5.0
QUIET = (
    "No probed step shows anything wrong. Next: can it learn one batch by heart? diagnose(overfit=(x, y), loss=loss_fn)"
)


def diagnose_history(moments: Sequence[Moment], curves: Mapping[str, Mapping[int, float]]) -> Findings:
    """Merge the findings of all moments, and judge the curves."""
    by_moment = [(moment.step, moment.findings) for moment in moments]
    found: list[Finding] = []
    for name in dict.fromkeys(one.name for _, each in by_moment for one in (*each.found, *each.noted)):
        hits = [(step, one) for step, each in by_moment for one in (*each.found, *each.noted) if one.name == name]
        if _counts(name, hits, by_moment):
            _, one = hits[-1] if name in LASTING else hits[0]
            found.append(one.at(_say_when(sorted({step for step, _ in hits}), len(by_moment))))
    found += _find_uncleared(moments)
    if all(one.name != "samples look alike" for one in found):
        found += _find_alike(moments, curves)
    found = _merge_experts(found, moments)
    found += judge_curves(curves, [one.name for one in found])
    faults = sorted((one for one in found if one.name not in SYMPTOMS), key=lambda one: rank_of(one.name))
    noted = tuple(one for one in found if one.name in SYMPTOMS)
    limits = dict.fromkeys(note for moment in moments for note in describe_limits(moment.probe))
    skipped = by_moment[-1][1].notes if by_moment else ()
    return Findings(tuple(faults), None, tuple(dict.fromkeys([*limits, *skipped])), noted, QUIET)


def _counts(name: str, hits: Sequence[tuple[int, Finding]], by_moment: Sequence[tuple[int, Findings]]) -> bool:
    steps_hit = {step for step, _ in hits}
    if name in AT_FIRST:
        return by_moment[0][0] in steps_hit
    if name not in LASTING:
        return True
    if name in ("does not move", "steps too small"):  # a warm-up begins with small steps
        return len(steps_hit) == len(by_moment)
    if name == "saturated attention" and by_moment[0][0] in steps_hit:
        return True
    return by_moment[-1][0] in steps_hit or 2 * len(steps_hit) > len(by_moment)


def _say_when(found: Sequence[int], of: int) -> str:
    if of == 1 or len(found) == of:
        return ""
    if len(found) == 1:
        return f"at step {found[0]:,}"
    return f"at {len(found)} of {of} probed steps, first at step {found[0]:,}"


def _find_uncleared(moments: Sequence[Moment]) -> Iterator[Finding]:
    """A forgotten zero_grad; what was there before the watch began is not asked about."""
    later = [moment for moment in moments if moment.step > moments[0].step]
    hit = [moment for moment in later if moment.probe.records.uncleared]
    if hit and 2 * len(hit) > len(later):
        yield steps.describe_uncleared(f"at {len(hit)} of {len(later)} probed steps")


def _find_alike(moments: Sequence[Moment], curves: Mapping[str, Mapping[int, float]]) -> Iterator[Finding]:
    """Samples that look alike at the end of training, where the loss has not fallen either."""
    if not moments or has_fallen(list(curves.get("loss", {}).values())) is not False:
        return
    rows = signals.choose_rows(moments[-1].probe)
    alike = signals.find_alike(rows)
    if alike is not None and not signals.has_vanished(rows):
        yield signals.describe_alike(rows, alike)


def _merge_experts(found: Sequence[Finding], moments: Sequence[Moment]) -> list[Finding]:
    """An expert that some moment has called is not one that is never chosen."""
    called = {inside.expert_of(name) for moment in moments for name in moment.probe.modules}
    idle = (
        {inside.expert_of(name) for moment in moments for name in moment.probe.records.never_called} - called - {None}
    )
    kept = [one for one in found if one.name != "experts never chosen" or not called - {None}]
    if idle and called - {None}:
        kept.append(inside.describe_idle(sorted(map(str, idle)), len(idle) + len(called - {None})))
    return kept


# ---------------------------------------------------------------------- curves


def judge_curves(curves: Mapping[str, Mapping[int, float]], known: Sequence[str]) -> Iterator[Finding]:
    """Judge the loss: not finite, rising, not falling, spiking; and a validation loss against it."""
    curve = curves.get("loss", {})
    bad = next((step for step, value in curve.items() if not math.isfinite(value)), None)
    if bad is not None and "NaN or infinity" not in known:
        yield Finding(
            "NaN or infinity", "the loss", f"the loss is {curve[bad]} at step {bad:,}, which was not probed",
            "probe every step (every=1) from shortly before this one; use a smaller learning rate or clip gradients",
        )  # fmt: skip
    values = [value for value in curve.values() if math.isfinite(value)]
    if len(values) >= FEWEST:
        yield from _judge_loss(values, list(curve), known)
    for name, other in curves.items():
        if "val" in name.lower() and "loss" in name.lower():
            yield from _judge_validation(name, [v for v in other.values() if math.isfinite(v)], values)


def has_fallen(values: Sequence[float]) -> bool | None:
    """Whether a loss has fallen by 2 % or more of its size; None of too few."""
    if len(values) < FEWEST:
        return None
    third = max(3, len(values) // 3)
    first, last = median(values[:third]), median(values[-third:])
    return last < first - 0.02 * abs(first)


def _judge_loss(values: Sequence[float], at: Sequence[int], known: Sequence[str]) -> Iterator[Finding]:
    third = max(3, len(values) // 3)
    first, last = median(values[:third]), median(values[-third:])
    if first < 0 and last < 10 * first and "wrong sign of the loss" not in known:
        yield Finding(
            "wrong sign of the loss", "the loss",
            f"it falls without bound, from {written(values[0])} to {written(values[-1])}",
            "is something maximized that should be minimized? a loss that measures errors is never below 0",
        )  # fmt: skip
    elif last > RISEN * abs(first) + 1e-12 and last > values[0]:
        yield Finding(
            "loss rises", "the loss",
            f"it goes from {written(values[0])} to {written(values[-1])} in {len(values)} steps",
            "use a smaller learning rate; check the sign of the loss and `maximize=True`",
        )  # fmt: skip
    elif has_fallen(values) is False and first > 0:
        yield Finding(
            "loss does not fall", "the loss",
            f"it is {values[0]:.4g} at first and {values[-1]:.4g} after {len(values)} steps",
            "check whether the network can learn one batch by heart: diagnose(overfit=…)",
        )  # fmt: skip
    around = [median(values[max(0, i - 5) : i]) for i in range(1, len(values))]
    spikes = [i for i, usual in enumerate(around, 1) if usual > 0 and values[i] > SPIKE * usual and i > 5]
    if spikes and "loss rises" not in known:
        worst = max(spikes, key=lambda i: values[i])
        yield Finding(
            "loss spikes", "the loss",
            f"it jumps to {written(values[worst])} at step {at[worst]:,}, the highest of {len(spikes)}",
            "use a smaller learning rate or clip gradients; look at the batch of that step",
        )  # fmt: skip


def _judge_validation(name: str, other: Sequence[float], own: Sequence[float]) -> Iterator[Finding]:
    if len(other) < 3 or len(own) < FEWEST:
        return
    last, best = fmean(other[-max(1, len(other) // 5) :]), min(other)
    fallen = median(own[-max(3, len(own) // 5) :]) < 0.7 * median(own[: max(3, len(own) // 10)])
    if fallen and last > other[0] and last > 1.05 * best:
        yield Finding(
            "does not generalize", name,
            f"it goes from {other[0]:.3g} to {last:.3g} (best {best:.3g}) while the training loss falls from "
            f"{own[0]:.3g} to {own[-1]:.3g}",
            "check that labels belong to their samples; then try more data, augmentation, weight decay, dropout, a "
            "smaller network, or early stopping",
        )  # fmt: skip
