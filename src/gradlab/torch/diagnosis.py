"""Diagnose any network from a probe's numbers: name the problem, the evidence, and what usually helps.

The rules look at ratios, never at absolute sizes: how the backprop signal and the activations change from the first
module to the last and, if an optimizer was given, how far its step moved each weight. An adaptive optimizer rescales
gradients, so a small gradient does no harm as long as its weight moves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from gradlab.torch.overfitting import Overfit
    from gradlab.torch.probing import ModuleProbe, Weight
    from gradlab.torch.statistics import ModuleStatistics

VANISHED, EXPLODED = 1e-4, 1e4
"""First module over last: below the first bound a signal has vanished, above the second it has exploded."""
DEAD, SATURATED = 0.9, 0.9
STUCK, STILL, WILD = 1e-10, 1e-7, 0.5
"""Update ratios: below STUCK a weight does not move, below STILL hardly, above WILD its step is too large."""
ADAPTIVE = ("Adam", "RMSprop", "Adagrad", "Adadelta", "Lion", "Adafactor", "NAdam", "RAdam")
BOUNDED = ("Tanh", "Sigmoid", "Hardtanh", "Hardsigmoid", "Softsign")


MAX_ERROR_LENGTH = 160
"""Maximum length of an error message in a note."""
NOTHING_SEEN = "Nothing was seen: no forward pass of this model ran while the probe looked."
SHARDED = (
    "Parameters are sharded over processes (DTensor, as under FSDP2): gradients, sizes and updates of parameters are "
    "those of the shard that this process holds, not of the whole tensor."
)
NO_BACKWARD = "No backward pass was seen: only activations are judged."


@dataclass(frozen=True)
class Finding:
    """One problem."""

    name: str
    where: str
    evidence: str
    helps: str

    def __str__(self) -> str:
        end = "" if self.helps.endswith("?") else "."
        return f"{self.name} ({self.where}): {self.evidence}. What usually helps: {self.helps}{end}"


@dataclass(frozen=True)
class Findings:
    """All problems, the most severe first; empty if the network is healthy."""

    found: tuple[Finding, ...]
    overfit: Overfit | None = None
    """The result of overfitting one batch, if requested."""
    notes: tuple[str, ...] = ()
    """What could not be judged."""

    @property
    def healthy(self) -> bool:
        """Whether nothing was found, and at least one forward pass was recorded."""
        return not self.found and NOTHING_SEEN not in self.notes

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the findings."""
        return tuple(finding.name for finding in self.found)

    def __str__(self) -> str:
        healthy = [] if NOTHING_SEEN in self.notes else ["Nothing is wrong that the probe can see."]
        lines = [*([*map(str, self.found)] or healthy), *self.notes]
        lines += (
            [f"One batch can be learned by heart: {self.overfit.words}."] if self.overfit and self.overfit.ok else []
        )
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from html import escape

        return "".join(f"<p>{escape(line)}</p>" for line in str(self).splitlines())


def diagnose_probe(probe: ModuleProbe, overfit: Overfit | None = None) -> Findings:
    """Diagnose the numbers of a probe and the attempt to overfit, if there was one."""
    seen = sorted(probe.modules.values(), key=lambda each: each.order)
    broken = list(_find_nonfinite(seen, probe.weights))
    skipped = _describe_skipped(probe)
    if not seen:
        return Findings((), overfit, (NOTHING_SEEN, *skipped))
    notes = [*([] if any(each.deltas for each in seen) or probe._gradients else [NO_BACKWARD]), *skipped]
    notes += [SHARDED] if probe.sharded else []
    found = broken or [*_find_signal_problems(probe, seen), *_find_unit_problems(probe, seen)]
    return Findings((*found, *_find_weight_problems(probe), *_check_overfit(probe, overfit)), overfit, tuple(notes))


def _describe_skipped(probe: ModuleProbe) -> list[str]:
    if not probe.skipped:
        return []
    why = next(iter(probe.skipped.values()))
    shown = why if len(why) < MAX_ERROR_LENGTH else why[:MAX_ERROR_LENGTH] + "…"
    return [f"Not looked into: {_join_names(list(probe.skipped))} ({shown})."]


