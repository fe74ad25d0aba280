"""The memory layout: one table of integers that the kernels read. Plain Python, computed once per trial.

Widths are padded to a multiple of 8 for the tiles (1 for BLAS), so that columns never leave a remainder. Padding of
parameters and their gradients is 0 and stays 0 under every optimizer; padding of activations is never summed over.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.engines.fused.kernels.supported import ACTIVATIONS, ADDS, NORMS, SKIPS
from gradlab.engines.fused.kernels.tile import PADDING
from gradlab.network.mlp import MLP, Layer

Array = NDArray[Any]

(
    K, KC, KP, H, HC, HP,  # fan-in and fan-out; how many columns are computed (a multiple of 8); row length in memory
    W, B, GAIN, SHIFT, END,  # offsets of the parameters in θ (−1: none), and the end of the layer's parameters
    ACT, NORM,  # codes
    FIRST, LAST, BLOCK, HIDDEN,  # position in its block; block number from 0 (−1: stem or head); 0 for the head
    SOURCE, IN, ENTRY,  # offsets in the workspace: input of the layer, operand of its matrix, input of its block
    Z, PRE, POST, STREAM, X_HAT,  # offsets of x W + b, input and output of f, output of the layer, the norm's x̂
    KEPT,  # offset of the mask of the ReLU (fast)
    INVERSE, RUN, T,  # offsets of 1/σ, running statistics and the transpose of W in their own arrays
    G,  # offset of the gradient if the layer is updated at once: layers of one shape take turns in one place
    COLUMNS,
) = range(31)  # fmt: skip

AFTER, INSIDE, BEFORE = range(3)
PLACES = {"after": AFTER, "inside": INSIDE, "before": BEFORE}


@dataclass(frozen=True)
class Memory:
    """The table and the sizes of all arrays of a trial."""

    table: NDArray[np.int64]
    simd: bool
    fast: bool
    """Tiles apply every layer: ReLU or linear, no norm, one layer per block, skip none, identity or inside.

    The head is linear.
    """
    place: int
    has_skip: bool
    alpha: float
    alpha_at: int
    """Start of the learned α in θ (−1: α is fixed)."""
    parameters: int
    workspace: int
    inverse: int
    running: int
    transposes: int
    widest: int
    slots: tuple[tuple[Any, int, int, int], ...]
    """(slot, start in the padded θ, rows, padded row length) of every tensor."""

    def pad(self, flat: Array) -> Array:
        """Return parameters in the kernels' layout."""
        out = np.zeros(self.parameters, flat.dtype)
        for slot, start, rows, length in self.slots:
            window = out[start : start + rows * length].reshape(rows, length)
            window[:, : slot.shape[-1] if slot.shape else 1] = slot.view(flat).reshape(rows, -1)
        return out

    def unpad(self, padded: Array, size: int) -> Array:
        """Return parameters in Gradlab's layout."""
        out = np.empty(size, padded.dtype)
        for slot, start, rows, length in self.slots:
            window = padded[start : start + rows * length].reshape(rows, length)
            slot.view(out).reshape(rows, -1)[:] = window[:, : slot.shape[-1] if slot.shape else 1]
        return out


