"""The user's training step, run on copies: what it does to the gradient, the mode and the rates."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from statistics import median

from gradlab.checks.check import CannotTell, Cause, Check
from gradlab.checks.course import Course, run_course, watch_step
from gradlab.checks.examination import Examination
from gradlab.checks.training import Training
from gradlab.torch.rules import depends_on_mode
from gradlab.torch.structure import clean_name
from gradlab.words import listed, percent, written

CLIPPED = 0.02
"""Share of the gradient that must be left of it, at a rate that was chosen for the whole."""
SAME = 0.98
"""Cosine above which two gradients point the same way."""


def _steps(at: Examination) -> Course:
    course = at.course
    if not course.steps:
        raise CannotTell(f"the step fails: {course.error}")
    return course


class StepWorks(Check):
    """The step runs, differentiates, and steps."""

    code = "step_works"
    asks = "Does a step compute gradients and use them?"
    stage = "loop"
    cost = "training"
    needs = ("step",)
    rank = 5

    def look(self, at: Examination) -> Iterator[Cause]:
        course = at.course
        if course.error and course.steps:
            again = "backward through the graph a second time" in course.error
            yield self.cause(
                "training stops with an error",
                f"step {len(course.steps) + 1} fails: {course.error[:200]}"
                + ("; something of the step before (a hidden state, a loss that is summed up) still hangs on its graph" if again else ""),  # noqa: E501
                "detach what is carried from one step to the next (hidden.detach(), loss.item())" if again
                else "mend what the message names",
                code="graph_carried_over" if again else "step_fails",
            )  # fmt: skip
            return
        steps = _steps(at).steps
        events = [step.events for step in steps]
        if not any("backward" in each for each in events):
            yield self.cause(
                "no gradient is ever computed", f"no backward call in {len(steps)} steps", "call loss.backward()",
                code="no_backward",
            )  # fmt: skip
            return
        if at.training.optimizers and not any("step" in each for each in events):
            yield self.cause(
                "the optimizer never steps",
                f"optimizer.step() is not called in {len(steps)} calls of the step",
                "call optimizer.step() after backward",
                code="no_optimizer_step",
            )  # fmt: skip
            return
        self.fine(f"{len(steps)} steps: {' → '.join(dict.fromkeys(events[-1]))}")


class GradientUsed(Check):
    """The gradient that the optimizer uses is that of the loss."""

    code = "gradient_used"
    asks = "Is the gradient that the optimizer uses that of the loss?"
    stage = "loop"
    cost = "training"
    rank = 10

    def look(self, at: Examination) -> Iterator[Cause]:
        steps = _steps(at).steps
        later = [step for step in steps[1:] if "backward" in step.events]
        stepping = [step for step in steps if "step" in step.events]
        if not stepping:
            raise CannotTell("no optimizer was seen to step")
        several = sum(step.uncleared for step in later)
        kept = later and several > 0.5 * len(later) and all(len(s.events) and "step" in s.events for s in later)
        if kept:
            yield self.cause(
                "gradients are not cleared between steps (zero_grad is missing)",
                f"at {several} of {len(later)} steps, gradients of the step before were still there when the backward "
                f"pass began{_describe_growth(steps)}: they add up",
                "call optimizer.zero_grad() once per step, before backward, on the optimizer that steps",
                code="gradients_not_cleared", steps=several,
            )  # fmt: skip
            return
        if len(at.training.optimizers) != 1:
            raise CannotTell("several optimizers, or none")
        compared = [step for step in stepping if step.ratio is not None and step.cosine is not None]
        if any(step.used == 0.0 and (step.arrived or 0) > 0 for step in stepping[:3]) and all(
            step.used == 0.0 for step in stepping
        ):
            yield self.cause(
                "gradients are cleared before the optimizer uses them",
                f"the norm of the gradient is {written(stepping[0].arrived)} after backward and 0 when "
                "optimizer.step() "
                "begins: zero_grad stands between backward and step",
                "call zero_grad before backward, not after it", code="gradients_cleared_early",
            )  # fmt: skip
            return
        if not compared:
            raise CannotTell("the gradient could not be compared")
        ratio = median(step.ratio or 0.0 for step in compared)
        cosine = median(step.cosine or 0.0 for step in compared)
        if cosine < -SAME:
            yield self.cause(
                "the step climbs the loss: its sign is wrong",
                f"the gradient that the optimizer uses is {written(ratio)} times that of the loss (cosine "
                f"{cosine:.2f}): training makes the loss grow",
                "differentiate the loss itself, not its negative", code="wrong_sign_of_the_loss", ratio=ratio,
            )  # fmt: skip
        elif cosine > SAME and 0 < ratio < CLIPPED:
            step = compared[0]
            lost = step.arrived is not None and step.used is not None and step.used < 0.5 * step.arrived
            how = "clipping" if lost else "a division of the loss or a rescaling"
            adaptive = type(at.training.optimizers[0]).__name__.startswith("Ada")
            if not adaptive or (step.used or 0.0) < 1e-6:
                yield self.cause(
                    f"{how} removes the gradient",
                    f"the optimizer uses {100 * ratio:.2g} % of the gradient of the loss (norm {written(step.true)}, "
                    f"after {how} {written(step.used)})",
                    "clip at about the usual norm of the gradient (1 to 10), after unscaling; do not divide the loss "
                    "twice", code="gradient_shrunk", ratio=ratio,
                )  # fmt: skip
        elif cosine > SAME and ratio > 1.9:
            passes = median(step.events.count("backward") for step in compared)
            yield self.cause(
                "the gradient is a multiple of that of the loss",
                f"the optimizer uses {written(ratio)} times the gradient of the loss"
                + (f", the sum over {passes:g} backward passes" if passes > 1 else ""),
                "divide the loss by the number of accumulated batches, or by the loss scale",
                code="gradient_multiplied", certainty="likely",
                severity="note" if ratio < 1.5 * passes < 8 else "problem",
                ratio=ratio,
            )  # fmt: skip
        else:
            self.fine(f"the used gradient is {written(ratio)} times that of the loss, at cosine {cosine:.2f}")


def _describe_growth(steps: list) -> str:  # type: ignore[type-arg]
    used = [step.used for step in steps if step.used]
    return (
        f", and its norm goes from {written(used[0])} to {written(used[-1])} in {len(used)} steps"
        if len(used) > 3
        else ""
    )


class ModeWhileTraining(Check):
    """Train mode while training, eval mode while evaluating."""

    code = "training_mode"
    asks = "Is the model in train mode while it trains, and in eval mode while it is judged?"
    stage = "loop"
    cost = "training"
    rank = 15

    def look(self, at: Examination) -> Iterator[Cause]:
        switching = [clean_name(n) for n, m in at.training.model.named_modules() if depends_on_mode(m)]
        if not switching:
            self.fine("no module has two modes")
            return
        names = listed(switching)
        if at.training.step is not None:
            modes = [step.training for step in _steps(at).steps if step.training is not None]
            if modes and not any(modes[len(modes) // 2 :]):
                how = (
                    "the step switches to eval mode"
                    if modes[0] or at.training.model.training
                    else "it was handed over in eval mode, and the step does not call model.train()"
                )
                yield self.cause(
                    "the model trains in eval mode",
                    f"in {modes.count(False)} of {len(modes)} steps the model is in eval mode ({how}): {names} do "
                    "not do "
                    "what they do in training",
                    "call model.train() at the beginning of every epoch, and again after each evaluation",
                    code="training_in_eval_mode",
                )  # fmt: skip
        elif not at.training.model.training and at.training.optimizers:
            yield self.cause(
                "the model was handed over in eval mode",
                f"{names} do not do what they do in training unless the loop calls model.train()",
                "call model.train() before training",
                code="training_in_eval_mode", certainty="possible", severity="note",
            )  # fmt: skip
        yield from self._judge_norms(at)
        if at.training.metric is not None:
            yield from self._judge_metric(at, names)
        if not self.says:
            self.fine("train mode in every step")

    def _judge_norms(self, at: Examination) -> Iterator[Cause]:
        """Batch norms that stay in eval mode although the model is in train mode, with statistics that never moved."""
        copied = at.training.copy()
        copied.model.train()
        stuck = [
            clean_name(name) for name, m in copied.model.named_modules()
            if getattr(m, "track_running_stats", False) and m is not copied.model and not m.training
            and getattr(m, "num_batches_tracked", None) is not None and int(m.num_batches_tracked) == 0
        ]  # fmt: skip
        if stuck:
            yield self.cause(
                "batch norm is stuck in eval mode",
                f"after model.train(), {listed(stuck)} are still in eval mode, and their running statistics are "
                "still the "
                "initial 0 and 1: nothing is normalized",
                "freeze batch norm only where its statistics were learned before (pretrained weights)",
                code="batch_norm_stuck", modules=len(stuck),
            )  # fmt: skip

    def _judge_metric(self, at: Examination, names: str) -> Iterator[Cause]:
        from gradlab.checks.metric import call_metric

        copied = at.training.copy()
        copied.model.train()
        seen = call_metric(copied)
        if seen is None:
            return
        record, _ = seen
        if not copied.model.training:
            yield self.cause(
                "the evaluation leaves the model in eval mode",
                f"after metric() the model is in eval mode, and stays so while it trains on: {names} are then off",
                "call model.train() after each evaluation", code="left_in_eval_mode",
                certainty="possible" if at.training.step is None else "certain",
                severity="note" if _step_sets_mode(at) else "problem",
            )  # fmt: skip
        if record.calls and record.calls[-1].training:
            again = at.training.copy()
            again.model.eval()
            other = call_metric(again)
            forces = other is not None and bool(other[0].calls) and other[0].calls[-1].training
            yield self.cause(
                "the model is evaluated in train mode",
                f"metric() {'puts the model into train mode' if forces else 'does not put the model into eval mode'}: "
                f"{names} then drop units or use the statistics of the batch"
                + ("" if forces else ", unless whoever calls it does"),
                "call model.eval() before an evaluation and model.train() after it", code="evaluated_in_train_mode",
                certainty="certain" if forces else "possible", severity="problem" if forces else "caution",
            )  # fmt: skip


def _step_sets_mode(at: Examination) -> bool:
    """Whether the user's step puts the model into train mode by itself."""
    if at.training.step is None:
        return True
    copied = at.training.copy()
    copied.model.eval()
    try:
        return bool(watch_step(copied, at.batches[0], at.seed).training)
    except Exception:
        return False


