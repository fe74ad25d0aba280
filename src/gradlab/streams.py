"""Named random streams: everything random is decided here, once, outside the engines.

A stream is keyed by *(root seed, trial seed, name, further keys)* and by nothing else: not by the order in which
streams are requested, nor by the arm, the engine or the number of workers. So two arms with the same trial seed get the
same draws (common random numbers), and their comparison is paired.

    key = BLAKE2b-128( "gradlab-streams-1" | root | trial | name | keys )
    numbers = Philox4x64-10(key), a counter-based generator

A draw is always uniform in the open interval (0, 1). Distributions are computed through their inverse CDF, so that a
He-normal matrix and a Xavier-uniform matrix of the same shape are paired too.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

_HALF_STEP = 2.0**-54  # half the spacing of Generator.random(): excludes 0, and 1 stays excluded


@dataclass(frozen=True)
class Streams:
    """The streams of one trial; `trial=None` gives the streams that all trials of a study share."""

    root: int
    trial: int | None

    def generator(self, name: str, *keys: int) -> np.random.Generator:
        """Return a new generator at the start of the stream keyed by `name` and `keys`."""
        owner = "study" if self.trial is None else str(self.trial)
        text = "|".join(["gradlab-streams-1", str(self.root), owner, name, *map(str, keys)])
        key = int.from_bytes(blake2b(text.encode(), digest_size=16).digest(), "little")
        return np.random.Generator(np.random.Philox(key=key))

    def uniform(self, name: str, shape: tuple[int, ...], *keys: int) -> NDArray[np.float64]:
        """Return uniform numbers in (0, 1) from the stream keyed by `name`, `keys` and the shape."""
        return self.generator(name, *keys, *shape).random(shape) + _HALF_STEP


def standard_normal(uniform: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return standard normal numbers from uniform ones: z = Φ⁻¹(u)."""
    from scipy.special import ndtri

    normal: NDArray[np.float64] = ndtri(uniform)
    return normal
