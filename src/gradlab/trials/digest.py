"""A short hash of a trial's results: equal digests mean equal bits."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.spec.metric import infer
from gradlab.trials.outcome import Outcome


def _is_wall_time(name: str) -> bool:
    """Numbers that say how long something took are not part of a result's bits."""
    return infer(name).kind == "time"


def digest(trial: str, outcome: Outcome | None, error: str | None) -> str:
    """Hash the trial's id, status, metrics, curves, layer measures and kept parameters, without wall times."""
    status = "failed" if outcome is None else outcome.status
    pieces: list[bytes] = [f"{trial} {status} {error}".encode()]
    if outcome is not None:
        pieces += [f"{name} {value!r}".encode() for name, value in outcome.metrics.items() if not _is_wall_time(name)]
        for curve in outcome.curves:
            if not _is_wall_time(curve.metric):
                pieces += [curve.metric.encode(), _bytes(curve.steps), _bytes(curve.values)]
        layers = outcome.layers
        pieces += [" ".join(layers.measure).encode(), _bytes(layers.step), _bytes(layers.layer), _bytes(layers.value)]
        for kept in outcome.snapshots:
            pieces += [f"{kept.step} {kept.theta.dtype} {len(kept.theta)}".encode(), _bytes(kept.theta)]
            pieces += [piece for name, values in kept.running.items() for piece in (name.encode(), _bytes(values))]
    return sha256(b"\n".join(pieces)).hexdigest()[:16]


def _bytes(values: NDArray[Any]) -> bytes:
    return np.ascontiguousarray(values).tobytes()