class SeedsInTheLoop(Check):
    """Random numbers that are the same at every step."""

    code = "seeded_in_the_loop"
    asks = "Is the random generator left alone inside the loop?"
    stage = "loop"
    cost = "training"

    def look(self, at: Examination) -> Iterator[Cause]:
        steps = _steps(at).steps
        seeds = sum(step.seeds > 0 for step in steps)
        if seeds > 0.5 * len(steps):
            yield self.cause(
                "the random generator is seeded anew at every step",
                f"torch.manual_seed is called in {seeds} of {len(steps)} steps: dropout, noise and sampling are "
                "the same "
                "each time", "seed once, before training", steps=seeds,
            )  # fmt: skip
            return
        self.fine("no step seeds it")


class GraphGrows(Check):
    """A graph that grows from step to step."""

    code = "graph_grows"
    asks = "Does the cost of a step stay the same?"
    stage = "loop"
    cost = "training"
    needs = ("step",)

    def look(self, at: Examination) -> Iterator[Cause]:
        nodes = [step.nodes for step in _steps(at).steps if step.nodes]
        if len(nodes) < 5:
            raise CannotTell("too few steps")
        rises = sum(b > a for a, b in itertools.pairwise(nodes))
        if rises > 0.8 * (len(nodes) - 1) and nodes[-1] > 2 * nodes[0]:
            yield self.cause(
                "the graph grows with every step",
                f"the loss of step 1 has a graph of {nodes[0]:,} operations, that of step {len(nodes)} one of "
                f"{nodes[-1]:,}: a state or a sum of losses carries the graphs of earlier steps along",
                "detach what is carried from step to step, and add up loss.item()", first=nodes[0], last=nodes[-1],
            )  # fmt: skip
            return
        self.fine(f"{nodes[-1]:,} operations at each step")


