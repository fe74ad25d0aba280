"""Every difference that an arm has without declaring it makes the audit say no."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradlab
from gradlab import api
from gradlab.audits.compare import Status
from gradlab.audits.study import audit_plan
from gradlab.network.norms import LayerNorm
from gradlab.spec.paths import with_all
from gradlab.trials.setup import Setup, prepare
from gradlab.trials.trial import Trial

PARTS = Path(__file__).parents[1] / "support/parts_with_parameters.py"
SKIP = {"model.skip": "identity"}
LINES: dict[str, Any] = {
    "data": {"task": "identity", "dim": 4, "samples": 32},
    "model": {"depth": 4, "width": 4, "stem": "none", "head": "linear", "init": "he_normal"},
    "train": {"loss": "mse", "optimizer": "adam", "lr": 0.01, "batch": 8, "steps": 20},
}
DIGITS: dict[str, Any] = {
    "data": {"task": "mnist", "train": 64, "validation": 16, "test": 16},
    "model": {"depth": 3, "width": 6},
    "train": {"loss": "cross_entropy", "optimizer": "sgd", "lr": 0.1, "batch": 16, "epochs": 22},
}


def study(base: dict[str, Any], common: dict[str, Any], hidden: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A plain and a residual arm, of which the residual one has something more."""
    arms = {"plain": {}, "residual": {**SKIP, **hidden}}
    tree = {"question": "Fair?", "factor": "model.skip", "base": with_all(base, common), "arms": arms, "seeds": 2}
    return deepcopy({**tree, "parts": [str(PARTS)], **more})


def lines(hidden: dict[str, Any], /, **common: Any) -> dict[str, Any]:
    return study(LINES, {path.replace("__", "."): value for path, value in common.items()}, hidden)


def digits(hidden: dict[str, Any], /, **common: Any) -> dict[str, Any]:
    return study(DIGITS, {path.replace("__", "."): value for path, value in common.items()}, hidden)


def beside_rates(slow: Any, fast: Any, **more: Any) -> dict[str, Any]:
    """The declared factor is the learning rate; the skips, or something more, differ without being declared."""
    arms = {"slow": {"model.skip": slow}, "fast": {"train.lr": 0.1, "model.skip": fast}}
    for path, (first, second) in more.items():
        arms["slow"][path.replace("__", ".")], arms["fast"][path.replace("__", ".")] = first, second
    return {"question": "Fair?", "factor": "train.lr", "base": LINES, "arms": arms, "seeds": 2, "parts": [str(PARTS)]}


