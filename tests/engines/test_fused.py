"""Promise 2: the fused engine agrees with the reference engine; also its paths, cache and refusals."""

from __future__ import annotations

import gc
import itertools
import os
import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from agreement import difference, losses
from pairwise import pairwise

import gradlab
from gradlab.engines.fused import Fused
from gradlab.engines.fused.kernels.supported import explain_unsupported
from gradlab.engines.reference import Reference
from gradlab.parts import BUILT_IN
from gradlab.testing.base import small_tree
from gradlab.trials import Setup, prepare

SKIPS, ACTIVATIONS, NORMS, OPTIMIZERS = (
    [name for name in BUILT_IN.names(kind) if explain_unsupported(kind, name, BUILT_IN) is None]
    for kind in ("skip", "activation", "norm", "optimizer")
)


def setup(model: dict[str, Any] | None = None, data: dict[str, Any] | None = None, **train: Any) -> Setup:
    tree = small_tree()
    tree["base"]["model"] |= model or {}
    tree["base"]["train"] |= train
    tree["base"]["data"] = data or tree["base"]["data"]
    tree |= {"arms": None, "measure": {"layers": ["start", "end"]}}
    return prepare(gradlab.plan(tree).trials[0])


def classifier(**train: Any) -> Setup:
    return setup(
        {"stem": "linear", "head": "linear", "depth": 3, "width": 10},
        {"task": "mnist", "train": 333, "validation": 50, "test": 70},
        **{"loss": "cross_entropy", "batch": 32, **train},
    )


def assert_agree(s: Setup, products: str, tolerance: float = 1e-10) -> None:
    ours, reference = Fused(products=products).train(s), Reference().train(s)
    # what only shifts the input of a batch norm has no gradient in exact arithmetic: Adam amplifies its rounding
    before_batch_norm = s.trial.config.model.norm.name == "batch"
    assert difference(s.mlp, reference.theta, ours.theta, skip_biases=before_batch_norm) <= tolerance
    np.testing.assert_allclose(losses(ours), losses(reference), rtol=tolerance, atol=1e-13)


PAIRS = [
    {"skip": skip, "activation": activation, "norm": norm}
    for i, (skip, activation) in enumerate(itertools.product(SKIPS, ACTIVATIONS))
    for norm in (NORMS if activation in ("relu", "tanh") else [NORMS[i % 4]])
]
SHAPES = [
    {"stem": "linear", "head": "linear", "depth": 4},
    {"stem": "linear", "head": "linear", "depth": 1},
    {"depth": 4, "layers_per_block": 2},
    {"last_activation": False},
    {"bias": False},
    {"head": "linear", "depth": 2},
    {"stem": "linear", "stem_activation": False, "stem_norm": False, "head": "linear", "head_activation": "tanh"},
    {"stem": "linear", "stem_activation": False, "head": "linear", "head_activation": "relu", "depth": 4},
]


PRODUCTS = ("tiles", "blas")


@pytest.mark.parametrize(
    ("model", "products"),
    pairwise(
        itertools.product(PAIRS, PRODUCTS), lambda c: [*c[0].values(), c[1]], lambda c: "-".join([*c[0].values(), c[1]])
    ),
)
def test_twenty_steps_agree_over_skips_activations_and_norms(model: dict[str, Any], products: str) -> None:
    assert_agree(setup(model), products)


@pytest.mark.parametrize(
    ("shape", "skip", "products"),
    pairwise(
        itertools.product(SHAPES, SKIPS, PRODUCTS), lambda c: [str(c[0]), *c[1:]], lambda c: "-".join(map(str, c))
    ),
)
def test_twenty_steps_agree_over_shapes(shape: dict[str, Any], skip: str, products: str) -> None:
    for norm in ("none", "layer"):
        assert_agree(setup({"skip": skip, "norm": norm, **shape}), products)


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize(
    "more", [{}, {"clip": 0.05}, {"schedule": "cosine", "warmup": 3}, {"batch": 7}, {"batch": "full"}]
)
def test_twenty_steps_agree_over_optimizers(name: str, more: dict[str, Any]) -> None:
    for decay in (0.0, 0.1):
        assert_agree(
            setup({"skip": "identity"}, optimizer={"kind": name, "weight_decay": decay}, lr=1e-3, **more), "tiles"
        )


@pytest.mark.parametrize("width", [1, 3, 8, 10, 17, 24])
@pytest.mark.parametrize("batch", [1, 2, 5, 6, 13, 32])
def test_widths_with_remainders_agree_with_the_reference(width: int, batch: int) -> None:
    s = setup({"width": width, "skip": "identity"}, {"task": "identity", "dim": width, "samples": 32}, batch=batch)
    assert_agree(s, "tiles")


