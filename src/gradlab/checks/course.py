"""Courses: a few training steps on a copy, as the user makes them or as a control arm makes them, watched closely.

The gradient that the optimizer used is set beside the gradient of the loss at the same weights, on the same batch, with
the same random numbers. Their ratio and angle say what the loop did to it: added the step before, turned its sign,
clipped it away, cleared it too early.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from gradlab.checks.recording import recording
from gradlab.checks.training import RATE, Training
from gradlab.errors import described
from gradlab.torch.hooks import listen, stop_listening
from gradlab.torch.structure import clean_name
from gradlab.trials.seeding import seeded

MOST_NODES = 50_000
"""Nodes of a graph beyond which they are no longer counted."""


@dataclass
class StepRecord:
    """What one call of the step has done."""

    events: list[str] = field(default_factory=list)
    """`backward`, `clear` and `step`, in their order."""
    loss: float = math.nan
    """What the step returned."""
    differentiated: list[float] = field(default_factory=list)
    """The losses that it differentiated."""
    training: bool | None = None
    """The mode of the model in its last pass; None if it was not called."""
    uncleared: bool = False
    nodes: int = 0
    """Nodes of the graph of the last loss."""
    arrived: float | None = None
    """Norm of the gradients when the last backward call ended."""
    used: float | None = None
    """Norm of the gradients that the optimizer saw."""
    true: float | None = None
    """Norm of the gradient of the loss at the same place."""
    cosine: float | None = None
    """Of the used and the true gradient."""
    ratio: float | None = None
    """Of the used gradient along the true one."""
    moved: float = 0.0
    """Largest update ratio of a matrix."""
    rates: tuple[float, ...] = ()
    undone: float | None = None
    """Share of the optimizer's step that is gone when the step ends."""
    foreign: bool = False
    """Whether a backward call brought no gradient to this model."""
    seeds: int = 0
    seconds: float = 0.0


@dataclass
class Course:
    """A sequence of steps."""

    steps: list[StepRecord] = field(default_factory=list)
    error: str = ""
    """What ended it early."""
    training: Training | None = None
    """The copy after its steps."""
    first: float = math.nan
    """The loss before, and after the steps: on the same batches, with the same random numbers."""
    last: float = math.nan

    @property
    def falls(self) -> float:
        """How far the loss has fallen; −∞ if it is not a number any more."""
        return self.first - self.last if math.isfinite(self.last) else -math.inf


class _Ear:
    """Hears of backward calls in one copy."""

    def __init__(self, training: Training, record: StepRecord) -> None:
        self._parameters, self._record = list(training.model.parameters()), record
        self._held = held_by(training.optimizers) or self._parameters
        self._running = 0

    def before_backward(self, losses: Sequence[Any], scaler: Any) -> None:
        """Note the losses."""
        self._running += 1
        record = self._record
        if not record.events.count("backward"):
            # what another optimizer holds is its own to clear: in a GAN each clears its half
            record.uncleared = any(p.grad is not None and bool(p.grad.any()) for p in self._held)
        record.events.append("backward")
        tensors = [loss for loss in losses if isinstance(loss, Tensor)]
        record.differentiated += [float(loss.detach().float().mean()) for loss in tensors]
        record.nodes = _count_nodes(tensors)

    def after_backward(self) -> None:
        """Note the norm of the gradients."""
        self._running -= 1
        self._record.arrived = gradient_norm(self._parameters)


def held_by(optimizers: Iterable[Any]) -> list[Tensor]:
    """The parameters of these optimizers."""
    return [p for optimizer in optimizers for group in optimizer.param_groups for p in group["params"]]


def gradient_norm(parameters: Sequence[Tensor]) -> float:
    """Return the norm of all gradients together."""
    return math.sqrt(sum(float(p.grad.detach().float().square().sum()) for p in parameters if p.grad is not None))


def _count_nodes(tensors: Sequence[Tensor]) -> int:
    seen: set[Any] = set()
    queue = [tensor.grad_fn for tensor in tensors]
    while queue and len(seen) < MOST_NODES:
        node = queue.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        queue += [after for after, _ in node.next_functions]
    return len(seen)


def watch_step(training: Training, batch: Any, seed: int, *, compare: bool = False) -> StepRecord:
    """Make one step of a copied set-up and note what it did."""
    record = StepRecord()
    before = training.copy() if compare else None
    ear, handles = _Ear(training, record), []
    stepped: list[Tensor] = []
    used: list[dict[int, Tensor]] = []
    weights = [(p, p.detach().clone()) for p in training.model.parameters() if p.dim() > 1]
    known = {id(p) for p in held_by(training.optimizers)}
    own = [number for number, (p, _) in enumerate(weights) if id(p) in known]
    for optimizer in training.optimizers:
        held = [p for group in optimizer.param_groups for p in group["params"]]

        def on_step(*_: Any, held: Sequence[Tensor] = held) -> None:
            record.events.append("step")
            record.used = gradient_norm(held)
            if compare:
                used.append({id(p): p.grad.detach().clone() for p in held if p.grad is not None})

        def after_step(*_: Any) -> None:
            stepped[:] = [p.detach().clone() for p, _ in weights]

        if hasattr(optimizer, "register_step_pre_hook"):
            handles.append(optimizer.register_step_pre_hook(on_step))
            handles.append(optimizer.register_step_post_hook(after_step))
        _note_clearing(optimizer, record)
    listen(ear)
    try:
        with seeded(seed), recording(training.model) as seen:
            record.loss = training.make_step(batch)
    finally:
        stop_listening(ear)
        for handle in handles:
            handle.remove()
        for optimizer in training.optimizers:
            vars(optimizer).pop("zero_grad", None)
    record.seeds = seen.seeds
    if seen.calls:
        flowing = [call for call in seen.calls if call.with_gradient]
        record.training = (flowing or seen.calls)[-1].training
    moved = [float((p.detach() - old).norm() / old.norm().clamp_min(1e-12)) for p, old in weights]
    record.moved = max((ratio for ratio in moved if math.isfinite(ratio)), default=0.0)
    record.foreign = "backward" in record.events and all(p.grad is None for p in training.model.parameters())
    if stepped:
        made = math.sqrt(sum(float((stepped[n] - weights[n][1]).square().sum()) for n in own))
        lost = math.sqrt(sum(float((weights[n][0].detach() - stepped[n]).square().sum()) for n in own))
        record.undone = lost / made if made and math.isfinite(made) else None
    record.rates = read_rates(training)
    if before is not None and len(used) == 1:
        with suppress(Exception):
            _compare(record, training, before, batch, seed, used[0])
    return record


