"""The arguments of the compiled loop: a few named tuples instead of forty positional arguments. Plain Python.

Arrays are flat and of the trial's precision unless a field says otherwise; numba compiles one version per precision.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class Network(NamedTuple):
    """The network. `table` has one row of integers per layer, see layout.py."""

    table: NDArray[np.int64]
    product: int
    """Address of the compiled matrix product, see product.py."""
    simd: bool
    """Whether that product uses register tiles (else BLAS)."""
    hold: int
    sparse_rows: int
    sparse_sums: int
    """Addresses of what a first layer needs that multiplies only the pixels that are not 0, see sparse.py; else 0."""
    place: int
    has_skip: bool
    alpha: float
    alpha_at: int
    """Start of the learned α in θ; −1: α is fixed."""
    slope: Any
    """Negative slope of leaky ReLU, in the trial's precision."""
    epsilon: float
    momentum: float
    """Settings of the norm."""


class Data(NamedTuple):
    """The data set. One of `pixels` and `values`, and one of `labels` and `targets`, is empty."""

    pixels: NDArray[np.uint8]
    values: Array
    factor: Any
    offset: Any
    labels: NDArray[np.int64]
    targets: Array
    """(samples, output width)"""
    loss: int
    """Code of the loss."""


class Rule(NamedTuple):
    """The optimizer: its code, its settings, and space for the numbers of a step (see update.py)."""

    kind: int
    a: float
    """μ of momentum, α of RMSProp, β₁ of Adam."""
    b: float
    """β₂ of Adam."""
    epsilon: float
    decay: float
    clip: float
    """Maximum gradient norm; 0: no clipping."""
    numbers: Array


class Steps(NamedTuple):
    """The steps of a stretch: `order` holds the rows of whole epochs, repeated if there are more steps."""

    order: NDArray[np.int64]
    """(epochs, samples)"""
    batch: int
    rates: NDArray[np.float64]
    first: int
    """Number of the first step, from 0."""


class Parameters(NamedTuple):
    """θ, its gradient, the optimizer's two moments, and θ before the last step of the stretch."""

    theta: Array
    gradient: Array
    m: Array
    v: Array
    before: Array


class Nonzero(NamedTuple):
    """A batch of pixels of which most are 0, by columns (nonzero.py), and what the sums of sparse.py need."""

    starts: NDArray[np.int64]
    """Where the rows of a block start in the data set."""
    columns: NDArray[np.uint8]
    """(pixels, samples of a block)"""
    samples: NDArray[np.uint8]
    """The sample of every entry."""
    levels: NDArray[np.uint8]
    """Its four pixels, one plane as long as `samples` for each."""
    bounds: NDArray[np.int64]
    """(blocks, runs + 1): where the entries of a run start."""
    scale: Array
    """factor · level"""
    offset: Array
    one: Array
    """Arrays of one number."""
    start: Array
    """Room for a row."""
    strip: Array
    """Room for a strip of a block's rows."""


class Workspace(NamedTuple):
    """All other arrays of a trial, allocated once."""

    work: Array
    """Activations of all layers, see layout.py."""
    inverse: Array
    """1/σ of the norms."""
    mean: Array
    var: Array
    """Running statistics of the norms."""
    transposes: Array
    buffers: Array
    """Four buffers (rows) that take turns as dL/d stream and δ."""
    ones: Array
    held: Nonzero


class Log(NamedTuple):
    """The results of a stretch, one entry per step."""

    losses: NDArray[np.float64]
    correct: NDArray[np.int64]
    sizes: NDArray[np.int64]

    @staticmethod
    def of(steps: int) -> Log:
        """Allocate space for this many steps."""
        return Log(np.empty(steps), np.empty(steps, np.int64), np.empty(steps, np.int64))


class Lanes(NamedTuple):
    """Networks side by side (lanes.py): every number is a row with one entry per network."""

    table: NDArray[np.int64]
    n: int
    """Samples of each network."""
    slope: Any
    loss: int
    labels: NDArray[np.int64]
    """(samples, networks)"""
    values: Array


class LaneRule(NamedTuple):
    """One kind of optimizer for all lanes, with settings per lane."""

    kind: int
    settings: NDArray[np.float64]
    """(4, networks): a, b, ε and weight decay of `Rule`."""
    clip: NDArray[np.float64]
    numbers: Array
    """(numbers, networks)"""
    own: NDArray[np.float64]
    """Space for the numbers of one lane."""


class LaneParameters(NamedTuple):
    """Like `Parameters`; a diverged lane keeps its parameters in `ended` and its step in `ended_at` (else −1)."""

    theta: Array
    gradient: Array
    m: Array
    v: Array
    before: Array
    ended: Array
    ended_at: NDArray[np.int64]


class LaneSpace(NamedTuple):
    """Activations of all layers, two buffers for δ, and a row of ones."""

    work: Array
    d: Array
    d_next: Array
    ones: Array
