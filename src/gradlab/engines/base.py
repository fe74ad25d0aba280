"""The base class of engines. An engine makes trainers for realized trials, and says what it can train."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import ClassVar

from gradlab.engines import loop
from gradlab.engines.loop import State, Stretch, Tick, Trainer
from gradlab.parts import Catalog, Part
from gradlab.spec.config import Config
from gradlab.trials.outcome import Outcome
from gradlab.trials.setup import Setup

__all__ = ["Engine", "State", "Stretch", "Tick", "Trainer"]


class Engine(Part):
    """Trains trials as the reference engine defines it, or refuses them with a reason.

    To write one, implement `trainer`; the training loop is `engines/loop.py`. Everything random is decided before: an
    engine draws nothing. The same set-up gives the same bits, whatever other trials run beside it.
    """

    part: ClassVar[str] = "engine"
    numerics: ClassVar[int] = 1
    """Version of the engine's bits; increment it whenever they change. It is part of every trial's id."""
    calls_per_layer_step: ClassVar[int] = 18
    """Interpreter calls per layer and step, for time estimates; 0 if whole stretches are compiled."""

    @abstractmethod
    def trainer(self, setup: Setup) -> Trainer:
        """Return a trainer for this trial, at its initial parameters.

        `setup` holds everything that was decided before training: data, θ, the batch order, the learning rate of every
        step. An engine draws no random numbers.
        """

    def train(self, setup: Setup, tick: Tick | None = None) -> Outcome:
        """Train a trial to its end, or to the step at which it diverges."""
        with self.session():
            return loop.train(setup, self.trainer(setup), tick)

    def train_together(self, setups: Sequence[Setup], ticks: Sequence[Tick | None]) -> list[Outcome]:
        """Train several trials. Results depend neither on each other nor on being trained together."""
        return [self.train(setup, tick) for setup, tick in zip(setups, ticks, strict=True)]

    def session(self) -> AbstractContextManager[None]:
        """Return a context with library settings for training; they are restored afterwards."""
        return nullcontext()

    def numerics_of(self, config: Config, catalog: Catalog) -> str:
        """Return what a trial's bits depend on besides its configuration: part of its id."""
        return f"{self.name}-{self.numerics}"

    def refusal(self, config: Config, catalog: Catalog) -> str | None:
        """Return why this engine cannot train such a trial; None if it can."""
        return None

    def choose(self, config: Config, catalog: Catalog) -> tuple[Engine, str | None]:
        """Return the engine that actually trains such a trial (this one), and a reason if users should know it."""
        return self, None

    def announcement(self, config: Config, catalog: Catalog) -> str | None:
        """Return a notice for the user before the first such trial, for example about a long compilation."""
        return None

    def group_size(self, config: Config, catalog: Catalog) -> int:
        """Preferred number of trials per `train_together` call."""
        return 1

    def can_group(self, a: Config, b: Config) -> bool:
        """Whether two trials whose group size is above 1 can be in one `train_together` call."""
        return False
