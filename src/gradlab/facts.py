"""Facts: what is known about an arm, a layer or a module, before anybody says it.

A finding of the probe, a caveat of an audit, a remark of a report and the state of a network in the live lab are all
the same thing: a code for programs, a subject, numbers, a severity, and one sentence for people. Programs read the
codes (`--json`); readers print the sentences and never take them apart again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Severity = Literal["problem", "caution", "note"]
"""`problem`: something is wrong, or a comparison is invalid. `caution`: it limits what can be concluded. `note`: it may
be meant."""

VANISHING = 100.0
"""How many times a signal must shrink (or grow) from one end of a network of the lab to the other to be called
vanishing (exploding). All layers are alike and all are measured, so two decades are a trend and not chance."""
VANISHING_ANYWHERE = 1e4
"""The same for anybody's network: stems, heads, pools and norms of other sizes move a signal by two decades without
harm, and an alarm there would be false."""


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
