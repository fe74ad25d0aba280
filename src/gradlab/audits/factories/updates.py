"""What optimizers and schedulers do: settings, rates ahead, steps on the same gradients, and the first real step."""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isclose
from typing import Any

import torch
from torch import Tensor
from torch.optim.lr_scheduler import LRScheduler

from gradlab.audits.compare import Comparison, in_each, tally
from gradlab.audits.factories.arms import Arm, ArmPair, close, copied, parameters_of
from gradlab.audits.factories.models import FROZEN, GRADIENT_HOOKS, LAYERS, hook_name, without_hooks
from gradlab.audits.factories.samples import DATA_TRAITS, hash_of
from gradlab.engines.torch.tensors import tensors_in
from gradlab.errors import InvalidInput
from gradlab.words import join, listed

ROUNDING = 1e-6
"""Of a rate that may be a float32 tensor."""


def _number(value: Any) -> str:
    """A setting as it is shown; functions in it have no words."""
    if isinstance(value, Counter):
        return _number(sorted(value.elements()))
    if isinstance(value, list | tuple):
        return f"({', '.join(_number(each) for each in value if not callable(each))})"
    if isinstance(value, Tensor) and value.numel() == 1:
        value = value.item()
    return f"{value:g}" if isinstance(value, float) else str(value)


# Learning-rate schedulers that a factory returned: their settings, and the rates they give when they are stepped ahead.

SCHEDULE = "scheduler"
NONE = "none in the factory"
HORIZON = 10_000
"""Steps that schedulers are stepped ahead."""
STEPS_AHEAD = 2_000
"""Steps that are taken where they may change the rates themselves."""
FAR = tuple(sorted({int(10_000 * 1.03**power) for power in range(400)}))
"""Later steps, up to 10⁹, at which functions of the step are asked for their value."""
MOVING = {"last_epoch", "T_cur", "T_i", "base_lrs", "best", "num_bad_epochs", "cooldown_counter", "verbose"}
RATES = {"eta_min", "min_lrs", "max_lrs", "base_lr", "max_lr", "default_min_lr"}
"""Settings that are rates themselves: what matters is the course of the rate relative to its start."""
IN_GROUPS = {"max_lr", "min_lr", "max_momentum", "base_momentum"}
"""What schedulers write into the groups of an optimizer."""

Course = tuple[tuple[float, float], ...]
"""Learning rate and momentum, step by step."""


@dataclass(frozen=True)
class Schedule:
    """The schedulers of an arm."""

    kinds: tuple[str, ...]
    settings: tuple[tuple[tuple[str, str], ...], ...]
    courses: tuple[Course, ...]
    """Of each group of parameters, those that differ."""
    words: str

    def settings_without(self, left_out: Collection[str]) -> list[list[tuple[str, str]]]:
        """The settings of each scheduler, some aside."""
        return [[(key, value) for key, value in own if key not in left_out] for own in self.settings]


def _compare_schedules(pair: ArmPair) -> Comparison:
    """Whether the rates take the same course; with a declared rate, from the first arm's."""
    ours, theirs = (_read_schedule(arm) for arm in pair)
    same = ours.kinds == theirs.kinds and ours.words == theirs.words
    difference = None if same else pair.in_each(ours.words, theirs.words)
    if ours.courses and theirs.courses:
        relative = _parts_at(_relative(ours.courses), _relative(theirs.courses))
        lent = relative
        if relative is not None and "lr" in pair.declared:
            rates = [(group.get("initial_lr", group.get("lr", 0.0)), group.get("lr", 0.0)) for group in pair.a.groups]
            lent = _parts_at(ours.courses, _courses(pair.b, rates))
        without = RATES if relative is None else set[str]()
        unlike = ours.kinds == theirs.kinds and ours.settings_without(without) != theirs.settings_without(without)
        if lent is None and not unlike:
            difference = None
        elif lent is not None:
            shown = difference or f"{ours.words} in both, with another function of the step"
            difference = f"{shown}; the rates part {'later' if lent >= HORIZON else f'at step {lent}'}"
    if (
        difference is None
        and any(map(_steps_otherwise, pair))
        and _parts_at(*(_relative(_rates_by_steps(arm)) for arm in pair)) is not None
    ):
        difference = f"steps change the rates themselves, without a scheduler (within {STEPS_AHEAD:,} of them)"
    return Comparison(SCHEDULE, (ours.words, theirs.words), difference, frozenset({"schedule"}))


