"""The rules of the diagnosis: each class names one problem, its evidence, and what usually helps.

A subclass of `Rule` in this file is a rule; nothing else lists it. Rules stand in the order in which their findings are
told, the most severe first. They look at ratios, hardly ever at absolute sizes: how the backprop signal and the
activations change along the network, how far a step moved each weight, what the loss is against a guess.
"""

from __future__ import annotations

import itertools
import math
import re
from abc import ABC
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean, median
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from gradlab.facts import DEAD_ANYWHERE, SATURATED, VANISHING, VANISHING_ANYWHERE, Fact, Severity
from gradlab.torch.structure import find_spine
from gradlab.words import listed, percent, written

if TYPE_CHECKING:
    from gradlab.torch.inspection import Objective
    from gradlab.torch.overfit import Overfit
    from gradlab.torch.probe import ModuleProbe
    from gradlab.torch.statistics import ModuleStatistics, Weight
    from gradlab.torch.watch import Moment

Lasting = Literal["once", "at first", "usually", "to the end"]
"""At which of a watch's probed steps a problem must show to be told: at any, at the first, at the last or at most of
them, or at every one of the second half."""
Curves = Mapping[str, Mapping[int, float]]
"""Scalars of a watch: name -> step -> value."""


@dataclass(frozen=True)
class Finding(Fact):
    """One problem: a fact with its evidence and what usually helps."""

    name: str = ""
    evidence: str = ""
    helps: str = ""
    when: str = ""
    """At which of the probed steps, if several were probed."""

    @property
    def where(self) -> str:
        """The module, parameter or function that it is about."""
        return self.subject

    def at(self, when: str) -> Finding:
        """The same, with the steps at which it was found."""
        return replace(self, when=when, words=_in_words(self.name, self.subject, self.evidence, self.helps, when))

    def to_json(self) -> dict[str, Any]:
        """Code and numbers for programs, words for people."""
        return {**super().to_json(), "where": self.subject}

    def __str__(self) -> str:
        return self.words


def _in_words(name: str, where: str, evidence: str, helps: str, when: str = "") -> str:
    end = "" if helps.endswith("?") else "."
    return f"{name} ({where}{f', {when}' if when else ''}): {evidence}. What usually helps: {helps}{end}"


