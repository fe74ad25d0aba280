"""Overfitting one batch, and comparing two probes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch_zoo import BROKEN, Cnn, Recurrent, Residual, Transformer, batch, mlp
from typer.testing import CliRunner

import gradlab
from gradlab.cli import app
from gradlab.torch.overfit import try_overfitting
from gradlab.torch.rules import CannotOverfit

RUNNER = CliRunner()
ENTROPY = nn.functional.cross_entropy
ABLE: dict[str, Callable[[], nn.Module]] = {
    "an MLP": lambda: mlp(3),
    "a deep MLP at He init": lambda: mlp(20, he=True),
    "a residual net": lambda: Residual(20, 20**-0.5),
    "a CNN": lambda: Cnn(channels=16),
    "a transformer with dropout": lambda: Transformer(layers=2),
    "an LSTM": Recurrent,
}


def _slow_but(name: str, *quick: str) -> Any:
    """Mark a case as slow, with some exceptions."""
    return name if name in quick else pytest.param(name, marks=pytest.mark.slow)


UNABLE = ("the plain net of the identity write-up", "a 30-layer net at default init", "dead ReLUs")


@pytest.mark.parametrize("name", [_slow_but(name, "an MLP", "an LSTM") for name in ABLE])
def test_a_healthy_network_overfits_one_batch(name: str) -> None:
    torch.manual_seed(0)
    found = try_overfitting(ABLE[name](), batch(), ENTROPY)
    assert found.ok, found.words
    assert found.constant == pytest.approx(1.36, abs=0.05)  # the entropy of the batch's classes


@pytest.mark.parametrize("name", [_slow_but(name, "dead ReLUs") for name in UNABLE])
def test_a_broken_network_does_not_overfit_one_batch(name: str) -> None:
    torch.manual_seed(0)
    found = try_overfitting(BROKEN[name][0](), batch(), ENTROPY)
    assert not found.ok, found.words


def test_a_regression_has_its_own_best_constant_prediction() -> None:
    torch.manual_seed(0)
    x, y = torch.randn(64, 32), 5 + torch.randn(64, 4)
    found = try_overfitting(mlp(3), (x, y), nn.functional.mse_loss, steps=600)
    assert found.ok
    assert found.constant == pytest.approx(float(y.var(0, correction=0).mean()), rel=1e-3)


def test_labels_reshuffled_at_every_step_cannot_be_learned() -> None:
    def shuffling(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return ENTROPY(output, target[torch.randperm(len(target))])

    assert not try_overfitting(mlp(3), batch(), shuffling).ok


def test_overfitting_on_request_leaves_the_model_unchanged() -> None:
    torch.manual_seed(0)
    model, (x, y) = mlp(2), batch()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    with gradlab.probe(model, optimizer) as p:
        ENTROPY(model(x), y).backward()
    state = torch.get_rng_state()
    found = p.diagnose(overfit=(x, y), loss=ENTROPY)
    assert found.codes == ("cannot_overfit_one_batch",)  # with the optimizer's own learning rate
    assert "SGD" in str(found)
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), before, strict=True))
    with gradlab.probe(model) as q:
        ENTROPY(model(x), y).backward()
    well = q.diagnose(overfit=(x, y), loss=ENTROPY)
    assert well.healthy
    assert well.overfit.words in str(well)
    assert q.diagnose().overfit is None
    with pytest.raises(gradlab.GradlabError, match="the loss"):
        q.diagnose(overfit=(x, y))


def probed(model: nn.Module) -> Any:
    x, y = batch()
    with gradlab.probe(model) as p:
        ENTROPY(model(x), y).backward()
    return p


def test_two_probes_show_the_effect_of_a_fix() -> None:
    torch.manual_seed(0)
    before, after = probed(mlp(30)), probed(mlp(30, he=True))
    change = after.against(before)
    assert [finding.code for finding in change.gone] == ["vanishing_gradients"]
    assert change.new == change.still == ()
    assert str(change).startswith("Gone: vanishing gradients")
    table = change.table()
    assert (table.delta_after[:4] > 1e3 * table.delta_before[:4]).all()
    assert len(change.figure().axes[0].lines) >= 2
    worse = before.against(after)
    assert [finding.code for finding in worse.new] == ["vanishing_gradients"]
    assert [finding.code for finding in before.against(before).still] == ["vanishing_gradients"]
    assert not any((same := after.against(after)).to_json()[part] for part in ("gone", "new", "still"))
    assert str(same).startswith("Nothing was")
    assert "<table" in change._repr_html_()


FILE = """
import torch
from torch import nn

def make(scale):
    torch.manual_seed(0)
    layers = []
    for _ in range(30):
        layer = nn.Linear(16, 16)
        layer.weight.data *= scale
        layers += [layer, nn.ReLU()]
    torch.manual_seed(0)
    return nn.Sequential(*layers, nn.Linear(16, 2)), (torch.randn(8, 16), torch.arange(8) % 2), nn.CrossEntropyLoss()

def before():
    return make(1.0)

def after():
    return make(6**0.5)
"""


@pytest.mark.shipped
def test_the_command_overfits_and_compares(tmp_path: Path) -> None:
    (tmp_path / "nets.py").write_text(FILE)
    first, second = (f"{tmp_path / 'nets.py'}:{name}" for name in ("before", "after"))
    done = RUNNER.invoke(app(), ["probe", second, "--against", first, "--figure", str(tmp_path / "f.png")])
    assert done.exit_code == 0, done.output
    assert "Gone: vanishing gradients" in done.output
    assert (tmp_path / "f.png").is_file()
    printed = json.loads(RUNNER.invoke(app(), ["probe", second, "--against", first, "--json"]).stdout)
    assert printed["gone"][0]["code"] == "vanishing_gradients"
    learned = json.loads(RUNNER.invoke(app(), ["probe", second, "--overfit", "--json"]).stdout)
    assert learned["overfit"]["ok"] is True
    stuck = RUNNER.invoke(app(), ["probe", first, "--overfit"])
    assert CannotOverfit.name in stuck.output