def _steps_otherwise(arm: Arm) -> bool:
    """Whether steps do more than those of PyTorch's optimizers: hooks, a method or a class of one's own."""
    return any(
        any(getattr(optimizer, kind, None) for kind in STEP_HOOK_KINDS)
        or "step" in vars(optimizer)
        or not type(optimizer).__module__.startswith("torch.optim")
        for optimizer in arm.optimizers
    )


def _rates_by_steps(arm: Arm) -> tuple[Course, ...]:
    """The rates while steps are taken, with a few entries in place of each group's parameters; the arm is restored."""
    rows: list[list[tuple[float, float]]] = [[_now(group)] for group in arm.groups]
    entries = []
    for group in arm.groups:
        like = group["params"][0]
        entries.append(torch.ones([min(2, size) for size in like.shape], dtype=like.dtype, device=like.device))
        group["params"] = [entries[-1].requires_grad_()]

    def closure() -> Tensor:
        for entry in entries:
            entry.grad = torch.full_like(entry, 1e-3)
        return torch.zeros(())

    with contextlib.suppress(Exception):  # a hook may want gradients of the model
        for _ in range(STEPS_AHEAD):
            arm.step(closure)
            for row, group in zip(rows, arm.groups, strict=True):
                row.append(_now(group))
    arm.kept.restore()
    return tuple(dict.fromkeys(tuple(row) for row in rows))


def _stated(scheduler: LRScheduler) -> Iterator[tuple[str, str]]:
    """The settings that a scheduler keeps."""
    for key, value in sorted(vars(scheduler).items()):
        public = not key.startswith("_") or key == "_milestones"
        if public and key not in MOVING and isinstance(value, int | float | str | list | tuple | dict):
            yield key, _number(value)


def _read_schedule(arm: Arm) -> Schedule:
    kinds = tuple(type(scheduler).__name__ for scheduler in arm.schedulers)
    settings = tuple(tuple(_stated(scheduler)) for scheduler in arm.schedulers)
    words = [
        f"{kind}({', '.join(f'{key} {value}' for key, value in own if key != 'lr_lambdas')})"
        for kind, own in zip(kinds, settings, strict=True)
    ]
    for optimizer in arm.optimizers if arm.hides_scheduler else ():
        if any("initial_lr" in group for group in optimizer.param_groups):
            rates = tally(_number(group["initial_lr"]) for group in optimizer.param_groups)
            now = tally(_number(group.get("lr")) for group in optimizer.param_groups)
            words.append(f"a learning-rate scheduler was made (initial rate {rates}, now {now})")
    return Schedule(kinds, settings, _courses(arm), "; ".join(dict.fromkeys(words)) or NONE)


def _courses(arm: Arm, start: Sequence[tuple[float, float]] | None = None) -> tuple[Course, ...]:
    """Where the rates go, from some initial rates if given; optimizers and schedulers are put back."""
    schedulers = arm.schedulers
    if not schedulers:
        return ()
    inner = {id(each) for one in schedulers for each in getattr(one, "_schedulers", ())}
    saved = [(each, {key: _kept(value) for key, value in vars(each).items()}) for each in schedulers]
    groups = arm.groups
    rows: list[list[tuple[float, float]]] = [[_now(group)] for group in groups]
    try:
        if start is not None and len(start) == len(groups):
            for group, (initial, lr) in zip(groups, start, strict=True):
                group["initial_lr"], group["lr"] = initial, lr
            for scheduler in schedulers:
                if hasattr(scheduler, "base_lrs") and len(scheduler.base_lrs) == len(start):
                    scheduler.base_lrs = [initial for initial, _ in start]
            rows = [[_now(group)] for group in groups]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the optimizer took no step
            for _ in range(HORIZON):
                for scheduler in schedulers:
                    if id(scheduler) not in inner:
                        _advance(scheduler)
                for row, group in zip(rows, groups, strict=True):
                    row.append(_now(group))
            for row in rows:
                row += [(value, 0.0) for value in _far(schedulers)]
    except Exception:  # a schedule may have an end, like one cycle
        pass
    finally:
        for scheduler, attributes in saved:
            vars(scheduler).clear()
            vars(scheduler).update(attributes)
        arm.kept.restore()
    return tuple(dict.fromkeys(tuple(row) for row in rows))