def lay_out(mlp: MLP, samples: int, simd: bool) -> Memory:
    """Return the layout of a network for batches of up to `samples` samples."""
    lanes = PADDING if simd else 1
    table = np.full((len(mlp.layers), COLUMNS), -1, np.int64)
    place = PLACES[mlp.skip.place]
    has_skip = SKIPS[mlp.skip.name].code == ADDS
    fast = _finished_by_tiles(mlp)
    slots, parameters, alpha_at = _parameters(mlp, table, lanes)
    workspace = _Room()
    inverse, running, transposes, gradient = _Room(), _Room(), _Room(), _Room()
    block_of = {
        layer.number: (b, layer is block[0], layer is block[-1])
        for b, block in enumerate(mlp.blocks)
        for layer in block
    }
    shapes: dict[tuple[int, int], int] = {}
    gradients: dict[tuple[int, int], int] = {}
    stream = workspace.take(samples * _row_length(mlp.layers[0].fan_in, lanes))  # the batch
    entry = stream
    for layer, row in zip(mlp.layers, table, strict=True):
        row[K], row[KC], row[KP] = layer.fan_in, _pad_width(layer.fan_in, lanes), _row_length(layer.fan_in, lanes)
        row[H], row[HC], row[HP] = layer.fan_out, _pad_width(layer.fan_out, lanes), _row_length(layer.fan_out, lanes)
        row[ACT], row[NORM] = ACTIVATIONS[layer.activation.name].code, NORMS[layer.norm.name].code
        row[HIDDEN] = layer is not mlp.head
        block, first, last = block_of.get(layer.number, (-1, True, True))
        row[BLOCK], row[FIRST], row[LAST] = block, first, last
        if first:
            entry = stream
        size = samples * int(row[HP])
        row[SOURCE], row[IN], row[ENTRY] = stream, stream, entry
        row[POST] = workspace.take(size)
        for column in (Z, PRE, X_HAT):  # tiles need only their output: densely packed, it stays in the cache
            row[column] = row[POST] if fast else workspace.take(size)
        if fast:  # and a mask: a byte for every four numbers (tile.py)
            row[KEPT] = workspace.take(-(-size // 16) if simd else size)
        row[INVERSE], row[RUN] = inverse.take(max(samples, int(row[HP]))), running.take(int(row[HP]))
        shape = int(row[HP]), int(row[KP])  # layers of one shape share one transpose
        row[T] = shapes.setdefault(shape, transposes.size)
        if row[T] == transposes.size:
            transposes.take(shape[0] * shape[1])
        own = layer.fan_in, layer.fan_out
        row[G] = gradients.setdefault(own, gradient.size)
        if row[G] == gradient.size:
            gradient.take(int(row[END] - row[W]))
        if block >= 0 and place == BEFORE:
            row[IN] = row[POST]
        adds = block >= 0 and last and has_skip and place != INSIDE and not fast
        stream = workspace.take(size) if adds else int(row[Z] if block >= 0 and place == BEFORE else row[POST])
        row[STREAM] = stream
    return Memory(
        table=table,
        simd=simd,
        fast=fast,
        place=place,
        has_skip=has_skip,
        alpha=float(mlp.constants.get("alpha", 1.0)),
        alpha_at=alpha_at,
        parameters=parameters,
        workspace=workspace.size,
        inverse=inverse.size,
        running=running.size,
        transposes=transposes.size,
        widest=int(table[:, [KP, HP]].max()),
        slots=slots,
    )


class _Room:
    """Allocates space contiguously, in whole cache lines."""

    def __init__(self) -> None:
        self.size = 0

    def take(self, count: int) -> int:
        start = self.size
        self.size += -(-count // 16) * 16
        return start


def _pad_width(width: int, lanes: int) -> int:
    return -(-width // lanes) * lanes


def _row_length(width: int, lanes: int) -> int:
    """Row length in memory. Rows of a multiple of 1 KB would map to few sets of the L1 cache: add one line."""
    length = _pad_width(width, lanes)
    return length + 16 if lanes > 1 and length % 256 == 0 else length


def _parameters(mlp: MLP, table: Any, lanes: int) -> tuple[tuple[tuple[Any, int, int, int], ...], int, int]:
    columns = {"weight": W, "bias": B, "gain": GAIN, "shift": SHIFT}
    room, slots, alpha_at = _Room(), [], -1
    for slot in mlp.layout.slots:
        if slot.group == "block":  # the α of ReZero, the one tensor of a skip that the kernels know
            rows, length = 1, 1
            start = alpha_at + slot.owner - 1 if alpha_at >= 0 else room.take(len(mlp.blocks))
            alpha_at = start if alpha_at < 0 else alpha_at
        else:
            rows = slot.shape[0] if slot.role == "weight" else 1
            length = _row_length(slot.shape[-1], lanes)
            start = room.take(rows * length)
            table[slot.owner - 1, columns[slot.role]] = start
            table[slot.owner - 1, END] = room.size
        slots.append((slot, start, rows, length))
    return tuple(slots), room.size, alpha_at


def _finished_by_tiles(mlp: MLP) -> bool:
    def simple(layer: Layer) -> bool:
        return layer.activation.name in ("relu", "identity") and layer.norm.name == "none"

    single = all(len(block) == 1 for block in mlp.blocks)
    linear_head = mlp.head is None or mlp.head.activation.name == "identity"
    return (
        single
        and linear_head
        and all(map(simple, mlp.layers))
        and mlp.skip.name in ("none", "identity", "add_then_activate")
    )
