"""Promise 7: no study file, however strange, produces anything but a plan or a typed error."""

from __future__ import annotations

import copy
import random
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gradlab
from gradlab.errors import InvalidInput
from gradlab.parts import BUILT_IN
from gradlab.spec import files, yaml_text
from gradlab.testing.base import small_tree

WORDS = [
    "none", "linear", "relu", "identity", "mnist", "adam", "full", "start", "log", "end", "fresh", "train", "kind",
    "task", "depth", "model", "train.lr", "model.skip", "1/sqrt(depth)", "../x", "<b>", "", " ", "é", "\x00", "a.b.c",
    "nan", "1e999", *BUILT_IN.names("skip"), *BUILT_IN.names("optimizer"), *BUILT_IN.names("probe"),
]  # fmt: skip
ODD = [0, -1, 1, 2, 3, 7, 10**9, 10**20, -(10**20), 1e-320, 1e308, -0.0, float("nan"), float("inf"), True, False, None]
KEYS = [
    "question", "base", "arms", "axes", "seeds", "seed", "measure", "claims", "factor", "quick", "headline",
    "published", "figures", "parts", "name", "data", "model", "train", "task", "dim", "samples", "depth", "width",
    "stem", "head", "activation", "skip", "norm", "init", "scale", "bias", "loss", "optimizer", "lr", "batch",
    "steps", "epochs", "clip", "layers", "probes", "probe", "size", "target", "metric", "value", "kind", "text", "at",
    "layer", "step", "op", "blocks", "widths", "stem_activation", "stem_norm", "head_activation", "projection",
    "early_stopping", "patience", "by", "min_delta", "best", "weights", "log", "schedule", "test_path", "test_rows",
]  # fmt: skip

JARGON = re.compile(r"[Ii]nput should|valid (integer|number|string|dict|tuple|list|bool)|pydantic|cannot be used here")
"""Words of the machinery, and of messages for kinds of problem that have no message of their own."""

scalars = st.one_of(st.sampled_from(WORDS), st.sampled_from(ODD), st.text(max_size=8), st.integers(), st.floats())
trees = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(st.sampled_from(KEYS), st.text(max_size=5)), inner, max_size=5),
    ),
    max_leaves=25,
)


def attempt(tree: Any) -> None:
    """Make a plan, or check a typed error with a message. Any other exception fails the test."""
    try:
        gradlab.plan(tree) if isinstance(tree, dict) else files.check_tree(tree, "x")
    except InvalidInput as error:
        assert str(error)
        assert not JARGON.search(str(error))


def places(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        found += places(value, (*path, key))
    return found


def mutated(data: st.DataObject) -> Any:
    """A valid study with one to three entries replaced, removed or renamed."""
    tree: Any = copy.deepcopy(small_tree())
    tree["published"] = [{"metric": "final_loss", "arms": "plain", "value": 1}]
    tree["quick"] = {"seeds": 1}
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(places(tree)[1:] or [("question",)]))
        parent = tree
        for key in path[:-1]:
            parent = parent[key]
        last = path[-1]
        match data.draw(st.sampled_from(["replace", "remove", "rename"])):
            case "replace":
                parent[last] = data.draw(trees)
            case "remove":
                del parent[last]
            case "rename" if isinstance(parent, dict):
                parent[data.draw(st.sampled_from(KEYS))] = parent.pop(last)
    return tree


@settings(max_examples=400)
@given(trees)
def test_any_tree_is_a_plan_or_a_typed_error(tree: Any) -> None:
    attempt(tree)


@settings(max_examples=600)
@given(st.data())
def test_a_good_study_with_odd_values_is_a_plan_or_a_typed_error(data: st.DataObject) -> None:
    attempt(mutated(data))


@settings(max_examples=300)
@given(st.text(max_size=200))
def test_any_text_is_yaml_or_a_typed_error(text: str) -> None:
    try:
        tree = yaml_text.parse(text, "x")
    except InvalidInput:
        return
    attempt(tree)


PATHS = [
    "train.lr", "train.optimizer", "train.optimizer.beta1", "model.depth", "model.init", "model.init.scale", "data",
    "data.dim", "arms.plain", "arms.plain.model.skip", "axes.model.depth", "axes", "arms", "seeds", "measure.layers",
    "model.blocks", "model.widths", "model.head_activation", "model.stem_norm", "model.projection.scale",
    "train.early_stopping", "train.early_stopping.patience", "train.schedule", "measure.best", "measure.weights",
    "axes.model.blocks", "arms.plain.model.blocks", "measure.probe",
    "headline.at.layer", "headline.metric", "published", "claims", "base", "train.steps",
]  # fmt: skip
VALUES = [
    "3",
    "[1, 2]",
    "{a: 1}",
    "none",
    "null",
    "-1",
    "1e999",
    "[[]]",
    "{kind: adam}",
    "relu",
    "plateau",
    "[best]",
    "train_loss",
    "{linear: [4, 2]}",
    "[4, 4, 4]",
    "x: y: z",
    "true",
    "''",
]


def small_enough(tree: Any) -> bool:
    """Whether a study is worth running here: few, tiny trials."""
    plan = gradlab.plan(tree)
    steps = sum(group.cost.steps for group in plan.groups)
    return len(plan.trials) <= 8 and plan.flops < 1e8 and plan.bytes < 5e7 and steps < 200


@settings(max_examples=150)
@given(st.data())
def test_a_study_that_can_be_planned_can_be_run_and_reported(data: st.DataObject) -> None:
    tree = mutated(data)
    try:
        if not isinstance(tree, dict) or not small_enough(tree):
            return
        result = gradlab.run(tree)
    except InvalidInput:
        return
    assert result.report()
    assert result.to_json()


@settings(max_examples=300)
@given(
    st.one_of(st.sampled_from(PATHS), st.text(max_size=12)), st.one_of(st.sampled_from(VALUES), st.text(max_size=12))
)
def test_any_override_is_applied_or_a_typed_error(path: str, value: str) -> None:
    try:
        gradlab.plan(small_tree(), overrides=[f"{path}={value}"])
    except InvalidInput as error:
        assert str(error)


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(20))
def test_a_hundred_thousand_random_studies(chunk: int) -> None:
    @settings(max_examples=2500, database=None)
    @given(st.data())
    def good_ones(data: st.DataObject) -> None:
        attempt(mutated(data))

    @settings(max_examples=2500, database=None)
    @given(trees)
    def any_ones(tree: Any) -> None:
        attempt(tree)

    random.seed(chunk)
    from hypothesis import seed

    seed(chunk)(good_ones)()
    seed(chunk)(any_ones)()