def test_tanh_by_arithmetic_is_within_its_stated_error() -> None:
    from gradlab.engines.fused.kernels.elementwise import activate
    from gradlab.engines.fused.kernels.supported import TANH

    x = np.arange(0x30800000, 0x41400000, 1009, dtype=np.uint32).view(np.float32)  # 2⁻³⁰ to 12
    x = np.concatenate([x, -x, np.float32([0, 40, -1e30, np.inf, -np.inf])])
    found, exact = np.empty_like(x), np.tanh(x.astype(np.float64))
    activate(TANH, np.float32(0), x, found, len(x))
    error = np.abs(found - exact)
    assert error.max() <= 3.8e-7
    assert (error <= 6.4 * np.spacing(np.abs(exact).astype(np.float32))).all()
    activate(TANH, np.float32(0), np.full(1, np.nan, np.float32), found, 1)
    assert np.isnan(found[0])


@pytest.mark.parametrize(("inputs", "width"), [(15, 16), (17, 24), (5, 256)])
@pytest.mark.parametrize("skip", ["none", "identity", "add_then_activate"])
def test_layers_that_take_turns_in_one_gradient_do_not_disturb_each_other(inputs: int, width: int, skip: str) -> None:
    model = {"stem": "linear", "head": "linear", "depth": 3, "width": width, "skip": skip, "activation": "relu"}
    task = {"task": "identity", "dim": inputs, "samples": 40}
    for more in ({"optimizer": "sgd"}, {"optimizer": "momentum", "lr": 1e-3}, {"clip": 0.5}):
        assert_agree(setup(model, task, **more), "tiles")


@pytest.mark.parametrize("norm", ["none", "batch"])
def test_a_classifier_agrees_in_losses_accuracies_and_evaluations(norm: str) -> None:
    s = classifier(epochs=2, steps=None)
    s = replace(s) if norm == "none" else setup(
        {"stem": "linear", "head": "linear", "depth": 3, "width": 10, "norm": norm},
        {"task": "mnist", "train": 333, "validation": 50, "test": 70},
        loss="cross_entropy", batch=32, epochs=2, steps=None,
    )  # fmt: skip
    ours, reference = Fused().train(s), Reference().train(s)
    for a, b in zip(ours.curves, reference.curves, strict=True):
        assert a.metric == b.metric
        if a.metric != "epoch_seconds":
            np.testing.assert_array_equal(a.steps, b.steps)
            np.testing.assert_allclose(a.values, b.values, rtol=1e-8)
    for name, value in reference.metrics.items():
        if name != "seconds_per_epoch":
            assert ours.metrics[name] == (value if value is None else pytest.approx(value, rel=1e-8))


def test_layer_measures_agree() -> None:
    s = setup({"skip": "identity"})
    ours, reference = Fused().train(s).layers, Reference().train(s).layers
    assert ours.measure == reference.measure
    np.testing.assert_allclose(ours.value, reference.value, rtol=1e-7, atol=1e-14)


@pytest.mark.parametrize("skip", SKIPS)
def test_a_deep_network_agrees_over_one_step(skip: str) -> None:
    s = setup({"skip": skip, "depth": 30}, steps=1)
    assert_agree(s, "tiles")


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_one_step_in_float32_agrees(activation: str) -> None:
    s = setup({"skip": "identity", "activation": activation}, precision="float32", steps=1)
    ours, reference = Fused().train(s), Reference().train(s)
    assert ours.theta.dtype == np.float32
    assert difference(s.mlp, reference.theta.astype(float), ours.theta.astype(float)) <= 1e-5


def test_tiles_and_blas_agree_up_to_rounding_and_have_different_ids() -> None:
    s = classifier(precision="float32", steps=20)
    tiles, blas = (Fused(products=p).train(s) for p in ("tiles", "blas"))
    np.testing.assert_allclose(tiles.theta, blas.theta, atol=1e-3)
    tree = small_tree()
    ids = {
        gradlab.plan(tree, overrides={"train.engine": {"kind": "fused", "products": p}}).trials[0].id
        for p in ("tiles", "blas", "table")
    }
    assert len(ids) == 2
    wide = {"model.width": 600, "model.stem": "linear", "model.head": "linear"}
    paths = [
        gradlab.plan(tree, overrides={**wide, "train.engine": {"kind": "fused", "products": p}}).trials[0].id
        for p in ("table", "blas")
    ]
    assert paths[0] == paths[1]


def test_divergence_is_found_at_the_same_step_and_is_never_hidden() -> None:
    for model in (
        {"skip": "identity"},
        {"skip": "identity", "activation": "tanh", "norm": "layer"},
        {"activation": "silu"},
    ):
        s = setup(model, optimizer="sgd", lr=1e6, steps=100)
        ours, reference = Fused().train(s), Reference().train(s)
        assert ours.status == reference.status
        assert ours.metrics["diverged_step"] == reference.metrics["diverged_step"]


