"""What two losses say: values and gradients on the same outputs and targets, real ones and made ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from gradlab.audits.factories.arms import Arm, copied
from gradlab.audits.factories.points import Point
from gradlab.engines.torch.tensors import tensors_in
from gradlab.errors import shortened
from gradlab.trials.seeding import seed_all
from torch import Tensor, nn

LOSS = "loss"
SCALES = (1.0, 10.0, 100.0)
CLOSE = 1e-5
MOST_CLASSES = 1000
REAL, EVERY_CLASS, IGNORED, BINARY = "the first batches", "every class", "targets of -100", "targets of 0 and 1"


@dataclass(frozen=True)
class Case:
    """An output and a target that both losses are given."""

    name: str
    output: Any
    target: Any


@dataclass(frozen=True)
class Judged:
    """What a loss says of a case."""

    value: Tensor | None
    gradient: Tensor | None
    error: str | None

    def same(self, other: Judged) -> bool:
        """Equal value and gradient, up to rounding; two errors are equal."""
        if self.error or other.error:
            return bool(self.error) == bool(other.error)
        return _close(self.value, other.value) and _close(self.gradient, other.gradient)


def loss_points(a: Arm, b: Arm, names: tuple[str, str], seed: int) -> Iterator[Point]:
    """The loss of both arms on everything that the first arm's model and made-up ones give."""
    cases = [*_cases(a), *(Case(REAL, *each) for each in _real(b))]
    judged = [(case, judge(a.loss, case, seed), judge(b.loss, case, seed)) for case in cases]
    cells = (_words(a.loss, judged[0][1]), _words(b.loss, judged[0][2]))
    apart = [(case, p, q) for case, p, q in judged if not p.same(q) and (case.name == REAL or not (p.error or q.error))]
    difference = _difference(judged, apart, names) if apart else _settings(a.loss, b.loss, names)
    yield Point(LOSS, cells, difference, frozenset({"loss"}))


def _settings(a: Any, b: Any, names: tuple[str, str]) -> str | None:
    """Settings of two losses of one class that no case has shown: they may matter for targets that come later."""
    if not isinstance(a, nn.Module) or type(a) is not type(b):
        return None
    kinds = (bool, int, float, str)
    ours, theirs = ({k: v for k, v in vars(each).items() if isinstance(v, kinds)} for each in (a, b))
    apart = [key for key in {**ours, **theirs} if key != "training" and ours.get(key) != theirs.get(key)]
    return "; ".join(f"{k} {ours.get(k)} in {names[0]}, {theirs.get(k)} in {names[1]}" for k in apart) or None


def judge(loss: Any, case: Case, seed: int) -> Judged:
    """Value and gradient of a loss; an error is an answer too."""
    output, leaves = _leaves(case.output)
    seed_all(seed)
    try:
        value = loss(output, copied(case.target))
        total = value.sum()
        grads = torch.autograd.grad(total, leaves, allow_unused=True) if total.requires_grad else [None] * len(leaves)
        gradient = grads[0] if leaves else None
        return Judged(value.detach().double().cpu(), None if gradient is None else gradient.double().cpu(), None)
    except (Exception, SystemExit) as error:
        return Judged(None, None, type(error).__name__)


def _leaves(output: Any) -> tuple[Any, list[Tensor]]:
    made = copied(output)
    leaves = [tensor.requires_grad_() for tensor in tensors_in(made) if tensor.is_floating_point()]
    return made, leaves


def _real(arm: Arm) -> list[tuple[Any, Any]]:
    """Outputs and targets of the arm's first batches."""
    arm.kept.restore()
    try:
        with torch.no_grad():
            outputs = [copied(arm.output(batch[0])) for batch in arm.batches]
    finally:
        arm.kept.restore()
    device = next((tensor.device for output in outputs for tensor in tensors_in(output)), None)
    return [(output, copied(batch[1], device)) for output, batch in zip(outputs, arm.batches, strict=True)]


def _cases(arm: Arm) -> Iterator[Case]:
    real = _real(arm)
    for output, target in real:
        yield Case(REAL, output, target)
    output, target = real[0]
    if not isinstance(output, Tensor) or not output.is_floating_point() or not isinstance(target, Tensor):
        return
    noise = _noise(output, 0)
    for size in SCALES:
        yield Case(f"outputs of size {size:g}", size * noise, target)
    yield Case("outputs between 0 and 1", noise.sigmoid(), target)
    yield from _classes(noise, target) if not target.is_floating_point() else _numbers(noise, target)


def _noise(like: Tensor, seed: int) -> Tensor:
    return torch.randn(like.shape, generator=torch.Generator().manual_seed(seed)).to(like.device, like.dtype)


