"""What a probe keeps of one pass: modules, blocks, functions between them, attention, time steps, experts, inputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from gradlab.torch.attention import Attention
from gradlab.torch.objective import Objective
from gradlab.torch.recurrence import Recurrence
from gradlab.torch.statistics import ModuleStatistics


@dataclass(frozen=True)
class Nonfinite:
    """The first place of a forward pass where a number was not finite."""

    where: str
    how: str
    """`output` of a module, `input` of the model, or `between` modules: made by a function."""
    after: str
    """The last module that ended before."""
    count: int
    operation: str = ""
    """The function, where it is known."""


@dataclass
class Received:
    """What the model was given: its first floating-point input of at least two axes."""

    shape: tuple[int, ...]
    rms: float
    mean: float
    same: bool
    """Whether all samples of the batch are equal."""


@dataclass
class Load:
    """How often each expert was chosen by a router."""

    name: str
    counts: list[int]


@dataclass
class Records:
    """Everything of one pass. Names of modules are those of `named_modules`; the model itself is `(model)`."""

    modules: dict[str, ModuleStatistics] = field(default_factory=dict)
    """Modules that compute: leaves, and those that own parameters."""
    blocks: dict[str, ModuleStatistics] = field(default_factory=dict)
    """Modules made of modules, by what they return: the residual stream, and the model's own output."""
    operations: dict[str, ModuleStatistics] = field(default_factory=dict)
    """Nonlinear functions called by blocks, named `after → function`."""
    attention: dict[str, Attention] = field(default_factory=dict)
    recurrence: dict[str, Recurrence] = field(default_factory=dict)
    loads: dict[str, Load] = field(default_factory=dict)
    never_called: tuple[str, ...] = ()
    """Modules with parameters that no pass has called."""
    nonfinite: Nonfinite | None = None
    received: Received | None = None
    objective: Objective | None = None
    loss: float | None = None
    """Mean of what was differentiated; None if no backward call was seen."""
    backwards: int = 0
    uncleared: bool = False
    """Whether gradients of an earlier step were still there when the first backward pass began."""
    passes: int = 0
    clock: int = 0

    def tick(self) -> int:
        """Count what happens, in its order."""
        self.clock += 1
        return self.clock

    def all_rows(self) -> Iterator[ModuleStatistics]:
        """Every row: modules, blocks and functions, in the order in which they ended first."""
        rows = [*self.modules.values(), *self.blocks.values(), *self.operations.values()]
        return iter(sorted(rows, key=lambda row: row.order))

    def finish(self) -> None:
        """Conclude: the δ of a row is its largest."""
        for row in self.all_rows():
            row.delta = max(row.deltas) if row.deltas else None

    def keep_recurrence(self, found: Recurrence | None) -> None:
        """Keep the time steps of a module: its states from one call, its gradients from another."""
        if found is not None:
            earlier = self.recurrence.get(found.name)
            if earlier is not None and not found.delta:
                found = replace(found, delta=earlier.delta)
            self.recurrence[found.name] = found

    def count_choices(self, name: str, experts: int, chosen: Any) -> None:
        """Add the choices of a router."""
        import torch

        counts = torch.bincount(chosen.detach().flatten(), minlength=experts).tolist()
        load = self.loads.setdefault(name, Load(name, [0] * experts))
        load.counts = [a + b for a, b in zip(load.counts, counts, strict=True)]
