"""A probed network as numbered layers: the modules that own a weight matrix, in the order they run.

This gives any watched network the figures, tables and claims of a Gradlab network. A module's output is `pre`, the
gradient of that output is δ, and dead units are those of the modules between this layer and the next.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gradlab.trials.outcome import LayerTable

if TYPE_CHECKING:
    from gradlab.torch.probing import ModuleProbe
    from gradlab.torch.statistics import ModuleStatistics
    from gradlab.torch.weights import Weight


@dataclass(frozen=True)
class ProbedLayer:
    """One module with weights, and its measures."""

    name: str
    measures: Mapping[str, float]


def find_layers(probe: ModuleProbe) -> list[ProbedLayer]:
    """Return the layers of a probed network."""
    seen = sorted(probe.modules.values(), key=lambda each: each.order)
    owned = _group_weights(probe, [each.name for each in seen])
    found: list[ProbedLayer] = []
    for place, each in enumerate(seen):
        weights = owned.get(each.name, [])
        if any(len(weight.shape) > 1 for weight in weights):
            until = next((n for n in range(place + 1, len(seen)) if _is_layer(owned, seen[n])), len(seen))
            found.append(ProbedLayer(each.name, _measures(each, weights, seen[place + 1 : until])))
    return found


def layer_table(moments: Sequence[tuple[int, ModuleProbe]]) -> LayerTable:
    """Return the layers at several steps as a layer table; layer 1 is the first that ran at the first moment."""
    numbers: dict[str, int] = {}
    rows: list[tuple[int, int, str, float]] = []
    for step, probe in moments:
        for layer in find_layers(probe):
            number = numbers.setdefault(layer.name, len(numbers) + 1)
            rows += [(step, number, measure, value) for measure, value in layer.measures.items()]
    columns = list(zip(*rows, strict=True)) if rows else [(), (), (), ()]
    steps, layers, measures, values = columns
    return LayerTable(np.array(steps, np.int64), np.array(layers, np.int64), tuple(measures), np.array(values, float))


def _group_weights(probe: ModuleProbe, names: Sequence[str]) -> dict[str, list[Weight]]:
    """Map each module to its parameters; those of a module that was never called belong to its parent."""
    found: dict[str, list[Weight]] = {}
    for weight in probe.weights:
        owner = weight.names[0].rpartition(".")[0] or "(model)"
        while owner not in names and "." in owner:
            owner = owner.rpartition(".")[0]
        found.setdefault(owner, []).append(weight)
    return found


def _is_layer(owned: Mapping[str, Sequence[Weight]], seen: ModuleStatistics) -> bool:
    return any(len(weight.shape) > 1 for weight in owned.get(seen.name, ()))


def _measures(seen: ModuleStatistics, weights: Sequence[Weight], after: Sequence[ModuleStatistics]) -> dict[str, float]:
    matrices = [weight for weight in weights if len(weight.shape) > 1]
    biases = [weight for weight in weights if len(weight.shape) < 2 and weight.names[0].endswith("bias")]
    found: dict[str, float | None] = {
        "grad_l2": _norm([weight.grad_l2 for weight in matrices]),
        "grad_mean_abs": _mean_abs(matrices),
        "bias_grad_l2": _norm([weight.grad_l2 for weight in biases]),
        "update_ratio": _update_ratio(matrices),
        "activation_mean.pre": seen.mean,
        "activation_std.pre": seen.std,
        "dead_share": max((each.dead for each in after if _is_activation(each, seen)), default=None),
        "delta_rms": seen.delta,
        "delta_l2": None if seen.delta is None else seen.delta * math.sqrt(math.prod(seen.shape)),
    }
    return {name: value for name, value in found.items() if value is not None}


def _is_activation(after: ModuleStatistics, layer: ModuleStatistics) -> bool:
    """Whether a module after a layer is its nonlinearity, judged by shape; functional ones are not recorded."""
    return after.shape == layer.shape and "Dropout" not in after.kind and after.kind != "Identity"


def _norm(values: Sequence[float | None]) -> float | None:
    present = [value for value in values if value is not None]
    return math.sqrt(sum(value**2 for value in present)) if present else None


def _mean_abs(weights: Sequence[Weight]) -> float | None:
    present = [
        (weight.grad_mean_abs, math.prod(weight.shape)) for weight in weights if weight.grad_mean_abs is not None
    ]
    return sum(mean * size for mean, size in present) / sum(size for _, size in present) if present else None


def _update_ratio(weights: Sequence[Weight]) -> float | None:
    """‖ΔW‖/‖W‖ over all matrices of a layer; W is taken after the step, which is close enough for a ratio."""
    present = [(weight.update_ratio, weight.weight_l2) for weight in weights if weight.update_ratio is not None]
    size = math.sqrt(sum(weight.weight_l2**2 for weight in weights))
    if not present or not size:
        return None
    return math.sqrt(sum((ratio * norm) ** 2 for ratio, norm in present)) / size


def describe_moment(step: int, probe: ModuleProbe) -> dict[str, Any]:
    """One probed step for the file of a watch: its loss and its layers."""
    table = layer_table([(step, probe)])
    rows = zip(table.layer.tolist(), table.measure, table.value.tolist(), strict=True)
    return {
        "step": step,
        "loss": probe.loss,
        "names": [layer.name for layer in find_layers(probe)],
        "layers": [list(row) for row in rows],
    }