def _kept(value: Any) -> Any:
    """A copy of a scheduler's numbers and lists; other objects stay themselves."""
    return copy.copy(value) if isinstance(value, list | dict | set) else value


def _advance(scheduler: Any) -> None:
    try:
        scheduler.step()
    except TypeError:  # one that waits for a plateau wants a loss
        scheduler.step(1.0)


def _far(schedulers: Sequence[Any]) -> Iterator[float]:
    for scheduler in schedulers:
        for function in getattr(scheduler, "lr_lambdas", ()):
            for step in FAR:
                yield float(function(step))


def _now(group: dict[str, Any]) -> tuple[float, float]:
    betas = group.get("betas")
    momentum = betas[0] if isinstance(betas, list | tuple) and betas else group.get("momentum", 0.0)
    return float(group.get("lr", 0.0)), float(momentum or 0.0)


def _relative(courses: Sequence[Course]) -> list[Course]:
    """Rates relative to the first one, or to the largest where that is 0."""
    found = []
    for course in courses:
        rates = [lr for lr, _ in course[: HORIZON + 1]]
        scale = rates[0] or max(rates) or 1.0
        far = course[HORIZON + 1 :]
        found.append((*((lr / scale, other) for lr, other in course[: HORIZON + 1]), *far))
    return found


def _parts_at(ours: Sequence[Course], theirs: Sequence[Course]) -> int | None:
    """The first step at which the courses differ; None if they never do."""
    if len(ours) != len(theirs):
        return 0
    for p, q in zip(ours, theirs, strict=True):
        for step, (x, y) in enumerate(zip(p, q, strict=False)):
            if not all(isclose(s, t, rel_tol=ROUNDING, abs_tol=1e-12) for s, t in zip(x, y, strict=True)):
                return step
        if len(p) != len(q):
            return min(len(p), len(q))
    return None


# What two optimizers do: settings parameter by parameter, and the steps they take on the same gradients.

OPTIMIZER, RATE, DECAY, HELD = "optimizer", "learning rate", "weight decay", "parameters the optimizer does not hold"
STEP_HOOKS, UPDATE = "optimizer hooks", "update"
PARAMETER_HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")
STEP_HOOK_KINDS = {"_optimizer_step_pre_hooks": "before the step", "_optimizer_step_post_hooks": "after the step"}
IMPLEMENTATION = {"params", "param_names", "foreach", "fused", "capturable", "differentiable", "initial_lr"}
"""Settings that decide how a step is computed, or what a scheduler remembers, but not where it goes."""
SCALES = (1.0, 1e-2, 1e2, 0.0, 1e-1, 1e-1)
"""Gradients of the steps: momentum, amsgrad, ε and clipping show when they grow and shrink."""
TOLERANCE, SMALLEST = 1e-3, 1e-9
"""Of the steps: of each entry, whatever its size, down to `TOLERANCE · SMALLEST`."""


@dataclass(frozen=True)
class Setting:
    """How a parameter is trained."""

    kind: str
    lr: float
    weight_decay: float
    others: tuple[tuple[str, str], ...]


def compare_optimizers(pair: ArmPair) -> Iterator[Comparison]:
    """Settings, hooks, schedulers, and the effect of a few steps; both arms are restored."""
    schedulers = [scheduler for arm in pair for scheduler in arm.schedulers]
    cycled = any(getattr(scheduler, "cycle_momentum", False) for scheduler in schedulers)  # then a schedule's affair
    ours, theirs = (_settings_of(arm, {"betas", "momentum"} if cycled else set()) for arm in pair)
    yield pair.items(HELD, lambda arm: _not_held(arm, ours if arm is pair.a else theirs, pair), "frozen")
    both = [
        (x.name, ours[x.name], theirs[y.name]) for x, y in pair.parameters.pairs if x.name in ours and y.name in theirs
    ]
    moves = _moves(pair.a), _moves(pair.b)
    apart = _move_differently(pair, *moves)
    kinds = [join([type(optimizer).__name__ for optimizer in arm.optimizers]) for arm in pair]
    yield _compare_settings(ours, theirs, both, kinds, pair.names, bool(apart))
    yield _compare_rates(RATE, "lr", both, (ours, theirs), kinds, pair.names)
    yield _compare_rates(DECAY, "weight_decay", both, (ours, theirs), kinds, pair.names)
    yield _compare_schedules(pair)
    yield from _compare_hooks(pair, moves)
    yield _compare_moves(pair, moves, apart)


