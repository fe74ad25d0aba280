"""What a loss is, read from the graph it was computed by: which criterion, of what, against which targets.

Nothing is called again. The nodes next to the loss keep the outputs and targets that they need for the backward pass;
from these come the loss of the best answer that is the same for every sample, and what was done to the outputs last.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gradlab.spec.numerals import written

MOST_NODES, MOST_DEPTH = 200, 24
PASSING = ("View", "Reshape", "UnsafeView", "Squeeze", "Unsqueeze", "Permute", "Transpose", "TBackward", "ToCopy",
           "Slice", "Select", "Clone", "Flatten", "Expand", "AsStrided")  # fmt: skip
"""Operations that hand numbers on as they are."""
ENDS = {
    "NllLossBackward0": "cross-entropy",
    "NllLoss2DBackward0": "cross-entropy",
    "BinaryCrossEntropyWithLogitsBackward0": "binary cross-entropy",
    "MseLossBackward0": "squared error",
}


@dataclass(frozen=True)
class Objective:
    """One criterion of a loss."""

    kind: str
    value: float
    """The loss as a whole, unscaled."""
    own: float | None
    """The criterion's own value, from its outputs and targets, always its mean."""
    guess: float | None
    """What an answer without any knowledge gets: ln C for C classes, ln 2, the variance of the targets."""
    constant: float | None
    """What the best answer that is the same for every sample gets."""
    negated: bool
    """Whether the loss falls where the criterion rises."""
    squashed: str | None
    """What made probabilities of the outputs before the criterion did: `softmax` or `sigmoid`."""
    far: str = ""
    """For a squared error: how far outputs and targets are from each other, in words."""


def read_objective(loss: Tensor, scale: float = 1.0) -> Objective | None:
    """Return the first known criterion of a loss, or None."""
    for node, sign in _walk(loss.grad_fn):
        kind = ENDS.get(type(node).__name__)
        if kind is not None:
            try:
                return _describe(kind, node, sign, float(loss.detach().float().mean()) / scale)
            except (RuntimeError, AttributeError, TypeError):  # what it saved is gone, or of another version
                return None
    return None


def _describe(kind: str, node: Any, sign: int, value: float) -> Objective:
    outputs, target = node._saved_self.detach(), node._saved_target.detach()
    own: float | None = None
    guess: float | None = None
    constant: float | None = None
    far = ""
    if kind == "cross-entropy":
        classes = outputs.shape[1] if outputs.dim() > 1 else outputs.shape[0]
        kept = target.flatten()[target.flatten() != node._saved_ignore_index]
        guess = math.log(classes)
        if kept.numel():
            shares = torch.bincount(kept.clamp(min=0)).double() / kept.numel()
            constant = float(-(shares * shares.clamp(min=1e-30).log()).sum())
            rows = outputs.movedim(1, -1).reshape(-1, classes) if outputs.dim() > 1 else outputs[None]
            picked = rows[(target.flatten() != node._saved_ignore_index).nonzero()[:, 0][:4096]]
            own = float(-picked.float().gather(1, kept[:4096, None]).mean())
    elif kind == "binary cross-entropy":
        share, guess = float(target.float().mean()), math.log(2)
        own = float(torch.nn.functional.binary_cross_entropy_with_logits(outputs.float(), target.float()))
        constant = -sum(part * math.log(part) for part in (share, 1 - share) if 0 < part < 1)
    else:
        goal = target.float()
        own = float((outputs.float() - goal).square().mean())
        constant = float(goal.var(0, correction=0).mean()) if goal.dim() and len(goal) > 1 else None
        guess = constant
        far = (
            f"outputs have a mean of {written(float(outputs.float().mean()))}, targets one of "
            f"{written(float(goal.mean()))} with a standard deviation of {written(float(goal.std(correction=0)))}"
        )
    return Objective(kind, value, own, guess, constant, sign < 0, _find_squashing(kind, node), far)


def _find_squashing(kind: str, node: Any) -> str | None:
    """Return what turned the outputs into probabilities before the criterion did it again, or instead."""
    if kind == "squared error":
        return None
    before = _pass_on(_next(node))
    if kind == "cross-entropy" and type(before).__name__.startswith("LogSoftmax"):
        before = _pass_on(_next(before))
    name = type(before).__name__
    return "softmax" if name.startswith("SoftmaxBackward") else "sigmoid" if name.startswith("Sigmoid") else None


def _next(node: Any) -> Any:
    return node.next_functions[0][0] if node is not None and node.next_functions else None


def _pass_on(node: Any) -> Any:
    for _ in range(MOST_DEPTH):
        if not type(node).__name__.startswith(PASSING):
            break
        node = _next(node)
    return node


def _walk(start: Any) -> Iterator[tuple[Any, int]]:
    """Yield the nodes of a loss, nearest first, each with the sign in which it enters."""
    queue, seen = [(start, 1, 0)], {start}
    while queue and len(seen) < MOST_NODES:
        node, sign, depth = queue.pop(0)
        if node is None or depth > MOST_DEPTH:
            continue
        yield node, sign
        if type(node).__name__ in ENDS:
            continue
        for place, (after, _) in enumerate(node.next_functions):
            if after is not None and after not in seen:
                seen.add(after)
                queue.append((after, sign * _sign_of(node, place), depth + 1))


def _sign_of(node: Any, place: int) -> int:
    """Return −1 if a node turns the sign of what enters at a place."""
    name = type(node).__name__
    if name.startswith("NegBackward") or (name.startswith(("SubBackward", "RsubBackward")) and place == 1):
        return -1
    if name.startswith(("MulBackward", "DivBackward")):
        factor = _read(node, "_saved_other" if place == 0 else "_saved_self")
        if isinstance(factor, Tensor) and factor.numel() == 1 and float(factor) < 0:
            return -1
        if isinstance(factor, int | float) and factor < 0:
            return -1
    return 1


def _read(node: Any, name: str) -> Any:
    try:
        return getattr(node, name, None)
    except RuntimeError:  # freed by an earlier backward pass
        return None
