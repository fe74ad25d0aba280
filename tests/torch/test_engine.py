"""The torch engine agrees with the reference engine, is reproducible, and refuses what it does not support."""

from __future__ import annotations

import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pairwise import pairwise

import gradlab
from gradlab.engines.reference import Reference
from gradlab.engines.torch import Torch
from gradlab.engines.torch.require import MISSING
from gradlab.engines.torch.trainer import NATIVE
from gradlab.errors import StudyError
from gradlab.parts import BUILT_IN
from gradlab.trials.setup import prepare

SKIPS, NORMS = BUILT_IN.names("skip"), BUILT_IN.names("norm")
ACTIVATIONS, OPTIMIZERS = BUILT_IN.names("activation"), tuple(NATIVE)
EVERY = [
    (skip, activation, norm, optimizer)
    for skip, activation, norm, optimizer in product(SKIPS, ACTIVATIONS, NORMS, OPTIMIZERS)
    # a linear network with batch norm that learns the identity starts with shift gradients that are 0 in exact
    # arithmetic; an adaptive optimizer divides noise by noise there
    if (activation, norm) != ("identity", "batch") or optimizer in ("sgd", "momentum", "nesterov")
]


def setup_of(tree: dict[str, Any], skip: str, activation: str, norm: str, optimizer: Any, **train: Any) -> Any:
    tree["base"]["model"] |= {"skip": skip, "activation": activation, "norm": norm, "depth": 4, "layers_per_block": 2}
    if skip == "rezero":
        tree["base"]["model"]["skip"] = {"kind": "rezero", "alpha": 0.5} if _has_alpha() else "rezero"
    tree["base"]["train"] |= {"optimizer": optimizer, **train}
    return prepare(gradlab.plan({**tree, "arms": None}).trials[0])


def _has_alpha() -> bool:
    return "alpha" in BUILT_IN.get("skip", "rezero").parameter_names()


def assert_agreement(setup: Any) -> None:
    """Twenty steps of both, norm-wise."""
    ours, theirs = Torch().train(setup), Reference().train(setup)
    model = setup.trial.config.model
    for slot in setup.mlp.layout.slots:
        if model.norm.kind == "batch" and slot.role == "bias":
            continue  # its gradient is 0 in exact arithmetic, and adaptive optimizers amplify the noise
        a, b = slot.view(ours.theta), slot.view(theirs.theta)
        assert np.linalg.norm(a - b) <= 1e-10 * np.linalg.norm(b) + 1e-9, slot.name
    assert ours.metrics["final_loss"] == pytest.approx(theirs.metrics["final_loss"], rel=1e-9)


@pytest.mark.parametrize(
    ("skip", "activation", "norm", "optimizer"), pairwise(EVERY, lambda case: case, "-".join, suite="slow")
)
def test_twenty_steps_agree_with_the_reference(
    tree: dict[str, Any], skip: str, activation: str, norm: str, optimizer: str
) -> None:
    assert_agreement(setup_of(tree, skip, activation, norm, optimizer))


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_clipping_weight_decay_and_schedules_agree_too(tree: dict[str, Any], optimizer: str) -> None:
    decay = {"kind": optimizer, "weight_decay": 0.05}
    assert_agreement(setup_of(tree, "identity", "relu", "none", decay, clip=0.01, schedule="cosine", warmup=3))


