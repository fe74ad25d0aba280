"""The metric: how it is called, in which mode it calls the model, whether it counts what it should."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator
from contextlib import suppress
from statistics import fmean, variance
from typing import Any

import torch
from torch import Tensor

from gradlab.checks.check import CannotTell, Cause, Check
from gradlab.checks.examination import Examination
from gradlab.checks.recording import PassRecord, recording
from gradlab.checks.training import Training, as_number, count_samples, permute_samples, takes_model
from gradlab.spec.metric import infer
from gradlab.torch.overfit import call_model, split_batch
from gradlab.trials.seeding import seeded
from gradlab.words import written


def call_metric(training: Training, batch: Any = None, seed: int = 0) -> tuple[PassRecord, float] | None:
    """Call the metric of a copied set-up on a batch; None if it cannot be called."""
    batch = training.batch if batch is None else batch
    metric = training.metric
    with seeded(seed), recording(training.model) as record:
        if takes_model(metric):
            count = 2
            with suppress(TypeError, ValueError):
                count = len(inspect.signature(metric).parameters)
            for given in ((batch,), ([batch],)) if count > 1 else ((),):
                with suppress(Exception):
                    return record, as_number(metric(training.model, *given))
            loader = training.val_loader if training.val_loader is not None else training.loader
            with suppress(Exception):
                return record, as_number(metric(training.model, loader))
            return None
        with suppress(Exception):
            given, target = split_batch(batch, training.loss)
            with torch.no_grad():
                output = call_model(training.model, given)
            record.calls.clear()  # it was the doctor's call
            return record, as_number(metric(output, target))
    return None


class MetricCounts(Check):
    """A metric that does not depend on what it should, or on what it should not."""

    code = "metric_counts"
    asks = "Does the metric see each output beside its own target?"
    stage = "generalization"
    needs = ("metric",)

    def look(self, at: Examination) -> Iterator[Cause]:
        copied = at.training.copy()
        copied.model.eval()
        first = call_metric(copied)
        if first is None or first[1] != first[1]:
            raise CannotTell("the metric could not be called on the batch")
        samples = count_samples(at.training.batch)
        if samples < 4:
            raise CannotTell("too few samples")
        order = torch.randperm(samples, generator=torch.Generator().manual_seed(0))
        copied = at.training.copy()
        copied.model.eval()
        second = call_metric(copied, permute_samples(at.training.batch, order))
        if second is None:
            raise CannotTell("the metric could not be called on the batch in another order")
        apart = abs(first[1] - second[1])
        if apart > 1e-3 * max(1.0, abs(first[1])) and _is_pure(at):
            yield self.cause(
                "the metric depends on the order of the samples",
                f"it is {written(first[1])}, and {written(second[1])} for the same samples in another order",
                "compare each output with its own target: look at the axis of argmax and at the shapes",
                change=apart, certainty="likely",
            )  # fmt: skip
            return
        self.fine(f"{written(first[1])}, in any order of the samples")


class MetricFollowsLoss(Check):
    """A metric that gets worse while the loss falls: the loss has the wrong sign, or is about something else."""

    code = "metric_follows_loss"
    asks = "Does the metric get better while the loss falls?"
    stage = "training"
    needs = ("metric",)
    cost = "training"

    def look(self, at: Examination) -> Iterator[Cause]:
        name = getattr(at.training.metric, "__name__", "").lower()
        better = infer(name).sign
        if not better:
            raise CannotTell(f"the name of the metric ({name or 'none'}) does not say what is better")
        course = at.control_course
        if course.training is None or not math.isfinite(course.last):
            raise CannotTell("the control arm did not train")
        before, after = (self._measure(each, at) for each in (at.training, course.training))
        gap = better * (fmean(after) - fmean(before))
        noise = math.sqrt((variance(before) + variance(after)) / len(before))
        shown = (
            f"from {written(fmean(before))} to {written(fmean(after))} in {len(course.steps)} steps of the control arm"
        )
        if gap < -4 * noise - 0.02 * abs(fmean(before)) and course.falls > 0:
            yield self.cause(
                "the metric gets worse while the loss falls: what is minimized is not what is wanted",
                f"{name} goes {shown}, while the loss falls from {written(course.first)} to {written(course.last)}",
                "look at the sign of the loss (a policy gradient is minus log-probability times advantage; a "
                "similarity is "
                "minimized as its negative)", code="wrong_sign_of_the_loss", certainty="likely", gap=gap,
            )  # fmt: skip
            return
        self.fine(shown)

    def _measure(self, training: Training, at: Examination) -> list[float]:
        copied = training.copy()
        values = []
        for batch in at.batches[:4]:
            for seed in range(3):
                copied.model.eval()
                seen = call_metric(copied, batch, seed)
                if seen is None or not math.isfinite(seen[1]):
                    raise CannotTell("the metric could not be called on a batch")
                values.append(seen[1])
        return values


def _is_pure(at: Examination) -> bool:
    """Whether outputs do not depend on other samples, so that the order may not matter."""
    try:
        given, _ = split_batch(at.training.batch, at.training.loss)
        model = at.training.copy().model.eval()
        with torch.no_grad():
            made = call_model(model, given)
            order = torch.arange(count_samples(given)).flip(0)
            other = call_model(model, permute_samples(given, order))
        return isinstance(made, Tensor) and bool(torch.allclose(made[order], other, rtol=1e-3, atol=1e-5))
    except Exception:
        return False
