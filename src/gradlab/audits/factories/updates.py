"""What two optimizers do: settings parameter by parameter, and the steps they take on the same gradients."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isclose
from typing import Any

from torch.optim.lr_scheduler import LRScheduler

import torch
from gradlab.audits.factories.arms import Arm
from gradlab.audits.factories.matching import match, parameters_of
from gradlab.audits.factories.points import Point, counted, listed, lists, plain
from gradlab.audits.factories.structure import FROZEN, GRADIENT_HOOKS, LAYERS, hook_name
from gradlab.errors import InvalidInput, described
from torch import Tensor

OPTIMIZER, RATE, DECAY, HELD = "optimizer", "learning rate", "weight decay", "parameters the optimizer does not hold"
SCHEDULE, STEP_HOOKS, UPDATE = "scheduler", "optimizer hooks", "update"
IMPLEMENTATION = {"params", "param_names", "foreach", "fused", "capturable", "differentiable", "initial_lr"}
"""Settings that decide how a step is computed, or what a scheduler remembers, but not where it goes."""
SCALES = (1.0, 1e-2, 1e2, 0.0, 1e-1, 1e-1)
"""Gradients of the steps: momentum, amsgrad, ε and clipping show when they grow and shrink."""
TOLERANCE, ROUNDING = 1e-3, 1e-6
"""Of the steps; of a rate that may be a float32 tensor."""


@dataclass(frozen=True)
class Setting:
    """How a parameter is trained."""

    kind: str
    lr: float
    decay: float
    others: tuple[tuple[str, str], ...]


def update_points(a: Arm, b: Arm, names: tuple[str, str], factor: Sequence[str]) -> Iterator[Point]:
    """Settings, hooks, schedulers, and the effect of a few steps; both arms are restored."""
    matched = match(parameters_of(a.model), parameters_of(b.model))
    ours, theirs = settings_of(a), settings_of(b)
    renamed = matched.renamed()
    lost = [
        [known.get(s.name, s.name) for s in parameters_of(arm.model) if s.name not in own]
        for arm, own, known in ((a, ours, {}), (b, theirs, renamed))
    ]
    yield lists(HELD, lost[0], lost[1], names, "frozen")
    kinds = [" and ".join(type(o).__name__ for o in arm.optimizers) for arm in (a, b)]
    pairs = [(x.name, ours[x.name], theirs[y.name]) for x, y in matched.pairs if x.name in ours and y.name in theirs]
    moves = _moves(a), _moves(b)
    apart = [x.name for x, y in matched.pairs if not _same_moves(moves[0].get(x.name), moves[1].get(y.name))]
    yield _settings(ours, theirs, pairs, kinds, names, bool(apart))
    yield _rates(RATE, [(n, p.lr, q.lr) for n, p, q in pairs], _rated(ours, "lr"), _rated(theirs, "lr"), kinds, names)
    decays = [(n, p.decay, q.decay) for n, p, q in pairs]
    yield _rates(DECAY, decays, _rated(ours, "decay"), _rated(theirs, "decay"), kinds, names)
    yield plain(SCHEDULE, _schedulers(a), _schedulers(b), names, "schedule")
    yield lists(STEP_HOOKS, list(_hooks(a)), list(_hooks(b)), names, "clip", "optimizer")
    yield _update(a, b, moves, apart, names, factor)


def settings_of(arm: Arm) -> dict[str, Setting]:
    """Parameter -> how it is trained, for every one that an optimizer holds."""
    named = {id(p): name for name, p in arm.model.named_parameters()}
    found = {}
    for optimizer in arm.optimizers:
        for group in optimizer.param_groups:
            lr, decay = group.get("initial_lr", group.get("lr", 0.0)), group.get("weight_decay", 0.0)
            others = {k: v for k, v in group.items() if k not in IMPLEMENTATION | {"lr", "weight_decay"}}
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


def _number(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"({', '.join(_number(each) for each in value)})"
    if isinstance(value, Tensor) and value.numel() == 1:
        value = value.item()
    return f"{value:g}" if isinstance(value, float) else str(value)


def _settings(
    ours: Mapping[str, Setting],
    theirs: Mapping[str, Setting],
    pairs: Sequence[tuple[str, Setting, Setting]],
    kinds: Sequence[str],
    names: tuple[str, str],
    moved: bool,
) -> Point:
    """Class and settings; two classes that take the same steps are one optimizer."""
    cells = [f"{kind}{_shown(own)}" for kind, own in zip(kinds, (ours, theirs), strict=True)]
    values = [repr(sorted({(s.kind, s.others) for s in own.values()})) for own in (ours, theirs)]
    difference = None
    if any(p.kind != q.kind for _, p, q in pairs) or (kinds[0] != kinds[1] and not pairs):
        difference = f"{cells[0]} in {names[0]}, {cells[1]} in {names[1]}" if moved or not pairs else None
    else:
        apart = [(name, p, q) for name, p, q in pairs if p.others != q.others]
        if apart:
            _, p, q = apart[0]
            keys = [
                key
                for key, _ in dict.fromkeys((*p.others, *q.others))
                if dict(p.others).get(key) != dict(q.others).get(key)
            ]
            said = [
                f"{key} {dict(p.others).get(key)} in {names[0]}, {dict(q.others).get(key)} in {names[1]}"
                for key in dict.fromkeys(keys)
            ]
            difference = "; ".join(said) + _places([name for name, _, _ in apart], len(pairs))
    return Point(OPTIMIZER, (cells[0], cells[1]), difference, frozenset({"optimizer"}), values=(values[0], values[1]))


def _shown(own: Mapping[str, Setting]) -> str:
    every = dict.fromkeys(
        ", ".join(f"{key} {value}" for key, value in setting.others if value not in ("False", "0"))
        for setting in own.values()
    )
    words = listed((each for each in every if each), "", 2)
    return f" ({words})" if words else ""


def _places(apart: Sequence[str], every: int) -> str:
    return "" if len(apart) == every else f" (for {listed(apart)})"


def _rated(own: Mapping[str, Setting], field: str) -> str:
    values = [f"{getattr(setting, field):g}" for setting in own.values()]
    if len(set(values)) == 1:
        return values[0]
    return counted([f"{value} (tensors)" for value in values])


def _rates(
    trait: str,
    pairs: Sequence[tuple[str, float, float]],
    ours: str,
    theirs: str,
    kinds: Sequence[str],
    names: tuple[str, str],
) -> Point:
    """Learning rate or weight decay, parameter by parameter."""
    apart = [(name, x, y) for name, x, y in pairs if not isclose(x, y, rel_tol=ROUNDING) and not (x != x and y != y)]
    factors = {"lr" if trait == RATE else "weight_decay"}
    difference = None
    if apart:
        ratios = {round(y / x, 9) if x else None for _, x, y in pairs}
        if kinds[0] != kinds[1] and (len(ratios) == 1 or trait == DECAY):
            factors.add("optimizer")
        name, x, y = apart[0]
        values = f"{x:g} in {names[0]}, {y:g} in {names[1]}"
        same = len({(p, q) for _, p, q in apart}) == 1
        difference = values + (
            _places([n for n, _, _ in apart], len(pairs)) if same else f" (for {name}; others differ too)"
        )
    return Point(trait, (ours, theirs), difference, frozenset(factors))


def _schedulers(arm: Arm) -> str:
    """Schedulers that hold the optimizers, or the trace that one leaves in them."""
    found = []
    for optimizer in arm.optimizers:
        alive = [each for each in gc.get_referrers(optimizer) if isinstance(each, LRScheduler)]
        holders = [each for each in gc.get_referrers(optimizer) if isinstance(each, dict)]
        if not alive and holders:  # an object's attributes may be a dict of their own
            alive = [o for h in holders for o in gc.get_referrers(h) if isinstance(o, LRScheduler)]
        for scheduler in alive:
            own = {k: v for k, v in sorted(scheduler.state_dict().items()) if isinstance(v, int | float | list | tuple)}
            words = ", ".join(
                f"{k} {_number(v)}" for k, v in own.items() if not k.startswith("_") and k != "last_epoch"
            )
            found.append(f"{type(scheduler).__name__}({words})")
        if not alive and any("initial_lr" in group for group in optimizer.param_groups):
            rates = counted([_number(group["initial_lr"]) for group in optimizer.param_groups if "initial_lr" in group])
            now = counted([_number(group.get("lr")) for group in optimizer.param_groups])
            found.append(f"a learning-rate scheduler was made (initial rate {rates}, now {now})")
    return "; ".join(dict.fromkeys(found)) or "none in the factory"


def _hooks(arm: Arm) -> Iterator[str]:
    for optimizer in arm.optimizers:
        for attribute, words in (
            ("_optimizer_step_pre_hooks", "before the step"),
            ("_optimizer_step_post_hooks", "after the step"),
        ):
            for hook in (getattr(optimizer, attribute, None) or {}).values():
                yield f"{hook_name(hook)} {words}"


def _moves(arm: Arm) -> dict[str, Tensor]:
    """Parameter -> where a few steps on fixed gradients lead from fixed values; the arm is restored.

    The gradients arrive by a backward pass of Σ g·p, so that hooks on parameters act, as do the optimizer's own.
    """
    named = list(arm.model.named_parameters())
    try:
        trained = [(name, p) for name, p in named if p.requires_grad and p.is_floating_point()]
        start = {name: _start(p) for name, p in trained}
        with torch.no_grad():
            for name, p in trained:
                p.detach().copy_(start[name])
        for number, scale in enumerate(SCALES):
            _step(arm, [p for _, p in named], [(p, scale * _gradient(p, number)) for _, p in trained])
        return {name: (p.detach() - start[name]).double().cpu() for name, p in trained}
    except (Exception, SystemExit) as error:
        raise InvalidInput(f"audit: a step of the optimizer of {arm.name!r}: {described(error)}") from error
    finally:
        arm.kept.restore()


def _step(arm: Arm, every: list[Tensor], given: list[tuple[Tensor, Tensor]]) -> None:
    def closure() -> Tensor:
        for parameter in every:
            parameter.grad = None
        value = sum(((parameter * gradient).sum() for parameter, gradient in given), torch.zeros(()))
        if value.requires_grad:
            value.backward()
        return value.detach()

    closure()
    for optimizer in arm.optimizers:
        try:
            optimizer.step()
        except TypeError:  # an optimizer that evaluates the loss itself, like LBFGS
            optimizer.step(closure)


def _start(p: Tensor) -> Tensor:
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


def _same_moves(a: Tensor | None, b: Tensor | None) -> bool:
    if a is None or b is None:
        return a is b
    return a.shape == b.shape and bool(torch.allclose(a, b, rtol=TOLERANCE, atol=1e-12, equal_nan=True))


def _update(
    a: Arm,
    b: Arm,
    moves: tuple[dict[str, Tensor], dict[str, Tensor]],
    apart: Sequence[str],
    names: tuple[str, str],
    factor: Sequence[str],
) -> Point:
    """The steps themselves; with a declared rate or decay, those with the other arm's."""
    causes: tuple[str, ...] = (OPTIMIZER, RATE, DECAY, SCHEDULE, STEP_HOOKS, GRADIENT_HOOKS, HELD, FROZEN, LAYERS)
    sizes = [sum(float(m.square().sum()) for m in own.values()) ** 0.5 for own in moves]
    cells = (f"moves by {sizes[0]:.4g} in {len(SCALES)} steps", f"moves by {sizes[1]:.4g} in {len(SCALES)} steps")
    declared = [key for name, key in (("lr", "lr"), ("weight_decay", "weight_decay")) if name in factor]
    if apart and declared and _lent(a, b, declared):
        after = _moves_with(a, b, declared)
        matched = match(parameters_of(a.model), parameters_of(b.model)).pairs
        apart = [x.name for x, y in matched if not _same_moves(moves[0].get(x.name), after.get(y.name))]
        causes = tuple(cause for cause in causes if cause not in (RATE, DECAY))
    where = f"the same gradients move {listed(apart)} differently" if apart else None
    return Point(UPDATE, cells, where, frozenset(), causes)


def _groups(arm: Arm) -> list[dict[str, Any]]:
    return [group for optimizer in arm.optimizers for group in optimizer.param_groups]


def _lent(a: Arm, b: Arm, keys: Sequence[str]) -> bool:
    """Whether the second arm can take over settings of the first, group by group."""
    ours, theirs = _groups(a), _groups(b)
    same = [len(group["params"]) for group in ours] == [len(group["params"]) for group in theirs]
    return same and all(key in group for group in (*ours, *theirs) for key in keys)


def _moves_with(a: Arm, b: Arm, keys: Sequence[str]) -> dict[str, Tensor]:
    """The second arm's steps with the first arm's settings."""
    for ours, theirs in zip(_groups(a), _groups(b), strict=True):
        for key in keys:
            theirs[key] = ours[key]
    return _moves(b)