SHAPES = [
    {"stem": "linear", "head": "linear", "depth": 5, "stem_activation": False, "stem_norm": False},
    {"stem": "linear", "head": "linear", "blocks": 2, "head_activation": "tanh"},
    {"stem": "linear", "head": "linear", "widths": [6, 5, 4, 5, 3]},
    {"stem": "linear", "head": "linear", "depth": 5, "widths": {"log": [8, 2]}, "stem_activation": False},
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("skip", SKIPS)
def test_stems_heads_and_changing_widths_agree_too(tree: dict[str, Any], skip: str, shape: dict[str, Any]) -> None:
    for norm in ("none", "layer"):
        model = {**tree["base"]["model"], "skip": skip, "norm": norm, "layers_per_block": 2, "activation": "gelu_tanh"}
        said = {"depth"} if {"blocks", "widths"} & shape.keys() else set()
        said |= {"width"} if "widths" in shape else set()
        base = {**tree["base"], "model": {k: v for k, v in model.items() if k not in said} | shape}
        assert_agreement(prepare(gradlab.plan({**tree, "base": base, "arms": None}).trials[0]))


def test_nesterov_without_momentum_is_plain_descent(tree: dict[str, Any]) -> None:
    assert_agreement(setup_of(tree, "none", "relu", "none", {"kind": "nesterov", "momentum": 0.0}))


def test_any_number_of_workers_gives_the_same_bits(tree: dict[str, Any]) -> None:
    """Products large enough for torch to divide them among threads."""
    tree["base"]["data"] |= {"dim": 256, "samples": 512}
    tree["base"]["model"] |= {"width": 256}
    tree["base"]["train"] |= {"batch": 256, "steps": 10, "engine": "torch", "precision": "float32"}
    tree |= {"seeds": 4, "measure": {"layers": ["start", "end"]}}
    hashes = {gradlab.run(tree, workers=workers).measured.hash for workers in (1, 2, 2)}
    assert len(hashes) == 1


def test_torch_settings_are_restored(tree: dict[str, Any]) -> None:
    torch.set_num_threads(2)
    tree["base"]["train"]["engine"] = "torch"
    gradlab.run(tree)
    assert torch.get_num_threads() == 2
    assert not torch.are_deterministic_algorithms_enabled()
    with Torch().session():
        with Torch().session():
            assert torch.get_num_threads() == 1
        assert torch.are_deterministic_algorithms_enabled()
    assert torch.get_num_threads() == 2


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")
def test_gpu_results_agree_with_the_reference_and_are_repeatable(tree: dict[str, Any]) -> None:
    setup = setup_of(tree, "identity", "relu", "layer", "adam")
    first, second = Torch(device="cuda").train(setup), Torch(device="cuda").train(setup)
    np.testing.assert_array_equal(first.theta, second.theta)
    np.testing.assert_allclose(first.theta, Reference().train(setup).theta, rtol=1e-7, atol=1e-9)


def test_two_runs_give_the_same_bits_and_probes_match_the_reference(tree: dict[str, Any]) -> None:
    tree["base"]["train"]["engine"] = "torch"
    first, second = gradlab.run(tree), gradlab.run(tree)
    assert first.measured.hash == second.measured.hash
    tree["base"]["train"]["engine"] = "reference"
    reference = gradlab.run(tree)
    ours, theirs = first.layers(), reference.layers()
    assert list(ours.measure) == list(theirs.measure)
    np.testing.assert_allclose(ours.value, theirs.value, rtol=1e-6, atol=1e-12)


def test_classes_are_evaluated_and_float32_works(tree: dict[str, Any]) -> None:
    tree["base"] = {
        "data": {"task": "mnist", "train": 500, "validation": 100, "test": 100},
        "model": {"depth": 2, "width": 16, "norm": "batch"},
        "train": {
            "loss": "cross_entropy",
            "optimizer": "adam",
            "lr": 0.01,
            "batch": 50,
            "epochs": 2,
            "engine": "torch",
        },
    }
    result = gradlab.run({**tree, "arms": None, "seeds": 1, "measure": {"layers": []}})
    assert result.measured.errors() == {}
    accuracy = result.trials().test_accuracy.item()
    tree["base"]["train"]["engine"] = "reference"
    assert accuracy == pytest.approx(
        gradlab.run({**tree, "arms": None, "seeds": 1}).trials().test_accuracy.item(), abs=0.05
    )


OWN = {
    "model.activation": (
        "soft",
        "from gradlab.network import Activation\n\n\nclass Soft(Activation):\n"
        "    'f(x) = log(1 + exp x).'\n\n    name = 'soft'\n\n    def forward(self, x):\n"
        "        return np.logaddexp(0, x).astype(x.dtype)\n\n    def slope(self, x, y):\n"
        "        return (1 / (1 + np.exp(-x))).astype(x.dtype)\n",
    ),
    "train.optimizer": (
        "sign",
        "from gradlab.optim import Optimizer\n\n\nclass Sign(Optimizer):\n"
        "    'Δ = −η sign g.'\n\n    name = 'sign'\n\n    def init(self, theta):\n        return {}\n\n"
        "    def update(self, gradient, state, theta, lr):\n        return -lr * np.sign(gradient), state\n",
    ),
}


@pytest.mark.parametrize("path", OWN)
def test_a_user_part_runs_through_its_numpy_code(tree: dict[str, Any], tmp_path: Path, path: str) -> None:
    name, text = OWN[path]
    (tmp_path / "mine.py").write_text(f"import numpy as np\n{text}")
    study = {**tree, "parts": [str(tmp_path / "mine.py")], "arms": None, "seeds": 1}
    setup = prepare(gradlab.plan(study, overrides={path: name}).trials[0])
    np.testing.assert_allclose(Torch().train(setup).theta, Reference().train(setup).theta, rtol=1e-9)


def test_unsupported_configurations_are_refused_with_a_reason(
    tree: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    if not torch.cuda.is_available():
        tree["base"]["train"]["engine"] = {"kind": "torch", "device": "cuda"}
        with pytest.raises(StudyError, match="no CUDA device"):
            gradlab.plan(tree)
    monkeypatch.setattr("gradlab.engines.torch.has_torch", lambda: False)
    tree["base"]["train"]["engine"] = "torch"
    with pytest.raises(StudyError, match=r"gradlab\[torch\]"):
        gradlab.plan(tree)


def test_without_torch_the_error_names_the_extra_and_the_rest_works() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import importlib.util as u; real = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'torch' else real(name, *a)\n"
        "import gradlab\n"
        "try:\n    gradlab.probe(object())\nexcept gradlab.GradlabError as e:\n    print(e)\n"
        "gradlab.plan('identity')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == MISSING


def test_a_network_converts_to_torch_and_back(tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    result = gradlab.run("identity", seeds=1, overrides={"train.steps": 30, "train.precision": "float64"})
    plan = result.measured.plan
    module = gradlab.torch.to_module(plan, "residual")
    setup = next(prepare(trial) for trial in plan.trials if trial.group == "residual")
    x = setup.probe_x
    expected = setup.mlp.forward(setup.mlp.layout.windows(setup.theta), x, [None] * 20)[0]
    np.testing.assert_allclose(module(torch.from_numpy(x)).detach().numpy(), expected, rtol=1e-12, atol=1e-13)
    weights = result.weights("residual", 0)
    module.load_lab(weights)
    save_file(module.lab_weights(), tmp_path / "w.safetensors")
    again = load_file(tmp_path / "w.safetensors")
    assert set(again) == set(weights)
    assert all(np.array_equal(again[name], weights[name]) for name in weights)
    other = gradlab.torch.to_module(plan, "residual")
    other.load_state_dict(module.state_dict())
    assert torch.equal(other(torch.from_numpy(x)), module(torch.from_numpy(x)))
    with pytest.raises(StudyError, match="'residual'"):
        gradlab.torch.to_module(plan, "residul")
