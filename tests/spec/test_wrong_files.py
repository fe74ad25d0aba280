"""Wrong study files as a user sees them: the cause, the line, the path, and nothing of the machinery."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import gradlab
from gradlab.errors import InvalidInput

GOOD = """\
question: Does the machinery work?
factor: model.skip
base:
  data: {task: identity, dim: 4, samples: 32}
  model:
    depth: 3
    width: 4
    stem: none
    head: none
    init: he_normal
    activation: relu
  train:
    loss: mse
    optimizer: adam
    lr: 0.01
    batch: 8
    steps: 20
arms:
  plain: {}
  residual:
    model.skip: identity
seeds: 2
measure:
  layers: [start, end]
claims:
  - text: It is small.
    metric: final_loss
    arms: plain
    op: <
    value: 9
  - text: The skip helps.
    metric: final_loss
    arms: [residual, plain]
    op: <
published:
  - {metric: final_loss, arms: plain, value: 0.5}
quick:
  train.steps: 5
"""

JARGON = re.compile(
    r"[Ii]nput should|valid (integer|number|string|dictionary|tuple|list|boolean)|pydantic|Traceback|extra_forbidden|"
    r"constrained|literal\[|tuple\[|function-|NoneType|dict_type|unable to parse|regex|match pattern"
)

WRONG = [
    ("lr: 0.01", "lr: 1e-3x", "line 15, base.train.lr: a number was expected, not '1e-3x'"),
    ("lr: 0.01", "lr: -1", "line 15, base.train.lr: must be above 0, not -1"),
    ("lr: 0.01", "lr:", "line 15, base.train.lr: a number was expected, not nothing"),
    ("lr: 0.01", "lr: .nan", "line 15, base.train.lr: a finite number was expected, not nan"),
    ("    lr: 0.01\n", "", "line 12, base.train.lr: missing"),
    ("depth: 3", "depht: 3", "line 6, base.model.depht: unknown key 'depht' in model; did you mean 'depth'?"),
    ("depth: 3", "depth: three", "line 6, base.model.depth: a whole number was expected, not 'three'"),
    ("depth: 3", "depth: 2.5", "line 6, base.model.depth: a whole number was expected, not 2.5"),
    ("depth: 3", "depth: yes", "line 6, base.model.depth: a whole number was expected, not true"),
    ("depth: 3", "depth: 0", "line 6, base.model.depth: must be at least 1, not 0"),
    ("relu", "rellu", "line 11, base.model.activation: 'rellu' is not an activation; did you mean 'relu'?"),
    ("activation: relu", "activation: [relu]", "line 11, base.model.activation: the name of an activation was"),
    (
        "activation: relu",
        "activation: {kind: leaky_relu, slope: 1}",
        "line 11, base.model.activation.slope: unknown key 'slope' of activation 'leaky_relu'",
    ),
    (
        "optimizer: adam",
        "optimizer: {kind: adam, beta1: 1.5}",
        "line 14, base.train.optimizer.beta1: must be below 1, not 1.5",
    ),
    ("stem: none", "stem: no", "line 8, base.model.stem: linear or none was expected, not false"),
    ("batch: 8", "batch: half", "line 16, base.train.batch: a whole number or full was expected, not 'half'"),
    ("steps: 20", "steps: 20\n    epochs: 3", "line 17, base.train.steps: give a budget: either steps or epochs"),
    ("task: identity", "task: identiy", "line 4, base.data.task: 'identiy' is not a task; did you mean 'identity'?"),
    ("dim: 4", "dim: 5", "line 8, base.model.stem: without a stem the input width 5 has to be the model's width 4"),
    ("loss: mse", "loss: cross_entropy", "line 13, base.train.loss: 'cross_entropy' compares with classes"),
    (
        "model.skip: identity",
        "model.skip: identiy",
        "line 21, arms.residual.model.skip: 'identiy' is not a skip; did you mean 'identity'?",
    ),
    ("model.skip: identity", "modle.skip: none", "line 21, arms.residual.modle.skip: 'modle.skip' is not a path below"),
    ("model.skip: identity", "model:\n      depth: 0", "line 22, arms.residual.model.depth: must be at least 1, not 0"),
    ("plain: {}", "plain: none", "line 19, arms.plain: a mapping (key: value) was expected, not 'none'"),
    ("  plain: {}\n  residual:\n    model.skip: identity\n", "  {}\n", "line 18, arms: a study needs arms or axes"),
    ("arms:\n", "arm:\n", "line 18, arm: unknown key 'arm' in study; did you mean 'arms'?"),
    ("seeds: 2", "seeds: [1, 2, -3]", "line 22, seeds.3: must be at least 0, not -3"),
    ("seeds: 2", "seeds: many", "line 22, seeds: a whole number, a list or a mapping (key: value) was expected"),
    ("[start, end]", "[start, midway]", "line 24, measure.layers.2: a whole number, start, log or end was expected"),
    ("[start, end]", "[start, 99]", "line 24, measure.layers: step 99 is beyond the budget of 20 steps"),
    ("    op: <\npub", "    op: less\npub", "line 34, claims.2.op: 'less' is not known"),
    ("value: 9", "value: nine", "line 30, claims.1.value: a number, a list or theory was expected, not 'nine'"),
    ("arms: [residual, plain]", "arms: [residual, plian]", "line 33, claims.2.arms: 'plian' is not a group"),
    ("    metric: final_loss\n    arms: [", "    metric: final_los\n    arms: [", "line 32, claims.2.metric: 'final"),
    ("arms: plain, value: 0.5", "arms: plan, value: 0.5", "line 36, published.1.arms: 'plan' is not a group"),
    ("train.steps: 5", "train.stps: 5", "line 38, quick.train.stps: unknown key 'stps' in train; did you mean"),
    ("train.steps: 5", "trian.steps: 5", "line 38, quick.trian.steps: 'trian' is not a field of a study"),
    ("factor: model.skip", "factor: model.skipp", "line 2, factor: 'model.skipp' is not a path of this study"),
    ("question: Does the machinery work?\n", "", "mine.yaml, question: missing"),
    ("question: Does", "question: a: b", "line 1, column 12: a second ':' on the same line; put the text in quotes"),
    ("    depth: 3", "\tdepth: 3", "line 6, column 1: a tab; indent with spaces"),
    ("[start, end]", "[start, end", "line 25, column 7: a list that starts with '[' is not closed"),
    ("  train:", " train:", "line 12, column 2: the indentation does not match the lines above"),
    ("seeds: 2", "seeds: 2\nseeds: 3", "line 23, column 1: the key 'seeds' is duplicated"),
]  # fmt: skip


def see(text: str, folder: Path, **options: object) -> str:
    """Return the message that a user sees for a file with this text."""
    path = folder / "mine.yaml"
    path.write_text(text, encoding="utf8")
    with pytest.raises(InvalidInput) as caught:
        gradlab.plan(path, **options)
    return str(caught.value).replace(f"{folder}/", "")


@pytest.mark.parametrize(("good", "wrong", "message"), WRONG, ids=[wrong.strip()[:40] for _, wrong, _ in WRONG])
def test_a_message_begins_with_the_file_the_line_and_the_path(
    good: str, wrong: str, message: str, tmp_path: Path
) -> None:
    assert good in GOOD
    seen = see(GOOD.replace(good, wrong, 1), tmp_path)
    assert seen.startswith(message if message.startswith("mine.yaml") else f"mine.yaml, {message}")
    assert not JARGON.search(seen)


def test_the_right_file_is_planned(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(GOOD)
    assert len(gradlab.plan(path).trials) == 4


def test_several_problems_are_listed_each_with_its_line(tmp_path: Path) -> None:
    text = GOOD.replace("depth: 3", "depth: three").replace("lr: 0.01", "lr: x").replace("width: 4", "width: -4")
    assert see(text, tmp_path).splitlines() == [
        "mine.yaml: 3 problems",
        "  line 6, base.model.depth: a whole number was expected, not 'three'",
        "  line 7, base.model.width: must be at least 1, not -4",
        "  line 15, base.train.lr: a number was expected, not 'x'",
    ]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["train.lr=1e-3x"], "--set train.lr=1e-3x: a number was expected, not '1e-3x'"),
        ({"train.lr": "x"}, "overrides['train.lr']: a number was expected, not 'x'"),
        (["model.activation=rellu"], "--set model.activation=rellu: 'rellu' is not an activation; did you mean"),
        (["train.optimizer.beta1=2"], "--set train.optimizer.beta1=2: must be below 1, not 2"),
        (["arms.residual.model.skip=x"], "--set arms.residual.model.skip=x: 'x' is not a skip"),
        (["data.dim=5"], "mine.yaml, line 8, base.model.stem: without a stem the input width 5"),
        (["seeds=0"], "--set seeds=0: must be at least 1, not 0"),
        (["measure.layers=[start, 77]"], "--set measure.layers=[start, 77]: step 77 is beyond the budget of 20 steps"),
        (["modle.depth=3"], "--set modle.depth=3: 'modle' is not a field of a study; did you mean 'model'?"),
        (["train.lr=[1"], "--set train.lr=[1, line 1, column 3: a list that starts with '[' is not closed"),
    ],
)  # fmt: skip
def test_a_wrong_override_is_named_instead_of_the_line(overrides: object, message: str, tmp_path: Path) -> None:
    assert see(GOOD, tmp_path, overrides=overrides).startswith(message)


def test_a_mapping_has_paths_but_no_lines() -> None:
    from gradlab.spec import yaml_text

    tree = yaml_text.parse(GOOD, "x")
    tree["claims"][1]["metric"] = "final_los"
    with pytest.raises(InvalidInput, match=r"^study, claims\.2\.metric: 'final_los' is not a metric of a trial"):
        gradlab.plan(tree)


def test_a_missing_data_file_is_named_at_its_line(tmp_path: Path) -> None:
    text = GOOD.replace("{task: identity, dim: 4, samples: 32}", "{task: file, path: there.csv, target: y}")
    assert see(text, tmp_path).startswith("mine.yaml, line 4, base.data.path: there.csv: No such file")


def test_a_broken_part_file_is_named_at_its_line(tmp_path: Path) -> None:
    (tmp_path / "part.py").write_text("1/0")
    assert see(GOOD + "parts: [part.py]\n", tmp_path).startswith(
        "mine.yaml, line 39, parts: parts file part.py: ZeroDivisionError"
    )


def test_an_arm_with_the_name_of_a_type_keeps_its_name(tmp_path: Path) -> None:
    text = GOOD.replace("plain: {}", "int: {model.depth: 0}")
    assert see(text, tmp_path).startswith("mine.yaml, line 19, arms.int.model.depth: must be at least 1, not 0")


@pytest.mark.parametrize("text", ["", "- a\n- b\n", "just words"])
def test_a_file_that_is_no_study_says_what_a_study_needs(text: str, tmp_path: Path) -> None:
    assert see(text, tmp_path).startswith("mine.yaml: a study needs a question, a base, and arms or axes; ")