def _check_overfit(probe: ModuleProbe, overfit: Overfit | None) -> Iterator[Finding]:
    if overfit is not None and not overfit.ok:
        yield Finding(
            "cannot overfit one batch", type(probe.model).__name__, overfit.words,
            "before any question of depth or data: do inputs and targets belong together, does the loss fit the "
            "output, do all parameters get a gradient and move, is the learning rate of the right size?",
        )  # fmt: skip


def _find_nonfinite(seen: Sequence[ModuleStatistics], weights: Sequence[Weight]) -> Iterator[Finding]:
    """Report the first module whose output is not finite, else the last whose gradient is not."""
    for each in seen:
        if each.nonfinite:
            yield Finding(
                "NaN or infinity", each.name,
                f"{each.nonfinite} of its outputs are not finite, and it is the first such module",
                "look at what enters it: a logarithm or division by 0, a learning rate or loss scale too large, "
                "float16 overflow",
            )  # fmt: skip
            return
    for place, each in reversed(list(enumerate(seen))):
        if each.delta_nonfinite:
            after = f"the backward pass of {seen[place + 1].name}" if place + 1 < len(seen) else "the loss"
            yield Finding(
                "NaN or infinity", each.name,
                f"the gradient of its output is not finite ({each.delta_nonfinite} entries), and it is the last such "
                f"module, so that {after} made it so",
                "a smaller loss scale, or a guard where the forward pass meets 0",
            )  # fmt: skip
            return
    bad = [weight.names[0] for weight in weights if weight.nonfinite]
    if bad:
        yield Finding(
            "NaN or infinity", bad[0], "its gradient is not finite", "clip gradients, or lower the loss scale"
        )


