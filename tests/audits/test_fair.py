"""Fair designs pass, whatever their factor and however odd their shape."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gradlab import api
from gradlab.spec.paths import with_all

pytestmark = pytest.mark.thorough

PARTS = Path(__file__).parents[1] / "support/parts_with_parameters.py"
LINES: dict[str, Any] = {
    "data": {"task": "identity", "dim": 3, "samples": 16},
    "model": {"depth": 3, "width": 3, "stem": "linear", "head": "linear", "init": "he_normal"},
    "train": {"loss": "mse", "optimizer": "adam", "lr": 0.01, "batch": 8, "steps": 6},
}
DIGITS: dict[str, Any] = {
    "data": {"task": "mnist", "train": 40, "validation": 8, "test": 8},
    "model": {"depth": 3, "width": 4},
    "train": {"loss": "cross_entropy", "optimizer": "sgd", "lr": 0.1, "batch": 16, "epochs": 2},
}
SHAPES: dict[str, dict[str, Any]] = {
    "as it is": {},
    "depth 1": {"model.depth": 1},
    "width 1": {"model.width": 1},
    "one sample": {"data.samples": 1},
    "batch larger than the data": {"train.batch": 100},
    "no steps": {"train.steps": 0},
    "float64": {"train.precision": "float64"},
    "reference engine": {"train.engine": "reference"},
    "torch engine": {"train.engine": "torch"},
    "batch norm": {"model.norm": "batch"},
    "ReZero": {"model.skip": "rezero"},
    "parts of the user's own": {
        "model.activation": "bent", "model.norm": "quiet", "model.skip": "closed", "train.optimizer": "late",
        "train.loss": "half", "model.init": "constant", "train.schedule": "dip",
    },
}  # fmt: skip
FIELDS: dict[str, tuple[Any, ...]] = {
    "data.dim": (3, 5),
    "data.samples": (16, 17),
    "data.half_range": (1.0, 2.0),
    "data.split": ("per_study", "per_trial"),
    "model.depth": (3, 5),
    "model.width": (3, 4),
    "model.stem": ("linear", "none"),
    "model.head": ("linear", "none"),
    "model.layers_per_block": (1, 2),
    "model.activation": ("relu", "tanh", {"kind": "leaky_relu", "negative_slope": 0.2}),
    "model.skip": ("none", "identity", "scaled", "rezero", "pre_activation", "add_then_activate"),
    "model.norm": ("none", "layer", "batch", "rms"),
    "model.bias": (True, False),
    "model.last_activation": (True, False),
    "model.init": ("he_normal", "zeros", {"kind": "uniform", "a": 0.2, "bias": "same"}),
    "model.init.scale": (1, 2.0, "1/sqrt(depth)"),
    "model.init.scale_on": ("all", "blocks"),
    "model.init.bias": ("zeros", "same"),
    "train.loss": ("mse", "mean_output"),
    "train.optimizer": ("sgd", "adamw", "nesterov"),
    "train.lr": (0.01, 1e6),
    "train.schedule": ("fixed", "cosine", "one_cycle"),
    "train.warmup": (0, 3),
    "train.batch": (8, 1, "full"),
    "train.steps": (6, 0, 40),
    "train.clip": (None, 1e-9),
    "train.precision": ("float32", "float64"),
    "train.engine": ("auto", "reference", "torch"),
}
IMPOSSIBLE = {
    ("model.layers_per_block", "depth 1"),
    ("model.stem", "width 1"),
    ("model.head", "width 1"),
}


def fair_study(base: dict[str, Any], factor: str, values: tuple[Any, ...]) -> dict[str, Any]:
    arms = {f"arm {index}": {factor: value} for index, value in enumerate(values)}
    return {"question": "Fair?", "factor": factor, "base": base, "arms": arms, "seeds": 2, "parts": [str(PARTS)]}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("factor", FIELDS)
def test_a_single_field_as_the_factor_passes(factor: str, shape: str) -> None:
    if (factor, shape) in IMPOSSIBLE:
        pytest.skip("no such network")
    changes = {path: value for path, value in SHAPES[shape].items() if path != factor}
    if factor == "train.loss":
        changes["train.steps"] = 0  # the mean output cannot be minimized
    found = api.audit(fair_study(with_all(LINES, changes), factor, FIELDS[factor]))
    assert found.fair, found.answer
    assert found.identical or found.only_difference is not None or len(found.varied) > 1


@pytest.mark.parametrize(
    ("factor", "values"),
    [
        ("data.train", (40, 41)),
        ("data.validation", (8, 0)),
        ("data.test", (8, 0)),
        ("data.pixels", ("standardized", "unit", "raw")),
        ("data.split", ("per_study", "per_trial")),
        ("train.epochs", (2, 3)),
        ("train.batch", (16, 40, "full", 1000)),
        ("train.schedule", ("fixed", {"kind": "step", "every": 1})),
    ],
)
def test_a_field_of_a_classification_passes(factor: str, values: tuple[Any, ...]) -> None:
    assert api.audit(fair_study(DIGITS, factor, values)).fair


def test_training_data_of_a_single_class_pass() -> None:
    base = with_all(DIGITS, {"data.train": 1, "data.validation": 0, "data.test": 0})
    assert api.audit(fair_study(base, "model.skip", ("none", "identity"))).fair


def test_an_axis_of_one_level_and_one_seed_passes() -> None:
    tree = {"question": "Fair?", "base": LINES, "axes": {"model.depth": [3], "model.skip": ["none", "identity"]}}
    found = api.audit({**tree, "seeds": [7]})
    assert found.fair
    assert found.varied == ("model.skip",)
    alone = api.audit({**tree, "axes": {"model.depth": [3]}})
    assert alone.fair
    assert alone.cannot_see == ()


@pytest.mark.parametrize(
    "hidden",
    [
        {"train.batch": "full"},
        {"train.engine": "fused"},
        {"model.init.scale_on": "blocks"},
        {"data.split": "per_trial"},
        {"train.warmup": 1},
    ],
    ids=str,
)
def test_settings_that_change_nothing_are_no_differences(hidden: dict[str, Any]) -> None:
    base = with_all(LINES, {"train.batch": 16})
    arms = {"plain": {}, "residual": {"model.skip": "identity", **hidden}}
    assert api.audit({"question": "Fair?", "factor": "model.skip", "base": base, "arms": arms, "seeds": 2}).fair


def test_blocks_of_a_plain_network_are_no_difference() -> None:
    base = with_all(LINES, {"model.depth": 5})
    arms = {"slow": {}, "fast": {"train.lr": 0.1, "model.layers_per_block": 4}}
    assert api.audit({"question": "Fair?", "factor": "train.lr", "base": base, "arms": arms}).fair


def test_a_part_that_draws_its_own_numbers_passes_if_all_arms_have_it(tmp_path: Path) -> None:
    (tmp_path / "noisy.py").write_text(
        "import numpy as np\nfrom gradlab.network import Activation\n\n\n"
        "class Noisy(Activation):\n    '''f(x) = x + noise.'''\n\n    name = 'noisy'\n\n"
        "    def forward(self, x):\n        return x + np.random.normal(size=x.shape).astype(x.dtype)\n\n"
        "    def slope(self, x, y):\n        return np.ones_like(x)\n"
    )
    tree = fair_study(with_all(LINES, {"model.activation": "relu"}), "model.skip", ("none", "identity"))
    tree["base"]["model"]["activation"] = "noisy"
    found = api.audit({**tree, "parts": [str(tmp_path / "noisy.py")]})
    assert found.fair
    assert any("own parts" in sentence for sentence in found.cannot_see)
