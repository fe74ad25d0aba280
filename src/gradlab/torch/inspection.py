"""What a pass shows beside the sizes of tensors: how attention attends, how far time reaches, what the loss is.

Attention is measured on a few samples, heads and queries: entropy of its weights, largest logit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from gradlab.torch.statistics import norm
from gradlab.words import written

ARGUMENTS = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale")
"""Of `scaled_dot_product_attention`, in their order."""
SAMPLES, HEADS, QUERIES, KEYS = 2, 4, 16, 2048


@dataclass(frozen=True)
class Attention:
    """One call of attention."""

    name: str
    keys: int
    entropy: float
    """Mean entropy over the logarithm of the number of keys that a query may see: 1 is uniform, 0 one key."""
    largest: float | None
    """Largest weight, on average over queries."""
    logit: float | None
    """Largest absolute logit, where logits were seen."""


def attend_to_weights(name: str, weights: Tensor) -> Attention | None:
    """Measure attention by its weights, of shape (…, queries, keys)."""
    if weights.dim() < 3 or weights.shape[-1] < 2 or weights.shape[-1] > KEYS:
        return None
    if weights.dim() == 3 and weights.shape[-1] != weights.shape[-2] and "att" not in name.lower():
        return None
    few = weights.detach().reshape(-1, *weights.shape[-2:])[: SAMPLES * HEADS]
    return next(iter(_measure([name], few[None, :, :: max(1, few.shape[1] // QUERIES)].float(), [None])), None)


def attend_to_arguments(name: str, arguments: Sequence[Any], options: Mapping[str, Any]) -> Attention | None:
    """Measure a call of `scaled_dot_product_attention` by its queries and keys."""
    given = dict(zip(ARGUMENTS, arguments, strict=False))
    given.update(options)
    query, key, mask = given["query"].detach(), given["key"].detach(), given.get("attn_mask")
    if query.is_nested or query.dim() < 3 or key.shape[-2] < 2 or key.shape[-2] > KEYS:
        return None
    scale = given.get("scale") or query.shape[-1] ** -0.5
    q, k = (_few(tensor) for tensor in (query, key))
    k = k.repeat_interleave(-(-q.shape[1] // k.shape[1]), 1)[:, : q.shape[1]] if q.dim() > 3 else k
    stride = max(1, q.shape[-2] // QUERIES)
    logits = q.float()[..., ::stride, :] @ k.float().transpose(-1, -2) * scale
    if given.get("is_causal"):
        allowed = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device).tril()[::stride]
        logits = logits.masked_fill(~allowed, -math.inf)
    if isinstance(mask, Tensor):
        few = _few(mask.detach())
        few = few[..., ::stride, :] if few.shape[-2] == query.shape[-2] else few
        logits = logits.masked_fill(~few, -math.inf) if few.dtype == torch.bool else logits + few
    return next(iter(_from_logits([name], logits[None])), None)


class Heads(NamedTuple):
    """Queries and keys of a few samples and heads, of shape (samples, heads, tokens, features)."""

    name: str
    queries: Tensor
    keys: Tensor
    mask: Tensor | None


def project_heads(module: nn.MultiheadAttention, name: str, query: Tensor, key: Tensor, mask: Any) -> Heads | None:
    """Project a few inputs of `nn.MultiheadAttention` again."""
    if module.in_proj_weight is None or query.is_nested or query.dim() != 3:
        return None
    if not module.batch_first:
        query, key = query.transpose(0, 1), key.transpose(0, 1)
    if key.shape[1] < 2 or key.shape[1] > KEYS:
        return None
    width, size = module.embed_dim, module.embed_dim // module.num_heads
    weight, bias, few = module.in_proj_weight.detach(), module.in_proj_bias, min(HEADS, module.num_heads) * size
    stride = max(1, query.shape[1] // QUERIES)
    first, second = (None, None) if bias is None else (bias.detach()[:few], bias.detach()[width : width + few])
    q = nn.functional.linear(query.detach()[:SAMPLES, ::stride].to(weight.dtype), weight[:few], first)
    k = nn.functional.linear(key.detach()[:SAMPLES].to(weight.dtype), weight[width : width + few], second)
    q, k = (projected.float().unflatten(-1, (-1, size)).transpose(1, 2) for projected in (q, k))
    rows = mask.detach()[::stride] if isinstance(mask, Tensor) and mask.dim() == 2 else None
    return Heads(name, q, k, rows)


def attend_to_heads(heads: Sequence[Heads]) -> list[Attention]:
    """Measure attention by queries and keys, all of one shape at once."""
    alike: dict[tuple[object, ...], list[Heads]] = {}
    for each in heads:
        kind = (each.queries.shape, each.keys.shape, each.queries.device, each.name if each.mask is not None else None)
        alike.setdefault(kind, []).append(each)
    measured: list[Attention] = []
    for group in alike.values():
        queries, keys = (torch.stack(each) for each in zip(*((h.queries, h.keys) for h in group), strict=True))
        logits = queries @ keys.transpose(-1, -2) * queries.shape[-1] ** -0.5
        mask = group[0].mask
        if mask is not None:
            logits = logits.masked_fill(mask, -math.inf) if mask.dtype == torch.bool else logits + mask
        measured += _from_logits([each.name for each in group], logits)
    return measured


def _few(tensor: Tensor) -> Tensor:
    return tensor[:SAMPLES, :HEADS] if tensor.dim() > 3 else tensor[:SAMPLES]


def _from_logits(names: Sequence[str], logits: Tensor) -> list[Attention]:
    """Measure logits, of shape (calls, …, queries, keys)."""
    sizes = logits.masked_fill(logits == -math.inf, 0.0).abs().flatten(1).amax(1).tolist()
    return _measure(names, torch.softmax(logits, -1), [size if math.isfinite(size) else None for size in sizes])


def _measure(names: Sequence[str], weights: Tensor, logits: Sequence[float | None]) -> list[Attention]:
    """Measure weights, of shape (calls, …, queries, keys); a query whose keys are all masked has none."""
    entropy, largest = torch.special.entr(weights).sum(-1).flatten(1), weights.amax(-1).flatten(1)
    means, peaks = entropy.mean(1).tolist(), largest.mean(1).tolist()
    measured = []
    for place, (name, logit) in enumerate(zip(names, logits, strict=True)):
        mean, peak = means[place], peaks[place]
        if not math.isfinite(mean):
            usual = torch.isfinite(entropy[place])
            if not usual.any():
                continue
            mean, peak = float(entropy[place][usual].mean()), float(largest[place][usual].mean())
        measured.append(Attention(name, int(weights.shape[-1]), mean / math.log(weights.shape[-1]), peak, logit))
    return measured


# Recurrent modules by time step: how the state grows, and how far the gradient reaches back.
#
# PyTorch runs all time steps in one call, so that neither is visible from outside. A few samples are run again, step by
# step, beside the pass: with the module's own weights, without its hooks, and without touching any gradient.

RERUN_SAMPLES, RERUN_STEPS = 4, 128
"""The most samples and time steps that are run again: the last ones of a longer sequence."""


@dataclass(frozen=True)
class Recurrence:
    """One recurrent module over its time steps."""

    name: str
    state: tuple[float, ...]
    """Root mean square of the state at every time step."""
    delta: tuple[float, ...]
    """Norm of the gradient of the loss for the state at every time step, through all later ones."""


def growth_of_state(name: str, module: Any, output: Tensor) -> Recurrence | None:
    """Return the size of the output at every time step."""
    if not isinstance(output, Tensor) or output.dim() != 3:
        return None
    by_time = output.detach() if not module.batch_first else output.detach().transpose(0, 1)
    few = by_time[:, :RERUN_SAMPLES].float()
    sizes = torch.linalg.vector_norm(few.flatten(1), dim=1) / math.sqrt(max(1, few[0].numel()))
    return Recurrence(name, tuple(sizes.tolist()), ())


def reach_of_gradient(name: str, module: Any, inputs: Tensor, gradient: Tensor) -> Recurrence | None:
    """Return the gradient for the state at every time step, given that for the outputs."""
    if module.bidirectional or inputs.dim() != 3 or getattr(module, "proj_size", 0):
        return None
    entries, above = inputs.detach(), gradient.detach()
    if module.batch_first:
        entries, above = entries.transpose(0, 1), above.transpose(0, 1)
    entries, above = entries[-RERUN_STEPS:, :RERUN_SAMPLES], above[-RERUN_STEPS:, :RERUN_SAMPLES]
    if len(entries) < 8:
        return None
    with torch.enable_grad(), torch.random.fork_rng(devices=[]):
        outputs, states, state = [], [], None
        for entry in entries:
            entry = entry[None].transpose(0, 1) if module.batch_first else entry[None]
            output, state = type(module).forward(module, entry.contiguous(), state)
            outputs.append(output.reshape(output.shape[-3] * output.shape[-2], -1) if output.dim() == 3 else output)
            states.append(state if isinstance(state, tuple) else (state,))
        wanted = [tensor for pair in states for tensor in pair]
        gradients = torch.autograd.grad(
            outputs, wanted, [g.reshape_as(o) for g, o in zip(above, outputs, strict=True)], allow_unused=True
        )
    width = len(states[0])
    sizes = []
    for place in range(len(states)):
        parts = gradients[place * width : (place + 1) * width]
        later = (0.0 if part is None else norm(part) for part in parts)
        sizes.append(math.hypot(norm(above[place]), *later))
    rows = [float(torch.linalg.vector_norm(o.detach().float())) / math.sqrt(max(1, o.numel())) for o in outputs]
    return Recurrence(name, tuple(rows), tuple(sizes))


# What a loss is, read from the graph it was computed by: which criterion, of what, against which targets.
#
# Nothing is called again. The nodes next to the loss keep the outputs and targets that they need for the backward pass;
# from these come the loss of an answer without any knowledge, and what was done to the outputs last.

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
    far = ""
    if kind == "cross-entropy":
        classes = outputs.shape[1] if outputs.dim() > 1 else outputs.shape[0]
        kept = target.flatten()[target.flatten() != node._saved_ignore_index]
        guess = math.log(classes)
        if kept.numel():
            rows = outputs.movedim(1, -1).reshape(-1, classes) if outputs.dim() > 1 else outputs[None]
            picked = rows[(target.flatten() != node._saved_ignore_index).nonzero()[:, 0][:4096]]
            own = float(-picked.float().gather(1, kept[:4096, None]).mean())
    elif kind == "binary cross-entropy":
        guess = math.log(2)
        own = float(torch.nn.functional.binary_cross_entropy_with_logits(outputs.float(), target.float()))
    else:
        goal = target.float()
        own = float((outputs.float() - goal).square().mean())
        guess = float(goal.var(0, correction=0).mean()) if goal.dim() and len(goal) > 1 else None
        far = (
            f"outputs have a mean of {written(float(outputs.float().mean()))}, targets one of "
            f"{written(float(goal.mean()))} with a standard deviation of {written(float(goal.std(correction=0)))}"
        )
    return Objective(kind, value, own, guess, sign < 0, _find_squashing(kind, node), far)


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