def _find_signal_problems(probe: ModuleProbe, seen: Sequence[ModuleStatistics]) -> Iterator[Finding]:
    """Compare the backprop signal and the activations of the first module with those of the last."""
    moved = [w.update_ratio for w in probe.weights if w.update_ratio is not None and len(w.shape) > 1]
    adaptive = bool(probe.optimizers) and all(type(o).__name__.startswith(ADAPTIVE) for o in probe.optimizers)
    excused = adaptive and bool(moved) and min(moved) > STILL
    deltas = [(each.name, each.delta) for each in seen if each.delta is not None]
    # a gradient that is exactly 0 everywhere is a cut, not a decay: the check of the weights reports it
    positive = [(name, value) for name, value in deltas if value > 0]
    if len(positive) >= 4 and not excused:
        values = [value for _, value in positive]
        ratio, steps = _first_to_last(values), len(values) - 1
        if ratio < VANISHED:
            yield Finding(
                "vanishing gradients", f"{positive[0][0]} to {positive[-1][0]}",
                f"the backprop signal is {1 / ratio:.1e} times smaller at the first module than at the last, a "
                "factor of "
                f"{ratio ** (-1 / steps):.2g} per module",
                "an initialization with gain 1 (He for ReLU), skips, or normalization",
            )  # fmt: skip
        elif ratio > EXPLODED:
            yield Finding(
                "exploding gradients", f"{positive[0][0]} to {positive[-1][0]}",
                f"the backprop signal is {ratio:.1e} times larger at the first module than at the last, a factor of "
                f"{ratio ** (1 / steps):.2g} per module",
                "smaller initial weights, normalization, branches scaled by 1/√depth, clipping",
            )  # fmt: skip
    sizes = [each.rms for each in seen if each.rms > 0]
    if len(sizes) >= 4:
        growth = float(np.median(sizes[-max(1, len(sizes) // 3) :])) / float(
            np.median(sizes[: max(1, len(sizes) // 3)])
        )
        if growth > EXPLODED:
            yield Finding(
                "exploding activations", f"{seen[0].name} to {seen[-1].name}",
                f"activations grow {growth:.1e} times from the first modules to the last",
                "smaller initial weights, normalization, branches scaled by 1/√depth",
            )  # fmt: skip
        elif growth < VANISHED and not excused:
            yield Finding(
                "vanishing activations", f"{seen[0].name} to {seen[-1].name}",
                f"activations shrink {1 / growth:.1e} times from the first modules to the last",
                "an initialization with gain 1 (He for ReLU), or normalization",
            )  # fmt: skip


def _first_to_last(values: Sequence[float]) -> float:
    """Return the ratio of the first value to the last, as the table shows them.

    If the medians of the first and the last quarter do not confirm it, one module has an odd size and there is no
    trend. Then return the ratio of the medians.
    """
    count = max(1, len(values) // 4)
    ends = values[0] / values[-1]
    quarters = float(np.median(values[:count]) / np.median(values[-count:]))
    agree = (ends < VANISHED and quarters < VANISHED) or (ends > EXPLODED and quarters > EXPLODED)
    return ends if agree else quarters


def _find_unit_problems(probe: ModuleProbe, seen: Sequence[ModuleStatistics]) -> Iterator[Finding]:
    owners = {weight.names[0].rpartition(".")[0] for weight in probe.weights if len(weight.shape) > 1}
    exempt = {each.name for each in seen if "Dropout" in each.kind or each.kind == "Identity"} | owners
    dead = [each for each in seen if each.dead > DEAD and each.name not in exempt]  # weights may start at 0
    if dead:
        yield Finding(
            "dead units", dead[0].name,
            f"{100 * dead[0].dead:.0f} % of its units are 0 on the whole batch{_count_others(dead)}",
            "a smaller learning rate, biases that do not start far below 0, or an activation with a slope on "
            "both sides",
        )  # fmt: skip
    full = [each for each in seen if each.saturated > SATURATED and each.kind in BOUNDED]
    if full:
        yield Finding(
            "saturated units", full[0].name,
            f"{100 * full[0].saturated:.0f} % of its outputs are at the ends of their range{_count_others(full)}",
            "smaller weights or inputs (Xavier's init), or normalization before the nonlinearity",
        )  # fmt: skip


def _find_weight_problems(probe: ModuleProbe) -> Iterator[Finding]:
    ran = any(weight.grad_l2 is not None for weight in probe.weights)
    # a branch that starts at 0 (ReZero, a norm's scale at 0, LoRA) has no gradient inside until its scale has moved
    opening = any(w.weight_l2 == 0 and w.grad_l2 and not w.names[0].endswith("bias") for w in probe.weights)
    without = [
        w.names[0] for w in probe.weights if w.trainable and (w.grad_l2 is None or (w.grad_l2 == 0 and not opening))
    ]
    if ran and without:
        yield Finding(
            "no gradient", _join_names(without),
            f"{len(without)} of {len(probe.weights)} parameter tensors get none (or exactly 0)",
            "is the module used in forward? is there a detach, an argmax or a no_grad on the way?",
        )  # fmt: skip
    frozen = [w.names[0] for w in probe.weights if not w.trainable]
    if frozen:
        yield Finding(
            "frozen",
            _join_names(frozen),
            "requires_grad is False",
            "leave it so if it is meant; else requires_grad_(True)",
        )
    loose = [w.names[0] for w in probe.weights if w.held is False and w.trainable and not w.update_ratio]
    if loose:
        yield Finding(
            "not in the optimizer", _join_names(loose), "the optimizer does not hold them, so they never change",
            "build the optimizer after the model is complete, from model.parameters()",
        )  # fmt: skip
    still = [w for w in probe.weights if w.grad_l2 and w.held and w.update_ratio is not None and w.update_ratio < STUCK]
    matrices = [w for w in probe.weights if w.held and w.trainable and len(w.shape) > 1]
    if still and 2 * sum(len(w.shape) > 1 for w in still) >= len(matrices) > 0:
        yield Finding(
            "does not move", _join_names([w.names[0] for w in still]),
            f"a step left {len(still)} parameter tensors where they were, although they have gradients",
            "is the learning rate 0, or so small that the step is rounded away (bfloat16 weights)?",
        )  # fmt: skip
    wild = [w for w in probe.weights if w.update_ratio is not None and w.update_ratio > WILD and len(w.shape) > 1]
    if wild:
        worst: Any = max(wild, key=lambda w: w.update_ratio or 0.0)
        yield Finding(
            "steps too large", worst.names[0], f"one step moved it by {100 * worst.update_ratio:.0f} % of its size",
            "a smaller learning rate, warm-up, or clipping",
        )  # fmt: skip


def _join_names(names: Sequence[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _count_others(found: Sequence[ModuleStatistics]) -> str:
    return f", and so in {len(found) - 1} more modules" if len(found) > 1 else ""