class Pass:
    """What a rule sees of one probed pass: the probe, and what several rules ask of it."""

    def __init__(self, probe: ModuleProbe) -> None:
        self.probe, self.weights, self.records = probe, probe.weights, probe.records

    @property
    def model_name(self) -> str:
        """The class of the model."""
        return type(self.probe.model).__name__

    @cached_property
    def spine(self) -> list[ModuleStatistics]:
        """The modules along which signals are compared: the spine; all modules if it is too short for a trend."""
        rows = find_spine(self.probe.model, self.records)
        if sum(bool(row.delta) for row in rows) >= FEWEST_MODULES:
            return rows
        return [row for row in sorted(self.probe.modules.values(), key=lambda row: row.order) if not row.idle]

    @cached_property
    def alike(self) -> ModuleStatistics | None:
        """The first row from which on all samples look alike, if they do so before the head, else None."""
        known = [row for row in self.spine if row.spread is not None]
        if len(known) < FEWEST_MODULES or (known[0].spread or 0.0) < ALIKE:
            return None
        top = known[-max(3, len(known) // 3) :]
        if any((row.spread or 0.0) > ALIKE for row in top):
            return None
        last_apart = max(place for place, row in enumerate(known) if (row.spread or 0.0) > ALIKE)
        return known[last_apart + 1]

    @cached_property
    def moves(self) -> bool:
        """Whether an adaptive optimizer moves every matrix, however small its gradient."""
        moved = [w.update_ratio for w in self.weights if w.update_ratio is not None and len(w.shape) > 1]
        optimizers = self.probe.optimizers
        adaptive = bool(optimizers) and all(type(o).__name__.startswith(ADAPTIVE) for o in optimizers)
        return adaptive and bool(moved) and min(moved) > STILL

    @property
    def excused(self) -> bool:
        """Whether a signal may vanish without harm: every weight moves all the same, and samples stay apart."""
        return self.moves and self.alike is None

    @cached_property
    def gradients(self) -> tuple[list[str], list[float]]:
        """Names and backprop signals along the spine.

        A gradient that is exactly 0 everywhere is a cut, not a decay, and is told by `NoGradient`.
        """
        return _names_and_values((row.name, row.delta) for row in self.spine)

    @cached_property
    def activations(self) -> tuple[list[str], list[float]]:
        """Names and sizes of the activations along the spine."""
        return _names_and_values((row.name, row.rms) for row in self.spine)

    @cached_property
    def over_time(self) -> list[tuple[str, list[float], list[float]]]:
        """Recurrent modules, and cells that are called in a loop: name, states and gradients by time step.

        Fewer of either than a trend needs are left out.
        """
        series = [(module.name, list(module.state), list(module.delta)) for module in self.records.recurrence.values()]
        for name, sizes in self.probe.cell_sizes.items():
            if name in self.probe.modules and len(sizes) >= FEWEST_TIMES:
                series.append((name, sizes, self.probe.modules[name].deltas[::-1]))
        return [
            (name, states if len(states) >= FEWEST_TIMES else [], deltas if len(deltas) >= FEWEST_TIMES else [])
            for name, states, deltas in series
        ]

    @cached_property
    def nonlinear(self) -> list[ModuleStatistics]:
        """Modules and functions without parameters of their own, which are no blocks."""
        owners = {weight.names[0].rpartition(".")[0] for weight in self.weights}
        rows = (row for row in self.records.all_rows() if row.name not in owners and not row.idle)
        return [row for row in rows if row.name not in self.records.blocks]

    @cached_property
    def stepped(self) -> list[Weight]:
        """Matrices with a gradient that an optimizer has stepped."""
        held = (w for w in self.weights if w.held and w.trainable and len(w.shape) > 1)
        return [w for w in held if w.grad_l2 and w.update_ratio is not None]


@dataclass(frozen=True)
class History:
    """What a rule sees of a watch: all probed steps, and the curves of the loss and of what was logged."""

    moments: Sequence[Moment]
    curves: Curves

    @cached_property
    def loss_by_step(self) -> dict[int, float]:
        """The finite losses; empty if they are too few to judge their course."""
        finite = {step: value for step, value in self.curves.get("loss", {}).items() if math.isfinite(value)}
        return finite if len(finite) >= FEWEST_LOSSES else {}

    @property
    def losses(self) -> list[float]:
        """The finite losses, in order."""
        return list(self.loss_by_step.values())

    @cached_property
    def thirds(self) -> tuple[float, float]:
        """The median loss of the first and of the last third; NaN, which is in no order to anything, of too few."""
        third = max(3, len(self.losses) // 3)
        return (median(self.losses[:third]), median(self.losses[-third:])) if self.losses else (math.nan, math.nan)

    @property
    def has_fallen(self) -> bool | None:
        """Whether the loss has fallen by 2 % or more of its size; None of too few."""
        first, last = self.thirds
        return last < first - 0.02 * abs(first) if self.losses else None

    @property
    def has_risen(self) -> bool:
        """Whether the loss is far above where it began."""
        first, last = self.thirds
        return last > RISEN * abs(first) + 1e-12 and last > self.losses[0]


class Rule(ABC):
    """One kind of problem, looked for in a pass, over a watch, or in an attempt to overfit one batch."""

    code: ClassVar[str]
    """Stable, for programs."""
    name: ClassVar[str]
    """For people; by default the code with spaces."""
    helps: ClassVar[str] = ""
    """What usually helps, where it is always the same."""
    severity: ClassVar[Severity] = "problem"
    """`note`: it may be meant (frozen parameters), or is a symptom without a cause (a loss that does not fall)."""
    lasts: ClassVar[Lasting] = "once"
    needs_finite: ClassVar[bool] = False
    """Whether it says nothing of a pass in which numbers are not finite: trends over depth are then meaningless."""

    def __init_subclass__(cls) -> None:
        cls.name = vars(cls).get("name", cls.code.replace("_", " "))

    def find(self, seen: Pass) -> Iterable[Finding]:
        """Look for the problem in one pass."""
        return ()

    def find_over(self, history: History) -> Iterable[Finding]:
        """Look for the problem in a watch: by default, in the findings of its probed steps."""
        moments = history.moments
        hits = [(m.step, one) for m in moments for one in m.findings.all if one.code == self.code]
        steps = sorted({step for step, _ in hits})
        if hits and self.counts([moment.step in steps for moment in moments]):
            # what lasts is told as it is now, what passes as it was when it came
            one = hits[0 if self.passes else -1][1]
            yield one.at(_say_when(steps, len(moments)))
        else:
            yield from self.find_in_course(history)

    def find_in_course(self, history: History) -> Iterable[Finding]:
        """Look for the problem in the course of a watch, where its probed steps have not shown it one by one."""
        return ()

    def find_in_attempt(self, attempt: Overfit, model_name: str) -> Iterable[Finding]:
        """Look for the problem in an attempt to overfit one batch."""
        return ()

    @property
    def passes(self) -> bool:
        """Whether it is told although it has passed."""
        return self.lasts in ("once", "at first")

    def counts(self, hits: Sequence[bool]) -> bool:
        """Whether a problem that showed at some of the probed steps is told."""
        if self.lasts == "at first":
            return hits[0]
        if self.lasts == "to the end":
            return all(hits[len(hits) // 2 :])
        return self.lasts == "once" or hits[-1] or 2 * sum(hits) > len(hits)

    def report(self, where: str, evidence: str, helps: str = "", **numbers: float) -> Finding:
        """Make a finding, with the numbers that its evidence rests on."""
        helps = helps or self.helps
        words = _in_words(self.name, where, evidence, helps)
        return Finding(self.code, words, where, self.severity, numbers, self.name, evidence, helps)


def _say_when(steps: Sequence[int], of: int) -> str:
    if of == 1 or len(steps) == of:
        return ""
    if len(steps) == 1:
        return f"at step {steps[0]:,}"
    return f"at {len(steps)} of {of} probed steps, first at step {steps[0]:,}"


def _names_and_values(pairs: Iterable[tuple[str, float | None]]) -> tuple[list[str], list[float]]:
    positive = [(name, value) for name, value in pairs if value is not None and value > 0]
    return [name for name, _ in positive], [value for _, value in positive]


# ---------------------------------------------------------------------- numbers that are not finite


class Nonfinite(Rule):
    """NaN or infinity, told at one place: the first of the forward pass, else the last of the backward pass."""

    code = "nonfinite"
    name = "NaN or infinity"
    helps = (
        "check what enters it: the logarithm of 0, a division by 0, a learning rate or loss scale that is too "
        "large, float16 overflow"
    )

    def find(self, seen: Pass) -> Iterator[Finding]:
        first, loss = seen.records.nonfinite, seen.records.loss
        rows = list(seen.records.all_rows())
        backward = [row for row in rows if row.delta_nonfinite and "→" not in row.name]
        bad = [weight.names[0] for weight in seen.weights if weight.nonfinite]
        if first is not None and first.how == "input":
            yield self.report(
                "the input", f"{first.count:,} entries of the input are NaN or infinite",
                "fill or drop missing values before they reach the model", count=first.count,
            )  # fmt: skip
        elif first is not None and first.how == "output":
            evidence = f"{first.count:,} of its outputs are not finite; all modules before it are fine"
            yield self.report(first.where, evidence, count=first.count)
        elif first is not None:
            maker = f"the function {first.operation}" if first.operation else "a function"
            yield self.report(
                first.where, f"{maker} produces {first.count:,} numbers that are not finite, after {first.after}; all "
                "modules before are fine", count=first.count,
            )  # fmt: skip
        elif loss is not None and not math.isfinite(loss):
            seen_before = (
                "although all outputs of the model are finite" if seen.records.passes else "and no pass was seen"
            )
            yield self.report(
                "the loss", f"the loss is {loss}, {seen_before}",
                "look for the logarithm of 0 or a division by 0 in the loss: use a loss that takes logits, or add a "
                "small number", loss=loss,
            )  # fmt: skip
        elif backward:
            last = backward[-1]
            after = [row for row in rows if row.order > last.order and row.name != last.name]
            between = f"{after[0].name} or of a function before it" if after else "the loss"
            yield self.report(
                last.name,
                f"the backward pass of {between} produces it: {last.delta_nonfinite:,} entries of the gradient of this "
                "module's output are not finite, while those of later modules are",
                "use a smaller loss scale, or guard the forward pass against 0 (the square root or the norm of 0 has "
                "an infinite slope)", count=last.delta_nonfinite,
            )  # fmt: skip
        elif bad:
            yield self.report(bad[0], "its gradient is not finite", "clip gradients, or lower the loss scale")

    def find_in_course(self, history: History) -> Iterator[Finding]:
        curve = history.curves.get("loss", {})
        bad = next((step for step, value in curve.items() if not math.isfinite(value)), None)
        if bad is not None:
            yield self.report(
                "the loss", f"the loss is {curve[bad]} at step {bad:,}, which was not probed",
                "probe every step (every=1) from shortly before this one; use a smaller learning rate or clip "
                "gradients", loss=curve[bad], step=bad,
            )  # fmt: skip


# ---------------------------------------------------------------------- the loss: its sign, and what it is computed of


class WrongSign(Rule):
    """What should be minimized is maximized."""

    code = "wrong_sign_of_the_loss"

    def find(self, seen: Pass) -> Iterator[Finding]:
        objective = seen.records.objective
        if objective is None:
            return
        if objective.negated or (any(rate.get("maximize") for rate in seen.probe.rates) and objective.value > 0):
            how = "it enters the loss with a minus sign" if objective.negated else "the optimizer has maximize=True"
            yield self.report(
                objective.kind, f"{how}, so training makes the {objective.kind} grow", "minimize the criterion itself",
                loss=objective.value,
            )  # fmt: skip

    def find_in_course(self, history: History) -> Iterator[Finding]:
        """Find a loss that falls without bound."""
        first, last = history.thirds
        if first < 0 and last < 10 * first:
            start, end = history.losses[0], history.losses[-1]
            yield self.report(
                "the loss", f"it falls without bound, from {written(start)} to {written(end)}",
                "is something maximized that should be minimized? a loss that measures errors is never below 0",
                first=start, last=end,
            )  # fmt: skip


class ProbabilitiesInsteadOfLogits(Rule):
    """A softmax or sigmoid before a criterion that brings its own, or wants the logarithm."""

    code = "probabilities_instead_of_logits"

    def find(self, seen: Pass) -> Iterator[Finding]:
        objective = seen.records.objective
        if objective is not None and objective.squashed is not None:
            bare = objective.own is not None and objective.own < 0  # a likelihood without the logarithm
            wants = "log-probabilities" if bare else "logits and computes probabilities itself"
            yield self.report(
                objective.kind,
                f"outputs pass through a {objective.squashed} before the {objective.kind}, which expects {wants}: the "
                "loss cannot get near 0, and its gradients stay small",
                f"remove the {objective.squashed} from the model, and apply it only to read the outputs",
                loss=objective.value,
            )  # fmt: skip


class TrainingInEvalMode(Rule):
    """Gradients of a model in eval mode: dropout is off, and norms use the statistics of earlier batches."""

    code = "training_in_eval_mode"
    helps = "call model.train() before training, and again after each evaluation"
    lasts = "usually"

    def find(self, seen: Pass) -> Iterator[Finding]:
        mode = [name for name, module in seen.probe.structure.modules if depends_on_mode(module)]
        if seen.probe.optimizers and seen.records.in_eval_mode and mode and any(w.grad_l2 for w in seen.weights):
            yield self.report(
                seen.model_name,
                f"the model is in eval mode while it trains: {listed(mode)} work as in evaluation", modules=len(mode),
            )  # fmt: skip


def depends_on_mode(module: Any) -> bool:
    """Whether a module computes something else in eval mode: dropout, batch norm."""
    p = getattr(module, "p", None)
    drops = "Dropout" in type(module).__name__ and isinstance(p, int | float) and p > 0
    return drops or bool(getattr(module, "track_running_stats", False))


class GradientsNotCleared(Rule):
    """A forgotten zero_grad; what was there before the watch began is not asked about."""

    code = "gradients_not_cleared"
    helps = "call optimizer.zero_grad() once per step, on the optimizer that steps"

    def find_in_course(self, history: History) -> Iterator[Finding]:
        later = [moment for moment in history.moments if moment.step > history.moments[0].step]
        hits = sum(moment.probe.records.uncleared for moment in later)
        if hits and 2 * hits > len(later):
            yield self.report(
                "the optimizer", "gradients of the step before were still there when the backward pass began, at "
                f"{hits} of {len(later)} probed steps: they add up", steps=hits, probed=len(later),
            )  # fmt: skip


# ---------------------------------------------------------------------- wiring: who gets a gradient and moves


class NoGradient(Rule):
    """Trainable parameters without a gradient; behind a branch that starts at 0, a gradient of 0 is as it should be."""

    code = "no_gradient"
    lasts = "usually"

    def find(self, seen: Pass) -> Iterator[Finding]:
        ran = seen.records.backwards > 0 or any(weight.grad_l2 is not None for weight in seen.weights)
        idle = {expert for name in seen.records.never_called if (expert := expert_of(name)) is not None}
        opening = _find_opening(seen.weights)
        learns = {w.names[0].rpartition(".")[0] for w in seen.weights if w.is_matrix and w.grad_l2}
        without = [
            w.names[0]
            for w in seen.weights
            if w.trainable
            and w.entries  # another process may hold all of it
            and (w.grad_l2 is None or (w.grad_l2 == 0 and not _is_behind(w, opening)))
            and expert_of(w.names[0]) not in idle
            # a bias cancels where two outputs of one layer are subtracted, as in a siamese network
            and not (w.grad_l2 == 0 and not w.is_matrix and w.names[0].rpartition(".")[0] in learns)
        ]
        if not ran or not without:
            return
        counts = {"tensors": len(without), "of": len(seen.weights)}
        uncalled = all(name.rpartition(".")[0] in seen.records.never_called for name in without)
        if seen.records.passes and uncalled:
            told = self.report(
                listed(without),
                f"{len(without)} of {len(seen.weights)} parameter tensors belong to modules that are never called",
                "call the module in forward, or remove it if it is not needed", **counts,
            )  # fmt: skip
            yield replace(told, severity="note")  # an unused pooler is often meant
        else:
            yield self.report(
                listed(without),
                f"{len(without)} of {len(seen.weights)} parameter tensors get no gradient, or exactly 0",
                "is the module used in forward? is there a detach, an argmax, a rounding or a no_grad on the way? does "
                "the loss still depend on the outputs?", **counts,
            )  # fmt: skip


def _find_opening(weights: Sequence[Weight]) -> tuple[str, ...]:
    """Return the scopes of branches that start at 0 and are about to open.

    Behind a tensor that is 0 and has a gradient (ReZero, a norm's scale, LoRA, a head) nothing gets a gradient until it
    has moved. Its scope is the block that holds it, three levels up; of a tensor near the root, the whole network.
    """
    zeros = [w.names[0] for w in weights if w.weight_l2 == 0 and w.grad_l2 and not w.names[0].endswith("bias")]
    return tuple({".".join(name.split(".")[:-3]) for name in zeros})


def _is_behind(weight: Weight, scopes: Sequence[str]) -> bool:
    return any(not scope or weight.names[0].startswith(f"{scope}.") for scope in scopes)


class NotInTheOptimizer(Rule):
    """Trainable parameters that no optimizer holds, as after a head was replaced."""

    code = "not_in_the_optimizer"
    helps = "build the optimizer after the model is complete, from model.parameters()"

    def find(self, seen: Pass) -> Iterator[Finding]:
        loose = [w.names[0] for w in seen.weights if w.held is False and w.trainable and not w.moved]
        if loose:
            evidence = "the optimizer does not have these parameters, so they never change"
            yield self.report(listed(loose), evidence, tensors=len(loose))


class Frozen(Rule):
    """Parameters with requires_grad=False: often meant."""

    code = "frozen"
    helps = "nothing if this is intended; otherwise call requires_grad_(True)"
    severity = "note"
    lasts = "usually"

    def find(self, seen: Pass) -> Iterator[Finding]:
        frozen = [w for w in seen.weights if not w.trainable]
        if frozen:
            share = sum(w.entries for w in frozen) / max(1, sum(w.entries for w in seen.weights))
            evidence = f"requires_grad is False for {_part_of_all(share)} of the parameters"
            yield self.report(listed([w.names[0] for w in frozen]), evidence, share=share)


def _part_of_all(share: float) -> str:
    """`35 %`; never all of them if some are left."""
    return "all" if share == 1 else "over 99 %" if share > 0.99 else percent(share)


# ---------------------------------------------------------------------- steps

STUCK, SMALL, WILD, MANY = 1e-10, 3e-6, 0.5, 0.1
"""Update ratios: below STUCK a weight does not move, below SMALL far too slowly. A step is too large if it moves MANY
of the matrices by more than WILD: a single one before a norm may do so without harm."""
MOST = 0.9
"""Share of the matrices that must stand still."""
USUAL = 0.3
"""Weights of a layer with n inputs are usually about this much over √n or more; smaller ones are still to grow."""
ROUNDED = 0.1
"""Share of moved entries below which half-precision weights are rounded back."""
DECAY = 5e-3
"""Learning rate × weight decay: the share of a weight that decay takes at every step."""
LOW_PRECISION = ("bfloat16", "float16")


class DoesNotMove(Rule):
    """Matrices with gradients that a step leaves as they were. A warm-up may begin so: it must last to the end."""

    code = "does_not_move"
    lasts = "to the end"

    def find(self, seen: Pass) -> Iterator[Finding]:
        still = [w for w in seen.stepped if (w.update_ratio or 0) < STUCK]
        rounded = [w for w in seen.stepped if w.dtype in LOW_PRECISION and w.moved is not None and w.moved < ROUNDED]
        if still and len(still) >= MOST * len(seen.stepped):
            yield self.report(
                listed([w.names[0] for w in still]),
                f"a step left {len(still)} weight matrices unchanged, although they have gradients",
                "is the learning rate 0, or so small that steps round away (bfloat16 weights)?", matrices=len(still),
            )  # fmt: skip
        elif rounded and len(rounded) >= MOST * len(seen.stepped):
            share = median(w.moved or 0.0 for w in rounded)
            yield self.report(
                listed([w.names[0] for w in rounded]),
                f"a step changed only {100 * share:.2g} % of the entries: in {rounded[0].dtype} the others round back "
                "to their old values",
                "keep weights in float32 and compute in bfloat16 (autocast), use stochastic rounding, or raise the "
                "learning rate", share=share,
            )  # fmt: skip


class StepsTooLarge(Rule):
    """Steps that change many matrices by half their size or more."""

    code = "steps_too_large"
    helps = "use a smaller learning rate, warm-up, or gradient clipping"

    def find(self, seen: Pass) -> Iterator[Finding]:
        moved = [(_share_moved(w), w.names[0]) for w in seen.weights if w.is_matrix and w.entries >= 16 and w.held]
        wild = [(share, name) for share, name in moved if share > WILD]
        if wild and len(wild) >= MANY * len(moved):
            share, worst = max(wild, key=lambda pair: pair[0])
            others = f"; {len(wild) - 1} more moved by over {percent(WILD)}" if len(wild) > 1 else ""
            evidence = f"one step changed it by {written(100 * share)} % of its size{others}"
            yield self.report(worst, evidence, share=share, matrices=len(wild))


def _share_moved(weight: Weight) -> float:
    """Return a step against the size of a tensor, or against its usual size where it starts near 0."""
    if weight.step_rms is None:
        return 0.0
    size = weight.weight_l2 / max(1, weight.entries) ** 0.5
    return weight.step_rms / max(size, USUAL / weight.fan_in**0.5)


class StepsTooSmall(Rule):
    """Steps that move every matrix, but none by anything to speak of, at all steps or from some step on."""

    code = "steps_too_small"
    helps = "raise the learning rate; is the loss or gradient divided or clipped to almost nothing? is eps too large?"
    lasts = "to the end"

    def find(self, seen: Pass) -> Iterator[Finding]:
        pace = max((w.update_ratio or 0.0 for w in seen.stepped), default=SMALL)
        if pace < SMALL and not list(DoesNotMove().find(seen)):
            rates = {float(rate["lr"]) for rate in seen.probe.rates if isinstance(rate.get("lr"), int | float)}
            rate = f" (learning rate {max(rates):.3g})" if rates else ""
            yield self.report(
                seen.model_name,
                f"a step changes no weight matrix by more than {written(pace)} of its size, so it takes "
                f"{written(1 / pace)} steps to change one by its own size{rate}", update_ratio=pace,
            )  # fmt: skip


class WeightDecayTooStrong(Rule):
    """Weight decay that takes a large share of every weight at every step."""

    code = "weight_decay_too_strong"
    helps = "use a weight decay of 0.01 to 0.1 with AdamW, 1e-4 with SGD"

    def find(self, seen: Pass) -> Iterator[Finding]:
        for group in seen.probe.rates:
            decay, rate = group.get("weight_decay") or 0.0, float(group.get("lr") or 0.0)
            if isinstance(decay, int | float) and (share := rate * float(decay)) > DECAY:
                yield self.report(
                    seen.model_name,
                    f"every step removes {100 * share:.2g} % of every weight, half of it in "
                    f"{max(1, round(0.69 / share)):,} steps: learning rate {rate:.3g} × decay {float(decay):.3g}",
                    share=share, learning_rate=rate, weight_decay=float(decay),
                )  # fmt: skip
                return


# ---------------------------------------------------------------------- what the model is given

LARGE_INPUT = 30.0
"""Root mean square above which an input was hardly normalized."""


class IdenticalSamples(Rule):
    """A batch that holds one sample many times."""

    code = "identical_samples"
    helps = "check the data loader: does its index advance? was one sample expanded instead of many stacked?"

    def find(self, seen: Pass) -> Iterator[Finding]:
        received = seen.records.received
        if received is not None and received.same:
            evidence = f"all {received.shape[0]} samples of the batch are equal"
            yield self.report("the input", evidence, samples=received.shape[0])


class InputScale(Rule):
    """Inputs of a size that no initialization is made for, unless a norm comes first."""

    code = "input_scale"
    helps = (
        "subtract the mean and divide by the standard deviation of the training set (for pixels, divide by 255 first)"
    )

    def find(self, seen: Pass) -> Iterator[Finding]:
        received = seen.records.received
        first = min(seen.probe.modules.values(), key=lambda row: row.order, default=None)
        if received is not None and received.rms > LARGE_INPUT and first is not None and "Norm" not in first.kind:
            yield self.report(
                "the input",
                f"inputs are not normalized: their root mean square is {written(received.rms)} (mean "
                f"{written(received.mean)}), and the first module, {first.name}, is not a norm",
                rms=received.rms, mean=received.mean,
            )  # fmt: skip


# ---------------------------------------------------------------------- units

BOUNDED = ("Tanh", "Sigmoid", "Hardtanh", "Hardsigmoid", "Softsign", "sigmoid", "tanh", "hardtanh")
"""Modules and functions with a bounded range."""


class IdenticalUnits(Rule):
    """Layers all of whose units have the same weights, and therefore the same gradients for ever."""

    code = "identical_units"
    helps = "draw initial weights at random (PyTorch's default, He, Xavier)"
    lasts = "usually"
    needs_finite = True

    def find(self, seen: Pass) -> Iterator[Finding]:
        same = [weight.names[0] for weight in seen.weights if weight.same_rows and weight.trainable]
        if same:
            evidence = "all units of the layer have the same weights and will stay the same"
            yield self.report(listed(same), evidence, layers=len(same))


class DeadUnits(Rule):
    """Units that are 0 on the whole batch; behind a branch that starts at 0 they are no news."""

    code = "dead_units"
    helps = (
        "use a smaller learning rate, biases that do not start far below 0, or an activation with a slope on both sides"
    )
    lasts = "usually"
    needs_finite = True

    def find(self, seen: Pass) -> Iterator[Finding]:
        silent = {row.name for row in seen.records.all_rows() if row.dead > DEAD_ANYWHERE}
        dead = [row for row in seen.nonlinear if row.dead > DEAD_ANYWHERE and row.source not in silent]
        if dead:
            evidence = f"{percent(dead[0].dead)} of its units are 0 on the whole batch{_count_others(dead)}"
            yield self.report(dead[0].name, evidence, share=dead[0].dead, modules=len(dead))


class SaturatedUnits(Rule):
    """Units of a bounded activation that are at the ends of their range, where its slope is near 0."""

    code = "saturated_units"
    helps = "use smaller weights or inputs (Xavier init), or normalize before the nonlinearity"
    lasts = "usually"
    needs_finite = True

    def find(self, seen: Pass) -> Iterator[Finding]:
        full = [row for row in seen.nonlinear if row.saturated > SATURATED and row.kind in BOUNDED]
        if full:
            share = full[0].saturated
            evidence = f"{percent(share)} of its outputs are at the ends of their range{_count_others(full)}"
            yield self.report(full[0].name, evidence, share=share, modules=len(full))


def _count_others(rows: Sequence[ModuleStatistics]) -> str:
    return f"; the same holds for {len(rows) - 1} more" if len(rows) > 1 else ""


# ---------------------------------------------------------------------- where the loss begins

TIMES_GUESS, ABOVE_GUESS = 2.0, 3.0
"""An initial cross-entropy is too high beyond so many times a guess, and so much above it."""
TIMES_VARIANCE = 100.0
"""An initial squared error is too high beyond so many times the variance of the targets."""


class InitialLossTooHigh(Rule):
    """Outputs that are far worse at first than an answer without any knowledge."""

    code = "initial_loss_too_high"
    lasts = "at first"

    def find(self, seen: Pass) -> Iterator[Finding]:
        objective = seen.records.objective
        if objective is None or objective.squashed is not None or not _is_far_above_guess(objective):
            return
        numbers = {"loss": objective.own or 0.0, "guess": objective.guess or 0.0}
        if objective.kind == "squared error":
            yield self.report(
                objective.kind,
                f"it starts at {written(objective.own)}, while the mean of the targets as the answer would give "
                f"{written(objective.guess)}: {objective.far}",
                "normalize the targets, start the last bias at their mean, or use smaller initial weights in the last "
                "layer", **numbers,
            )  # fmt: skip
        else:
            yield self.report(
                objective.kind,
                f"it starts at {written(objective.own)}, while an even guess would give {written(objective.guess)}: "
                "the outputs are large and wrong",
                "use smaller initial weights (a standard deviation of 0.02 for embeddings and projections of a "
                "transformer), and start the biases of the last layer at 0", **numbers,
            )  # fmt: skip


def _is_far_above_guess(objective: Objective) -> bool:
    if objective.own is None or objective.guess is None or not math.isfinite(objective.own):
        return False
    if objective.kind == "squared error":
        return objective.guess > 0 and objective.own > TIMES_VARIANCE * objective.guess
    return objective.own > max(TIMES_GUESS * objective.guess, objective.guess + ABOVE_GUESS)


# ---------------------------------------------------------------------- signals over depth and over time

VANISHED, EXPLODED = 1 / VANISHING_ANYWHERE, VANISHING_ANYWHERE
"""First over last: below the first bound a signal has vanished, above the second it has exploded."""
STEPWISE = math.log(VANISHING)
"""What must be left of a trend without its largest step, as a logarithm."""
FEWEST_MODULES, FEWEST_TIMES = 4, 8
"""Modules, or time steps, that a trend needs."""
STILL = 1e-7
"""Update ratio below which a weight hardly moves."""
ALIKE = 1e-6
"""Share of the energy that differs between samples, below which they look alike."""
ADAPTIVE = ("Adam", "RMSprop", "Adagrad", "Adadelta", "Lion", "Adafactor", "NAdam", "RAdam", "Lamb", "Muon")
GONE, GROWN = 1e-10, 1e6
"""First over last time step: below, what happened first cannot be learned; above, the state or gradient explodes.
Gated cells lose decades over a hundred steps and still learn, hence the wider bounds than over depth."""


def first_to_last(values: Sequence[float]) -> float:
    """Return the ratio of the first value to the last, as the table shows them; 1 of fewer than a trend needs.

    It is 1 unless the medians of the first and the last quarter confirm it, and unless it is made of several steps: one
    module of an odd size is no trend, and neither is one jump (a scale of 1e-5 on a branch, pooling, a class token).
    """
    if len(values) < FEWEST_MODULES:
        return 1.0
    count = min(max(2, len(values) // 4), len(values) // 2)
    ends = values[0] / values[-1]
    quarters = float(np.median(values[:count]) / np.median(values[-count:]))
    agree = (ends < VANISHED and quarters < VANISHED) or (ends > EXPLODED and quarters > EXPLODED)
    jumps = [math.log(a / b) for a, b in itertools.pairwise(values)]
    rest = math.log(ends) - (min(jumps) if ends < 1 else max(jumps))
    return ends if agree and abs(rest) > STEPWISE and (rest < 0) == (ends < 1) else 1.0


class ExplodingGradients(Rule):
    """The backprop signal grows on its way back, over depth or over time."""

    code = "exploding_gradients"
    needs_finite = True

    def find(self, seen: Pass) -> Iterator[Finding]:
        names, values = seen.gradients
        if (ratio := first_to_last(values)) > EXPLODED:
            yield self.report(
                f"{names[0]} to {names[-1]}",
                f"the backprop signal grows by a factor of {written(ratio)} from the last module to the first, "
                f"{written(ratio ** (1 / (len(values) - 1)), 2)} per module",
                "use smaller initial weights or normalization, scale branches by 1/√depth, or clip gradients",
                factor=ratio,
            )  # fmt: skip
        for name, _, deltas in seen.over_time:
            if deltas and deltas[-1] and (factor := deltas[0] / deltas[-1]) > GROWN:
                yield self.report(
                    f"{name}, over {len(deltas)} time steps",
                    f"the gradient grows by a factor of {written(factor)} from the last time step back to the first",
                    "use an orthogonal recurrent matrix of gain 1, an LSTM or GRU, or clip gradients", factor=factor,
                )  # fmt: skip


class ExplodingActivations(Rule):
    """Activations grow along the network, or the state over time."""

    code = "exploding_activations"
    needs_finite = True

    def find(self, seen: Pass) -> Iterator[Finding]:
        names, values = seen.activations
        if (growth := 1 / first_to_last(values)) > EXPLODED:
            yield self.report(
                f"{names[0]} to {names[-1]}",
                f"activations grow by a factor of {written(growth)} from the first module to the last",
                "use smaller initial weights or normalization, or scale branches by 1/√depth", factor=growth,
            )  # fmt: skip
        for name, sizes, _ in seen.over_time:
            early = next((size for size in sizes if size > 0), 0.0)
            if early and (growth := sizes[-1] / early) > GROWN:
                yield self.report(
                    f"{name}, over {len(sizes)} time steps",
                    f"the state grows by a factor of {written(growth)} from the first time step to the last",
                    "use an orthogonal recurrent matrix of gain 1, a bounded activation, or an LSTM or GRU",
                    factor=growth,
                )  # fmt: skip


class VanishingGradients(Rule):
    """The backprop signal shrinks on its way back, over depth or over time."""

    code = "vanishing_gradients"
    lasts = "usually"
    needs_finite = True

    def find(self, seen: Pass) -> Iterator[Finding]:
        names, values = seen.gradients
        if (ratio := first_to_last(values)) < VANISHED and not seen.excused:
            yield self.report(
                f"{names[0]} to {names[-1]}",
                f"the backprop signal shrinks by a factor of {written(1 / ratio)} from the last module to the first, "
                f"{written(ratio ** (-1 / (len(values) - 1)), 2)} per module",
                "use an initialization with gain 1 (He for ReLU), skips, or normalization", factor=1 / ratio,
            )  # fmt: skip
        for name, _, deltas in seen.over_time:
            yield from self._look_back(name, deltas)

    def _look_back(self, name: str, deltas: Sequence[float]) -> Iterator[Finding]:
        count, largest = len(deltas), max(deltas, default=0.0)
        explodes = bool(deltas) and bool(deltas[-1]) and deltas[0] / deltas[-1] > GROWN
        if largest and deltas[0] < GONE * largest and not explodes:
            reach = next(back for back in range(count) if deltas[count - 1 - back] < GONE * largest)
            how = "is 0" if deltas[0] == 0 else f"is {written(largest / deltas[0])} times smaller"
            yield self.report(
                f"{name}, over {count} time steps",
                f"the gradient {how} at the first time step: nothing that happened more than {reach} steps before the "
                "end can be learned",
                "use an LSTM or GRU whose forget gate starts open (bias 1 or more), attention, a loss at every time "
                "step, or shorter sequences", reach=reach,
            )  # fmt: skip


class VanishingActivations(Rule):
    """Activations shrink along the network."""

    code = "vanishing_activations"
    helps = "use an initialization with gain 1 (He for ReLU), or normalization"
    lasts = "usually"
    needs_finite = True

    def find(self, seen: Pass) -> Iterator[Finding]:
        names, values = seen.activations
        growth = 1 / first_to_last(values)
        if growth < VANISHED and not seen.excused:
            evidence = f"activations shrink by a factor of {written(1 / growth)} from the first module to the last"
            yield self.report(f"{names[0]} to {names[-1]}", evidence, factor=1 / growth)


class SamplesLookAlike(Rule):
    """A network that gives every sample the same answer.

    Of one pass it is told where the backprop signal vanishes too, and an adaptive optimizer hides that. Over a watch
    also where the loss has not fallen.
    """

    code = "samples_look_alike"
    helps = (
        "put a skip around every layer with the norm inside the branch (pre-norm), scale branches by 1/√depth, use "
        "fewer layers or an unbounded activation, or warm up the learning rate"
    )
    lasts = "usually"
    needs_finite = True

    def find(self, seen: Pass) -> Iterator[Finding]:
        if seen.alike is not None and seen.moves and first_to_last(seen.gradients[1]) < VANISHED:
            yield self._describe(seen, seen.alike)

    def find_in_course(self, history: History) -> Iterator[Finding]:
        if history.moments and history.has_fallen is False:
            last = Pass(history.moments[-1].probe)
            if last.alike is not None and first_to_last(last.gradients[1]) >= VANISHED:
                yield self._describe(last, last.alike)

    def _describe(self, seen: Pass, alike: ModuleStatistics) -> Finding:
        known = [row for row in seen.spine if row.spread is not None]
        first, last = known[0].spread or 0.0, known[-1].spread or 0.0
        return self.report(
            f"from {alike.name} on",
            f"the network gives every sample the same answer: after {known[0].name}, {100 * first:.2g} % of the "
            f"activations' energy differs between samples, after {known[-1].name} only {written(100 * last)} %",
            first=first, last=last,
        )  # fmt: skip


# ---------------------------------------------------------------------- inside special modules

SHARP_ENTROPY, SHARP_WEIGHT, FEWEST_KEYS = 0.1, 0.9, 8
ENOUGH_CHOICES = 16
"""Choices per expert that a judgment needs: of fewer, a balanced router may leave one out by chance."""
EXPERT = re.compile(r"(^|\.)\w*experts?\w*\.(\d+)(\.|$)", re.IGNORECASE)


class SaturatedAttention(Rule):
    """Attention that looks at a single key; a trained one may, so it is told if it begins so or lasts."""

    code = "saturated_attention"
    helps = "scale logits by 1/√d, use smaller query and key weights, or normalize both before their product"
    lasts = "usually"
    needs_finite = True

    def find(self, seen: Pass) -> Iterator[Finding]:
        judged = [call for call in seen.records.attention.values() if call.keys >= FEWEST_KEYS]
        sharp = [call for call in judged if call.entropy < SHARP_ENTROPY and (call.largest or 0) > SHARP_WEIGHT]
        if sharp and 2 * len(sharp) >= len(judged):
            first = sharp[0]
            logit = "" if first.logit is None else f"; the largest logit is {written(first.logit)}"
            others = f". The same holds for {len(sharp) - 1} more" if len(sharp) > 1 else ""
            yield self.report(
                first.name,
                f"each query attends to a single key: its largest weight averages {first.largest:.2f}, and the entropy "
                f"is {100 * first.entropy:.1f} % of uniform{logit}{others}",
                entropy=first.entropy, largest=first.largest or 0.0, modules=len(sharp),
            )  # fmt: skip

    def counts(self, hits: Sequence[bool]) -> bool:
        return hits[0] or super().counts(hits)


class ExpertsNeverChosen(Rule):
    """Experts that no sample was sent to, by their modules or by their router's choices."""

    code = "experts_never_chosen"
    helps = "add a load-balancing loss or noise on the router's logits, or remove the router's bias"
    lasts = "usually"
    needs_finite = True

    def find(self, seen: Pass) -> Iterator[Finding]:
        yield from self._look([seen.probe])

    def find_over(self, history: History) -> Iterator[Finding]:
        """Look at the second half of the probed steps together: an expert may be used at first and never again."""
        probes = [moment.probe for moment in history.moments]
        yield from self._look(probes[len(probes) // 2 :])

    def _look(self, probes: Sequence[ModuleProbe]) -> Iterator[Finding]:
        tokens, idle = _count_tokens(probes)
        if tokens:
            if sum(tokens.values()) >= ENOUGH_CHOICES * (len(idle) + len(tokens)):
                yield from self._describe(sorted(idle), len(idle) + len(tokens))
            return
        for router in {name for probe in probes for name in probe.records.loads}:
            loads = [probe.records.loads[router] for probe in probes if router in probe.records.loads]
            counts = [sum(of_one) for of_one in zip(*loads, strict=False)]
            unused = [f"{router}, expert {number}" for number, count in enumerate(counts) if count == 0]
            if unused and sum(counts) >= ENOUGH_CHOICES * len(counts):
                yield from self._describe(unused, len(counts))
                return

    def _describe(self, idle: Sequence[str], of: int) -> Iterator[Finding]:
        if idle:
            evidence = f"no sample reached {len(idle)} of {of} experts"
            yield self.report(listed(idle), evidence, idle=len(idle), experts=of)


def _count_tokens(probes: Sequence[ModuleProbe]) -> tuple[dict[str, int], set[str]]:
    """Return how many tokens each expert got in these passes, and the experts that got none."""
    tokens: dict[str, int] = {}
    for probe in probes:
        largest: dict[str, int] = {}
        for name, row in probe.modules.items():
            if expert := expert_of(name):
                largest[expert] = max(largest.get(expert, 1), math.prod(row.shape[:-1]))
        for expert, count in largest.items():
            tokens[expert] = tokens.get(expert, 0) + count
    uncalled = {expert for probe in probes for name in probe.records.never_called if (expert := expert_of(name))}
    return tokens, uncalled - set(tokens)


def expert_of(name: str) -> str | None:
    """Return the name of the expert that a module belongs to, or None."""
    match = EXPERT.search(name)
    return None if match is None else name[: match.end(2)]


# ---------------------------------------------------------------------- curves over a watch

FEWEST_LOSSES = 10
"""Losses that a judgment of the curve needs."""
RISEN, SPIKE, SEEN = 1.5, 5.0, 0.1
"""A loss rises beyond so many times its first third's median, and spikes beyond so many times its last five values'
and so much of where it began."""


class LossRises(Rule):
    """A loss that grows instead of falling."""

    code = "loss_rises"
    helps = "use a smaller learning rate; check the sign of the loss and `maximize=True`"

    def find_in_course(self, history: History) -> Iterator[Finding]:
        if history.has_risen:
            start, end, count = history.losses[0], history.losses[-1], len(history.losses)
            evidence = f"it goes from {written(start)} to {written(end)} in {count} steps"
            yield self.report("the loss", evidence, first=start, last=end, steps=count)


class DoesNotGeneralize(Rule):
    """A validation loss that rises while the training loss falls."""

    code = "does_not_generalize"
    helps = (
        "check that labels belong to their samples; then try more data, augmentation, weight decay, dropout, a smaller "
        "network, or early stopping"
    )

    def find_in_course(self, history: History) -> Iterator[Finding]:
        train = history.losses
        for name, curve in history.curves.items():
            other = [value for value in curve.values() if math.isfinite(value)]
            if "val" not in name.lower() or "loss" not in name.lower() or len(other) < 3 or not train:
                continue
            last, best = fmean(other[-max(1, len(other) // 5) :]), min(other)
            fallen = median(train[-max(3, len(train) // 5) :]) < 0.7 * median(train[: max(3, len(train) // 10)])
            if fallen and last > other[0] and last > 1.05 * best:
                yield self.report(
                    name,
                    f"it goes from {written(other[0])} to {written(last)} (best {written(best)}) while the training "
                    f"loss falls from {written(train[0])} to {written(train[-1])}",
                    first=other[0], last=last, best=best,
                )  # fmt: skip


class LossDoesNotFall(Rule):
    """A loss that stays where it began: a symptom without a cause."""

    code = "loss_does_not_fall"
    helps = "check whether the network can learn one batch by heart: diagnose(overfit=…)"
    severity = "note"

    def find_in_course(self, history: History) -> Iterator[Finding]:
        if history.has_fallen is False and history.thirds[0] > 0 and not history.has_risen:
            start, end, count = history.losses[0], history.losses[-1], len(history.losses)
            evidence = f"it is {written(start, 4)} at first and {written(end, 4)} after {count} steps"
            yield self.report("the loss", evidence, first=start, last=end, steps=count)


class LossSpikes(Rule):
    """A loss that jumps and comes back: a symptom without a cause."""

    code = "loss_spikes"
    helps = "use a smaller learning rate or clip gradients; look at the batch of that step"
    severity = "note"

    def find_in_course(self, history: History) -> Iterator[Finding]:
        values, steps = history.losses, list(history.loss_by_step)
        around = [median(values[max(0, i - 5) : i]) for i in range(1, len(values))]
        lowest = SEEN * median(values[:3]) if values else 0.0  # a loss near 0 may multiply without harm
        spikes = [i for i, usual in enumerate(around, 1) if i > 5 and values[i] > max(SPIKE * usual, lowest) > 0]
        if spikes:
            worst = max(spikes, key=lambda i: values[i])
            yield self.report(
                "the loss",
                f"it jumps to {written(values[worst])} at step {steps[worst]:,}, the highest of {len(spikes)}",
                loss=values[worst], step=steps[worst], spikes=len(spikes),
            )  # fmt: skip


class CannotOverfit(Rule):
    """A network that could not learn one batch by heart."""

    code = "cannot_overfit_one_batch"
    helps = (
        "before any question of depth or data: do inputs and targets belong together, does the loss fit the output, do "
        "all parameters get a gradient and move, is the learning rate of the right size?"
    )

    def find_in_attempt(self, attempt: Overfit, model_name: str) -> Iterator[Finding]:
        if not attempt.ok:
            yield self.report(model_name, attempt.words, first=attempt.first, last=attempt.last, floor=attempt.floor)


RULES: tuple[Rule, ...] = tuple(kind() for kind in Rule.__subclasses__())
"""Every rule, the most severe first."""
