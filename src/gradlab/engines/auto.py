"""The default engine: fused if it supports a trial, else reference."""

from __future__ import annotations

from collections.abc import Sequence

from gradlab.engines.base import Engine, Tick, Trainer
from gradlab.engines.fused import Fused
from gradlab.engines.reference import Reference
from gradlab.parts import Catalog
from gradlab.spec.config import Config
from gradlab.trials.outcome import Outcome
from gradlab.trials.setup import Setup


class Auto(Engine):
    """Fused if it supports the trial, else reference; depends on the trial's configuration only."""

    name = "auto"

    def choose(self, config: Config, catalog: Catalog) -> tuple[Engine, str | None]:
        """Return the engine, and why it is not the fused one."""
        if config.train.steps == 0:
            return Reference(), "there is nothing to train"
        reason = Fused().refusal(config, catalog)
        return (Fused(), None) if reason is None else (Reference(), reason)

    def _choose_for(self, setup: Setup) -> Engine:
        return self.choose(setup.trial.config, setup.trial.catalog)[0]

    def trainer(self, setup: Setup) -> Trainer:
        """Return the trainer of the chosen engine."""
        return self._choose_for(setup).trainer(setup)

    def train(self, setup: Setup, tick: Tick | None = None) -> Outcome:
        """Train with the chosen engine."""
        return self._choose_for(setup).train(setup, tick)

    def train_together(self, setups: Sequence[Setup], ticks: Sequence[Tick | None]) -> list[Outcome]:
        """Train with the chosen engine, which is the same for all setups."""
        return self._choose_for(setups[0]).train_together(setups, ticks)

    def numerics_of(self, config: Config, catalog: Catalog) -> str:
        """Return the numerics of the chosen engine, so that naming it explicitly gives the same id."""
        return self.choose(config, catalog)[0].numerics_of(config, catalog)

    def group_size(self, config: Config, catalog: Catalog) -> int:
        """Return the group size of the chosen engine."""
        return self.choose(config, catalog)[0].group_size(config, catalog)

    def can_group(self, a: Config, b: Config) -> bool:
        """Ask the fused engine, the only one that groups trials."""
        return Fused().can_group(a, b)