ATTACKS: dict[str, dict[str, Any]] = {
    "learning rate": lines({"train.lr": 0.02}),
    "cosine schedule": lines({"train.schedule": "cosine"}),
    "cosine with more steps": lines({"train.steps": 21}, train__schedule="cosine"),
    "step decay every 12 instead of 11 epochs": digits(
        {"train.schedule": {"kind": "step", "every": 12}}, train__schedule={"kind": "step", "every": 11}
    ),
    "more steps": lines({"train.steps": 40}),
    "weight decay": lines({"train.optimizer": {"kind": "adam", "weight_decay": 1e-4}}),
    "Adam's epsilon": lines({"train.optimizer": {"kind": "adam", "epsilon": 1e-7}}),
    "AdamW for Adam": lines({"train.optimizer": {"kind": "adamw", "weight_decay": 0}}),
    "Nesterov for momentum": lines({"train.optimizer": "nesterov"}, train__optimizer="momentum"),
    "batch size": lines({"train.batch": 16}),
    "more samples": lines({"data.samples": 33}),
    "wider data range": lines({"data.half_range": 1.5}),
    "larger MNIST subset": digits({"data.train": 80}),
    "other pixel scaling": digits({"data.pixels": "unit"}),
    "split per trial": digits({"data.split": "per_trial"}),
    "smaller test set": digits({"data.test": 15}),
    "validation moved into training": digits({"data.train": 80, "data.validation": 0}),
    "init kind": lines({"model.init": "xavier_normal"}),
    "init scale": lines({"model.init.scale": 0.99}),
    "where the scale applies": lines({"model.init.scale_on": "blocks"}, model__init={"kind": "he_normal", "scale": 2}),
    "bias init": lines({"model.init.bias": "same"}),
    "no bias": lines({"model.bias": False}),
    "float64": lines({"train.precision": "float64"}),
    "another engine": lines({"train.engine": "reference"}),
    "clipping": lines({"train.clip": 100.0}),
    "warm-up": lines({"train.warmup": 3}),
    "a norm": lines({"model.norm": "layer"}),
    "width up and depth down": digits({"model.width": 8, "model.depth": 2}),
    "activation": lines({"model.activation": "gelu"}),
    "leaky slope": lines(
        {"model.activation": {"kind": "leaky_relu", "negative_slope": 0.02}}, model__activation="leaky_relu"
    ),
    "last activation off": lines({"model.last_activation": False}),
    "a head": lines({"model.head": "none"}),
    "another loss": lines({"train.loss": "mean_output"}, train__steps=0),
    "2 layers per block": lines({"model.layers_per_block": 2}),
    "4 layers per block": lines({"model.layers_per_block": 4}),
    "epsilon of layer norm": lines({"model.norm": {"kind": "layer", "epsilon": 1e-4}}, model__norm="layer"),
    "epsilon of RMS norm": lines({"model.norm": {"kind": "rms", "epsilon": 1e-4}}, model__norm="rms"),
    "momentum of batch norm": lines({"model.norm": {"kind": "batch", "momentum": 0.2}}, model__norm="batch"),
    "ReZero's start": beside_rates({"kind": "rezero"}, {"kind": "rezero", "start": 0.1}),
    "alpha of a scaled skip": beside_rates({"kind": "scaled", "scale": 0.5}, {"kind": "scaled", "scale": 0.51}),
    "no activation in the stem": digits({"model.stem_activation": False}),
    "no norm in the stem": digits({"model.stem_norm": False}, model__norm="layer"),
    "an activation after the head": digits({"model.head_activation": "tanh"}),
    "another activation after the head": digits({"model.head_activation": "sigmoid"}, model__head_activation="tanh"),
    "GELU's tanh form": lines({"model.activation": "gelu_tanh"}, model__activation="gelu"),
    "one more block": digits({"model.blocks": 3}, model__blocks=2),
    "blocks instead of a depth, and one more": digits({"model.blocks": 3}),
    "a taper": digits({"model.widths": {"linear": [6, 4]}}),
    "another list of widths": digits({"model.widths": [6, 4, 5]}, model__widths=[6, 4, 6]),
    "another form of taper": digits({"model.widths": {"log": [16, 2]}}, model__widths={"linear": [16, 2]}),
    "init of the projections": {
        **digits({}, model__widths=[6, 4, 5], model__skip="identity"),
        "factor": "train.lr",
        "arms": {"a": {}, "b": {"train.lr": 0.2, "model.projection": "he_normal"}},
    },
    "scale of the projections": {
        **digits({}, model__widths=[6, 4, 5], model__skip="identity"),
        "factor": "train.lr",
        "arms": {"a": {}, "b": {"train.lr": 0.2, "model.projection.scale": 0.5}},
    },
    "early stopping": digits({"train.early_stopping": {"patience": 3}}),
    "patience of early stopping": digits(
        {"train.early_stopping.patience": 4}, train__early_stopping={"patience": 3, "by": "validation_loss"}
    ),
    "metric of early stopping": digits(
        {"train.early_stopping.by": "train_loss"}, train__early_stopping={"patience": 3, "by": "validation_loss"}
    ),
    "smallest improvement of early stopping": digits(
        {"train.early_stopping.min_delta": 0.01}, train__early_stopping={"patience": 3}
    ),
    "reduce on plateau": digits({"train.schedule": "plateau"}),
    "patience of the plateau": digits(
        {"train.schedule": {"kind": "plateau", "patience": 3}}, train__schedule={"kind": "plateau", "patience": 2}
    ),
    "metric of the plateau": digits(
        {"train.schedule": {"kind": "plateau", "by": "train_loss"}}, train__schedule="plateau"
    ),
    "a user's norm in evaluation": lines({"model.norm": {"kind": "quiet", "held_out": 2}}, model__norm="quiet"),
    "a user's skip": beside_rates({"kind": "quiet"}, {"kind": "quiet", "weight": 1.1}),
}

