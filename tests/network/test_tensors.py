"""Skips and norms declare what they learn; layout, start, engines and names follow from it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest

import gradlab
from gradlab.audits.realize import TraitReader
from gradlab.engines.reference import Reference
from gradlab.engines.torch import Torch
from gradlab.errors import PartError
from gradlab.network.initial import initial_parameters
from gradlab.network.mlp import MLP
from gradlab.network.skips.base import Skip
from gradlab.network.skips.identity import IdentitySkip
from gradlab.network.skips.rezero import ReZero
from gradlab.network.tensors import Tensor
from gradlab.parts import BUILT_IN, Catalog
from gradlab.runs.worker import run_trial
from gradlab.spec.config import Model
from gradlab.streams import Streams
from gradlab.testing import check_file, check_part
from gradlab.trials.setup import prepare

NEW = [("skip", "highway"), ("skip", "gated"), ("norm", "dynamic_tanh")]

EARLIER = """
    import numpy as np
    from gradlab.network import Norm, Skip

    class Leaned(Skip):
        '''y = 0.9 x + α F.'''
        name = "leaned"
        learned = True
        formula = "0.9 x + α f(Wx + b)"
        def alpha(self, depth): return 1 / depth
        def combine(self, x, branch, alpha): return 0.9 * x + alpha * branch
        def backward(self, dy, branch, alpha): return 0.9 * dy, alpha * dy, np.vdot(dy, branch)

    class Fixed(Leaned):
        '''The same with a fixed α.'''
        name = "fixed"
        learned = False

    class Affine(Norm):
        '''y = g x + s.'''
        name = "affine"
        def forward(self, x, gain, shift, running, training): return gain * x + shift, x, running
        def backward(self, dy, gain, cache): return gain * dy, np.sum(dy * cache, 0), dy.sum(0)

    class Factor(Norm):
        '''y = g x.'''
        name = "factor"
        has_shift = False
        def forward(self, x, gain, shift, running, training): return gain * x, x, running
        def backward(self, dy, gain, cache): return gain * dy, np.sum(dy * cache, 0), None
"""


def network(catalog: Catalog = BUILT_IN, **fields: Any) -> MLP:
    model = Model.model_validate({"depth": 3, "width": 4, **fields}, context={"catalog": catalog})
    return MLP.of(model, 4, 2, catalog)


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    path = tmp_path / "earlier.py"
    path.write_text(dedent(EARLIER))
    return path


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
    assert found["forward pass of a block"].words == "x ← x + g relu(Wx + b), g learned per unit"


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


# ---------------------------------------------------------------------- parts of earlier versions


def test_parts_of_earlier_versions_keep_their_contract(earlier: Path) -> None:
    for report in check_file(earlier):
        assert report.problems == []


def test_parts_of_earlier_versions_have_the_same_tensors_as_ever(earlier: Path) -> None:
    catalog = Catalog.with_files([earlier])
    learned = network(catalog, skip="leaned", norm="affine")
    assert [slot.name for slot in learned.layout.slots][:4] == [
        "layer1.weight",
        "layer1.bias",
        "layer1.gain",
        "layer1.shift",
    ]
    assert [slot.name for slot in learned.layout.slots][-2:] == ["block1.alpha", "block2.alpha"]
    fixed = network(catalog, skip="fixed", norm="factor")
    assert fixed.constants == {"alpha": 1 / 3}
    assert {slot.role for slot in fixed.layout.slots} == {"weight", "bias", "gain"}
    assert fixed.skip.written(4, 3) == "0.9 x + 0.3333 f(Wx + b)"


def test_an_earlier_skip_that_extends_one_with_an_alpha_is_refused_when_its_class_is_made() -> None:
    with pytest.raises(TypeError, match="Start declares tensors or constants: write `forward`"):

        class Start(ReZero):
            """Starts elsewhere."""

            name = "start"

            def alpha(self, depth: int) -> float:
                return 0.5

    with pytest.raises(TypeError, match="Twice declares tensors or constants"):

        class Twice(ReZero):
            """Twice the branch."""

            name = "twice"

            def combine(self, x: Any, branch: Any, alpha: Any) -> Any:
                return x + 2 * alpha * branch


def test_a_new_skip_may_have_a_helper_called_combine() -> None:
    class Mine(Skip):
        """y = x + F."""

        name = "mine"
        formula = "x + f(Wx + b)"

        def combine(self, x: Any, branch: Any) -> Any:
            return x + branch

        def forward(self, x: Any, branch: Any, p: Any) -> Any:
            return self.combine(x, branch), None

        def backward(self, dy: Any, p: Any, cache: Any) -> Any:
            return dy, dy, {}

    class Other(Mine):
        """y = x − F."""

        name = "other"

        def combine(self, x: Any, branch: Any) -> Any:
            return x - branch

        def backward(self, dy: Any, p: Any, cache: Any) -> Any:
            return dy, -dy, {}

    assert Mine().forward(1.0, 2.0, {}) == (3.0, None)
    assert Other().forward(1.0, 2.0, {}) == (-1.0, None)
    assert Other().backward(1.0, {}, None) == (1.0, -1.0, {})
    assert not Other.is_earlier


def test_an_earlier_skip_may_extend_a_built_in_one() -> None:
    class Doubled(IdentitySkip):
        """y = x + 2 F, in the words of an earlier version."""

        name = "doubled"

        def combine(self, x: Any, branch: Any, alpha: Any) -> Any:
            return x + 2 * branch

        def backward(self, dy: Any, branch: Any, alpha: Any) -> Any:  # type: ignore[override]
            return dy, 2 * dy, 0.0

    assert check_part(Doubled()).problems == []
