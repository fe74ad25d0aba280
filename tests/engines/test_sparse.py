"""The first layer on pixels of which most are 0: agrees with the reference, loses nothing that is not finite."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from agreement import difference, losses

import gradlab
from gradlab.engines.fused import Fused
from gradlab.engines.fused.trainer import describe_data, make_nonzero
from gradlab.engines.reference import Reference
from gradlab.testing.base import small_tree
from gradlab.trials import Setup, prepare


def tree(model: dict[str, Any] | None = None, data: dict[str, Any] | None = None, **train: Any) -> dict[str, Any]:
    made = small_tree()
    made["base"]["model"] |= {"stem": "linear", "head": "linear", "depth": 2, "width": 10, **(model or {})}
    made["base"]["data"] = {"task": "mnist", "train": 700, "validation": 50, "test": 70, **(data or {})}
    made["base"]["train"] |= {"loss": "cross_entropy", "batch": 48, **train}
    return made | {"arms": None, "measure": {"layers": ["start", "end"]}}


def setup(model: dict[str, Any] | None = None, data: dict[str, Any] | None = None, **train: Any) -> Setup:
    return prepare(gradlab.plan(tree(model, data, **train)).trials[0])


def path(made: dict[str, Any]) -> str:
    return gradlab.plan(made).groups[0].numerics


@pytest.mark.parametrize("pixels", ["standardized", "unit"])
@pytest.mark.parametrize("width", [1, 8, 10, 24, 40, 72])
def test_twenty_steps_agree_with_the_reference(width: int, pixels: str) -> None:
    s = setup({"width": width}, {"pixels": pixels})
    ours, reference = Fused().train(s), Reference().train(s)
    assert difference(s.mlp, reference.theta, ours.theta) <= 1e-10
    np.testing.assert_allclose(losses(ours), losses(reference), rtol=1e-10)


@pytest.mark.parametrize(
    "more",
    [
        {"batch": 1, "steps": 5},
        {"batch": 300},
        {"batch": "full"},
        {"batch": 64, "epochs": 2, "steps": None},
        {"clip": 0.05},
        {"optimizer": {"kind": "adamw", "weight_decay": 0.1}},
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "model", [{}, {"bias": False}, {"norm": "layer"}, {"skip": "add_then_activate"}, {"activation": "tanh"}], ids=str
)
def test_batches_of_any_size_agree_with_the_reference(model: dict[str, Any], more: dict[str, Any]) -> None:
    s = setup(model, **more)
    ours, reference = Fused().train(s), Reference().train(s)
    assert difference(s.mlp, reference.theta, ours.theta) <= 1e-10


def test_lists_hold_every_pixel_that_is_not_zero() -> None:
    from gradlab.engines.fused.kernels.sparse import BLOCK, RUN, fill_address, hold

    s = setup(batch=300)
    rows, held = s.dataset.train[:300], make_nonzero(s, 16, sparse=True)
    hold(fill_address(), describe_data(s), rows, 784, held)
    found = np.zeros((300, 784), np.uint8)
    plane, bounds = len(held.samples), held.bounds.reshape(2, 784 // RUN + 1)
    for block, ends in enumerate(bounds):
        for run, (a, b) in enumerate(pairwise(ends)):
            samples = block * BLOCK + held.samples[a:b].astype(int)
            assert (np.diff(samples) > 0).all()
            for p in range(RUN):
                found[samples, run * RUN + p] = held.levels[p * plane + a : p * plane + b]
    np.testing.assert_array_equal(found, s.dataset.inputs[rows])


def test_machines_without_compressing_instructions_give_the_same_bits() -> None:
    code = (
        "from hashlib import sha256\nfrom gradlab.bench.workloads import WORKLOADS\n"
        "from gradlab.engines.fused.trainer import describe_data, make_nonzero\n"
        "from gradlab.engines.fused.kernels.sparse import fill_address, hold\n"
        "s = WORKLOADS['C'].setup()\nheld = make_nonzero(s, 16, sparse=True)\n"
        "hold(fill_address(), describe_data(s), s.dataset.train[:29], 784, held)\n"
        "end, plane = held.bounds[-1], len(held.samples)\n"
        "parts = [held.samples[:end], *(held.levels[p * plane : p * plane + end] for p in range(4))]\n"
        "print(end, sha256(b''.join(part.tobytes() for part in parts)).hexdigest())"
    )
    narrow = {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": "+avx,+avx2,+fma"}
    here, there = (
        subprocess.run([sys.executable, "-c", code], env=os.environ | more, capture_output=True, text=True, check=True)
        for more in ({}, narrow if os.uname().machine == "x86_64" else {})
    )
    assert int(here.stdout.split()[0]) > 1000
    assert here.stdout == there.stdout


@pytest.mark.parametrize("pixels", ["standardized", "unit"])
def test_what_is_not_finite_is_found_even_under_pixels_that_are_always_zero(pixels: str) -> None:
    s = setup(data={"pixels": pixels})
    assert not s.dataset.inputs[s.dataset.train, 0].any()
    for value in (np.nan, np.inf):
        theta = s.theta.copy()
        theta[0] = value  # the weight from pixel 0 to the first unit
        changed = replace(s, theta=theta)
        sparse, dense = Fused().train(changed), Fused(products="tiles").train(changed)
        assert sparse.status == dense.status == "diverged"
        assert sparse.metrics["diverged_step"] == dense.metrics["diverged_step"]


def test_divergence_is_found_at_the_same_step() -> None:
    s = setup({"activation": "identity"}, optimizer="sgd", lr=1e6, steps=100)
    ours, reference = Fused().train(s), Reference().train(s)
    assert ours.status == reference.status == "diverged"
    assert ours.metrics["diverged_step"] == reference.metrics["diverged_step"]


def test_the_path_is_chosen_by_the_configuration_and_is_part_of_the_id() -> None:
    assert path(tree()) == "fused-1-sparse"
    assert path(tree({"stem": "none", "width": 784, "head": "linear"})) == "fused-1-blas"
    assert path(tree({"width": 600})) == "fused-1-blas"
    assert path(tree(engine={"kind": "fused", "products": "tiles"})) == "fused-1-tiles"
    sparse, tiles = setup(), setup(engine={"kind": "fused", "products": "tiles"})
    assert sparse.trial.id != tiles.trial.id
    a, b = (Fused(products=p).train(sparse).theta for p in ("table", "tiles"))
    assert difference(sparse.mlp, a, b) <= 1e-10


def test_a_stretch_more_changes_no_bit_of_a_full_batch() -> None:
    s = setup(batch="full", precision="float32")
    often = replace(s, moments=dict.fromkeys(range(1, s.steps), "during"))
    assert Fused().train(s).theta.tobytes() == Fused().train(often).theta.tobytes()
