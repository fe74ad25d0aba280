"""The gradient tests can fail: seeded mutations of the hand-written code are all caught by them."""

from __future__ import annotations

import importlib
import inspect
import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from gradlab.network.losses import Mse
from gradlab.parts import BUILT_IN
from gradlab.spec.config import Model
from gradlab.testing.base import TOLERANCE, gradient_error

TAPERED = {"skip": "identity", "widths": [4, 3, 5]}
MUTATIONS = [
    # (module, original, mutant, model fields under which the mutant lives)
    ("network.mlp", "record.x.T, dz", "record.x[:, ::-1].T, dz", {}),
    ("network.mlp", "dz @ p.layers[layer.number - 1].weight.T", "dz @ p.layers[layer.number - 1].weight", {}),
    ("network.mlp", "dh = dh + along_skip", "dh = dh", {"skip": "identity"}),
    ("network.mlp", "dh = dh + along_skip", "dh = dh - along_skip", {"skip": "identity"}),
    ("network.mlp", "return dy * layer.activation.slope(record.pre, record.post)", "return dy", {}),
    (
        "network.mlp",
        "gradient.blocks[index][name][...] = value",
        "gradient.blocks[index][name][...] = -value",
        {"skip": "rezero"},
    ),
    ("network.mlp", "np.add.reduce(dz, axis=0, out=g.bias)", "pass", {}),
    ("network.mlp", "gradient.layers[index].norm[name][...] = value", "pass", {"norm": "layer"}),
    ("network.mlp", "np.matmul(x.T, along_skip, out=", "np.matmul(x.T, 2 * along_skip, out=", TAPERED),
    ("network.mlp", "along_skip = along_skip @ own[PROJECTION].T", "along_skip = 0 * x", TAPERED),
    ("network.mlp", "entry = h @ own[PROJECTION] if", "entry = h @ (2 * own[PROJECTION]) if", TAPERED),
    (
        "network.mlp",
        "dz = activation(self.head, dh)",
        "dz = dh",
        {"head_activation": "tanh"},
    ),
    ("network.activations", "1 - t * t", "1 + t * t", {"activation": "gelu_tanh"}),
    ("network.norms", "- x_hat * np.mean", "+ x_hat * np.mean", {"norm": "layer"}),
    ("network.norms", "u - u.mean(1, keepdims=True)", "u", {"norm": "layer"}),
    ("network.norms", 'u = p["gain"] * dy', "u = dy", {"norm": "rms"}),
    ("network.norms", "u - u.mean(0)", "u", {"norm": "batch"}),
    ("network.skips", 'return dy, p["alpha"] * dy, {}', "return dy, dy, {}", {"skip": "scaled"}),
    ("network.skips", "np.vdot(dy, cache)", "np.vdot(dy, dy)", {"skip": "rezero"}),
    ("network.skips", 'return dy, p["gate"] * dy', "return dy, dy", {"skip": "gated"}),
    ("network.skips", '+ d @ p["gate_weight"].T', "", {"skip": "highway"}),
    ("network.skips", "(branch - x) * gate", "(branch + x) * gate", {"skip": "highway"}),
    ("network.norms", "(1 - t * t)", "(1 + t * t)", {"norm": "dynamic_tanh"}),
    ("network.norms", "np.vdot(u, x)", "np.vdot(dy, x)", {"norm": "dynamic_tanh"}),
    ("network.activations", "1 - y * y", "1 + y * y", {"activation": "tanh"}),
    ("network.activations", "+ x * np.exp", "- x * np.exp", {"activation": "gelu"}),
    ("network.activations", "s + y * (1 - s)", "s + y * s", {"activation": "silu"}),
    ("network.activations", "return y * (1 - y)", "return y * (1 + y)", {"activation": "sigmoid"}),
    ("network.losses", "error * (2 / error.size)", "error * (1 / error.size)", {}),
]


def mutated(name: str, original: str, mutant: str) -> ModuleType:
    module = importlib.import_module(f"gradlab.{name}")
    source = inspect.getsource(module)
    assert original in source, f"{name} no longer contains {original!r}: update the mutation"
    twin = ModuleType(f"{module.__name__}_mutant")
    sys.modules[twin.__name__] = twin
    try:
        exec(compile(source.replace(original, mutant), name, "exec"), twin.__dict__)
    finally:
        del sys.modules[twin.__name__]
    return twin


@pytest.mark.parametrize(
    ("name", "original", "mutant", "fields"), MUTATIONS, ids=[f"{m[0].split('.')[-1]}: {m[2]}" for m in MUTATIONS]
)
def test_mutant_is_caught(
    name: str, original: str, mutant: str, fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    activation = fields.get("activation", "tanh")
    sizes = {} if "widths" in fields else {"width": 4}
    model = Model.model_validate({"depth": 3, **sizes, "activation": activation, **fields})
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((6, 4)), rng.standard_normal((6, 4))

    def error() -> float:
        mlp_module = importlib.import_module("gradlab.network.mlp")
        mlp = mlp_module.MLP.of(model, 4, 4, BUILT_IN)
        theta = 0.6 * np.random.default_rng(0).standard_normal(mlp.layout.size)
        loss = importlib.import_module("gradlab.network.losses").Mse()
        return gradient_error(mlp, loss, theta, x, y)

    assert error() <= TOLERANCE  # the healthy code has to pass first
    twin = mutated(name, original, mutant)
    original_module = importlib.import_module(f"gradlab.{name}")
    for key, value in vars(twin).items():
        if not inspect.isclass(value) or value.__module__ != twin.__name__:
            continue
        healthy = vars(original_module)[key]
        for method, body in vars(value).items():
            if inspect.isfunction(body):
                monkeypatch.setattr(healthy, method, body)
    assert error() > TOLERANCE


def test_the_loss_value_itself_is_mean_squared_error() -> None:
    assert Mse().value(np.array([[1.0, 2.0]]), np.array([[0.0, 0.0]])) == 2.5
