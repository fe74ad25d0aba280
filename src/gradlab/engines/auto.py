"""The default: the fused engine where it can train a trial, the reference engine where it cannot."""

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
    """Fused where it can, reference where it cannot: decided by the trial's own configuration alone."""

    name = "auto"

    def choose(self, config: Config, catalog: Catalog) -> tuple[Engine, str | None]:
        """The engine, and why it is not the fused one."""
        if config.train.steps == 0:
            return Reference(), "there is nothing to train"
        reason = Fused().refusal(config, catalog)
        return (Fused(), None) if reason is None else (Reference(), reason)

    def _of(self, setup: Setup) -> Engine:
        return self.choose(setup.trial.config, setup.trial.catalog)[0]

    def trainer(self, setup: Setup) -> Trainer:
        """That of the chosen engine."""
        return self._of(setup).trainer(setup)

    def train(self, setup: Setup, tick: Tick | None = None) -> Outcome:
        """By the chosen engine."""
        return self._of(setup).train(setup, tick)

    def train_together(self, setups: Sequence[Setup], ticks: Sequence[Tick | None]) -> list[Outcome]:
        """By the chosen engine, which is the same for all of them."""
        return self._of(setups[0]).train_together(setups, ticks)

    def numerics_of(self, config: Config, catalog: Catalog) -> str:
        """That of the chosen engine: naming it outright gives the same id."""
        return self.choose(config, catalog)[0].numerics_of(config, catalog)

    def group_size(self, config: Config, catalog: Catalog) -> int:
        """As the chosen engine says."""
        return self.choose(config, catalog)[0].group_size(config, catalog)

    def can_group(self, a: Config, b: Config) -> bool:
        """As the fused engine says: only it asks for several."""
        return Fused().can_group(a, b)