class OtherWeightsMove(Check):
    """The optimizer steps, and the model that is judged stays as it is."""

    code = "model_does_not_move"
    asks = "Do the steps move the weights?"
    stage = "loop"
    cost = "training"
    rank = 20

    def look(self, at: Examination) -> Iterator[Cause]:
        steps = _steps(at).steps
        stepping = [step for step in steps if "step" in step.events]
        if not stepping:
            raise CannotTell("no optimizer was seen to step")
        moved = max(step.moved for step in steps)
        held = {id(p) for o in at.training.optimizers for g in o.param_groups for p in g["params"]}
        own = {id(p) for p in at.training.model.parameters()}
        if held and own and not held & own:
            yield self.cause(
                "the optimizer holds none of the model's parameters",
                f"its {len(held)} tensors belong to something else: a copy, or the model before it was replaced",
                "build the optimizer from model.parameters() of the model that is trained", code="not_in_the_optimizer",
            )  # fmt: skip
            return
        if moved == 0.0 and all(step.foreign for step in steps):
            yield self.cause(
                "the step trains something else: the model itself never changes",
                f"{len(steps)} steps called backward, and no parameter of the model that was given got a gradient "
                "or moved: "
                "it is a copy (copy.deepcopy), or another model, that is trained",
                "train the model itself; make copies only to keep them", code="other_model_trained",
            )  # fmt: skip
            return
        undone = [step.undone for step in stepping if step.undone is not None]
        if undone and median(undone) > 0.5 and len(at.training.optimizers) == 1:
            yield self.cause(
                "the optimizer's step is undone: weights are written over after it",
                f"when a step ends, weights differ from what the optimizer left by {percent(median(undone))} of "
                "what it had "
                "changed: something (a moving average, a checkpoint, a clamp) is written into the model at every step",
                "keep the moving average in a model of its own, and copy it only for evaluation",
                code="step_undone", share=median(undone),
            )  # fmt: skip
            return
        if moved == 0.0 and all((step.used or 0) > 0 for step in stepping):
            rates = max((max(step.rates, default=0.0) for step in steps), default=0.0)
            yield self.cause(
                "steps leave the weights as they were",
                f"{len(stepping)} steps with gradients changed no weight matrix (learning rate {rates:.3g})",
                "is the learning rate 0, at the beginning of a warm-up that never advances, or too small for bfloat16 "
                "weights?", code="does_not_move",
            )  # fmt: skip
            return
        self.fine(f"a step moves a matrix by {written(moved)} of its size")


