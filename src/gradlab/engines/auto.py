"""The default: the fused engine where it can train a trial, the reference engine where it cannot."""

from __future__ import annotations

from collections.abc import Sequence

from gradlab.engines.base import Engine, Tick
from gradlab.engines.fused import Fused
from gradlab.engines.reference import Reference
from gradlab.parts import Catalog
from gradlab.spec.config import Config
from gradlab.trials.outcome import Outcome
from gradlab.trials.setup import Setup


class Auto(Engine):
    """Fused where it can, reference where it cannot: decided by the trial's own configuration alone."""

    name = "auto"

    def chosen(self, config: Config, catalog: Catalog) -> tuple[Engine, str | None]:
        """The engine, and why it is not the fused one."""
        if config.train.steps == 0:
            return Reference(), "there is nothing to train"
        reason = Fused().refusal(config, catalog)
        return (Fused(), None) if reason is None else (Reference(), reason)

    def numerics_of(self, config: Config, catalog: Catalog) -> str:
        """That of the chosen engine: naming it outright gives the same id."""
        return self.chosen(config, catalog)[0].numerics_of(config, catalog)

    def side_by_side(self, config: Config, catalog: Catalog) -> int:
        """As the chosen engine says."""
        return self.chosen(config, catalog)[0].side_by_side(config, catalog)

    def alike(self, a: Config, b: Config) -> bool:
        """As the fused engine says: only it asks for several."""
        return Fused().alike(a, b)

    def train_together(self, setups: Sequence[Setup], ticks: Sequence[Tick | None]) -> list[Outcome]:
        """By the chosen engine."""
        first = setups[0].trial
        return self.chosen(first.config, first.catalog)[0].train_together(setups, ticks)

    def train(self, setup: Setup, tick: Tick | None = None) -> Outcome:
        """By the chosen engine."""
        return self.chosen(setup.trial.config, setup.trial.catalog)[0].train(setup, tick)
