"""What two losses say, and whether backward gives their derivative.

Values and gradients of both losses are compared on the same outputs and targets, real ones and made ones.

Then, arm by arm, autograd's gradient is compared with the derivative of the loss: what scales, stops or adds gradients
shows. At two points near the initial weights the loss is differentiated along random directions twice: by autograd, and
by central differences (L(θ + εv) - L(θ - εv)) / 2ε in float64 under fixed random numbers. The points are a little away
from the initial weights, because zeros often sit exactly at the kink of a ReLU. Code that stops gradients on purpose
(straight-through estimators, targets of a teacher) differs from its derivative too: in both arms that is a remark.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isclose, isfinite
from typing import Any

import torch
from torch import Tensor, nn

from gradlab.audits.compare import Comparison, in_each
from gradlab.audits.factories.arms import Arm, ArmPair, close, copied
from gradlab.audits.factories.guest import Kept
from gradlab.audits.factories.models import GRADIENT_HOOKS, noise_like
from gradlab.engines.torch.tensors import tensors_in
from gradlab.errors import shortened
from gradlab.trials.seeding import seed_all
from gradlab.words import listed

LOSS = "loss"
SCALES = (1.0, 10.0, 100.0)
SAME_LOSS = 1e-5
MOST_ENTRIES = 200_000_000
"""Outputs that are made up to have every class as a target; of more classes, some."""
MOST_KEPT = 12
"""Cases that agree and are kept to tell a common factor."""
MOVED = 0.1
"""How far the parameters are moved to see whether the loss depends on them, relative to their size."""
REAL, FEWER_ROWS, EVERY_CLASS = "the first batches", "a batch of half as many rows", "every class"
IGNORED, BINARY = "targets of -100", "targets of 0 and 1"


@dataclass(frozen=True)
class Case:
    """An output and a target that both losses are given."""

    name: str
    output: Any
    target: Any
    dim: int | None = None
    """Where the output holds its classes."""


@dataclass(frozen=True)
class LossResult:
    """What a loss says of a case."""

    value: Tensor | None
    gradient: Tensor | None
    error: str | None
    parameters: tuple[Tensor | None, ...] = ()
    """Its gradient with respect to parameters, the output being fixed."""

    def same(self, other: LossResult) -> bool:
        """Equal value and gradients, up to rounding; two errors are equal."""
        if self.error or other.error:
            return bool(self.error) == bool(other.error)
        gradients = zip((self.gradient, *self.parameters), (other.gradient, *other.parameters), strict=True)
        return _same(self.value, other.value) and all(_same(p, q) for p, q in gradients)


CaseResults = tuple[Case, LossResult, LossResult]
"""A case and what both losses say of it."""


def compare_losses(pair: ArmPair) -> Comparison:
    """The loss of both arms on everything that the first arm's model and made-up ones give."""
    a, b = pair
    judged: list[CaseResults] = []
    apart: list[CaseResults] = []
    for case in (*_cases(a), *(Case(REAL, *each) for each in _real(b))):
        p, q = _judge(a.loss, case, pair.seed), _judge(b.loss, case, pair.seed)
        if not p.same(q) and (case.name == REAL or not (p.error or q.error)) and _differ_at(pair, case, 0.0):
            apart.append((case, p, q))
        elif case.name == EVERY_CLASS and len(judged) > MOST_KEPT:
            continue
        judged.append((case, p, q))
    cells = (_name_loss(a.loss, judged[0][1]), _name_loss(b.loss, judged[0][2]))
    if apart:
        difference: str | None = _describe(judged, apart, pair.names)
    else:
        difference = _find_penalty(pair, judged[0][0]) or _find_settings(a.loss, b.loss, pair.names)
    return Comparison(LOSS, cells, difference, frozenset({"loss"}))


def _find_penalty(pair: ArmPair, case: Case) -> str | None:
    """Terms of the loss that are computed from parameters, such as a penalty: the output is fixed, the weights move."""
    for moved in (0.0, MOVED):
        if (found := _differ_at(pair, case, moved)) is not None:
            when = "once the parameters move; they agree on the initial ones" if moved else "on the same output"
            x, y = (each.value for each in found)
            if x is None or y is None or _same(x, y):
                return f"computed from the parameters too, with another gradient {when}"
            values = pair.in_each(f"{float(x.sum()):.6g}", f"{float(y.sum()):.6g}")
            return f"computed from the parameters too: {values} {when}"
    return None