def _not_held(arm: Arm, settings: Mapping[str, Setting], pair: ArmPair) -> list[str]:
    known = pair.renamed_in(arm)
    return [known.get(slot.name, slot.name) for slot in parameters_of(arm.model) if slot.name not in settings]


def _move_differently(pair: ArmPair, ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> list[str]:
    pairs = pair.parameters.pairs
    return [x.name for x, y in pairs if not close(ours.get(x.name), theirs.get(y.name), TOLERANCE, SMALLEST)]


def _settings_of(arm: Arm, without: Collection[str] = ()) -> dict[str, Setting]:
    """Parameter -> how it is trained, for every one that an optimizer holds."""
    left_out = IMPLEMENTATION | IN_GROUPS | {"lr", "weight_decay"} | set(without)
    named = {id(p): name for name, p in arm.model.named_parameters()}
    found = {}
    for optimizer in arm.optimizers:
        for group in optimizer.param_groups:
            lr, decay = group.get("initial_lr", group.get("lr", 0.0)), group.get("weight_decay", 0.0)
            others = {k: v for k, v in group.items() if k not in left_out}
            words = tuple((key, _number(value)) for key, value in sorted(others.items()) if value is not None)
            for parameter in group["params"]:
                if id(parameter) in named:
                    found[named[id(parameter)]] = Setting(type(optimizer).__name__, _float(lr), _float(decay), words)
    return found


def _float(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")


def _compare_settings(
    ours: Mapping[str, Setting],
    theirs: Mapping[str, Setting],
    pairs: Sequence[tuple[str, Setting, Setting]],
    kinds: Sequence[str],
    names: tuple[str, str],
    moved: bool,
) -> Comparison:
    """Class and settings; two classes that take the same steps are one optimizer."""
    cells = [f"{kind}{_shown(own)}" for kind, own in zip(kinds, (ours, theirs), strict=True)]
    values = [repr(sorted({(s.kind, s.others) for s in own.values()})) for own in (ours, theirs)]
    difference = None
    if any(p.kind != q.kind for _, p, q in pairs) or (kinds[0] != kinds[1] and not pairs):
        difference = in_each(cells[0], cells[1], names) if moved or not pairs else None
    elif apart := [(name, dict(p.others), dict(q.others)) for name, p, q in pairs if p.others != q.others]:
        _, first, second = apart[0]
        keys = [key for key in {**first, **second} if first.get(key) != second.get(key)]
        words = "; ".join(f"{key} {in_each(first.get(key), second.get(key), names)}" for key in keys)
        difference = words + _places([name for name, _, _ in apart], len(pairs))
    return Comparison(
        OPTIMIZER, (cells[0], cells[1]), difference, frozenset({"optimizer"}), values=(values[0], values[1])
    )


def _shown(own: Mapping[str, Setting]) -> str:
    every = dict.fromkeys(
        ", ".join(f"{key} {value}" for key, value in setting.others if value not in ("False", "0"))
        for setting in own.values()
    )
    words = listed((each for each in every if each), 2)
    return f" ({words})" if words else ""


def _places(apart: Sequence[str], every: int) -> str:
    return "" if len(apart) == every else f" (for {listed(apart)})"


def _compare_rates(
    trait: str,
    key: str,
    pairs: Sequence[tuple[str, Setting, Setting]],
    settings: Sequence[Mapping[str, Setting]],
    kinds: Sequence[str],
    names: tuple[str, str],
) -> Comparison:
    """Learning rate or weight decay, parameter by parameter."""
    cells = []
    for own in settings:
        values = [f"{getattr(setting, key):g}" for setting in own.values()]
        cells.append(values[0] if len(set(values)) == 1 else tally(f"{value} (tensors)" for value in values))
    every = [(name, getattr(p, key), getattr(q, key)) for name, p, q in pairs]
    apart = [(name, x, y) for name, x, y in every if not isclose(x, y, rel_tol=ROUNDING) and not (x != x and y != y)]
    factors, difference = {key}, None
    if apart:
        ratios = {round(y / x, 9) if x else None for _, x, y in every}
        if kinds[0] != kinds[1] and (len(ratios) == 1 or trait == DECAY):
            factors.add("optimizer")
        name, x, y = apart[0]
        alike = len({(p, q) for _, p, q in apart}) == 1
        where = _places([n for n, _, _ in apart], len(every)) if alike else f" (for {name}; others differ too)"
        difference = in_each(f"{x:g}", f"{y:g}", names) + where
    return Comparison(trait, (cells[0], cells[1]), difference, frozenset(factors))


def _compare_hooks(pair: ArmPair, moves: tuple[Mapping[str, Tensor], Mapping[str, Tensor]]) -> Iterator[Comparison]:
    """Hooks on parameters and on the optimizer's step; those that change no step, such as a log, are no difference."""
    found = (
        pair.items(GRADIENT_HOOKS, lambda arm: _tensor_hooks(arm, pair), "clip"),
        pair.items(STEP_HOOKS, _step_hooks, "clip", "optimizer"),
    )
    acting = any(each.differs for each in found) and any(map(_hooks_act, pair, moves))
    for comparison in found:
        yield comparison if acting else replace(comparison, difference=None)


def _hooks_act(arm: Arm, moves: Mapping[str, Tensor]) -> bool:
    """Whether the same gradients lead elsewhere without the hooks on parameters and on steps."""
    places = [getattr(slot.tensor, kind, None) for slot in parameters_of(arm.model) for kind in PARAMETER_HOOKS]
    places += [getattr(optimizer, kind, None) for optimizer in arm.optimizers for kind in STEP_HOOK_KINDS]
    if not any(places):
        return False
    with without_hooks(places):
        bare = _moves(arm)
    return not all(close(move, bare[name], TOLERANCE, SMALLEST) for name, move in moves.items())


def _tensor_hooks(arm: Arm, pair: ArmPair) -> Iterator[str]:
    known = pair.renamed_in(arm)
    for slot in parameters_of(arm.model):
        for attribute in PARAMETER_HOOKS:
            for hook in (getattr(slot.tensor, attribute, None) or {}).values():
                yield f"on {known.get(slot.name, slot.name)} ({hook_name(hook)})"


def _step_hooks(arm: Arm) -> Iterator[str]:
    for optimizer in arm.optimizers:
        for attribute, words in STEP_HOOK_KINDS.items():
            for hook in (getattr(optimizer, attribute, None) or {}).values():
                yield f"{hook_name(hook)} {words}"


def _moves(arm: Arm) -> dict[str, Tensor]:
    """Parameter -> where a few steps on fixed gradients lead from fixed values; the arm is restored.

    The gradients arrive by a backward pass of Σ g·p, so that hooks on parameters act, as do the optimizer's own.
    """
    parameters = dict(arm.model.named_parameters())
    trained = {name: p for name, p in parameters.items() if p.requires_grad and p.is_floating_point()}

    def backward(number: int, scale: float) -> Tensor:
        arm.clear_gradients()
        value = sum(((p * (scale * _gradient(p, number))).sum() for p in trained.values()), torch.zeros(()))
        if value.requires_grad:
            value.backward()
        return value.detach()

    def move() -> dict[str, Tensor]:
        start = {name: _initial_values(p) for name, p in trained.items()}
        with torch.no_grad():
            for name, p in trained.items():
                p.detach().copy_(start[name])
        for number, scale in enumerate(SCALES):
            arm.step(partial(backward, number, scale))
        return {name: (p.detach() - start[name]).double().cpu() for name, p in trained.items()}

    moves: dict[str, Tensor] = arm.restored("a step of the optimizer", move)
    return moves


def _initial_values(p: Tensor) -> Tensor:
    """Half of the entries 0, half alternating: decay shows in the second half, everything else exactly in the first."""
    index = torch.arange(p.numel(), device=p.device)
    values = torch.where(index % 2 == 0, 0.0, 0.5 + 0.25 * ((index // 2) % 5)).reshape(p.shape)
    return values.to(p.dtype)


def _gradient(p: Tensor, number: int) -> Tensor:
    """Entries from 10⁻⁸ to 1 of either sign: the same for every parameter, whatever its shape."""
    index = torch.arange(p.numel(), device=p.device)
    size = 10.0 ** -((index % 9).double())
    sign = torch.where((index // 9 + number) % 2 == 0, 1.0, -1.0)
    return (size * sign).reshape(p.shape).to(p.dtype)


def _compare_moves(
    pair: ArmPair, moves: tuple[Mapping[str, Tensor], Mapping[str, Tensor]], apart: Sequence[str]
) -> Comparison:
    """The steps themselves; with a declared rate or decay, those with the other arm's."""
    causes: tuple[str, ...] = (OPTIMIZER, RATE, DECAY, SCHEDULE, STEP_HOOKS, GRADIENT_HOOKS, HELD, FROZEN, LAYERS)
    sizes = [_length(own) for own in moves]
    cells = (f"moves by {sizes[0]:.4g} in {len(SCALES)} steps", f"moves by {sizes[1]:.4g} in {len(SCALES)} steps")
    declared = [key for key in ("lr", "weight_decay") if key in pair.declared]
    ours, theirs = pair.a.groups, pair.b.groups
    alike = [len(group["params"]) for group in ours] == [len(group["params"]) for group in theirs]
    if apart and declared and alike and all(key in group for group in (*ours, *theirs) for key in declared):
        for own, other in zip(ours, theirs, strict=True):
            other.update({key: own[key] for key in declared})
        apart = _move_differently(pair, moves[0], _moves(pair.b))
        causes = tuple(cause for cause in causes if cause not in (RATE, DECAY))
    where = f"the same gradients move {listed(apart)} differently" if apart else None
    return Comparison(UPDATE, cells, where, frozenset(), causes)


def _length(moves: Mapping[str, Tensor]) -> float:
    return sum(float(move.square().sum()) for move in moves.values()) ** 0.5


# The first step of both arms as a training loop would take it: the check for whatever nothing else has named.

STEP, BATCHES = "first update", "first batches"
CLOSE_STEP = 1e-4


@dataclass(frozen=True)
class Step:
    """One real step."""

    loss: float
    size: float
    """Root mean square of the output."""
    moves: dict[str, Tensor]


def take_step(arm: Arm) -> Step:
    """Forward, backward and step on the first batch, from the generators as building left them; then restore."""
    arm.kept.restore()
    arm.built.put()
    step: Step = arm.restored("the first step", lambda: _take_here(arm))
    return step


def _take_here(arm: Arm) -> Step:
    x, y = arm.batches[0][:2]
    before = {name: p.detach().clone() for name, p in arm.model.named_parameters()}
    seen: list[tuple[float, float]] = []

    def closure() -> Any:
        arm.clear_gradients()
        output = arm.output(x)
        first = next((tensor for tensor in tensors_in(output) if tensor.is_floating_point()), None)
        if first is None:
            raise InvalidInput(f"audit: the model of {arm.name!r} has to return a tensor of floating-point numbers")
        value = arm.loss(output, copied(y, first.device))
        if not isinstance(value, Tensor) or value.numel() != 1:
            raise InvalidInput(f"audit: the loss of {arm.name!r} has to return one number, as a tensor")
        seen.append((float(value.detach()), float(first.detach().double().square().mean().sqrt())))
        if value.requires_grad:
            value.backward()
        return value

    arm.step(closure)
    moves = {name: (p.detach() - before[name]).double().cpu() for name, p in arm.model.named_parameters()}
    return Step(*seen[0], moves)


def compare_steps(pair: ArmPair, steps: tuple[Step, Step], causes: tuple[str, ...]) -> Iterator[Comparison]:
    """The first batches and the first update; `causes` are all traits that may explain them."""
    hashes = (hash_of(pair.a.batches), hash_of(pair.b.batches))
    shapes = [join([str(tuple(t.shape)) for t in tensors_in(arm.batches[0])]) for arm in pair]
    cells = [f"{len(arm.batches)} of {shape}" for arm, shape in zip(pair, shapes, strict=True)]
    batches = "other batches come first, though samples and order agree" if hashes[0] != hashes[1] else None
    yield Comparison(BATCHES, (cells[0], cells[1]), batches, frozenset({"data"}), DATA_TRAITS, hashes)
    ours, theirs = (step.moves for step in steps)
    apart = [p.name for p, q in pair.parameters.pairs if not close(ours[p.name], theirs[q.name], CLOSE_STEP)]
    words = [f"loss {step.loss:.4g}, moves the parameters by {_length(step.moves):.3g}" for step in steps]
    moved = f"{listed(apart)} move differently" if apart else None
    yield Comparison(STEP, (words[0], words[1]), moved, frozenset(), (BATCHES, *causes))
