"""Facts: what is known about an arm, a layer or a module, before anybody says it.

A finding of the probe, a caveat of an audit, a remark of a report and the state of a network in the live lab are all
the same thing: a code for programs, a subject, numbers, a severity, and one sentence for people. Programs read the
codes (`--json`); readers print the sentences and never take them apart again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Severity = Literal["problem", "caution", "note"]
"""`problem`: something is wrong, or a comparison is invalid. `caution`: it limits what can be concluded. `note`: it may
be meant."""

VANISHING = 100.0
"""How many times a signal must shrink (or grow) from one end of a network of the lab to the other to be called
vanishing (exploding). All layers are alike and all are measured, so two decades are a trend and not chance."""
VANISHING_ANYWHERE = 1e4
"""The same for anybody's network: stems, heads, pools and norms of other sizes move a signal by two decades without
harm, and an alarm there would be false."""
DEAD = 0.5
"""Share of dead units (slope 0 on the whole probe batch) of a network of the lab from which on it is told."""
DEAD_ANYWHERE = SATURATED = 0.9
"""Share of dead or saturated units of one module of anybody's network: half of the units of a ReLU are often 0."""
EVEN = 1.15
"""Two sizes closer than this factor are the same."""


@dataclass(frozen=True)
class Fact:
    """One thing that is known."""

    code: str
    """Stable, for programs: `vanishing_gradients`."""
    words: str
    """One sentence for people, or several."""
    subject: str = ""
    """The arm, layer, module or setting that it is about."""
    severity: Severity = "caution"
    numbers: Mapping[str, float] = field(default_factory=dict)
    """What it rests on, by name."""

    def to_json(self) -> dict[str, Any]:
        """As programs read it."""
        return asdict(self)


@dataclass(frozen=True)
class Gain:
    """How a size changes from the first hidden layer to the last (of δ, from the last to the first)."""

    per_layer: float
    """The factor over the layers in which it is neither 0 nor infinite."""
    in_all: float
    layers: int

    @property
    def even(self) -> bool:
        """Whether it is the same at both ends."""
        return 1 / EVEN < self.in_all < EVEN

    @property
    def nearly_even(self) -> bool:
        """Whether one layer changes it little, however many layers do."""
        return 1 / EVEN <= self.per_layer <= EVEN

    @property
    def size(self) -> float:
        """How many times larger one end is than the other."""
        return max(self.in_all, 1 / self.in_all) if self.in_all > 0 else math.inf

    @property
    def vanishes(self) -> bool:
        """Whether little of it is left at the end, in a network of the lab."""
        return self.in_all < 1 / VANISHING

    @property
    def explodes(self) -> bool:
        """Whether it is far larger at the end, in a network of the lab."""
        return self.in_all > VANISHING