def _classes(noise: Tensor, target: Tensor) -> Iterator[Case]:
    """Integer targets: every class, and the number that PyTorch ignores."""
    classes = noise.shape[1] if noise.dim() > 1 else 2
    if not 1 < classes <= MOST_CLASSES or noise.shape[0] == 0:
        return
    rows = -(-classes // noise.shape[0])
    outputs = noise.repeat(rows, *[1] * (noise.dim() - 1))
    shape = (outputs.shape[0], *target.shape[1:])
    every = torch.arange(outputs.shape[0], device=target.device) % classes
    every = every.reshape(-1, *[1] * (target.dim() - 1)).expand(shape).to(target.dtype)
    yield Case(EVERY_CLASS, outputs, every)
    if noise.device.type == "cpu":  # elsewhere a target out of range cannot be caught
        some = every.clone()
        some[::2] = -100
        yield Case(IGNORED, outputs, some)


def _numbers(noise: Tensor, target: Tensor) -> Iterator[Case]:
    """Targets that are numbers: of several sizes; of 0 and 1 where they are all such."""
    if bool(((target == 0) | (target == 1)).all()):
        flipped = (torch.arange(target.numel(), device=target.device) % 2).reshape(target.shape).to(target.dtype)
        yield Case(BINARY, noise, flipped)
        yield Case("targets of 0 and 1 with outputs between 0 and 1", noise.sigmoid(), flipped)
        return
    for size in SCALES:
        yield Case(f"targets of size {size:g}", noise, size * _noise(target, 1))


def _close(a: Tensor | None, b: Tensor | None) -> bool:
    if a is None or b is None:
        return a is b
    if a.shape != b.shape:
        return False
    scale = float(a.abs().nan_to_num(posinf=0, neginf=0).max()) if a.numel() else 0.0
    return bool(torch.allclose(a, b, rtol=CLOSE, atol=CLOSE * scale, equal_nan=True))


def _difference(
    judged: list[tuple[Case, Judged, Judged]], apart: list[tuple[Case, Judged, Judged]], names: tuple[str, str]
) -> str:
    """The most concrete sentence that fits."""
    ratio = _one_ratio(judged)
    if ratio is not None:
        return f"that of {names[1]} is {ratio:.4g} × that of {names[0]} on the same outputs and targets"
    if words := _weights(judged, names):
        return words
    case, p, q = apart[0]
    if p.error or q.error:
        failed, error = (names[0], p.error) if p.error else (names[1], q.error)
        return f"that of {failed} fails on {case.name} ({error}), the other does not"
    assert p.value is not None
    assert q.value is not None
    if p.value.shape != q.value.shape:
        return f"values of shape {tuple(p.value.shape)} in {names[0]}, {tuple(q.value.shape)} in {names[1]}"
    agree = "" if case.name == REAL else f"; they agree on {REAL}"
    if _close(p.value, q.value):
        return f"the same values, other gradients on {case.name}{agree}"
    x, y = float(p.value.sum()), float(q.value.sum())
    digits = next((count for count in (4, 6, 9) if f"{x:.{count}g}" != f"{y:.{count}g}"), 12)
    values = f"{x:.{digits}g} in {names[0]}, {y:.{digits}g} in {names[1]}"
    return f"different values on the same outputs and targets ({case.name}: {values}){agree}"


def _one_ratio(judged: list[tuple[Case, Judged, Judged]]) -> float | None:
    """The factor between the losses, if it is the same in every case."""
    ratios = []
    for _, p, q in judged:
        if p.value is None or q.value is None or p.value.numel() != 1 or q.value.numel() != 1:
            continue
        if p.gradient is None or q.gradient is None or not float(p.value) or not torch.isfinite(p.value).all():
            continue
        ratio = float(q.value) / float(p.value)
        if not _close(ratio * p.gradient, q.gradient):
            return None
        ratios.append(ratio)
    if len(ratios) < 2:
        return None
    # a sum over samples instead of a mean: proportional to the number of rows, the same in most cases
    return ratios[0] if max(ratios) - min(ratios) <= 1e-4 * abs(ratios[0]) else None


def _weights(judged: list[tuple[Case, Judged, Judged]], names: tuple[str, str]) -> str | None:
    """Classes that one loss weighs more than the other, read from the gradients of every class."""
    for case, p, q in judged:
        if case.name not in (EVERY_CLASS, BINARY) or p.gradient is None or q.gradient is None:
            continue
        if p.gradient.shape != q.gradient.shape:
            continue
        target = case.target.cpu()
        if case.name == EVERY_CLASS:
            sizes = [g.reshape(g.shape[0], -1).norm(dim=1) for g in (p.gradient, q.gradient)]
            labels = target.reshape(target.shape[0], -1)[:, 0]
        else:
            if target.shape != p.gradient.shape:
                continue
            sizes, labels = [g.abs().flatten() for g in (p.gradient, q.gradient)], target.flatten().long()
        ratios = {int(k): float(sizes[1][labels == k].sum() / sizes[0][labels == k].sum()) for k in labels.unique()}
        usual = sorted(ratios.values())[(len(ratios) - 1) // 2] or 1.0
        odd = {k: r / usual for k, r in ratios.items() if abs(r / usual - 1) > 1e-3}
        within = all(
            _close(sizes[0][labels == k] * ratios[k], sizes[1][labels == k]) for k in ratios if ratios[k] == ratios[k]
        )
        if not odd or not within:
            continue
        if all(r == 0 for r in odd.values()):
            return f"{names[1]} ignores targets of class {', '.join(map(str, odd))}"
        if any(r != r for r in odd.values()):
            return f"{names[0]} ignores targets that {names[1]} does not"
        shown = [f"class {k} {r:.3g} × as much" for k, r in list(odd.items())[:4]]
        return f"relative to {names[0]}, {names[1]} weighs {', '.join(shown)}{' …' if len(odd) > 4 else ''}"
    return None


def _words(loss: Any, first: Judged) -> str:
    """What a loss is called, and its value on the first arm's first batch."""
    if isinstance(loss, nn.Module):
        name = " ".join(repr(loss).split())[:80]
    else:
        name = str(getattr(loss, "__qualname__", None) or shortened(loss)).rpartition(".")[2].strip("<>")
    value = first.value
    return name if value is None or value.numel() != 1 else f"{name}, {float(value):.6g} on the first batch"
