"""What every engine has to keep."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gradlab.engines.base import Engine
from gradlab.engines.reference import Reference
from gradlab.testing.base import Check, check, require
from gradlab.testing.trials import small_setup


def checks(part: Engine) -> Iterator[Check]:
    """It agrees with the reference engine and with itself."""

    def agrees() -> None:
        for skip in ("none", "identity", "add_then_activate"):
            setup = small_setup(skip=skip)
            ours, reference = part.train(setup), Reference().train(setup)
            error = float(np.linalg.norm(ours.theta - reference.theta) / np.linalg.norm(reference.theta))
            require(error <= 1e-10, f"parameters after 20 steps differ from the reference by {error:.1e} (skip {skip})")

    def repeats() -> None:
        setup = small_setup()
        require(
            np.array_equal(part.train(setup).theta, part.train(setup).theta), "two runs of a trial give different bits"
        )

    def leaves_setup() -> None:
        setup = small_setup()
        before = setup.theta.copy()
        part.train(setup)
        require(np.array_equal(before, setup.theta), "training changes the initial parameters it was handed")

    yield check("agrees with the reference engine (float64, 20 steps)", agrees)
    yield check("gives the same bits twice", repeats)
    yield check("does not change what it is handed", leaves_setup)
