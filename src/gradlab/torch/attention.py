"""How attention attends: entropy of its weights, largest logit; measured on a few samples, heads and queries."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

ARGUMENTS = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale")
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
    return _measure(name, few[:, :: max(1, few.shape[1] // QUERIES)].float(), None)


def attend_to_arguments(name: str, arguments: Sequence[Any], options: Mapping[str, Any]) -> Attention | None:
    """Measure a call of `scaled_dot_product_attention` by its queries and keys."""
    given = dict(
        zip(("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale"), arguments, strict=False)
    )
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
    return _from_logits(name, logits)


def attend_to_module(
    module: nn.MultiheadAttention, name: str, query: Tensor, key: Tensor, mask: Any
) -> Attention | None:
    """Measure `nn.MultiheadAttention` by projecting a few of its inputs again."""
    if module.in_proj_weight is None or query.is_nested or query.dim() != 3:
        return None
    if not module.batch_first:
        query, key = query.transpose(0, 1), key.transpose(0, 1)
    if key.shape[1] < 2 or key.shape[1] > KEYS:
        return None
    width, heads = module.embed_dim, module.num_heads
    bias = module.in_proj_bias if module.in_proj_bias is not None else torch.zeros(3 * width, device=query.device)
    weight, few = module.in_proj_weight.detach(), min(HEADS, heads) * (width // heads)
    stride = max(1, query.shape[1] // QUERIES)
    few_query, few_key = query.detach()[:SAMPLES, ::stride], key.detach()[:SAMPLES]
    q = nn.functional.linear(few_query.to(weight.dtype), weight[:few], bias.detach()[:few])
    k = nn.functional.linear(few_key.to(weight.dtype), weight[width : width + few], bias.detach()[width : width + few])
    q, k = (each.float().unflatten(-1, (-1, width // heads)).transpose(1, 2) for each in (q, k))
    logits = q @ k.transpose(-1, -2) * (width // heads) ** -0.5
    if isinstance(mask, Tensor) and mask.dim() == 2:
        rows = mask.detach()[::stride]
        logits = logits.masked_fill(rows, -math.inf) if rows.dtype == torch.bool else logits + rows
    return _from_logits(name, logits)


def _few(tensor: Tensor) -> Tensor:
    return tensor[:SAMPLES, :HEADS] if tensor.dim() > 3 else tensor[:SAMPLES]


def _from_logits(name: str, logits: Tensor) -> Attention | None:
    seen = logits.masked_fill(logits == -math.inf, 0.0).abs().amax()
    return _measure(name, torch.softmax(logits, -1).flatten(0, -3), float(seen) if math.isfinite(float(seen)) else None)


def _measure(name: str, weights: Tensor, logit: float | None) -> Attention | None:
    entropy, largest = torch.special.entr(weights).sum(-1), weights.amax(-1)
    if not math.isfinite(float(entropy.sum())):  # a query whose keys are all masked has no weights
        usual = torch.isfinite(entropy)
        entropy, largest = entropy[usual], largest[usual]
    if not entropy.numel():
        return None
    mean = float(entropy.mean()) / math.log(weights.shape[-1])
    return Attention(name, int(weights.shape[-1]), mean, float(largest.mean()), logit)
