"""What checks share: batches, one pass at the start, a course of the user's steps, the control arm. Each is made once.

Everything is made on copies (`Training.copy`) and on demand: what no check asks for is not computed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property, partial
from itertools import islice
from time import perf_counter
from typing import Any

import torch

from gradlab.checks.check import CannotTell
from gradlab.checks.course import Course, as_control, run_course
from gradlab.checks.recording import PassRecord, record_pass
from gradlab.checks.training import Training, count_samples, iterate, leaves
from gradlab.errors import described
from gradlab.trials.seeding import seeded

MOST_BATCHES, MOST_ENTRIES = 64, 20_000_000
"""Batches of a loader that are read, and entries of tensors in them."""
COURSE, FEWEST = 24, 6
"""Steps of a course if there is time, and at least."""


class Examination:
    """A set-up under examination."""

    def __init__(self, training: Training, seconds: float = 45.0, seed: int = 0) -> None:
        self.training, self.seconds, self.seed = training, seconds, seed
        self.began = perf_counter()
        self.curves: dict[str, dict[str, list[float]]] = {}
        """What was measured by step, for the page: picture -> arm -> values."""

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return self.seconds - (perf_counter() - self.began)

    # ------------------------------------------------------------------ batches

    def _read(self, loader: Any, most: int = MOST_BATCHES) -> list[Any]:
        found: list[Any] = []
        entries = 0
        with seeded(self.seed):
            for batch in islice(iterate(loader), most):
                found.append(batch)
                entries += sum(tensor.numel() for tensor in leaves(batch))
                if entries > MOST_ENTRIES:
                    break
        return found

    @cached_property
    def epoch(self) -> list[Any]:
        """The first batches of an epoch of the training loader."""
        if self.training.loader is None:
            raise CannotTell("no loader was given")
        return self._read(self.training.loader)

    @cached_property
    def val_epoch(self) -> list[Any]:
        """The first batches of the validation loader."""
        if self.training.val_loader is None:
            raise CannotTell("no val_loader was given")
        return self._read(self.training.val_loader)

    @cached_property
    def batches(self) -> list[Any]:
        """Batches to train on: a few of the loader, or the one that was given."""
        if self.training.loader is None:
            return [self.training.batch]
        try:
            return self.epoch[:8] or [self.training.batch]
        except Exception:
            return [self.training.batch]

    @cached_property
    def samples(self) -> int:
        """Samples of the batch."""
        return count_samples(self.training.batch)

    # ------------------------------------------------------------------ passes

    @cached_property
    def first_pass(self) -> PassRecord:
        """The loss of the batch, in train mode."""
        return self._pass(True)

    @cached_property
    def eval_pass(self) -> PassRecord:
        """The loss of the batch, in eval mode."""
        return self._pass(False)

    def _pass(self, train: bool) -> PassRecord:
        copied = self.training.copy()
        copied.model.train(train)
        try:
            return record_pass(copied, self.seed)
        except Exception as error:
            raise CannotTell(f"the loss of the batch cannot be computed: {described(error)}") from error

    # ------------------------------------------------------------------ courses

    @cached_property
    def step_seconds(self) -> float:
        """Time of one step of the control arm."""
        copied = as_control(self.training.copy())
        took = []
        for _ in range(4):  # the first one warms up
            start = perf_counter()
            with seeded(self.seed):
                copied.make_step(self.training.batch)
            took.append(perf_counter() - start)
            if took[-1] > 1.0:
                break
        return min(took)

    def steps_for(self, wanted: int, share: float = 0.2) -> int:
        """How many steps fit into a share of the time; all that are wanted, of a model whose steps are quick."""
        try:
            each = 1.5 * self.step_seconds
        except Exception:
            each = 0.0
        if each * wanted < 2.0:
            return wanted
        return max(min(wanted, FEWEST), min(wanted, int(share * self.seconds / max(each, 1e-6))))

    @cached_property
    def course(self) -> Course:
        """The user's own steps, the first few compared with the gradient of the loss."""
        return run_course(self.training, self.batches, self.steps_for(COURSE), seed=self.seed, compare=3, watched=True)

    def control(
        self, steps: int, batches: Sequence[Any] | None = None, rates: Sequence[float] = (1e-3, 1e-2)
    ) -> Course:
        """The control arm at the better of a few rates."""
        best: Course | None = None
        for rate in rates:
            course = run_course(
                self.training, batches or self.batches, steps, seed=self.seed, change=partial(as_control, rate=rate)
            )
            if best is None or course.falls > best.falls:
                best = course
        assert best is not None
        return best

    @cached_property
    def control_course(self) -> Course:
        """The control arm over as many steps as the user's course and more."""
        return self.control(self.steps_for(4 * COURSE))

    @cached_property
    def trained(self) -> Training:
        """A copy that the control arm has trained for a while."""
        course = self.control_course
        if course.training is None or not math.isfinite(course.last):
            raise CannotTell("the control arm did not train")
        return course.training

    @cached_property
    def device(self) -> torch.device:
        """Where the model is."""
        return next((p.device for p in self.training.model.parameters()), torch.device("cpu"))