def read_rates(training: Training) -> tuple[float, ...]:
    """Return the learning rate of every group of the optimizers."""
    groups = [group for optimizer in training.optimizers for group in optimizer.param_groups]
    return tuple(float(group["lr"]) for group in groups if isinstance(group.get("lr"), int | float | Tensor))


def _note_clearing(optimizer: Any, record: StepRecord) -> None:
    original = type(optimizer).zero_grad

    def clear(*arguments: Any, **options: Any) -> Any:
        record.events.append("clear")
        return original(optimizer, *arguments, **options)

    optimizer.zero_grad = clear


def _compare(
    record: StepRecord, training: Training, before: Training, batch: Any, seed: int, used: dict[int, Tensor]
) -> None:
    """Compute the gradient of the loss where the step began, and set what was used beside it."""
    names = {id(p): clean_name(name) for name, p in training.model.named_parameters()}
    before.model.train(bool(record.training))
    before.model.zero_grad()
    for parameter in before.model.parameters():
        parameter.grad = None
    with seeded(seed):
        before.evaluate_loss(batch).mean().backward()
    true = {clean_name(n): p.grad for n, p in before.model.named_parameters() if p.grad is not None}
    pairs = [(g, true[names[key]]) for key, g in used.items() if names.get(key) in true]
    held = {names[key] for key in used if key in names}
    record.true = math.sqrt(sum(float(g.float().square().sum()) for g in true.values()))
    if not held:
        return
    dot = sum(float((a.double() * b.double()).sum()) for a, b in pairs)
    sizes = [math.sqrt(sum(float(pair[at].double().square().sum()) for pair in pairs)) for at in (0, 1)]
    if all(sizes):
        record.cosine, record.ratio = dot / (sizes[0] * sizes[1]), dot / sizes[1] ** 2
    elif sizes[1]:
        record.cosine, record.ratio = 0.0, 0.0


def measure_loss(training: Training, batches: Sequence[Any], *, train: bool = True, seeds: int = 2) -> float:
    """Return the mean loss over batches and draws, in a mode; running statistics are put back."""
    copied = training.copy()
    copied.model.train(train)
    values = []
    for batch in batches:
        for seed in range(seeds):
            with seeded(1000 + seed), torch.no_grad():
                values.append(float(copied.evaluate_loss(batch).float().mean()))
    return fmean(values) if values else math.nan


def run_course(
    training: Training,
    batches: Sequence[Any],
    steps: int,
    *,
    seed: int = 0,
    compare: int = 0,
    watched: bool = False,
    change: Callable[[Training], Any] | None = None,
) -> Course:
    """Make steps on a copy, going round through batches; the first few are compared with the true gradient.

    Only a watched course has records of its steps.
    """
    copied = training.copy()
    if copied.step is None:
        copied.model.train()
    if change is not None:
        copied = change(copied) or copied
    course = Course(training=copied)
    judged = list(batches)[:4]
    with suppress(Exception):
        course.first = measure_loss(copied, judged)
    with seeded(seed):
        for index in range(steps):
            batch = batches[index % len(batches)]
            try:
                if watched:
                    record = watch_step(copied, batch, seed * 10_000 + index, compare=index < compare)
                else:
                    record = StepRecord(loss=copied.make_step(batch))
            except Exception as error:
                course.error = described(error)
                break
            course.steps.append(record)
            if is_lost(record, copied):
                break
    with suppress(Exception):
        course.last = measure_loss(copied, judged)
    return course


def is_lost(record: StepRecord, training: Training) -> bool:
    """Whether a loss is not a number any more; a step of the user's may return none."""
    values = record.differentiated or ([record.loss] if training.step is None else [])
    return not all(math.isfinite(value) for value in values)


def as_control(training: Training, rate: float = RATE) -> Training:
    """Turn a copy into the control arm: the plain loop with Adam over all trainable parameters, in train mode."""
    from dataclasses import replace

    held = [p for p in training.model.parameters() if p.requires_grad]
    training.model.train()
    adam = torch.optim.Adam(held, rate) if held else None
    return replace(training, optimizer=adam, scheduler=None, step=None)


def with_plain_step(training: Training) -> Training:
    """Keep the optimizer, and make plain steps: clear, forward, backward, step."""
    from dataclasses import replace

    training.model.train()
    return replace(training, step=None)


def with_rate(training: Training, factor: float) -> Training:
    """Multiply every learning rate."""
    for optimizer in training.optimizers:
        for group in optimizer.param_groups:
            if isinstance(group.get("lr"), int | float):
                group["lr"] = group["lr"] * factor
    return training
