"""Whether it learns: the user's loop beside the control arm, and the one change that makes the difference.

Two arms start from the same weights and see the same batches with the same random numbers. If the control arm (the
plain loop with Adam) learns where the user's does not, the fault is in the loop, the optimizer or its settings; one
change at a time says in which. If neither learns, it is in the model, the loss or the data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean
from typing import Any

import torch

from gradlab.checks.check import CannotTell, Cause, Check
from gradlab.checks.course import Course, as_control, measure_loss, run_course, with_plain_step, with_rate
from gradlab.checks.dependence import change_between, outer_calls
from gradlab.checks.examination import Examination
from gradlab.checks.losses import starts_trained
from gradlab.checks.recording import called_module, replay
from gradlab.checks.structure import reachable_optimizers
from gradlab.checks.training import Training, leaves
from gradlab.torch.overfit import _minimize_output_loss
from gradlab.words import rounded, written

ARM = 40
"""Steps of an arm that compares settings."""
MUCH, LITTLE = 3.0, 0.25
"""An arm that falls so many times as far as the user's is much better; the user's falls little below this share."""


@dataclass(frozen=True)
class Suspect:
    """One change of the user's set-up that may mend it."""

    code: str
    title: str
    change: Callable[[Training], Any]
    says: str
    helps: str


def suspects(training: Training) -> Iterator[Suspect]:
    """Yield the changes that are tried, one at a time."""
    groups = [g for o in training.optimizers for g in o.param_groups]
    rates = [float(g["lr"]) for g in groups if isinstance(g.get("lr"), int | float)]
    if training.step is not None:
        yield Suspect(
            "step_at_fault", "the training step is at fault", with_plain_step,
            "with the same optimizer and a plain step (clear, forward in train mode, backward, step)",
            "compare the step with the plain one: order of the calls, mode, sign, clipping, what is differentiated",
        )  # fmt: skip
    if any((g.get("weight_decay") or 0) > 0 for g in groups):
        yield Suspect("weight_decay_too_strong", "weight decay is too strong", lambda t: _with(t, weight_decay=0.0),
                      "without weight decay", "use 0.01 to 0.1 with AdamW, 1e-4 with SGD")  # fmt: skip
    if any((g.get("momentum") or 0) > 0.9 for g in groups):
        yield Suspect("momentum_too_large", "momentum is too large", lambda t: _with(t, momentum=0.9),
                      "with momentum 0.9", "use momentum 0.9, or a smaller rate")  # fmt: skip
    if any(tuple(g.get("betas", (0.9, 0.999))) != (0.9, 0.999) for g in groups):
        yield Suspect("betas", "Adam's betas are unusual", lambda t: _with(t, betas=(0.9, 0.999)),
                      "with betas (0.9, 0.999)", "use betas of (0.9, 0.999)")  # fmt: skip
    if any(float(g.get("eps") or 0) > 1e-6 for g in groups):
        yield Suspect("eps_too_large", "the optimizer's eps swallows the gradient", lambda t: _with(t, eps=1e-8),
                      "with eps 1e-8", "use eps=1e-8")  # fmt: skip
    for factor in (0.1, 0.01, 0.001):
        yield Suspect(
            "rate_too_large", "the learning rate is too large", partial(with_rate, factor=factor),
            f"at {factor:g} times the learning rate", f"use a learning rate of about {_about(rates, factor)}",
        )  # fmt: skip
    for factor in (10.0, 100.0, 1000.0, 10_000.0):
        yield Suspect(
            "rate_too_small", "the learning rate is too small", partial(with_rate, factor=factor),
            f"at {factor:g} times the learning rate", f"use a learning rate of about {_about(rates, factor)}",
        )  # fmt: skip


def _about(rates: list[float], factor: float) -> str:
    return f"{max(rates) * factor:.2g}" if rates else "another size"


def _with(training: Training, **settings: Any) -> Training:
    for optimizer in training.optimizers:
        for group in optimizer.param_groups:
            group.update({name: value for name, value in settings.items() if name in group})
    return training


