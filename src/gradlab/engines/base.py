"""What an engine is: it takes a realized trial and trains it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np
from threadpoolctl import threadpool_limits

from gradlab.errors import EnvironmentFault
from gradlab.parts import Catalog, Part
from gradlab.spec.config import Config
from gradlab.trials.outcome import Outcome
from gradlab.trials.setup import Setup

Tick = Callable[[int, float], None]
"""Called now and then with the number of steps done and the latest loss."""


class Engine(Part):
    """Trains trials as the reference engine defines it, or refuses them with a reason.

    Everything random is decided before: an engine draws nothing. The same set-up gives the same bits, whatever other
    trials run beside it. `numerics` is part of every trial's id.
    """

    part: ClassVar[str] = "engine"
    numerics: ClassVar[int] = 1
    """Raised whenever the engine's bits change."""

    def numerics_of(self, config: Config, catalog: Catalog) -> str:
        """What a trial's bits depend on besides its configuration: part of its id."""
        return f"{self.name}-{self.numerics}"

    def refusal(self, config: Config, catalog: Catalog) -> str | None:
        """Why this engine cannot train such a trial; None if it can."""
        return None

    def chosen(self, config: Config, catalog: Catalog) -> tuple[Engine, str | None]:
        """Who really trains (itself), and why, where that has to be said."""
        return self, None

    def side_by_side(self, config: Config, catalog: Catalog) -> int:
        """How many trials of this kind it likes to be handed at once."""
        return 1

    def alike(self, a: Config, b: Config) -> bool:
        """Whether two trials that it likes to be handed several at once can be handed together."""
        return False

    def train_together(self, setups: Sequence[Setup], ticks: Sequence[Tick | None]) -> list[Outcome]:
        """Train several trials. Their results do not depend on each other, nor on being trained together."""
        return [self.train(setup, tick) for setup, tick in zip(setups, ticks, strict=True)]

    @abstractmethod
    def train(self, setup: Setup, tick: Tick | None = None) -> Outcome:
        """Train to the end, or to the step at which it diverges.

        setup: data, initial parameters, batches, learning rates and what to measure; not changed.
        tick: to be called now and then with (steps done, latest loss); it may raise to stop the trial.
        Returns what was measured, by way of `gradlab.trials.recorder.Recorder`. A loss that is not finite is an
        outcome, not an error.
        """


def one_blas_thread() -> threadpool_limits:
    """A context in which BLAS uses one thread: their number changes the bits of float32 products."""
    np.ones((2, 2)) @ np.ones((2, 2))  # the BLAS has to be loaded before it can be limited
    return threadpool_limits(1)


def require_denormals() -> None:
    """Refuse a thread that flushes denormal numbers to zero.

    A plain deep network's vanishing values are denormal float32. Flushing them changes results, and some
    libraries switch it on for the thread that loads them.
    """
    if np.float32(1e-38) * np.float32(0.01) == 0:
        raise EnvironmentFault(
            "this thread flushes denormal numbers to zero, so vanishing gradients would be wrong; something "
            "loaded into this process switched it on (torch.set_flush_denormal, or a library built with "
            "-ffast-math): switch it off, or run the lab in a process of its own"
        )