MORE: dict[str, dict[str, Any]] = {
    "Adam's beta1": lines({"train.optimizer": {"kind": "adam", "beta1": 0.8}}),
    "Adam's beta2": lines({"train.optimizer": {"kind": "adam", "beta2": 0.99}}),
    "size of the momentum": lines(
        {"train.optimizer": {"kind": "momentum", "momentum": 0.8}}, train__optimizer="momentum"
    ),
    "alpha of RMSprop": lines({"train.optimizer": {"kind": "rmsprop", "alpha": 0.9}}, train__optimizer="rmsprop"),
    "weight decay beyond six digits": lines(
        {"train.optimizer": {"kind": "adam", "weight_decay": 0.1000001}},
        train__optimizer={"kind": "adam", "weight_decay": 0.1},
    ),
    "a learning rate that is a rounding apart": lines({"train.lr": float(np.nextafter(0.01, 1))}),
    "a clip that never acts": lines({"train.clip": 1e9}, train__clip=1e8),
    "silu for gelu": lines({"model.activation": "silu"}, model__activation="gelu"),
    "he_uniform for he_normal": lines({"model.init": "he_uniform"}),
    "range of a uniform init": lines({"model.init": {"kind": "uniform", "a": 0.51}}, model__init="uniform"),
    "orthogonal init": lines({"model.init": "orthogonal"}),
    "zero init": lines({"model.init": "zeros"}),
    "scale by depth": lines({"model.init.scale": "1/sqrt(depth)"}),
    "gamma of step decay": digits(
        {"train.schedule": {"kind": "step", "every": 20, "gamma": 0.4}}, train__schedule={"kind": "step", "every": 20}
    ),
    "floor of a cosine": lines({"train.schedule": {"kind": "cosine", "floor": 0.01}}, train__schedule="cosine"),
    "end of a linear schedule": lines({"train.schedule": {"kind": "linear", "end": 0.1}}, train__schedule="linear"),
    "rise of one cycle": lines({"train.schedule": {"kind": "one_cycle", "rise": 0.4}}, train__schedule="one_cycle"),
    "one more step of warm-up": lines({"train.warmup": 2}, train__warmup=1),
    "full batch": lines({"train.batch": "full"}),
    "one sample per batch": lines({"train.batch": 1}),
    "one more epoch": digits({"train.epochs": 23}),
    "steps instead of as many epochs and one more": digits({"train.epochs": None, "train.steps": 89}),
    "one more unit": digits({"model.width": 7}),
    "one more layer": digits({"model.depth": 4}),
    "no stem": lines({"model.stem": "none"}, model__stem="linear"),
    "epsilon of batch norm": lines({"model.norm": {"kind": "batch", "epsilon": 1e-4}}, model__norm="batch"),
    "layer norm for batch norm": lines({"model.norm": "layer"}, model__norm="batch"),
    "RMS norm for layer norm": lines({"model.norm": "rms"}, model__norm="layer"),
    "blocks behind a pre-activation skip": beside_rates(
        "pre_activation", "pre_activation", model__layers_per_block=(1, 2)
    ),
    "blocks of ReZero": beside_rates("rezero", "rezero", model__layers_per_block=(1, 2)),
    "blocks that are activated after the sum": beside_rates(
        "add_then_activate", "add_then_activate", model__layers_per_block=(2, 4)
    ),
    "fewer validation images": digits({"data.validation": 15}),
    "raw pixels": digits({"data.pixels": "raw"}),
    "one more test image": digits({"data.test": 17}),
    "tiles of the fused engine": lines({"train.engine": {"kind": "fused", "products": "tiles"}}, train__engine="fused"),
    "the torch engine": lines({"train.engine": "torch"}),
    "a user's activation": lines({"model.activation": {"kind": "bent", "bend": 0.2}}, model__activation="bent"),
    "a user's norm in the backward pass": lines({"model.norm": {"kind": "quiet", "back": 2}}, model__norm="quiet"),
    "a user's norm in its running mean": lines({"model.norm": {"kind": "quiet", "keep": 0.4}}, model__norm="quiet"),
    "a user's skip in the backward pass": beside_rates({"kind": "quiet"}, {"kind": "quiet", "back": 2}),
    "a user's skip on inputs that no batch has": beside_rates({"kind": "quiet"}, {"kind": "quiet", "beyond": 2}),
    "a user's gate behind an alpha of 0": beside_rates({"kind": "closed"}, {"kind": "closed", "gate": 2}),
    "epsilon of a norm behind an alpha of 0": beside_rates(
        "rezero", "rezero", model__norm=("layer", {"kind": "layer", "epsilon": 1e-4})
    ),
    "a user's norm that changes no output": lines({"model.norm": "quiet"}),
    "a user's optimizer in its second update": lines(
        {"train.optimizer": {"kind": "late", "second": 2}}, train__optimizer="late"
    ),
    "a user's loss": lines({"train.loss": {"kind": "half", "share": 0.6}}, train__loss="half"),
    "a user's init": lines({"model.init": {"kind": "constant", "c": 1.1}}, model__init="constant"),
    "a user's schedule at step 7": lines({"train.schedule": {"kind": "dip", "depth": 0.4}}, train__schedule="dip"),
    "a width that the other arm's data do not fit": {
        **lines({}),
        "factor": "model.width",
        "arms": {"a": {}, "b": {"model.width": 5, "data.dim": 5}},
    },
    "two differences at once": lines({"model.layers_per_block": 2, "train.optimizer": {"kind": "adam", "beta1": 0.8}}),
    "in the first arm instead of the second": {
        **lines({}, model__norm="layer"),
        "arms": {"plain": {"model.norm": {"kind": "layer", "epsilon": 1e-4}}, "residual": SKIP},
    },
    "in the third arm only": {
        **lines({}),
        "arms": {"plain": {}, "residual": SKIP, "scaled": {"model.skip": "scaled", "train.warmup": 2}},
    },
}


