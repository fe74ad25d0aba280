"""`gradlab new` writes studies that run, also from a PyTorch model, and a study in Python is the same as its YAML."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
import yaml
from typer.testing import CliRunner

import gradlab
from gradlab.cli import app
from gradlab.errors import InvalidInput
from gradlab.studies.drafting import EXAMPLES

RUNNER = CliRunner()


def new(*words: str) -> str:
    done = RUNNER.invoke(app(), ["new", *words])
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.parametrize("vary", list(EXAMPLES))
def test_a_new_study_is_valid_fair_and_commented(vary: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(new("--task", "moons", "--vary", vary))
    assert len(path.read_text().splitlines()) < 40
    assert path.read_text().count("# ") >= 6
    planned = gradlab.plan(str(path))
    assert len(planned.groups) == 2
    assert gradlab.audit(planned).passed


def test_values_and_numbers_are_taken_and_it_runs(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        new("--task", "moons", "--vary", "train.lr", "--values", "1e-3,0.1,1", "--steps", "5", "--seeds", "2")
    )
    assert len(gradlab.run(str(path)).trials()) == 6


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--task", "nist"], "mnist"),
        (["--vary", "model.skp"], "--values"),
        (["--vary", "model.bias"], "--values"),
        (["--vary", "model.skip", "--values", "none,identty"], "identity"),
    ],
)
def test_a_mistake_is_refused_with_what_is_accepted(words: list[str], said: str) -> None:
    done = RUNNER.invoke(app(), ["new", *words])
    assert isinstance(done.exception, InvalidInput)
    assert said in str(done.exception)


MODELS = """
    from torch import nn

    def plain():
        return nn.Sequential(
            nn.Flatten(), nn.Linear(784, 64), nn.LayerNorm(64), nn.GELU(), nn.Dropout(0.2), nn.Linear(64, 64),
            nn.LayerNorm(64), nn.GELU(), nn.Dropout(0.1), nn.Linear(64, 10),
        )

    def narrowing():
        return nn.Sequential(
            nn.Linear(784, 64, bias=False), nn.Tanh(), nn.Linear(64, 16, bias=False), nn.Tanh(),
            nn.Linear(16, 10, bias=False),
        )

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(32, 32), nn.Linear(32, 32)

        def forward(self, x):
            return x + self.b(self.a(x).relu()).relu()

    def residual():
        return nn.Sequential(nn.Linear(784, 32), nn.ReLU(), Block(), Block(), nn.Linear(32, 10))

    def convolution():
        return nn.Sequential(nn.Conv2d(1, 3, 3), nn.Flatten(), nn.Linear(3, 10))
"""
READ = {
    "plain": {"depth": 2, "width": 64, "activation": "gelu", "norm": "layer", "dropout": 0.2, "skip": "none"},
    "narrowing": {"depth": 2, "widths": [64, 16], "activation": "tanh", "bias": False, "norm": "none"},
    "residual": {"depth": 5, "width": 32, "activation": "relu", "skip": "identity", "layers_per_block": 2},
}


@pytest.mark.parametrize("name", list(READ))
def test_a_torch_model_is_read_and_what_is_not_is_said(name: str, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(dedent(MODELS))
    text = new("--from", f"{tmp_path}/model.py:{name}", "--vary", "train.lr")
    model = yaml.safe_load(text)["base"]["model"]
    assert READ[name].items() <= model.items()
    assert "# not read from the model: the initial weights" in text
    assert ("have dropout (2)" in text) == (name == "plain")


def test_a_model_of_another_kind_is_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(dedent(MODELS))
    done = RUNNER.invoke(app(), ["new", "--from", f"{tmp_path}/model.py:convolution"])
    assert isinstance(done.exception, InvalidInput)
    assert "Conv2d" in str(done.exception)


def test_a_study_in_python_is_the_same_as_its_yaml(tmp_path: Path) -> None:
    study = gradlab.Study(
        question="Does the skip matter?",
        base={
            "data": {"task": "moons", "samples": 40},
            "model": {"depth": 4, "width": 8},
            "train": {"loss": "cross_entropy", "optimizer": "adam", "lr": 1e-3, "batch": 8, "steps": 5},
        },
        arms={"plain": {}, "residual": {"model.skip": "identity"}},
        factor="model.skip",
        seeds=2,
        claims=[{"text": "It helps", "metric": "final_loss", "arms": ["residual", "plain"], "op": "<"}],
    )
    path = tmp_path / "same.yaml"
    path.write_text(study.to_yaml())
    ids = [[trial.id for trial in gradlab.plan(each).trials] for each in (study, str(path))]
    assert ids[0] == ids[1]
    assert gradlab.load(str(path)).study.claims == study.claims
