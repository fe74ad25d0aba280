"""The tables of a probe: modules, folded by block, functions, attention, time steps, parameters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from gradlab.torch.spine import find_spine
from gradlab.torch.statistics import ModuleStatistics

if TYPE_CHECKING:
    import pandas as pd

    from gradlab.torch.records import Records
    from gradlab.torch.results import ProbeResults
    from gradlab.torch.weights import Weight

HIDDEN = ("order", "deltas", "delta_nonfinite", "source")


def tabulate_rows(rows: Iterable[ModuleStatistics]) -> pd.DataFrame:
    """One row per module, in the given order."""
    import pandas as pd

    columns = [each.name for each in fields(ModuleStatistics) if each.name not in HIDDEN]
    return pd.DataFrame([{key: getattr(row, key) for key in columns} for row in rows], columns=columns)


def tabulate_modules(records: Records, *, whole: bool) -> pd.DataFrame:
    """Modules in the order in which they first ended."""
    rows = sorted(records.modules.values(), key=lambda row: row.order)
    return tabulate_rows(row for row in rows if whole or not row.idle)


def tabulate_blocks(probe: ProbeResults) -> pd.DataFrame:
    """Blocks along the network's spine: output, signal, and the extremes of what is inside each."""
    import pandas as pd

    rows = []
    for row in find_spine(probe.model, probe.records):
        inside = [w for w in probe.weights if w.names[0].startswith(f"{row.name}.")]
        children = [m for m in probe.modules.values() if m.name == row.name or m.name.startswith(f"{row.name}.")]
        ratios = [w.update_ratio for w in inside if w.update_ratio is not None and len(w.shape) > 1]
        rows.append(
            {
                "name": row.name,
                "kind": row.kind,
                "modules": len(children),
                "rms": row.rms,
                "spread": row.spread,
                "delta": row.delta,
                "dead": max((m.dead for m in children if not m.idle), default=0.0),
                "grad_l2": _root_of_squares([w.grad_l2 for w in inside if w.grad_l2 is not None]),
                "update_ratio": max(ratios, default=None),
            }
        )
    return pd.DataFrame(rows)


def tabulate_attention(records: Records) -> pd.DataFrame:
    """Attention in the order of its first call."""
    import pandas as pd

    columns = ["name", "keys", "entropy", "largest", "logit"]
    return pd.DataFrame([vars(each) for each in records.attention.values()], columns=columns)


def tabulate_time(records: Records) -> pd.DataFrame:
    """Recurrent modules by time step."""
    import pandas as pd

    rows: list[dict[str, Any]] = []
    for each in records.recurrence.values():
        deltas: Sequence[float | None] = each.delta or [None] * len(each.state)
        pairs = zip(each.state, deltas, strict=True)
        rows += [{"name": each.name, "time": time, "rms": s, "delta": d} for time, (s, d) in enumerate(pairs, 1)]
    return pd.DataFrame(rows, columns=["name", "time", "rms", "delta"])


def tabulate_weights(weights: Iterable[Weight]) -> pd.DataFrame:
    """One row per parameter tensor."""
    import pandas as pd

    rows = [
        {
            "name": " = ".join(weight.names),
            "shape": weight.shape,
            "grad_mean_abs": weight.grad_mean_abs,
            "grad_l2": weight.grad_l2,
            "weight_l2": weight.weight_l2,
            "update_ratio": weight.update_ratio,
            "moved": weight.moved,
            "trainable": weight.trainable,
            "held": weight.held,
        }
        for weight in weights
    ]
    return pd.DataFrame(rows)


def _root_of_squares(values: Sequence[float]) -> float | None:
    return sum(value**2 for value in values) ** 0.5 if values else None