def _differ_at(pair: ArmPair, case: Case, moved: float) -> tuple[LossResult, LossResult] | None:
    """What two losses say of a case, if it differs on each arm's own weights and on those of the first in both.

    A penalty toward the initial weights may have other ones, and one on the weights has other values where these
    differ: neither is another loss.
    """
    trained = [
        (p.tensor, q.tensor) for p, q in pair.parameters.pairs if p.tensor.requires_grad and q.tensor.requires_grad
    ]
    found = None
    try:
        for lent in (False, True):
            pair.restore()
            if lent:
                pair.lend(pair.parameters)
            with torch.no_grad():
                for number, (p, q) in enumerate(trained):
                    noise = moved * (float(p.detach().square().mean().sqrt()) or 1.0) * noise_like(p, number)
                    p.detach().add_(noise)
                    q.detach().add_(noise.to(q.device, q.dtype))
            ours = _judge(pair.a.loss, case, pair.seed, [p for p, _ in trained])
            theirs = _judge(pair.b.loss, case, pair.seed, [q for _, q in trained])
            if ours.same(theirs):
                return None
            found = ours, theirs
        return found
    finally:
        pair.restore()


def _find_settings(a: Any, b: Any, names: tuple[str, str]) -> str | None:
    """Settings of two losses of one class that no case has shown: they may matter for targets that come later."""
    if not isinstance(a, nn.Module) or type(a) is not type(b):
        return None
    kinds = (bool, int, float, str)
    ours, theirs = ({k: v for k, v in vars(each).items() if isinstance(v, kinds)} for each in (a, b))
    apart = [key for key in {**ours, **theirs} if key != "training" and ours.get(key) != theirs.get(key)]
    return "; ".join(f"{key} {in_each(ours.get(key), theirs.get(key), names)}" for key in apart) or None


