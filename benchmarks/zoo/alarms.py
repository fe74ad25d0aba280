"""Run healthy networks: no finding is expected, at any time, under any usual optimizer."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from cases import MakeOptimizer
from healthy import HEALTHY, missing

import gradlab

STEPS = {"AdamW": 10, "SGD": 5}


MAKERS: dict[str, MakeOptimizer] = {
    "AdamW": lambda parameters: torch.optim.AdamW(parameters, 1e-3),
    "SGD": lambda parameters: torch.optim.SGD(parameters, 1e-2),
}


@dataclass
class Alarms:
    """What was found in one healthy network, by circumstance."""

    name: str
    found: dict[str, str] = field(default_factory=dict)
    error: str = ""

    @property
    def quiet(self) -> bool:
        """Whether nothing was found."""
        return not self.found and not self.error


def examine(name: str, seed: int = 0) -> Alarms:
    """Probe a network without an optimizer, then watch ten steps of AdamW at 1e-3 and five of SGD at 1e-2."""
    alarms = Alarms(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(seed)
        model, loss = HEALTHY[name]()
        model.train()
        with gradlab.probe(model) as probe:
            loss().backward()
        _keep(alarms, "without an optimizer", probe.diagnose())
        for label in STEPS:
            torch.manual_seed(seed)
            model, loss = HEALTHY[name]()
            model.train()
            optimizers, step = prepare(model, loss, MAKERS[label])
            with gradlab.watch(model, optimizers, every=3, quiet=True) as watch:
                for _ in range(STEPS[label]):
                    step()
            _keep(alarms, f"{STEPS[label]} steps of {label}", watch.diagnose())
    return alarms


def prepare(
    model: torch.nn.Module, loss: Any, make: MakeOptimizer
) -> tuple[list[torch.optim.Optimizer], Callable[[], None]]:
    """Return the optimizers and the step of a training loop; a loss that has a loop of its own brings both."""
    if hasattr(loss, "alternate"):
        found: tuple[list[torch.optim.Optimizer], Callable[[], None]] = loss.alternate(make)
        return found
    optimizer = make([p for p in model.parameters() if p.requires_grad])

    def step() -> None:
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()

    return [optimizer], step


def _keep(alarms: Alarms, when: str, found: Any) -> None:
    if found.found:
        alarms.found[when] = "; ".join(f"{one.name} ({one.where}): {one.evidence}" for one in found.found)


def examine_all(names: Iterable[str] = ()) -> tuple[list[Alarms], list[str]]:
    """Examine all networks whose package is there; return the others' names too."""
    wanted = list(names) or list(HEALTHY)
    absent = [name for name in wanted if missing(name)]
    return [examine(name) for name in wanted if name not in absent], absent