@pytest.mark.parametrize("tree", ATTACKS.values(), ids=ATTACKS.keys())
def test_an_undeclared_difference_is_caught(tree: dict[str, Any]) -> None:
    assert not api.audit(tree).fair


@pytest.mark.parametrize("tree", MORE.values(), ids=MORE.keys())
def test_an_undeclared_difference_in_a_corner_is_caught(tree: dict[str, Any]) -> None:
    assert not api.audit(tree).fair


def test_every_difference_of_two_is_named() -> None:
    found = api.audit(MORE["two differences at once"])
    per_block, optimizer = [fact.subject for fact in found.facts if fact.severity == "problem"]
    assert ("block" in per_block, optimizer) == (True, "optimizer")
    assert "1 in plain, 2 in residual" in found.undeclared[0]


def test_what_only_the_behavior_shows_is_named_by_its_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = beside_rates({"kind": "quiet"}, {"kind": "quiet", "weight": 1.1})
    monkeypatch.setattr("gradlab.audits.realize._list_values", lambda parameters: "")
    found = api.audit(tree)
    (words,) = found.undeclared
    assert "model.skip.weight is 1.0" in words


# ---------------------------------------------------------------------- what no configuration shows


def tampering(change: Callable[[Setup], Setup]) -> Callable[[Trial], Setup]:
    """The residual arm is built differently from what its configuration says."""

    def realize(trial: Trial) -> Setup:
        setup = prepare(trial)
        return change(setup) if trial.group == "residual" else setup

    return realize


def other_norm_in_one_layer(setup: Setup) -> Setup:
    block = (replace(setup.mlp.blocks[1][0], norm=LayerNorm(epsilon=1e-4)),)
    blocks = (setup.mlp.blocks[0], block, *setup.mlp.blocks[2:])
    return replace(setup, mlp=replace(setup.mlp, blocks=blocks))


def blocks_joined(setup: Setup) -> Setup:
    first, second, *rest = setup.mlp.blocks
    return replace(setup, mlp=replace(setup.mlp, blocks=((*first, *second), *rest)))


def other_probe(setup: Setup) -> Setup:
    return replace(setup, probe_x=setup.probe_x[::-1].copy())


def same_layout(setup: Setup) -> Setup:
    return replace(setup, mlp=replace(setup.mlp, layout=replace(setup.mlp.layout)))


@pytest.mark.parametrize("change", [other_norm_in_one_layer, blocks_joined, other_probe])
def test_a_network_that_is_built_differently_is_caught(change: Callable[[Setup], Setup]) -> None:
    plan = gradlab.plan(lines({}, model__norm="layer"))
    assert audit_plan(plan).fair
    assert audit_plan(plan, realize=tampering(same_layout)).fair
    assert not audit_plan(plan, realize=tampering(change)).fair


def test_what_networks_compute_follows_from_the_difference_that_is_named() -> None:
    rows = {row.trait: row.status for row in api.audit(ATTACKS["init scale"]).rows}
    assert rows["initial weights"] is Status.UNDECLARED
    assert all(status is Status.FOLLOWS for trait, status in rows.items() if trait.startswith("outputs in"))
    assert rows["first 2 updates"] is Status.FOLLOWS
    assert rows["train data"] is Status.SAME


def test_behavior_is_computed_once_for_every_distinct_arm(monkeypatch: pytest.MonkeyPatch) -> None:
    from gradlab.audits import realize

    computed = []
    compute = realize.compute_behavior

    def counting(setup: Setup) -> Any:
        computed.append(setup.trial.group)
        return compute(setup)

    monkeypatch.setattr(realize, "compute_behavior", counting)
    assert api.audit(lines({})).fair
    assert len(computed) == 4  # two arms at two seeds, of eight that are realized