class Learns(Check):
    """The user's loop beside the control arm."""

    code = "learns"
    asks = "Does the loop learn what the same network can learn?"
    stage = "training"
    cost = "training"
    needs = ("optimizer",)
    rank = 10

    def look(self, at: Examination) -> Iterator[Cause]:
        others = {id(o) for o in reachable_optimizers(at.training.step)} - {id(o) for o in at.training.optimizers}
        if others:
            raise CannotTell("the step has further optimizers: what one of them lowers, another may raise")
        steps = at.steps_for(ARM, 0.06)
        if steps < 8:
            raise CannotTell("a step takes too long for comparisons")
        mine = run_course(at.training, at.batches, steps, seed=at.seed)
        control = at.control(steps)
        for name, course in (("your loop", mine), ("control: plain steps of Adam", control)):
            losses = [step.loss for step in course.steps if math.isfinite(step.loss)]
            at.curves.setdefault("loss", {})[name] = losses
        shown = f"in {steps} steps the loss goes from {written(mine.first)} to {written(mine.last)}"
        if not math.isfinite(control.falls) or not self._is_progress(control):
            if self._is_progress(mine):
                self.fine(shown)
                return
            raise CannotTell(
                f"{shown}, and in the control arm from {written(control.first)} to {written(control.last)}"
            )
        hardly = mine.falls < 0.02 * abs(mine.first) and mine.falls < 0.1 * control.falls
        if math.isfinite(mine.last) and not hardly:
            self.fine(f"{shown}, in the control arm to {written(control.last)}")
            return
        yield from self._separate(at, mine, control, steps, shown)

    def _is_progress(self, course: Course) -> bool:
        return math.isfinite(course.falls) and course.falls > 0.03 * abs(course.first) + 1e-12

    def _separate(self, at: Examination, mine: Course, control: Course, steps: int, shown: str) -> Iterator[Cause]:
        """Try one change at a time, and repeat the best with three seeds."""
        tried: list[tuple[float, Suspect]] = []
        for suspect in suspects(at.training):
            if at.left < 0.25 * at.seconds:
                break
            course = run_course(at.training, at.batches, steps, seed=at.seed, change=suspect.change)
            gain = course.falls / control.falls if math.isfinite(course.falls) else -math.inf
            tried.append((gain, suspect))
            if gain > 0.8 and suspect.code == "step_at_fault":
                break
        least = MUCH * max(0.0, mine.falls / control.falls)
        good = [
            (gain, one) for gain, one in tried if gain > max(0.4 if one.code.startswith("rate_") else 0.1, least)
        ]  # fmt: skip
        if not good:
            yield self.cause(
                "the loop does not learn what the network can learn",
                f"{shown}, with plain steps of Adam to {written(control.last)}; no single change of the settings "
                "mends it",
                "use Adam at 1e-3 and a plain step first, and add the rest piece by piece",
                code="loop_does_not_learn", certainty="likely", symptom=True, first=mine.first, last=mine.last,
                control=control.last,
            )  # fmt: skip
            return
        good = [pair for pair in good if not pair[1].code.startswith("rate_")] or good  # an odd setting before the rate
        gain, suspect = max(good, key=lambda pair: pair[0])
        first = next((pair for pair in good if pair[0] > 0.8 * gain), (gain, suspect))
        suspect = first[1]
        if suspect.code == "rate_too_small" and any(
            gain > 0.15 and other.says.startswith("at 10 times") for gain, other in tried
        ):
            self.fine(f"{shown}; a rate ten times as large would be quicker")
            return
        if suspect.code == "rate_too_small" and starts_trained(at):
            raise CannotTell(f"{shown}: the network begins far below a guess, and is tuned further with small steps")
        effects: list[tuple[float, float]] = []
        for seed in (1, 2, 3):
            if at.left < 0.15 * at.seconds and effects:
                break
            with_it = run_course(at.training, at.batches, steps, seed=seed)
            without = run_course(at.training, at.batches, steps, seed=seed, change=suspect.change)
            effects.append((with_it.last, without.last))
        yield replace(
            self.cause(
                suspect.title, f"{shown}, and {suspect.says} to {written(mine.first - first[0] * control.falls)}",
                suspect.helps, code=suspect.code, certainty="likely",
                symptom=suspect.code == "step_at_fault", last=mine.last, first=mine.first,
            ),
            experiment=_describe(effects, steps, suspect.says),
        )  # fmt: skip


