"""Networks whose width changes: projections are declared, drawn by an init of their own, and counted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradlab
from gradlab.engines.fused import Fused
from gradlab.engines.reference import Reference
from gradlab.errors import StudyError
from gradlab.network.initial import initial_parameters
from gradlab.network.mlp import MLP
from gradlab.parts import BUILT_IN
from gradlab.spec.config import Model
from gradlab.streams import Streams
from gradlab.trials import prepare

WIDTHS = [6, 6, 4, 4, 5]


def network(**own: Any) -> tuple[MLP, Model]:
    model = Model.model_validate({"widths": WIDTHS, "skip": "identity", "init": "he_normal", **own})
    return MLP.of(model, 7, 3, BUILT_IN), model


def start(mlp: MLP, model: Model, seed: int = 0) -> dict[str, np.ndarray]:
    return mlp.layout.named(initial_parameters(mlp, model.init, Streams(0, seed), BUILT_IN))


def test_a_skip_has_a_projection_only_where_the_width_changes() -> None:
    mlp, _ = network()
    shapes = {slot.name: slot.shape for slot in mlp.layout.slots if slot.group == "block"}
    assert shapes == {"block2.projection": (6, 4), "block4.projection": (4, 5)}
    assert {slot.noun for slot in mlp.layout.slots if slot.group == "block"} == {"projection weights"}
    plain, _ = network(skip="none")
    assert mlp.layout.size == plain.layout.size + 6 * 4 + 4 * 5
    products = 6 * 4 + 4 * 5
    assert mlp.flops(1, backward=False) == plain.flops(1, backward=False) + 2 * products
    uniform, _ = network(widths=[5] * 5)
    assert all(slot.group == "layer" for slot in uniform.layout.slots)


def test_a_block_of_several_layers_projects_over_the_whole_block() -> None:
    bottleneck, _ = network(widths=[6, 2, 6, 3, 6], layers_per_block=2)
    assert all(slot.group == "layer" for slot in bottleneck.layout.slots)
    narrowing, _ = network(widths=[6, 2, 5, 3, 4], layers_per_block=2)
    assert [slot.shape for slot in narrowing.layout.slots if slot.group == "block"] == [(6, 5), (5, 4)]


def test_projections_are_drawn_by_their_own_init_and_change_no_other_draw() -> None:
    mlp, model = network()
    usual = start(mlp, model)
    halved = start(*network(projection={"kind": "lecun_normal", "scale": 0.5}))
    zero = start(*network(projection="zeros"))
    tied = start(*network(projection={"kind": "lecun_normal", "scale": "1/sqrt(depth)"}))
    for name, values in usual.items():
        if name.endswith("projection"):
            np.testing.assert_allclose(halved[name], 0.5 * values)
            np.testing.assert_allclose(tied[name], values / np.sqrt(5))
            assert not zero[name].any()
        else:
            assert np.array_equal(values, zero[name])
    plain = start(*network(skip="none"))
    assert all(np.array_equal(usual[name], values) for name, values in plain.items())
    wide = start(*network(widths=[6, 500]))["block1.projection"]
    assert wide.std() == pytest.approx(1 / np.sqrt(6), rel=0.05)


def test_the_projected_input_is_what_joins_the_branch() -> None:
    own = {"widths": [6, 4], "head": "none", "stem_activation": False, "skip": "identity", "init": "zeros"}
    model = Model.model_validate(own)
    mlp = MLP.of(model, 7, 4, BUILT_IN)
    p = {name: values.copy() for name, values in start(mlp, model).items()}
    rng = np.random.default_rng(0)
    p["layer1.weight"] = rng.standard_normal((7, 6))
    theta = np.concatenate([p[slot.name].ravel() for slot in mlp.layout.slots])
    x = rng.standard_normal((3, 7))
    y, _ = mlp.forward(mlp.layout.windows(theta), x, mlp.initial_running(float))
    np.testing.assert_allclose(y, x @ p["layer1.weight"] @ p["block1.projection"])


def test_without_a_stem_the_first_block_takes_the_input_as_it_comes() -> None:
    mlp = MLP.of(Model.model_validate({"widths": [4, 4], "stem": "none", "skip": "identity"}), 7, 3, BUILT_IN)
    assert [slot.shape for slot in mlp.layout.slots if slot.group == "block"] == [(7, 4)]
    with pytest.raises(StudyError, match="use head: linear or a last width of 3"):
        MLP.of(Model.model_validate({"widths": [4, 4], "head": "none"}), 7, 3, BUILT_IN)


def study(engine: str, **model: Any) -> dict[str, Any]:
    base = {
        "data": {"task": "identity", "dim": 5, "samples": 24},
        "model": {"widths": [6, 4, 5], "init": "he_normal", **model},
        "train": {"loss": "mse", "optimizer": "adam", "lr": 0.01, "batch": 8, "steps": 10, "engine": engine},
    }
    return {"question": "?", "base": base | {"train": base["train"] | {"precision": "float64"}}}


@pytest.mark.parametrize("more", [{}, {"norm": "layer", "activation": "gelu_tanh"}, {"norm": "batch"}], ids=str)
def test_the_fused_engine_trains_changing_widths_without_a_skip(more: dict[str, Any]) -> None:
    setup = prepare(gradlab.plan(study("fused", **more)).trials[0])
    ours, reference = Fused().train(setup), Reference().train(setup)
    np.testing.assert_allclose(ours.curves[0].values, reference.curves[0].values, rtol=1e-9)


def test_the_fused_engine_refuses_a_skip_between_widths_and_auto_says_why() -> None:
    with pytest.raises(StudyError, match="no skips between layers of different widths; use auto or reference"):
        gradlab.plan(study("fused", skip="identity"))
    planned = gradlab.plan(study("auto", skip="identity")).groups[0]
    assert planned.engine == "reference"
    assert planned.reason == "its kernels have no skips between layers of different widths"
    slopes = {"activation": "leaky_relu", "head_activation": {"kind": "leaky_relu", "negative_slope": 0.3}}
    assert gradlab.plan(study("auto", **slopes)).groups[0].reason == "its kernels know one negative slope"


def test_a_skip_that_calls_a_tensor_projection_is_refused_only_where_widths_change(tmp_path: Any) -> None:
    (tmp_path / "mine.py").write_text(
        "from gradlab.parts import Skip, Tensor\n\n\n"
        "class Mine(Skip):\n"
        '    """y = x + a F(x)."""\n\n'
        '    name = "mine"\n    formula = "x + a f(Wx + b)"\n\n'
        "    def tensors(self, width, depth):\n        return {'projection': Tensor((), 0.5)}\n\n"
        "    def forward(self, x, branch, p):\n        return x + p['projection'] * branch, branch\n\n"
        "    def backward(self, dy, p, cache):\n"
        "        return dy, p['projection'] * dy, {'projection': (dy * cache).sum()}\n"
    )
    own = {"parts": [str(tmp_path / "mine.py")]}
    with pytest.raises(gradlab.errors.GradlabError, match="use another name"):
        gradlab.plan({**study("auto", skip="mine"), **own})
    uniform = study("auto", skip="mine", widths=[5, 5, 5])
    outcome = Reference().train(prepare(gradlab.plan({**uniform, **own}).trials[0]))
    assert outcome.status == "done"
