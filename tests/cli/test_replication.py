"""What replications of public experiments need, together in one study, through the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from commands import gradlab

STUDY = """
question: Does a deep residual network without activation in its stem learn digits?
factor: [model.skip, model.widths]
base:
  data: {task: mnist, train: 60, validation: 40, test: 60}
  model: {depth: 5, width: 6, stem_activation: false, stem_norm: false, norm: layer,
          activation: gelu_tanh, skip: none, head_activation: tanh, init: {kind: he_normal, scale: 1/sqrt(depth)}}
  train: {loss: cross_entropy, optimizer: adam, lr: 1e-2, batch: 20, epochs: 3,
          schedule: {kind: plateau, by: validation_loss, patience: 0},
          early_stopping: {by: validation_loss, patience: 2}}
arms:
  plain: {}
  residual: {model.skip: identity}
  tapered: {model.skip: identity, model.widths: {linear: [8, 4]}}
seeds: 2
figures: []
measure: {best: test_accuracy, weights: [best]}
headline: {metric: best_test_accuracy}
claims:
  - {text: The residual net learns, metric: best_test_accuracy, arms: residual, op: ">", value: 0.15}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "replication.yaml").write_text(STUDY)
    return tmp_path


def test_the_study_runs_and_its_audit_says_that_it_selects_on_the_test_set(folder: Path) -> None:
    done = gradlab("run", "replication.yaml", "--set", "model.blocks=8", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["audit"]["same_setup_except_factor"] is True
    assert "test_selection" in {finding["code"] for finding in told["audit"]["findings"]}
    assert "8 of 6×6" in str(told["audit"]["table"])
    chunk = next((folder / "runs/replication").rglob("trials.parquet"))
    trials = pq.read_table(chunk).to_pandas()
    assert (trials["best_epoch"] >= 1).all()
    assert (trials["best_test_accuracy"] >= trials["test_accuracy"]).all()
    assert (trials["epochs_trained"] <= 3).all()


def test_blocks_can_be_set_on_the_command_line(folder: Path) -> None:
    done = gradlab("run", "replication.yaml", "--dry-run", "--set", "model.blocks=2", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "different widths" in done.stdout + done.stderr
    wrong = gradlab("run", "replication.yaml", "--set", "model.blocks=zero", cwd=folder)
    assert wrong.returncode == 2
    assert "model.blocks" in wrong.stderr
    shown = gradlab("show", "replication.yaml", "--resolved", cwd=folder).stdout
    assert "stem_activation: false" in shown
