"""What two models are made of: layers, initial values, norms, dropout, precision, mode, hooks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from torch.nn.utils import parametrize

import torch
from gradlab.audits.factories.arms import Arm
from gradlab.audits.factories.matching import LAYER, NORM, Matched, Slot, buffers_of, is_norm, match, parameters_of
from gradlab.audits.factories.points import Point, listed, lists, plain
from gradlab.audits.traits import Trait, describe_difference, find_tensor_differences, fingerprint, hash_together
from torch import Tensor, nn

DEVIATIONS = 5.0
"""Two draws have one scale if their root mean squares agree within so many standard errors."""
LAYERS, NORMS, DROPOUT, PRECISION = "layers", "normalization", "dropout", "precision and device"
FROZEN, FORWARD_HOOKS, GRADIENT_HOOKS, BUFFERS = "frozen parameters", "forward hooks", "gradient hooks", "buffers"
FORWARD_HOOK_KINDS = {
    "_forward_pre_hooks": "forward pre-hook",
    "_forward_hooks": "forward hook",
    "_backward_hooks": "backward hook",
    "_backward_pre_hooks": "backward pre-hook",
}


def structure_points(a: Arm, b: Arm, names: tuple[str, str]) -> Iterator[Point]:
    """Everything that can be read off the two models without running them."""
    ours, theirs = parameters_of(a.model), parameters_of(b.model)
    matched = match(ours, theirs)
    yield _layers(ours, theirs, matched, names)
    layers = [pair for pair in matched.pairs if pair[0].kind != NORM]
    for trait, chosen in (
        ("initial weights", [pair for pair in layers if pair[0].tensor.dim() > 1]),
        ("initial biases and scales", [pair for pair in layers if pair[0].tensor.dim() < 2]),
    ):
        if chosen:
            yield _values(trait, chosen, names, "init")
    yield _norms(a.model, b.model, matched, names)
    yield lists(DROPOUT, list(_drops(a.model)), list(_drops(b.model)), names, "dropout", "model")
    yield _buffers(a.model, b.model, names)
    yield plain(PRECISION, _places(ours), _places(theirs), names, "precision")
    yield plain("mode", _mode(a.model), _mode(b.model), names, "mode")
    renamed = matched.renamed()
    frozen = [
        [
            renamed.get(slot.name, slot.name) if own is theirs else slot.name
            for slot in own
            if not slot.tensor.requires_grad
        ]
        for own in (ours, theirs)
    ]
    yield lists(FROZEN, frozen[0], frozen[1], names, "frozen")
    wrapped = [sorted(_parametrizations(model)) for model in (a.model, b.model)]
    yield lists("parametrizations", wrapped[0], wrapped[1], names, "model")
    hooks = [list(_module_hooks(model)) for model in (a.model, b.model)]
    yield lists(FORWARD_HOOKS, hooks[0], hooks[1], names, "model")
    grads = [list(_tensor_hooks(own, renamed if own is theirs else {})) for own in (ours, theirs)]
    yield lists(GRADIENT_HOOKS, grads[0], grads[1], names, "clip")


def _layers(ours: list[Slot], theirs: list[Slot], matched: Matched, names: tuple[str, str]) -> Point:
    def words(own: list[Slot]) -> str:
        layers = [slot for slot in own if slot.kind == LAYER]
        return f"{len(layers)} tensors, {sum(slot.tensor.numel() for slot in layers):,} parameters"

    def shown(slots: tuple[Slot, ...]) -> list[str]:
        return [f"{slot.name} {tuple(slot.tensor.shape)}" for slot in slots if slot.kind == LAYER]

    only = [shown(matched.only_first), shown(matched.only_second)]
    parts = [f"only {name} has {listed(own)}" for name, own in zip(names, only, strict=True) if own]
    values = [repr([tuple(s.tensor.shape) for s in own if s.kind == LAYER]) for own in (ours, theirs)]
    return Point(
        LAYERS,
        (words(ours), words(theirs)),
        "; ".join(parts) or None,
        frozenset({"model"}),
        ("parametrizations",),
        (values[0], values[1]),
    )


def _values(trait: str, pairs: list[tuple[Slot, Slot]], names: tuple[str, str], *factors: str) -> Point:
    """Initial values, tensor by tensor under the first arm's names."""
    first = _trait(trait, {a.name: a.tensor for a, _ in pairs})
    second = _trait(trait, {a.name: b.tensor for a, b in pairs})
    difference, explained = None, set(factors)
    if not first.same(second):
        difference = describe_difference(trait, first, second, *names).removeprefix(f"{trait}: ")
        apart = find_tensor_differences(first.tensors, second.tensors)
        if all(_same_scale(first.tensors[each.name], second.tensors[each.name]) for each in apart):
            explained |= {"seed", "model", "norm", "skip", "activation", "data"}  # other draws of one distribution
    return Point(
        trait, (first.words, second.words), difference, frozenset(explained), values=(first.value, second.value)
    )


