"""Gradlab's engines, including bookkeeping."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from time import perf_counter

import numpy as np

from gradlab.engines.fused import LANES, Fused
from gradlab.engines.reference import Reference
from gradlab.trials.setup import Setup


def variants(setup: Setup) -> dict[str, Callable[[], float]]:
    """Return functions that time one run, in seconds, by engine."""

    def make_timer(engine: Fused | Reference) -> Callable[[], float]:
        def run() -> float:
            start = perf_counter()
            engine.train(setup)
            return perf_counter() - start

        return run

    path = Fused().numerics_of(setup.trial.config, setup.trial.catalog)
    dense = {"fused, dense": make_timer(Fused(products="tiles"))} if path.endswith("-sparse") else {}
    return {
        "fused": make_timer(Fused()),
        **dense,
        "fused, BLAS": make_timer(Fused(products="blas")),
        "reference": make_timer(Reference()),
    }


def tiny(setup: Setup, rates: np.ndarray) -> float:
    """Return the seconds to train one net per learning rate."""
    engine = Fused()
    start = perf_counter()
    for first in range(0, len(rates), LANES):
        setups = [replace(setup, rates=np.full(setup.steps, rate)) for rate in rates[first : first + LANES]]
        engine.train_together(setups, [None] * len(setups))
    return perf_counter() - start
