"""Run faults: watch each training and see whether the diagnosis names its cause."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import torch
from training import Faults

import gradlab


@dataclass(frozen=True)
class Outcome:
    """What the diagnosis said of one fault."""

    name: str
    wanted: tuple[str, ...]
    found: tuple[str, ...]
    noted: tuple[str, ...]
    said: str

    @property
    def verdict(self) -> str:
        """`named`, `other` (something else was found) or `missed` (nothing was)."""
        if set(self.wanted) & {*self.found, *self.noted}:
            return "named"
        return "other" if self.found else "missed"


def run_fault(name: str, faults: Faults, seed: int = 0) -> Outcome:
    """Watch one fault as a user would: every tenth of its steps, the first included."""
    make, wanted = faults[name]
    torch.manual_seed(seed)
    training = make()
    with gradlab.watch(training.model, training.optimizer, every=max(1, training.steps // 10), quiet=True) as watch:
        for index in range(training.steps):
            with suppress(RuntimeError):  # a loss that hangs on nothing cannot be differentiated
                training.step(index)
            for label, value in (training.logged or {}).items():
                if index % 10 == 0:
                    watch.log(**{label: value(index)})
    if not watch.moments:
        return Outcome(name, wanted, (), (), "no step was made")
    found = watch.diagnose()
    return Outcome(
        name, wanted, tuple(one.name for one in found.found), tuple(one.name for one in found.noted), str(found)
    )


def run_faults(faults: Faults, seed: int = 0) -> list[Outcome]:
    """Run all of a set."""
    return [run_fault(name, faults, seed) for name in faults]
