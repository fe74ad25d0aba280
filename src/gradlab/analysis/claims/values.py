"""The numbers a claim rests on, seed by seed."""

from __future__ import annotations

from dataclasses import dataclass

from gradlab.analysis.measured import Measured
from gradlab.analysis.sample import Sample, divided, pooled
from gradlab.spec.place import At, describe_layer


@dataclass(frozen=True)
class Side:
    """One side of a claim: a group (or several, of which the mean is taken seed by seed), and where in it."""

    groups: tuple[str, ...]
    at: At
    over: At | None = None
    """A second place, by whose number the first one's is divided."""
    name: str = ""

    @property
    def label(self) -> str:
        """For people."""
        name = self.name or self.groups[0]
        if self.over is not None:
            return f"{name} ({describe_layer(self.at.layer)} / {describe_layer(self.over.layer)})"
        return name if self.at.layer is None else f"{name}, {describe_layer(self.at.layer)}"


def sample_of_side(measured: Measured, metric: str, side: Side) -> Sample:
    """What every planned seed gave on this side, or counts as."""
    samples = [measured.sample(metric, group, side.at) for group in side.groups]
    if side.over is not None:
        below = [measured.sample(metric, group, side.over) for group in side.groups]
        samples = [divided(top, bottom) for top, bottom in zip(samples, below, strict=True)]
    return pooled(samples)


def is_measured(sample: Sample) -> bool:
    """Whether there is anything to judge: a number, or a network that diverged instead of giving one."""
    return bool(sample.known) or sample.tally.nan > 0 or sample.tally.diverged > 0
