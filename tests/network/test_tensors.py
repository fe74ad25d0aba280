"""Skips and norms declare what they learn; layout, start, engines and names follow from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import gradlab
from gradlab.audits.realize import TraitReader
from gradlab.engines.reference import Reference
from gradlab.engines.torch import Torch
from gradlab.errors import PartError
from gradlab.network.initial import initial_parameters
from gradlab.network.layout import Tensor
from gradlab.network.mlp import MLP
from gradlab.network.skips import ReZero
from gradlab.parts import BUILT_IN, Catalog
from gradlab.runs.worker import run_trial
from gradlab.spec.config import Model
from gradlab.streams import Streams
from gradlab.trials.setup import prepare

NEW = [("skip", "highway"), ("skip", "gated"), ("norm", "dynamic_tanh")]


def network(catalog: Catalog = BUILT_IN, **fields: Any) -> MLP:
    model = Model.model_validate({"depth": 3, "width": 4, **fields}, context={"catalog": catalog})
    return MLP.of(model, 4, 2, catalog)


def test_names_order_and_shapes_follow_from_the_declaration() -> None:
    names = [(slot.name, slot.shape) for slot in network(skip="highway", norm="dynamic_tanh").layout.slots]
    assert names[:5] == [
        ("layer1.weight", (4, 4)),
        ("layer1.bias", (4,)),
        ("layer1.alpha", ()),
        ("layer1.gain", (4,)),
        ("layer1.shift", (4,)),
    ]
    assert names[-4:] == [
        ("block1.gate_weight", (4, 4)),
        ("block1.gate_bias", (4,)),
        ("block2.gate_weight", (4, 4)),
        ("block2.gate_bias", (4,)),
    ]


def test_declared_tensors_start_where_they_say_and_change_no_other_draw() -> None:
    fields = {"depth": 3, "width": 4, "init": "he_normal"}
    plain, highway = (
        Model.model_validate({**fields, "skip": skip}) for skip in ("none", {"kind": "highway", "bias_start": -1.0})
    )
    named = []
    for model in (plain, highway):
        mlp = MLP.of(model, 4, 2, BUILT_IN)
        named.append(mlp.layout.named(initial_parameters(mlp, model.init, Streams(0, 0), BUILT_IN)))
    for name, values in named[0].items():
        assert np.array_equal(values, named[1][name])
    assert (named[1]["block1.gate_bias"] == -1).all()
    drawn = [named[1][f"block{number}.gate_weight"] for number in (1, 2)]
    assert not np.array_equal(*drawn)
    assert 0.2 < np.concatenate(drawn).std() < 0.8  # 1/√4


@pytest.mark.parametrize(("kind", "name"), NEW)
def test_auto_trains_a_new_part_with_the_reference_engine_and_torch_agrees(
    tree: dict[str, Any], kind: str, name: str
) -> None:
    tree["base"]["model"][kind] = name
    (trial, *_) = gradlab.plan({**tree, "arms": None}).trials
    engine, reason = trial.config.train.engine.build(trial.catalog).choose(trial.config, trial.catalog)
    assert engine == Reference()
    assert f"no kernel for the {kind} {name!r}" in str(reason)
    assert run_trial(trial).status == "done"
    setup = prepare(trial)
    np.testing.assert_allclose(Torch().train(setup).theta, Reference().train(setup).theta, rtol=1e-8, atol=1e-10)


def test_what_a_part_declares_is_stored_and_audited_by_name(tree: dict[str, Any]) -> None:
    tree["base"]["model"]["skip"] = "gated"
    plan = gradlab.plan({**tree, "arms": None})
    result = gradlab.run(plan)
    assert result.weights("all", 0)["block1.gate"].shape == (4,)
    found = TraitReader().read_traits(plan.trials[0])
    assert found["initial gates"].words == "all 0"
    (block,) = (trait for name, trait in found.items() if name.startswith("forward pass"))
    assert block.words.startswith("x ← x + g relu(Wx + b), ")


def test_a_gates_matrix_is_counted_in_the_cost() -> None:
    plain, highway = network(), network(skip="highway")
    assert highway.flops(5, backward=False) - plain.flops(5, backward=False) == 2 * 5 * 2 * 16


@pytest.mark.parametrize("name", ["weight", "bias", "a.b", "two words"])
def test_a_tensor_that_cannot_stand_beside_the_layers_own_is_refused(name: str) -> None:
    class Clash(ReZero):
        """Calls its tensor something else."""

        name = "clash"

        def tensors(self, width: int, depth: int) -> Mapping[str, Tensor]:
            return {tensor: Tensor(()) for tensor in [outer]}

    outer = name
    with pytest.raises(PartError, match="the skip 'clash' calls a tensor"):
        network(Catalog((), {("skip", "clash"): Clash}), skip="clash")