def _judge(loss: Any, case: Case, seed: int, parameters: Sequence[Tensor] = ()) -> LossResult:
    """Value and gradient of a loss, also with respect to some parameters; an error is an answer too."""
    output = copied(case.output)
    leaves = [tensor.requires_grad_() for tensor in tensors_in(output) if tensor.is_floating_point()]
    seed_all(seed)
    try:
        value = loss(output, copied(case.target))
        total, wanted = value.sum(), [*leaves, *parameters]
        grads = torch.autograd.grad(total, wanted, allow_unused=True) if total.requires_grad else [None] * len(wanted)
        every = [None if grad is None else grad.double().cpu() for grad in grads]
        rest = tuple(every[len(leaves) :])
        return LossResult(value.detach().double().cpu(), every[0] if leaves else None, None, rest)
    except (Exception, SystemExit) as error:
        return LossResult(None, None, type(error).__name__)


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
    if output.dim() and target.dim() and len(output) == len(target) > 1:
        yield Case(FEWER_ROWS, output[: len(output) // 2], target[: len(output) // 2])
    noise = noise_like(output)
    for size in SCALES:
        yield Case(f"outputs of size {size:g}", size * noise, target)
    yield Case("outputs between 0 and 1", noise.sigmoid(), target)
    yield from _classes(noise, target) if not target.is_floating_point() else _numbers(noise, target)


def _classes(noise: Tensor, target: Tensor) -> Iterator[Case]:
    """Integer targets: every class, and the number that PyTorch ignores."""
    for dim in _class_dims(noise, target):
        classes = 2 if dim is None else noise.shape[dim]
        if classes < 2 or not target.numel():
            continue
        for start in _starts(classes, target.numel(), noise.numel()):
            every = (torch.arange(target.numel(), device=target.device) + start) % classes
            every = every.reshape(target.shape).to(target.dtype)
            yield Case(EVERY_CLASS, noise, every, dim)
        if noise.device.type == "cpu":  # elsewhere a target out of range cannot be caught
            some = every.flatten().clone()
            some[::2] = -100
            yield Case(IGNORED, noise, some.reshape(target.shape))


def _class_dims(output: Tensor, target: Tensor) -> list[int | None]:
    """Where an output may hold its classes, by the shape of the targets: second, as PyTorch wants it, or last."""
    if output.dim() < 2:
        return [None]
    second = target.shape == (*output.shape[:1], *output.shape[2:])
    last = target.shape == output.shape[:-1] and output.dim() > 2
    return [*([1] if second or not last else []), *([output.dim() - 1] if last else [])]


def _starts(classes: int, at_once: int, entries: int) -> range:
    """The first class of each case, so that all are targets, or evenly many where they are too many."""
    wanted = -(-classes // at_once)
    afford = max(1, MOST_ENTRIES // max(entries, 1))
    return range(0, classes, at_once * -(-wanted // afford))


def classes_left_out(arm: Arm) -> tuple[int, int] | None:
    """How many classes the loss was asked about, and of how many, if there were too many."""
    output, target = _real(arm)[0]
    if not isinstance(output, Tensor) or not isinstance(target, Tensor) or target.is_floating_point():
        return None
    for dim in _class_dims(output, target):
        classes = 2 if dim is None else output.shape[dim]
        seen = len(_starts(classes, target.numel(), output.numel())) * target.numel() if target.numel() else classes
        if seen < classes:
            return seen, classes
    return None


def _numbers(noise: Tensor, target: Tensor) -> Iterator[Case]:
    """Targets that are numbers: of several sizes; of 0 and 1 where they are all such."""
    if bool(((target == 0) | (target == 1)).all()):
        flipped = (torch.arange(target.numel(), device=target.device) % 2).reshape(target.shape).to(target.dtype)
        yield Case(BINARY, noise, flipped)
        yield Case("targets of 0 and 1 with outputs between 0 and 1", noise.sigmoid(), flipped)
        return
    for size in SCALES:
        yield Case(f"targets of size {size:g}", noise, size * noise_like(target, 1))


def _same(a: Tensor | None, b: Tensor | None) -> bool:
    largest = 0.0 if a is None or not a.numel() else float(a.abs().nan_to_num(posinf=0, neginf=0).max())
    return close(a, b, SAME_LOSS, largest)


def _describe(judged: list[CaseResults], apart: list[CaseResults], names: tuple[str, str]) -> str:
    """The most concrete sentence that fits."""
    ratio = _one_ratio(judged)
    if ratio is not None and not isclose(ratio, 1.0, rel_tol=1e-4):
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
        return f"values of shape {in_each(tuple(p.value.shape), tuple(q.value.shape), names)}"
    agree = "" if case.name == REAL else f"; they agree on {REAL}"
    if _same(p.value, q.value):
        return f"the same values, other gradients on {case.name}{agree}"
    x, y = float(p.value.sum()), float(q.value.sum())
    digits = next((count for count in (4, 6, 9) if f"{x:.{count}g}" != f"{y:.{count}g}"), 12)
    values = in_each(f"{x:.{digits}g}", f"{y:.{digits}g}", names)
    return f"different values on the same outputs and targets ({case.name}: {values}){agree}"


def _one_ratio(judged: list[CaseResults]) -> float | None:
    """The factor between the losses, if it is the same in every case."""
    ratios = []
    for case, p, q in judged:
        if case.name == FEWER_ROWS:  # of a sum and a mean the factor is the number of rows
            continue
        if p.value is None or q.value is None or p.value.numel() != 1 or q.value.numel() != 1:
            continue
        if p.gradient is None or q.gradient is None or not float(p.value) or not torch.isfinite(p.value).all():
            continue
        ratio = float(q.value) / float(p.value)
        if not _same(ratio * p.gradient, q.gradient):
            return None
        ratios.append(ratio)
    if len(ratios) < 2:
        return None
    return ratios[0] if max(ratios) - min(ratios) <= 1e-4 * abs(ratios[0]) else None


def _weights(judged: list[CaseResults], names: tuple[str, str]) -> str | None:
    """Classes that one loss weighs more than the other, read from the gradients of every class."""
    for case, p, q in judged:
        if case.name not in (EVERY_CLASS, BINARY) or p.gradient is None or q.gradient is None:
            continue
        if p.gradient.shape != q.gradient.shape:
            continue
        target = case.target.cpu()
        if case.name == EVERY_CLASS and case.dim is not None:
            grads = [g.movedim(case.dim, -1) for g in (p.gradient, q.gradient)]
            sizes = [g.reshape(-1, g.shape[-1]).norm(dim=1) for g in grads]
            labels = target.flatten()
        else:
            if target.shape != p.gradient.shape:
                continue
            sizes, labels = [g.abs().flatten() for g in (p.gradient, q.gradient)], target.flatten().long()
        ratios = {int(k): float(sizes[1][labels == k].sum() / sizes[0][labels == k].sum()) for k in labels.unique()}
        usual = sorted(ratios.values())[(len(ratios) - 1) // 2] or 1.0
        odd = {k: r / usual for k, r in ratios.items() if abs(r / usual - 1) > 1e-3}
        within = all(
            _same(sizes[0][labels == k] * ratios[k], sizes[1][labels == k]) for k in ratios if ratios[k] == ratios[k]
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


def _name_loss(loss: Any, first: LossResult) -> str:
    """What a loss is called, and its value on the first arm's first batch."""
    if isinstance(loss, nn.Module):
        name = " ".join(repr(loss).split())[:80]
    else:
        name = str(getattr(loss, "__qualname__", None) or shortened(loss)).rpartition(".")[2].strip("<>")
    value = first.value
    return name if value is None or value.numel() != 1 else f"{name}, {float(value):.6g} on the first batch"


# Whether autograd gives the derivative of the loss.

GRADIENT = "gradient"
AGREES, DIFFERS, UNCLEAR = "the derivative of the loss", "not the derivative of the loss", "cannot be checked"
POINTS = 2
AWAY = 0.02
"""How far the points are from the initial weights, relative to their size."""
STEPS = (1e-4, 1e-5, 1e-6, 1e-3)
"""ε, relative to the size of a tensor; the first that agrees ends the search."""
CLOSE, FAR, ROUGH = 1e-4, 1e-3, 0.05
"""Errors relative to the typical derivative: equal; not equal; not to be told from a rough loss."""
MOST_NAMED = 16
"""Tensors that are looked at one by one once the gradient as a whole is off."""


@dataclass(frozen=True)
class GradientCheck:
    """The gradient of one arm beside the derivative of its loss."""

    status: str
    tensors: tuple[str, ...] = ()
    """Parameters whose gradient is off."""

    @property
    def words(self) -> str:
        """For the table."""
        return f"{self.status}: {listed(self.tensors)}" if self.tensors else self.status


def compare_derivatives(pair: ArmPair) -> Comparison:
    """Whether only one of the arms trains along something other than the derivative of its loss."""
    checks = [_check_gradient(arm, pair.seed) for arm in pair]
    difference = None
    if {check.status for check in checks} == {AGREES, DIFFERS}:
        name, check = next((n, check) for n, check in zip(pair.names, checks, strict=True) if check.status == DIFFERS)
        where = f" for {listed(check.tensors)}" if check.tensors else ""
        difference = f"in {name}, backward does not give the derivative of the loss{where}; in the other arm it does"
    cells = (checks[0].words, checks[1].words)
    return Comparison(GRADIENT, cells, difference, frozenset({"model"}), (GRADIENT_HOOKS,))


def _check_gradient(arm: Arm, seed: int) -> GradientCheck:
    """Compare autograd with central differences; the arm is restored to the bit."""
    modules = [arm.model, *([arm.loss] if isinstance(arm.loss, nn.Module) else [])]
    for dtype in (torch.float64, None):
        arm.kept.restore()
        try:
            with _as_dtype(modules, dtype):
                return _check_in(arm, modules, dtype, seed)
        except (Exception, SystemExit):  # constants of another dtype in the user's code: the next is its own
            continue
        finally:
            arm.kept.restore()
    return GradientCheck(UNCLEAR)


@contextlib.contextmanager
def _as_dtype(modules: Sequence[nn.Module], dtype: torch.dtype | None) -> Iterator[None]:
    """Parameters and buffers in another precision; the very same tensors come back afterwards."""
    held = [
        (tensor, tensor.data)
        for module in modules
        for tensor in (*module.parameters(), *module.buffers())
        if tensor.is_floating_point()
    ]
    grads = [(tensor, tensor.grad) for tensor, _ in held if tensor.is_leaf]
    try:
        for tensor, _ in grads:
            tensor.grad = None
        if dtype is not None:
            for tensor, data in held:
                tensor.data = data.to(dtype)
        yield
    finally:
        for tensor, data in held:
            tensor.data = data
        for tensor, grad in grads:
            tensor.grad = grad


def _check_in(arm: Arm, modules: list[nn.Module], dtype: torch.dtype | None, seed: int) -> GradientCheck:
    arm.model.train()
    named = [(name, p) for name, p in arm.model.named_parameters() if p.requires_grad and p.is_floating_point()]
    if not named:
        return GradientCheck(UNCLEAR)
    kept = Kept(modules, (), [])
    x, y = (copied(each, dtype=dtype) for each in arm.batches[0][:2])

    def loss(values: Sequence[Tensor]) -> Tensor:
        """The loss at some values of the parameters, under the same random numbers."""
        kept.restore()
        arm.model.train()
        with torch.no_grad():
            for (_, p), value in zip(named, values, strict=True):
                p.detach().copy_(value)
        seed_all(seed)
        output = arm.output(x)
        first = next(tensors_in(output))
        result: Tensor = arm.loss(output, copied(y, first.device))
        return result

    generator = torch.Generator().manual_seed(0)
    start = [p.detach().clone() for _, p in named]
    coarse = 1.0 if dtype is not None else 100.0  # float32 has half the digits
    statuses = set()
    for _ in range(POINTS):
        point = [value + AWAY * _direction(value, generator) for value in start]
        value = loss(point)
        grads: Sequence[Tensor | None] = [None] * len(named)
        if value.requires_grad:
            grads = torch.autograd.grad(value, [p for _, p in named], allow_unused=True)
        slopes = [torch.zeros_like(v) if g is None else g.detach().clone() for g, v in zip(grads, point, strict=True)]
        ways = [_direction(value, generator) for value in point]
        status = _check_along(loss, point, slopes, ways, range(len(named)), coarse)
        statuses.add(status)
        if status == DIFFERS:
            apart = [
                name
                for number, (name, _) in list(enumerate(named))[:MOST_NAMED]
                if _check_along(loss, point, slopes, ways, [number], coarse) == DIFFERS
            ]
            return GradientCheck(DIFFERS, tuple(apart))
    return GradientCheck(AGREES if statuses == {AGREES} else UNCLEAR)


def _direction(like: Tensor, generator: torch.Generator) -> Tensor:
    """A random direction of the size of a tensor, or of 0.1 where it is 0."""
    size = float(like.double().square().mean().sqrt()) if like.numel() else 0.0
    noise = torch.randn(like.shape, generator=generator, dtype=torch.float64)
    return ((size or 0.1) * noise).to(like.device, like.dtype)


def _check_along(
    loss: Any,
    point: Sequence[Tensor],
    slopes: Sequence[Tensor],
    ways: Sequence[Tensor],
    chosen: Collection[int],
    coarse: float,
) -> str:
    """The two derivatives along one direction of some tensors."""
    moved = set(chosen)
    parts = [(slopes[i] * ways[i]).double() for i in moved]
    expected = float(sum(part.sum() for part in parts))
    typical = float(sum(part.square().sum() for part in parts)) ** 0.5
    estimates: list[float] = []
    with torch.no_grad():
        for step in STEPS:
            ends = [
                [
                    p + sign * step * coarse * way if i in moved else p
                    for i, (p, way) in enumerate(zip(point, ways, strict=True))
                ]
                for sign in (1.0, -1.0)
            ]
            high, low = (float(loss(end).double()) for end in ends)
            estimates.append((high - low) / (2 * step * coarse))
            scale = max(typical, abs(estimates[-1]), 1e-7 * abs(high) * coarse**2, 1e-30)
            if abs(estimates[-1] - expected) <= CLOSE * coarse * scale:
                return AGREES
    if not all(map(isfinite, (*estimates, expected))):
        return UNCLEAR
    scale = max(typical, *(abs(value) for value in estimates), 1e-30)
    error = min(abs(value - expected) for value in estimates) / scale
    ordered = [estimates[index] for index in (3, 0, 1, 2)]
    spread = min(abs(p - q) for p, q in pairwise(ordered)) / scale
    if error > 10 * spread and error > FAR * coarse:
        return DIFFERS
    return AGREES if error < ROUGH else UNCLEAR