def _describe(effects: list[tuple[float, float]], steps: int, how: str) -> str:
    """Say the effect of a change with its interval over seeds."""
    if not effects:
        return ""
    lost = sum(not math.isfinite(a) for a, _ in effects)
    if lost:
        kept = f"{how[0].upper()}{how[1:]}, the loss stays a number"
        return f"{kept}; as it is, it is lost with {lost} of {len(effects)} seeds."
    gaps = [a - b for a, b in effects]
    mean = fmean(gaps)
    if len(gaps) < 2:
        return f"{how[0].upper()}{how[1:]}, the loss after {steps} steps is {rounded(mean)} lower."
    spread = (sum((gap - mean) ** 2 for gap in gaps) / (len(gaps) - 1)) ** 0.5
    width = {2: 12.706, 3: 4.303}[len(gaps)] * spread / len(gaps) ** 0.5
    return (
        f"{how[0].upper()}{how[1:]}, the loss after {steps} steps is {rounded(mean)} lower (95 % interval "
        f"{rounded(mean - width)} to {rounded(mean + width)}, {len(gaps)} seeds)."
    )


class OneBatch(Check):
    """One batch learned by heart, by the control arm."""

    code = "one_batch"
    asks = "Can the network learn one batch by heart?"
    stage = "training"
    cost = "training"
    rank = 20

    def look(self, at: Examination) -> Iterator[Cause]:
        steps = at.steps_for(200, 0.15)
        if steps < 40:
            raise CannotTell(f"{steps} steps fit into the time: too few")
        course = at.control(steps, [at.training.batch], (1e-3, 1e-2) if steps >= 200 else (3e-3,))
        first, last = course.first, course.last
        constant = _constant_answer(at)
        floor = (
            "" if constant is None else f"; the best answer that is the same for every sample gets {written(constant)}"
        )
        shown = f"in {steps} steps of Adam the loss on one batch goes from {written(first)} to {written(last)}{floor}"
        if not math.isfinite(last):
            raise CannotTell(shown)
        bar = min(first, constant) if constant is not None else first
        if last < -10 * max(1.0, abs(first)):
            yield self.cause(
                "the loss falls without bound", f"{shown}: it has no least value",
                "is something maximized that should be minimized, or subtracted that should be added (the KL term, the "
                "entropy, a squared error)?", code="loss_without_bound", certainty="likely", first=first, last=last,
            )  # fmt: skip
            return
        if last > bar - 0.05 * abs(bar) and first >= 0 and last > 0.05 * abs(first):
            reached = constant is not None and last < 1.1 * constant + 1e-9
            yield self.cause(
                "one batch cannot be learned by heart",
                shown + (": the network says the same to every sample" if reached else ""),
                "look at what stands between inputs and loss: do inputs and targets belong together, does the loss "
                "fit the "
                "outputs, does every parameter get a gradient?",
                code="cannot_overfit_one_batch", certainty="likely", symptom=True, first=first, last=last,
            )  # fmt: skip
            return
        self.fine(f"{written(first)} → {written(last)} in {steps} steps of Adam")


def _constant_answer(at: Examination) -> float | None:
    record = at.first_pass
    if at.training.takes_model or at.training.loss is None or not record.calls:
        return None
    from gradlab.torch.overfit import split_batch

    try:
        _, target = split_batch(at.training.batch, at.training.loss)
        output = record.calls[-1].output
        return (
            _minimize_output_loss(output, target, at.training.loss, same=True)
            if isinstance(output, torch.Tensor)
            else None
        )
    except Exception:
        return None


class AnswersAlike(Check):
    """Outputs that end up the same for every sample."""

    code = "answers_alike"
    asks = "Do answers differ between samples, also after training?"
    stage = "training"
    cost = "training"
    rank = 30

    def look(self, at: Examination) -> Iterator[Cause]:
        course = at.control_course
        if course.training is None or not math.isfinite(course.last):
            raise CannotTell("the control arm did not train")
        looked = []
        for call, fresh in outer_calls(at):
            module = called_module(course.training.copy().model.eval(), call)
            if module is None:
                continue
            before, after = (_differences(m, call) for m in (fresh, module))
            looked += after
            for a, b in zip(before, after, strict=False):
                if b < 1e-3 and a > 20 * b and b < 0.02 * a and at.samples >= 4:
                    falls = course.falls
                    yield self.cause(
                        "answers collapse: the outputs become the same for every sample",
                        f"after {len(course.steps)} steps {100 * b:.2g} % of the outputs' energy differs between "
                        "samples, "
                        f"{100 * a:.2g} % before, while the loss goes from {written(course.first)} to "
                        f"{written(course.last)}",
                        "the loss is served without looking at the input: in self-supervised learning a "
                        "stop-gradient or a "
                        "contrast is missing, in a VAE the KL term is too strong, elsewhere targets do not depend "
                        "on inputs",
                        code="collapse", certainty="likely" if falls > 0 else "possible", before=a, after=b,
                    )  # fmt: skip
                    return
        if not looked:
            raise CannotTell("no output has a batch axis")
        self.fine(f"{written(100 * min(looked))} % of the outputs' energy differs between samples")