def test_a_nan_in_the_parameters_ends_the_trial_at_once() -> None:
    for products in ("tiles", "blas"):
        for skip in ("none", "identity", "add_then_activate"):
            s = setup({"skip": skip})
            theta = s.theta.copy()
            theta[3] = np.nan
            found = Fused(products=products).train(replace(s, theta=theta))
            assert (found.status, found.metrics["diverged_step"]) == ("diverged", 1)


def test_bits_do_not_depend_on_the_number_of_workers_or_on_repetition(tree: dict[str, Any]) -> None:
    tree["base"]["train"]["precision"] = "float32"
    tree["seeds"] = 6

    def bits(workers: int) -> bytes:
        result = gradlab.run(tree, workers=workers)
        tensors = [t for s in range(6) for t in result.weights("residual", s).values()]
        curves = result.curves().query("metric == 'loss'").value
        return b"".join([*(t.tobytes() for t in tensors), curves.to_numpy().tobytes()])

    assert len({bits(workers) for workers in (1, 2, 4, 2)}) == 1


def test_auto_chooses_the_fused_engine_or_gives_a_reason(tmp_path: Path, tree: dict[str, Any]) -> None:
    assert {group.engine for group in gradlab.plan(tree).groups} == {"fused"}
    assert gradlab.plan("gradflow", seeds=1).groups[0].engine == "reference"
    part = tmp_path / "mine.py"
    part.write_text(
        "import numpy as np\nfrom gradlab.network import Activation\nclass Sine(Activation):\n    'sin x'\n"
        "    name = 'sine'\n    def forward(self, x): return np.sin(x)\n    def slope(self, x, y): return np.cos(x)\n"
    )
    tree |= {"parts": [str(part)], "arms": {"a": {"model.activation": "sine"}}}
    planned = gradlab.plan(tree).groups[0]
    assert planned.engine == "reference"
    assert "no kernel for the activation 'sine'" in str(planned.reason)
    assert gradlab.run(tree).measured.counts()["failed"] == 0
    with pytest.raises(gradlab.GradlabError, match=r"train\.engine.*no kernel for the activation 'sine'"):
        gradlab.plan(tree, overrides={"train.engine": "fused"})


def test_naming_the_engine_gives_the_same_id_as_auto(tree: dict[str, Any]) -> None:
    auto, named = (gradlab.plan(tree, overrides={"train.engine": e}).trials[0].id for e in ("auto", "fused"))
    assert auto == named
    assert gradlab.plan(tree, overrides={"train.engine": "reference"}).trials[0].id != auto


def test_without_numba_auto_chooses_the_reference_engine_and_says_so(tmp_path: Path) -> None:
    code = (
        "import sys, importlib.util as u; find = u.find_spec;"
        "u.find_spec = lambda name, *a: None if name == 'numba' else find(name, *a);"
        "import gradlab; from gradlab.testing.base import small_tree;"
        "p = gradlab.plan(small_tree()); print(p.groups[0].engine, '-', p.groups[0].reason);"
        "print(gradlab.run(p).measured.counts()['done'], 'numba' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found.split("\n")[:2] == ["reference - numba is not installed", "4 False"]


@pytest.mark.slow
def test_the_cache_is_outside_the_package_and_reused_by_the_next_process(tmp_path: Path) -> None:
    environment = {**os.environ, "GRADLAB_CACHE": str(tmp_path)}
    code = (
        "from numba.core import event; compiled = []\n"
        "class Listener(event.Listener):\n"
        "    def on_start(self, e): compiled.append(e)\n"
        "    def on_end(self, e): pass\n"
        "event.register('numba:compile', Listener())\n"
        "from gradlab.testing.base import small_setup\nfrom gradlab.engines.fused import Fused\n"
        "Fused().train(small_setup())\nprint(len(compiled))"
    )
    first, second = (
        int(
            subprocess.run(
                [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
            ).stdout
        )
        for _ in range(2)
    )
    assert first > 5
    assert second == 0
    folders = list((tmp_path / "gradlab").glob("kernels-*"))
    assert len(folders) == 1
    assert any(folders[0].rglob("*.nbc"))


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="only Linux tells what a process holds now")
def test_memory_does_not_grow_over_many_calls() -> None:
    def resident() -> int:
        """Return the current memory of the process in kilobytes (its peak would hide growth below it)."""
        gc.collect()
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() // 1024

    s = setup({"skip": "identity"}, steps=2)
    engine = Fused()
    for _ in range(200):
        engine.train(s)
    grown = []
    for _ in range(3):  # a leak grows every time; other allocations do not
        before = resident()
        for _ in range(800):  # each at least three calls of the compiled loop
            engine.train(s)
        grown.append(resident() - before)
    assert min(grown) < 800, grown


def test_an_interrupted_pool_stops_its_workers(tree: dict[str, Any]) -> None:
    import threading

    def stop(result: Any) -> None:
        raise KeyboardInterrupt

    tree["seeds"] = 50
    result = gradlab.run(tree, on_results=stop, workers=2)
    assert result.stopped
    assert result.unfinished
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("gradlab")]
