"""A probed network in the lab's own terms: layers are the modules that own a weight matrix, in the order they run.

So whatever was watched has the figures, tables and claims of a network of the lab: what a module computes is `pre`,
the gradient of that is δ, and dead units are those of the modules that follow it until the next layer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gradlab.trials.outcome import LayerTable

if TYPE_CHECKING:
    from gradlab.torch.probing import ModuleProbe, Weight
    from gradlab.torch.seeing import Seen


@dataclass(frozen=True)
class ProbedLayer:
    """One module with weights, and what was measured there."""

    name: str
    measures: Mapping[str, float]


def layers_of(probe: ModuleProbe) -> list[ProbedLayer]:
    """The layers of the network that a probe has seen."""
    seen = sorted(probe.seen.values(), key=lambda each: each.order)
    owned = _owned(probe, [each.name for each in seen])
    found: list[ProbedLayer] = []
    for place, each in enumerate(seen):
        weights = owned.get(each.name, [])
        if any(len(weight.shape) > 1 for weight in weights):
            until = next((n for n in range(place + 1, len(seen)) if _is_layer(owned, seen[n])), len(seen))
            found.append(ProbedLayer(each.name, _measures(each, weights, seen[place + 1 : until])))
    return found


def layer_table(moments: Sequence[tuple[int, ModuleProbe]]) -> LayerTable:
    """Layers at several steps, as a trial of the lab keeps them; layer 1 is the first that ran at the first moment."""
    numbers: dict[str, int] = {}
    rows: list[tuple[int, int, str, float]] = []
    for step, probe in moments:
        for layer in layers_of(probe):
            number = numbers.setdefault(layer.name, len(numbers) + 1)
            rows += [(step, number, measure, value) for measure, value in layer.measures.items()]
    columns = list(zip(*rows, strict=True)) if rows else [(), (), (), ()]
    steps, layers, measures, values = columns
    return LayerTable(np.array(steps, np.int64), np.array(layers, np.int64), tuple(measures), np.array(values, float))


def _owned(probe: ModuleProbe, names: Sequence[str]) -> dict[str, list[Weight]]:
    """Module -> its parameters; those of a module that was never called belong to the one around it."""
    found: dict[str, list[Weight]] = {}
    for weight in probe.weights:
        owner = weight.names[0].rpartition(".")[0] or "(model)"
        while owner not in names and "." in owner:
            owner = owner.rpartition(".")[0]
        found.setdefault(owner, []).append(weight)
    return found


def _is_layer(owned: Mapping[str, Sequence[Weight]], seen: Seen) -> bool:
    return any(len(weight.shape) > 1 for weight in owned.get(seen.name, ()))


def _measures(seen: Seen, weights: Sequence[Weight], after: Sequence[Seen]) -> dict[str, float]:
    matrices = [weight for weight in weights if len(weight.shape) > 1]
    biases = [weight for weight in weights if len(weight.shape) < 2 and weight.names[0].endswith("bias")]
    found: dict[str, float | None] = {
        "grad_l2": _norm([weight.grad_l2 for weight in matrices]),
        "grad_mean_abs": _mean_abs(matrices),
        "bias_grad_l2": _norm([weight.grad_l2 for weight in biases]),
        "update_ratio": _moved(matrices),
        "activation_mean.pre": seen.mean,
        "activation_std.pre": seen.std,
        "dead_share": max((each.dead for each in after if _acts(each, seen)), default=None),
        "delta_rms": seen.delta,
        "delta_l2": None if seen.delta is None else seen.delta * math.sqrt(math.prod(seen.shape)),
    }
    return {name: value for name, value in found.items() if value is not None}


def _acts(after: Seen, layer: Seen) -> bool:
    """Whether a module after a layer is its nonlinearity, as far as shapes tell; a functional one is not seen."""
    return after.shape == layer.shape and "Dropout" not in after.kind and after.kind != "Identity"


def _norm(values: Sequence[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return math.sqrt(sum(value**2 for value in there)) if there else None


def _mean_abs(weights: Sequence[Weight]) -> float | None:
    there = [(weight.grad_mean_abs, math.prod(weight.shape)) for weight in weights if weight.grad_mean_abs is not None]
    return sum(mean * size for mean, size in there) / sum(size for _, size in there) if there else None


def _moved(weights: Sequence[Weight]) -> float | None:
    """‖ΔW‖/‖W‖ of all matrices of a layer together; W as it was after the step, which is close enough for a ratio."""
    there = [(weight.update_ratio, weight.weight_l2) for weight in weights if weight.update_ratio is not None]
    size = math.sqrt(sum(weight.weight_l2**2 for weight in weights))
    if not there or not size:
        return None
    return math.sqrt(sum((ratio * norm) ** 2 for ratio, norm in there)) / size
