"""Parameters of many trials in one safetensors file: `TRIAL/STEP/layer3.weight` -> tensor."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from numpy.typing import NDArray

from gradlab.errors import StoreError
from gradlab.trials.result import TrialResult

_CODES = {"<f4": "F32", "<f8": "F64"}
Tensors = Mapping[str, NDArray[Any]]
Snapshots = Mapping[str, Mapping[int, Tensors]]
"""Trial id -> step -> name -> tensor."""


def snapshots_of(results: Iterable[TrialResult]) -> Snapshots:
    """Return all snapshots of these results."""
    recorded = ((r.trial.id, r.outcome.snapshots) for r in results if r.outcome and r.outcome.snapshots)
    return {trial: {snapshot.step: snapshot.tensors for snapshot in kept} for trial, kept in recorded}


def pack(snapshots: Snapshots) -> bytes:
    """Return the snapshots as the bytes of a safetensors file.

    The format is eight bytes of length, a JSON header, and the tensors in sequence. It is written here in one pass,
    because a sweep keeps thousands of small tensors per second; the safetensors library reads it.
    """
    header = ['"__metadata__":{"format":"gradlab","keys":"trial/step/tensor; a weight is (fan_in, fan_out)"}']
    pieces: list[bytes] = []
    start = 0
    for trial, steps in snapshots.items():
        for step, named in steps.items():
            for name, tensor in named.items():
                data = tensor.tobytes()
                shape, end = list(tensor.shape), start + len(data)
                header.append(
                    f'"{trial}/{step}/{name}":{{"dtype":"{_CODES[tensor.dtype.str]}","shape":{shape},'
                    f'"data_offsets":[{start},{end}]}}'
                )
                pieces.append(data)
                start = end
    text = f"{{{','.join(header)}}}".encode()
    text += b" " * (-len(text) % 8)
    return b"".join([len(text).to_bytes(8, "little"), text, *pieces])


def unpack(packed: bytes) -> Snapshots:
    """Return the snapshots in the bytes of a safetensors file, tensors in the order in which they were packed."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        tensors = load(packed)
    except SafetensorError as error:
        raise StoreError(f"the stored parameters cannot be read: {error}") from None
    found: dict[str, dict[int, dict[str, NDArray[Any]]]] = {}
    for key in _packed_order(packed):
        tensor = tensors[key]
        trial, step, name = key.split("/", 2)
        found.setdefault(trial, {}).setdefault(int(step), {})[name] = tensor
    return found


def _packed_order(packed: bytes) -> list[str]:
    """Names by where their tensors lie: the library gives them in any order."""
    header = json.loads(packed[8 : 8 + int.from_bytes(packed[:8], "little")])
    header.pop("__metadata__", None)
    return sorted(header, key=lambda name: header[name]["data_offsets"])
