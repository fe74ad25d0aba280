"""The contract of a probe."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gradlab.probes.base import LayerView, Probe
from gradlab.testing.base import Check, check, random, require, unchanged

KNOWN = {"backward", "update"}


def checks(part: Probe) -> Iterator[Check]:
    """It reads only what it declares, names what it gives, changes nothing."""

    def view(full: bool) -> LayerView:
        """A layer; without `full`, what the probe did not ask for is not there."""
        backward, update = full or "backward" in part.needs, full or "update" in part.needs
        pre = random((6, 4))
        return LayerView(
            number=2,
            weight=random((3, 4), 1),
            weight_gradient=random((3, 4), 2) if backward else None,
            bias_gradient=random((4,), 3) if backward else None,
            delta=random((6, 4), 4) if backward else None,
            pre=pre,
            post=np.maximum(pre, 0),
            stream=random((6, 4), 5),
            slope=(pre > 0).astype(float),
            update=random((3, 4), 6) if update else None,
        )

    def declared() -> None:
        require(set(part.needs) <= KNOWN, f"needs {sorted(part.needs)}; there are {sorted(KNOWN)}")
        numbers = part.measure(view(full=False))
        extra = set(numbers) - set(part.measures)
        require(not extra, f"gives {sorted(extra)}, which `measures` does not name")
        for where, names in (("labels", part.labels), ("kinds", part.kinds)):
            unknown = set(names) - set(part.measures)
            require(not unknown, f"`{where}` names {sorted(unknown)}, which `measures` does not")

    def finite() -> None:
        for name, value in part.measure(view(full=True)).items():
            require(isinstance(value, float) and np.isfinite(value), f"{name} of an ordinary layer is {value!r}")

    def pure() -> None:
        layer = view(full=True)
        arrays = [value for value in vars(layer).values() if isinstance(value, np.ndarray)]
        unchanged(arrays, lambda: part.measure(layer))

    yield check("needs and measures are declared", declared)
    yield check("gives finite floats for an ordinary layer", finite)
    yield check("does not change what it measures", pure)
