"""The probe works on any module, changes nothing and removes its hooks; the diagnosis finds the right problems."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch_zoo import BROKEN, HEALTHY, LogOfZero, Transformer, batch, mlp
from typer.testing import CliRunner

import gradlab
from gradlab.cli import app
from gradlab.torch.diagnosis import QUIET_PASS
from gradlab.torch.rules import first_to_last
from gradlab.words import written

RUNNER = CliRunner()


def probed(model: nn.Module, **options: Any) -> Any:
    x, y = batch()
    with gradlab.probe(model, **options) as p:
        nn.functional.cross_entropy(model(x), y).backward()
    return p


@pytest.mark.parametrize("name", HEALTHY)
def test_no_false_alarm_on_a_healthy_network(name: str) -> None:
    for seed in range(3):
        torch.manual_seed(seed)
        assert probed(HEALTHY[name]()).diagnose().healthy, probed(HEALTHY[name]()).diagnose()


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_network_gets_the_right_finding(name: str) -> None:
    factory, expected = BROKEN[name]
    for seed in range(3):
        torch.manual_seed(seed)
        found = probed(factory()).diagnose()
        names = [one.name for one in found.all]
        assert expected in names, (names, str(found))


def test_the_first_module_with_nan_is_named() -> None:
    torch.manual_seed(0)
    (finding, *_) = probed(LogOfZero()).diagnose().found
    assert finding.where == "log"


def test_a_probe_changes_nothing_and_removes_its_hooks_even_after_an_exception() -> None:
    model = Transformer()
    model.eval()
    x = torch.randn(8, 32)
    before = model(x)
    with gradlab.probe(model):
        inside = model(x)
    assert torch.equal(before, inside)
    with pytest.raises(RuntimeError), gradlab.probe(model):
        model(torch.randn(8, 31))
    assert all(not module._forward_hooks and not module._backward_hooks for module in model.modules())


def test_tied_shared_nested_in_place_and_repeated_modules_are_measured() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.shared = nn.Linear(32, 32)
            self.act = nn.ReLU(inplace=True)
            self.first, self.last = nn.Linear(32, 32), nn.Linear(32, 32)
            self.last.weight = self.first.weight
            self.memory = nn.GRU(32, 32, batch_first=True)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for _ in range(3):
                x = self.act(self.shared(x))
            x, _ = self.memory(self.last(self.first(x))[:, None])
            return x[:, 0].mul_(2)[:, :4]

    torch.manual_seed(0)
    p = probed(Odd())
    table = p.table().set_index("name")
    assert table.calls["shared"] == 3
    assert table.calls["memory"] == 1
    names = list(p.parameters().name)
    assert "first.weight = last.weight" in names
    assert len(names) == len(set(names))


def test_a_compiled_model_is_measured() -> None:
    torch.manual_seed(0)
    model = mlp(3)
    p = probed(torch.compile(model, backend="eager"))
    assert len(p.table()) == 7


def test_an_optimizer_step_is_judged_by_how_far_it_moves_the_weights() -> None:
    torch.manual_seed(0)
    model = mlp(20, he=True, scale=20**-0.5)  # gradients vanish; Adam still moves every weight
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, eps=1e-30)
    x, y = torch.randn(64, 32), torch.randint(0, 4, (64,))
    with gradlab.probe(model, optimizer) as p:
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    assert p.parameters().update_ratio.dropna().between(1e-5, 1).sum() >= 20
    assert "vanishing_gradients" not in p.diagnose().codes
    assert "vanishing_gradients" in probed(mlp(20, he=True, scale=20**-0.5)).diagnose().codes


def test_parameters_outside_the_optimizer_and_large_steps_are_reported() -> None:
    torch.manual_seed(0)
    model = mlp(3)
    partly = torch.optim.SGD(model[0].parameters(), lr=0.1)
    assert "not_in_the_optimizer" in probed(model, optimizer=partly).diagnose().codes
    wild = torch.optim.SGD(model.parameters(), lr=1e4)
    x, y = torch.randn(64, 32), torch.randint(0, 4, (64,))
    with gradlab.probe(model, wild) as p:
        nn.functional.cross_entropy(model(x), y).backward()
        wild.step()
    assert "steps_too_large" in p.diagnose().codes


def test_scaled_gradients_are_unscaled() -> None:
    class Scaler:
        def get_scale(self) -> float:
            return 1024.0

    torch.manual_seed(0)
    model = mlp(3)
    x, y = torch.randn(64, 32), torch.randint(0, 4, (64,))
    with gradlab.probe(model) as plain:
        nn.functional.cross_entropy(model(x), y).backward()
    model.zero_grad()
    with gradlab.probe(model, scaler=Scaler()) as scaled:
        (1024 * nn.functional.cross_entropy(model(x), y)).backward()
    np.testing.assert_allclose(plain.parameters().grad_l2, scaled.parameters().grad_l2, rtol=1e-5)
    np.testing.assert_allclose(plain.table().delta, scaled.table().delta, rtol=1e-5)


class NeuralNetwork(nn.Module):
    """The gradflow write-up's own code style."""

    def __init__(self, shortcut_connections: bool) -> None:
        super().__init__()
        self.shortcut_connections = shortcut_connections
        sizes = [10, 10, 10, 10, 10, 1]
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(a, b, bias=False), *([nn.ReLU()] if i < 4 else []))
            for i, (a, b) in enumerate(itertools.pairwise(sizes))
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            y = layer(x)
            x = x + y if self.shortcut_connections and x.shape == y.shape else y
        return x