def _differences(module: Any, call: Any) -> list[float]:
    """Return, for each output, the share of its energy that differs between samples."""
    found = []
    for tensor in replay(module, call, call.inputs):
        if tensor.dim() >= 2 and len(tensor) >= 4:
            rows = tensor.float().reshape(len(tensor), -1)
            energy = float(rows.square().mean())
            found.append(float((rows - rows.mean(0)).square().mean()) / energy if energy else 0.0)
    return found


class ModesAgree(Check):
    """Train mode and eval mode on the same data, after training."""

    code = "modes_agree"
    asks = "Is the trained model as good in eval mode as in train mode?"
    stage = "generalization"
    cost = "training"

    def look(self, at: Examination) -> Iterator[Cause]:
        course = at.control_course
        if course.training is None or not math.isfinite(course.last):
            raise CannotTell("the control arm did not train")
        batches = at.batches[:4]
        train, evaluated = (measure_loss(course.training, batches, train=mode) for mode in (True, False))
        if not math.isfinite(evaluated):
            raise CannotTell(f"the loss is {evaluated} in eval mode")
        falls = course.first - train
        steps = len(course.steps)
        if falls > 0.05 * abs(course.first) and evaluated - train > 0.6 * falls and steps >= 30:
            yield self.cause(
                "the trained model fails in eval mode",
                f"after {steps} steps the loss on training batches is {written(train)} in train mode and "
                f"{written(evaluated)} in eval mode (at the start {written(course.first)})",
                "look at batch norm (momentum, tiny batches, several kinds of data in turn) and at dropout that stands "
                "before a norm", train=train, evaluated=evaluated, certainty="likely",
            )  # fmt: skip
            return
        self.fine(f"{written(train)} in train mode, {written(evaluated)} in eval mode")


class Generalizes(Check):
    """Validation data after training, against training data."""

    code = "generalizes"
    asks = "Does what is learned hold on the validation data?"
    stage = "generalization"
    cost = "training"
    needs = ("loader", "val_loader")

    def look(self, at: Examination) -> Iterator[Cause]:
        if len(at.val_epoch) < 1 or len(at.epoch) < 2:
            raise CannotTell("too few batches")
        course = at.control_course
        if course.training is None or not math.isfinite(course.last):
            raise CannotTell("the control arm did not train")
        seen, val = at.batches[:8], at.val_epoch[:8]
        start = [measure_loss(at.training, [b], train=False, seeds=1) for b in val]
        end = [measure_loss(course.training, [b], train=False, seeds=1) for b in val]
        train_start, train_end = (measure_loss(t, seen, train=False, seeds=1) for t in (at.training, course.training))
        fell = train_start - train_end
        gains = [a - b for a, b in zip(start, end, strict=True)]
        noise = (sum((g - fmean(gains)) ** 2 for g in gains) / max(1, len(gains) - 1) / len(gains)) ** 0.5
        shown = (
            f"after {len(course.steps)} steps of the control arm the training loss went from {written(train_start)} to "
            f"{written(train_end)}, the validation loss from {written(fmean(start))} to {written(fmean(end))}"
        )
        passes = len(course.steps) / max(1, len(seen))
        if fell > 0.2 * abs(train_start) and fmean(gains) + 2 * noise < 0 and passes <= 25:
            yield self.cause(
                "what is learned does not hold on the validation data", shown,
                "are validation inputs prepared as training inputs, and do labels mean the same? are training "
                "pairs intact? "
                "then: more data, augmentation, weight decay", code="does_not_generalize", certainty="possible",
                symptom=True, severity="caution", train=train_end, validation=fmean(end),
            )  # fmt: skip
            return
        self.fine(shown)


__all__ = ["Learns", "as_control", "change_between", "leaves"]