def _trait(name: str, tensors: dict[str, Tensor]) -> Trait:
    arrays = {key: array(tensor) for key, tensor in tensors.items()}
    flat = np.concatenate([values.ravel() for values in arrays.values()]).astype(np.float64)
    words = "all 0" if not flat.any() else f"root mean square {float(np.sqrt(np.mean(flat**2))):.4g}"
    return Trait(name, hash_together([fingerprint(values) for values in arrays.values()]), words, arrays)


def array(tensor: Tensor) -> Any:
    """A copy as an array; half precision as float32."""
    plain = tensor.detach().cpu().clone()
    return (plain.float() if plain.dtype in (torch.bfloat16, torch.float16) else plain).numpy()


def _same_scale(x: Any, y: Any) -> bool:
    """Whether two tensors look like two draws of one distribution: neither constant, means and scales agree."""
    a, b = x.astype(np.float64).ravel(), y.astype(np.float64).ravel()
    if a.size < 2 or np.ptp(a) == 0 or np.ptp(b) == 0 or not (np.isfinite(a).all() and np.isfinite(b).all()):
        return False
    spread = np.sqrt((a.var() + b.var()) / a.size)
    fourth = np.sqrt((np.var((a - a.mean()) ** 2) + np.var((b - b.mean()) ** 2)) / a.size)
    means = abs(a.mean() - b.mean()) <= DEVIATIONS * spread
    return bool(means and abs(a.var() - b.var()) <= DEVIATIONS * fourth)


def _norms(a: nn.Module, b: nn.Module, matched: Matched, names: tuple[str, str]) -> Point:
    """Norm modules with their settings, initial values and buffers."""
    found = lists(NORMS, norm_words(a), norm_words(b), names, "norm", "model")
    held = [pair for pair in match(buffers_of(a), buffers_of(b)).pairs if pair[0].kind == NORM]
    pairs = [pair for pair in matched.pairs if pair[0].kind == NORM] + held
    if found.difference is None and pairs:
        values = _values("values", pairs, names)
        return replace(found, difference=values.difference and f"initial values: {values.difference}")
    return found


def norm_words(model: nn.Module) -> list[str]:
    """Every norm module with its settings, in order."""
    return [" ".join(repr(module).split()) for module in model.modules() if is_norm(module)]


def _drops(model: nn.Module) -> Iterator[str]:
    """Every rate of dropout that is not 0, also inside attention and recurrent modules."""
    for module in model.modules():
        rate = getattr(module, "p", None) if "Drop" in type(module).__name__ else getattr(module, "dropout", None)
        if isinstance(rate, int | float) and not isinstance(rate, bool) and rate:
            yield f"{type(module).__name__}({rate:g})"


def _buffers(a: nn.Module, b: nn.Module, names: tuple[str, str]) -> Point:
    ours = [slot for slot in buffers_of(a) if slot.kind != NORM]
    theirs = [slot for slot in buffers_of(b) if slot.kind != NORM]
    matched = match(ours, theirs)
    parts = [
        f"only {name} has {listed(slot.name for slot in own)}"
        for name, own in zip(names, (matched.only_first, matched.only_second), strict=True)
        if own
    ]
    if matched.pairs:
        values = _values(BUFFERS, list(matched.pairs), names)
        parts += [values.difference] if values.difference else []
    hashes = [hash_together([fingerprint(array(slot.tensor)) for slot in own]) for own in (ours, theirs)]
    cells = [f"{len(own)} tensors" if own else "none" for own in (ours, theirs)]
    return Point(
        BUFFERS, (cells[0], cells[1]), "; ".join(parts) or None, frozenset({"model"}), values=(hashes[0], hashes[1])
    )


def _places(slots: list[Slot]) -> str:
    return ", ".join(dict.fromkeys(f"{s.tensor.dtype} on {s.tensor.device}".replace("torch.", "") for s in slots))


def _mode(model: nn.Module) -> str:
    others = [name for name, module in model.named_modules() if module.training != model.training]
    mode = "training" if model.training else "evaluation"
    return f"{mode}, but not {listed(others)}" if others else mode


def _parametrizations(model: nn.Module) -> Iterator[str]:
    for name, module in model.named_modules():
        if parametrize.is_parametrized(module):
            for tensor, how in module.parametrizations.items():
                kinds = " and ".join(type(each).__name__.strip("_") for each in how)
                yield f"{kinds} of {name}.{tensor}" if name else f"{kinds} of {tensor}"


def _module_hooks(model: nn.Module) -> Iterator[str]:
    for name, module in model.named_modules():
        for attribute, kind in FORWARD_HOOK_KINDS.items():
            for hook in (getattr(module, attribute, None) or {}).values():
                yield f"{kind} on {name or 'the model'} ({hook_name(hook)})"


def _tensor_hooks(slots: list[Slot], renamed: dict[str, str]) -> Iterator[str]:
    for slot in slots:
        every = {
            **(slot.tensor._backward_hooks or {}),
            **(getattr(slot.tensor, "_post_accumulate_grad_hooks", None) or {}),
        }
        for hook in every.values():
            yield f"on {renamed.get(slot.name, slot.name)} ({hook_name(hook)})"


def hook_name(hook: Any) -> str:
    """What a hook is called, without where it was defined."""
    name = getattr(hook, "__name__", None) or type(hook).__name__
    return str(name).strip("<>")
