"""Register tiles: vectors of any length give the same bits."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

PRODUCTS = """
from hashlib import sha256
import numpy as np
from gradlab.engines.fused.kernels.product import address, product
from gradlab.engines.fused.kernels.compiled import kernel
from numba.core.registry import cpu_target
from gradlab.engines.fused.kernels.tile import registers

@kernel
def call(at, A, ar, ap, B, bp, C, cr, E, Q, flags, rows, columns, P):
    product(at, A, ar, ap, B, bp, C, cr, E, E, Q, E, flags, rows, columns, P)

digest = sha256()
for dtype in ("float32", "float64"):
    rng = np.random.default_rng(0)
    for rows, columns, P in [(1, 8, 3), (5, 24, 7), (13, 16, 300), (27, 40, 64), (1, 72, 31), (12, 136, 520)]:
        A, B, C, E, Q, M = (rng.standard_normal(600 * 600).astype(dtype) for _ in range(6))
        for flags in (0, 1, 2 | 4 | 8 | 16, 2 | 8 | 32, 4 | 16):
            call(address(True, dtype), A, 1, 600, B, 200, C, columns, E, Q, flags, rows, columns, P)
            digest.update(C.tobytes() + Q.tobytes())
        for flags in (64, 128):  # with the mask of another product
            call(address(True, dtype), A, 1, 600, B, 200, C, columns, E, M, 8 | 256, rows, columns, P)
            call(address(True, dtype), B, 1, 600, A, 200, C, columns, M, Q, flags, rows, columns, P)
            digest.update(C.tobytes() + Q.tobytes())
print(registers(cpu_target.target_context).bytes, digest.hexdigest())
"""
TRAINING = """
from hashlib import sha256
from gradlab.engines.fused import Fused
from gradlab.testing.trials import small_tree
from gradlab.trials import prepare
from gradlab import plan
from numba.core.registry import cpu_target
from gradlab.engines.fused.kernels.tile import registers

digest = sha256()
for precision in ("float32", "float64"):
    for width, activation in ((8, "relu"), (10, "tanh"), (40, "relu")):
        tree = small_tree()
        tree["base"]["model"] |= {"stem": "linear", "head": "linear", "width": width, "activation": activation}
        tree["base"]["train"] |= {"precision": precision, "loss": "cross_entropy", "batch": 29}
        tree["base"]["data"] = {"task": "mnist", "train": 333, "validation": 50, "test": 70}
        outcome = Fused(products="tiles").train(prepare(plan(tree).trials[0]))
        digest.update(outcome.theta.tobytes() + outcome.curves[0].values.tobytes())
print(registers(cpu_target.target_context).bytes, digest.hexdigest())
"""
LANES = """
from hashlib import sha256
from gradlab.engines.fused import Fused
from gradlab.trials import prepare
from gradlab import plan
from numba.core.registry import cpu_target
from gradlab.engines.fused.kernels.tile import registers

digest = sha256()
for precision in ("float32", "float64"):
    for width, activation, optimizer in ((1, "relu", "sgd"), (7, "tanh", "adam"), (16, "tanh", "nesterov")):
        tree = {
            "question": "Do lanes depend on the machine?", "seeds": 3, "measure": {"layers": []},
            "base": {
                "data": {"task": "identity", "dim": 3, "samples": 11},
                "model": {"depth": 2, "width": width, "activation": activation},
                "train": {"loss": "mse", "optimizer": {"kind": optimizer, "weight_decay": 0.01}, "lr": 0.05,
                          "batch": "full", "steps": 20, "precision": precision},
            },
        }
        for outcome in Fused().train_together([prepare(trial) for trial in plan(tree).trials], [None] * 3):
            digest.update(outcome.theta.tobytes() + outcome.curves[0].values.tobytes())
print(registers(cpu_target.target_context).bytes, digest.hexdigest())
"""


def bits(code: str, **environment: str) -> tuple[int, str]:
    """Bytes of a vector, and the digest of what was computed with them."""
    words = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, check=True
    ).stdout.split()
    return int(words[0]), words[1]


def has_wide_vectors() -> bool:
    from numba.core.registry import cpu_target

    return "+avx512f" in cpu_target.target_context.codegen().magic_tuple()[2].split(",")


AVX2 = {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": "+avx,+avx2,+fma"}


@pytest.mark.skipif(not has_wide_vectors(), reason="this machine has vectors of one length")
@pytest.mark.parametrize(
    "code",
    [PRODUCTS, pytest.param(TRAINING, marks=pytest.mark.slow), pytest.param(LANES, marks=pytest.mark.slow)],
    ids=["products", "trials", "lanes"],
)
def test_eight_and_sixteen_lanes_give_the_same_bits(code: str) -> None:
    wide, narrow = bits(code), bits(code, **AVX2)
    assert (wide[0], narrow[0]) == (64, 32)
    assert wide[1] == narrow[1]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rows", [1, 2, 7, 12, 13, 25])
@pytest.mark.parametrize("columns", [8, 16, 24, 40, 72])
def test_tiles_of_every_shape_compute_the_product(rows: int, columns: int, dtype: Any) -> None:
    from gradlab.engines.fused.kernels.compiled import kernel
    from gradlab.engines.fused.kernels.product import address, product

    @kernel
    def call(at, A, B, C, rows, columns, P):  # type: ignore[no-untyped-def]
        product(at, A, P, 1, B, columns, C, columns, A, A, A, A, 0, rows, columns, P)

    rng = np.random.default_rng(rows)
    for P in (1, 300):
        A, B = rng.standard_normal((rows, P)).astype(dtype), rng.standard_normal((P, columns)).astype(dtype)
        C = np.full((rows + 1, columns), 7, dtype)
        call(address(True, dtype), A.ravel(), B.ravel(), C.ravel(), rows, columns, P)
        np.testing.assert_allclose(C[:rows], A @ B, rtol=0, atol=1e-4 if dtype == "float32" else 1e-12)
        assert (C[rows] == 7).all()  # nothing is written behind the last row