def test_the_probe_reproduces_the_published_table_of_gradflow() -> None:
    torch.manual_seed(123)
    x = torch.randn(1, 10)
    model = NeuralNetwork(shortcut_connections=True)
    with gradlab.probe(model) as p:
        nn.MSELoss()(model(x), torch.tensor([[0.0]])).backward()
    loop = {name: param.grad.abs().mean().item() for name, param in model.named_parameters()}  # type: ignore[union-attr]
    table = p.parameters().set_index("name").grad_mean_abs
    assert {name: pytest.approx(value, rel=1e-6) for name, value in loop.items()} == table.to_dict()
    published = [0.010994031, 0.006011885, 0.011236266, 0.008820828, 0.103108749]
    np.testing.assert_allclose(list(table), published, rtol=2e-6)


def test_a_probe_has_a_figure_and_a_notebook_view() -> None:
    p = probed(mlp(3))
    assert p.figure().axes
    assert "<table" in p._repr_html_()
    assert "<img" in p._repr_html_()
    assert repr(p).startswith("<probe of Sequential: 7 modules, 8 tensors, loss ")
    assert QUIET_PASS in p.diagnose()._repr_html_()


# ---------------------------------------------------------------------- command line


def test_the_command_probes_a_model_file(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import torch\nfrom torch import nn\n\n\ndef make():\n    torch.manual_seed(0)\n"
        "    layers = [m for _ in range(30) for m in (nn.Linear(16, 16), nn.ReLU())]\n"
        "    return nn.Sequential(*layers, nn.Linear(16, 2)), (torch.randn(8, 16), torch.zeros(8, dtype=torch.long)), "
        "nn.CrossEntropyLoss()\n"
    )
    done = RUNNER.invoke(app(), ["probe", f"{tmp_path / 'mine.py'}:make", "--figure", str(tmp_path / "f.png")])
    assert done.exit_code == 0, done.output
    assert "vanishing gradients" in done.output
    assert (tmp_path / "f.png").is_file()
    data = json.loads(RUNNER.invoke(app(), ["probe", f"{tmp_path / 'mine.py'}:make", "--json"]).stdout)
    assert len(data["modules"]) == 61
    assert data["diagnosis"][0]["name"] == "vanishing gradients"


@pytest.mark.parametrize("target", ["nowhere.py:make", "mine.py", "json:nothing", "json:dumps", "no.such.module:make"])
def test_a_wrong_target_is_refused_without_a_traceback(target: str) -> None:
    done = RUNNER.invoke(app(), ["probe", target])
    assert done.exit_code != 0
    assert isinstance(done.exception, gradlab.GradlabError | SystemExit)


def test_the_diagnosis_quotes_the_numbers_of_the_table() -> None:
    torch.manual_seed(0)
    p = probed(mlp(60, he=True, scale=0.5))
    (finding,) = [one for one in p.diagnose().found if one.code == "vanishing_gradients"]
    deltas = p.table().delta.dropna()
    whole, steps = deltas.iloc[-1] / deltas.iloc[0], len(deltas) - 1
    assert finding.numbers["factor"] == pytest.approx(whole)
    assert written(whole) in finding.evidence
    (each,) = (float(word) for word in re.findall(r"([\d.]+) per module", finding.evidence))
    assert each == pytest.approx(whole ** (1 / steps), rel=0.06)


def test_one_odd_module_at_an_end_is_not_a_trend() -> None:
    assert first_to_last([1e-9, *[1.0] * 19]) == 1.0
    assert first_to_last([1.0] * 19 + [1e-9]) == 1.0
    assert first_to_last([0.1**k for k in range(20)]) == pytest.approx(1e19)


def test_the_names_of_the_torch_module_can_be_imported() -> None:
    assert all(callable(getattr(gradlab.torch, name)) for name in gradlab.torch.__all__)
