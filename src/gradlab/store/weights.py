"""Parameters of many trials in one safetensors file: `TRIAL/STEP/layer3.weight` -> tensor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.execute.base import TrialResult

Tensors = Mapping[str, NDArray[Any]]
Snapshots = Mapping[str, Mapping[int, Tensors]]
"""Trial id -> step -> name -> tensor."""


def snapshots_of(results: Iterable[TrialResult]) -> Snapshots:
    """All parameters that these results keep."""
    there = ((r.trial.id, r.outcome.snapshots) for r in results if r.outcome and r.outcome.snapshots)
    return {trial: {snapshot.step: snapshot.tensors for snapshot in kept} for trial, kept in there}


def pack(snapshots: Snapshots) -> bytes:
    """All of them as the bytes of a file."""
    from safetensors.numpy import save

    tensors = {
        f"{trial}/{step}/{name}": np.ascontiguousarray(tensor)
        for trial, steps in snapshots.items()
        for step, named in steps.items()
        for name, tensor in named.items()
    }
    packed: bytes = save(
        tensors, metadata={"format": "gradlab", "keys": "trial/step/tensor; weights are (fan_in, fan_out)"}
    )
    return packed


def unpack(packed: bytes) -> Snapshots:
    """The snapshots in the bytes of a file."""
    from safetensors.numpy import load

    found: dict[str, dict[int, dict[str, NDArray[Any]]]] = {}
    for key, tensor in load(packed).items():
        trial, step, name = key.split("/", 2)
        found.setdefault(trial, {}).setdefault(int(step), {})[name] = tensor
    return found