class RatesOverSteps(Check):
    """Learning rates over steps and epochs."""

    code = "rate_schedule"
    asks = "Where does the schedule take the learning rate?"
    stage = "rates"
    cost = "training"

    def look(self, at: Examination) -> Iterator[Cause]:
        if not at.training.optimizers:
            raise CannotTell("no optimizer was given")
        per_epoch = _epoch_length(at)
        by_step = _rates_by_step(at, per_epoch)
        per_batch = len(set(by_step)) > 1
        rates = by_step if per_batch else _rates_by_scheduler(at, 500)
        unit = "step" if per_batch else "epoch"
        if len(rates) < 2:
            raise CannotTell("no schedule was seen")
        at.curves.setdefault("learning rate", {})[f"by {unit}"] = rates
        first, last, top = rates[0], rates[-1], max(rates)
        if not all(math.isfinite(rate) and rate >= 0 for rate in rates):
            yield self.cause("the learning rate leaves its range",
                             f"it becomes {written(min(rates))}", "mend the schedule",
                             code="rate_invalid")  # fmt: skip
            return
        if per_batch and last < 1e-3 * top and rates.index(top) < len(rates) // 2:
            after = next(i for i, rate in enumerate(rates) if i > rates.index(top) and rate < 1e-3 * top)
            early = after < 0.5 * max(per_epoch, 200)
            if early:
                yield self.cause(
                    "the learning rate is gone after a few steps: the scheduler steps per batch, not per epoch",
                    f"it falls from {top:.3g} to {last:.2g} within {len(rates) - 1} steps"
                    + (f", {len(rates) / per_epoch:.2g} epochs" if at.training.loader is not None else "")
                    + f" (a thousandth after {after})",
                    "call scheduler.step() once per epoch, or give the schedule the number of batches",
                    code="rate_collapses", first=top, last=last, steps=len(rates) - 1,
                )  # fmt: skip
                return
        horizon = any(hasattr(at.training.scheduler, name) for name in ("T_max", "total_steps", "total_iters"))
        fallen = next((i for i, rate in enumerate(rates) if rate < 1e-3 * top and i > rates.index(top)), None)
        if not per_batch and fallen is not None and fallen <= 60 and not horizon:
            yield self.cause(
                "the schedule takes the learning rate away within a few steps",
                f"{fallen} calls of scheduler.step() take it from {top:.3g} to {rates[fallen]:.2g}, and "
                f"{len(rates) - 1} calls "
                f"to {last:.2g}: if it is called once per batch, that is within one epoch",
                "call it once per epoch, or use a decay closer to 1 or a longer period", code="rate_collapses",
                certainty="likely", first=top, last=last, calls=fallen,
            )  # fmt: skip
            return
        base = _base_rate(at.training, top)
        if not per_batch and last < 0.05 * base and first <= last and top == last:
            yield self.cause(
                "the warm-up never ends",
                f"after {len(rates) - 1} calls of scheduler.step() the learning rate is {last:.3g}, "
                f"{written(100 * last / base)} % of the {base:.3g} that it climbs to",
                "warm up for some hundreds of steps, or a few percent of all steps", code="warm_up_too_long",
                certainty="likely", last=last,
            )  # fmt: skip
            return
        if (
            per_batch
            and last < 0.05 * _base_rate(at.training, top)
            and first <= last
            and top == last
            and len(rates) >= per_epoch
        ):
            yield self.cause(
                "the warm-up is longer than the training",
                f"after {len(rates) - 1} steps ({len(rates) / per_epoch:.2g} epochs) the learning rate is {last:.3g}, "
                f"{percent(last / _base_rate(at.training, top))} of the rate it climbs to",
                "warm up for some hundreds of steps, or a few percent of all steps", code="warm_up_too_long",
                certainty="likely", last=last,
            )  # fmt: skip
            return
        if top > 30 * max(first, 1e-30) and per_batch and top > 1:
            yield self.cause(
                "the schedule raises the learning rate without bound", f"it goes from {first:.3g} to {top:.3g} in {len(rates)} {unit}s",  # noqa: E501
                "look at the factor of the schedule", code="rate_explodes", first=first, last=top,
            )  # fmt: skip
            return
        self.fine(f"learning rate {first:.3g} → {last:.3g} over {len(rates) - 1} {unit}s")


