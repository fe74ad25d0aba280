"""The signal that goes forward: activations by place."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from gradlab.probes.base import LayerView, Probe
from gradlab.spec.metric import Kind


class Activations(Probe):
    """Mean and standard deviation over batch and units, at `pre` (before the nonlinearity), `post` and `stream`."""

    name = "activations"
    measures = tuple(f"activation_{what}.{place}" for place in ("pre", "post", "stream") for what in ("mean", "std"))
    kinds: ClassVar[Mapping[str, Kind]] = {
        **{f"activation_mean.{place}": "signed" for place in ("pre", "post", "stream")},
        **{f"activation_std.{place}": "size" for place in ("pre", "post", "stream")},
    }
    labels: ClassVar[Mapping[str, str]] = {
        "activation_std.pre": "spread before the nonlinearity",
        "activation_std.post": "spread after the nonlinearity",
        "activation_std.stream": "spread of the residual stream",
        "activation_mean.pre": "mean before the nonlinearity",
        "activation_mean.post": "mean after the nonlinearity",
        "activation_mean.stream": "mean of the residual stream",
    }

    def measure(self, layer: LayerView) -> Mapping[str, float]:
        """`stream` only where a block (or the stem) ends."""
        numbers = {}
        for place, values in (("pre", layer.pre), ("post", layer.post), ("stream", layer.stream)):
            if values is not None:
                exact = values.ravel().astype(np.float64)
                mean = exact.sum() / exact.size
                exact -= mean
                numbers[f"activation_mean.{place}"] = float(mean)
                numbers[f"activation_std.{place}"] = math.sqrt(exact @ exact / exact.size)
        return numbers
