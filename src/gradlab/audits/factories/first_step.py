"""The first step of both arms as a training loop would take it: the check for whatever nothing else has named."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from gradlab.audits.factories.arms import Arm, copied
from gradlab.audits.factories.matching import match, parameters_of
from gradlab.audits.factories.points import Point, listed
from gradlab.audits.factories.samples import DATA_TRAITS, hash_of
from gradlab.engines.torch.tensors import tensors_in
from gradlab.errors import InvalidInput, described
from torch import Tensor

STEP, BATCHES = "first update", "first batches"
CLOSE = 1e-4


@dataclass(frozen=True)
class Step:
    """One real step."""

    loss: float
    size: float
    """Root mean square of the output."""
    moved: dict[str, Tensor]


def take_step(arm: Arm) -> Step:
    """Forward, backward and step on the first batch, from the generators as building left them; then restore."""
    arm.kept.restore()
    arm.built.put()
    try:
        return _taken(arm)
    except InvalidInput:
        raise
    except (Exception, SystemExit) as error:
        raise InvalidInput(f"audit: the first step of {arm.name!r}: {described(error)}") from error
    finally:
        arm.kept.restore()


def _taken(arm: Arm) -> Step:
    x, y = arm.batches[0][0], arm.batches[0][1]
    before = {name: p.detach().clone() for name, p in arm.model.named_parameters()}
    seen: list[tuple[float, float]] = []

    def closure() -> Any:
        for parameter in arm.model.parameters():
            parameter.grad = None
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

    closure()
    for optimizer in arm.optimizers:
        try:
            optimizer.step()
        except TypeError:  # an optimizer that evaluates the loss itself, like LBFGS
            optimizer.step(closure)
    moved = {name: (p.detach() - before[name]).double().cpu() for name, p in arm.model.named_parameters()}
    return Step(*seen[0], moved)


def step_points(a: Arm, b: Arm, steps: tuple[Step, Step], causes: tuple[str, ...]) -> Iterator[Point]:
    """The first batches and the first update; `causes` are all traits that may explain them."""
    hashes = (hash_of(a.batches), hash_of(b.batches))
    shapes = [" and ".join(str(tuple(t.shape)) for t in tensors_in(arm.batches[0])) for arm in (a, b)]
    cells = [f"{len(arm.batches)} of {shape}" for arm, shape in zip((a, b), shapes, strict=True)]
    batches = "other batches come first, though samples and order agree" if hashes[0] != hashes[1] else None
    yield Point(BATCHES, (cells[0], cells[1]), batches, frozenset({"data"}), DATA_TRAITS, hashes)
    pairs = match(parameters_of(a.model), parameters_of(b.model)).pairs
    apart = [p.name for p, q in pairs if not _close(steps[0].moved[p.name], steps[1].moved[q.name])]
    total = [sum(float(m.square().sum()) for m in step.moved.values()) ** 0.5 for step in steps]
    words = [
        f"loss {step.loss:.4g}, moves the parameters by {size:.3g}" for step, size in zip(steps, total, strict=True)
    ]
    moved = f"{listed(apart)} move differently" if apart else None
    yield Point(STEP, (words[0], words[1]), moved, frozenset(), (BATCHES, *causes))


def _close(x: Tensor, y: Tensor) -> bool:
    if x.shape != y.shape:
        return False
    scale = float(x.square().mean().sqrt()) if x.numel() else 0.0
    return bool(torch.allclose(x, y, rtol=CLOSE, atol=CLOSE * scale, equal_nan=True))