def _base_rate(training: Training, top: float) -> float:
    bases = [g.get("initial_lr", g.get("lr", top)) for o in training.optimizers for g in o.param_groups]
    return max([top, *(float(base) for base in bases if isinstance(base, int | float))])


def _epoch_length(at: Examination) -> int:
    try:
        return max(1, len(at.training.loader)) if at.training.loader is not None else 100
    except TypeError:
        return 100


def _rates_by_step(at: Examination, per_epoch: int) -> list[float]:
    if at.training.step is None:
        return []
    rates = [max(step.rates, default=0.0) for step in _steps(at).steps]
    if len(set(rates)) <= 1:
        return rates
    longer = run_course(
        at.training,
        at.batches,
        at.steps_for(max(2 * per_epoch, 60) if per_epoch < 60 else 120),
        seed=at.seed,
        watched=True,
    )
    return [max(step.rates, default=0.0) for step in longer.steps] or rates


def _rates_by_scheduler(at: Examination, times: int) -> list[float]:
    """Step the scheduler ahead on a copy, as at the end of epochs."""
    if at.training.scheduler is None:
        return []
    import warnings

    from gradlab.checks.course import read_rates

    copied = at.training.copy()
    rates = [max(read_rates(copied), default=0.0)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(times):
            try:
                copied.scheduler.step()
            except TypeError:  # ReduceLROnPlateau wants a loss
                return rates
            except Exception:
                break
            rates.append(max(read_rates(copied), default=0.0))
    return rates
