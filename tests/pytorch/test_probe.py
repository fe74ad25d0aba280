"""The probe: any module, nothing changed, every hook gone; the diagnosis: right names, no false alarm."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from typer.testing import CliRunner

import gradlab
from gradlab.cli import app

RUNNER = CliRunner()


def mlp(
    depth: int,
    width: int = 32,
    act: Callable[[], nn.Module] = nn.ReLU,
    *,
    he: bool = False,
    scale: float = 1.0,
    norm: bool = False,
) -> nn.Sequential:
    layers: list[nn.Module] = []
    for _ in range(depth):
        linear = nn.Linear(width, width)
        if he:
            nn.init.kaiming_normal_(linear.weight, nonlinearity="relu")
            nn.init.zeros_(linear.bias)
        with torch.no_grad():
            linear.weight *= scale
        layers += [linear, *([nn.LayerNorm(width)] if norm else []), act()]
    return nn.Sequential(*layers, nn.Linear(width, 4))


class Residual(nn.Module):
    def __init__(self, depth: int, scale: float, width: int = 32) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.head = nn.Linear(width, 4)
        for layer in self.layers:
            nn.init.kaiming_normal_(layer.weight)
            nn.init.zeros_(layer.bias)
            with torch.no_grad():
                layer.weight *= scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = x + torch.relu(layer(x))
        return self.head(x)


class Cnn(nn.Module):
    def __init__(self, norm: bool = True, channels: int = 8) -> None:
        super().__init__()
        blocks: list[nn.Module] = []
        for index in range(4):
            blocks += [nn.Conv2d(1 if index == 0 else channels, channels, 3, padding=1)]
            blocks += [nn.BatchNorm2d(channels)] if norm else []
            blocks += [nn.ReLU()]
        self.body, self.head = nn.Sequential(*blocks), nn.Linear(channels, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x.reshape(-1, 1, 4, 8)).mean((2, 3)))


class Transformer(nn.Module):
    def __init__(self, layers: int = 4, width: int = 32, post: bool = False) -> None:
        super().__init__()
        one = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.1, batch_first=True, norm_first=not post)
        self.body = nn.TransformerEncoder(one, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x.reshape(-1, 4, 8).repeat(1, 1, 4)).mean(1))


class Detached(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(32, 32), nn.Linear(32, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(x)).detach())


class LogOfZero(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.act, self.log, self.head = nn.Linear(32, 32), nn.ReLU(), Log(), nn.Linear(32, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.log(self.act(self.first(x))))


class Log(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.log(x) - torch.log(x)


def dying(model: nn.Sequential) -> nn.Sequential:
    for module in model:
        if isinstance(module, nn.Linear):
            nn.init.constant_(module.bias, -50.0)
    return model


def frozen(model: nn.Sequential) -> nn.Sequential:
    model[0].requires_grad_(False)
    return model


HEALTHY: dict[str, Callable[[], nn.Module]] = {
    "a shallow MLP": lambda: mlp(2),
    "a 5-layer MLP at default init": lambda: mlp(5),
    "a deep MLP at He init": lambda: mlp(20, he=True),
    "a deep MLP with layer norm": lambda: mlp(20, norm=True),
    "a tanh MLP": lambda: mlp(4, act=nn.Tanh),
    "a GELU MLP": lambda: mlp(6, act=nn.GELU, he=True),
    "a sigmoid MLP with norm": lambda: mlp(4, act=nn.Sigmoid, norm=True),
    "a residual net at scale 1/sqrt(20)": lambda: Residual(20, 20**-0.5),
    "a deep residual net": lambda: Residual(50, 50**-0.5 / 2),
    "a CNN with batch norm": lambda: Cnn(),
    "a CNN without": lambda: Cnn(norm=False),
    "a pre-norm transformer": lambda: Transformer(),
    "a post-norm transformer": lambda: Transformer(post=True),
    "a wide MLP": lambda: mlp(3, width=32, act=nn.SiLU),
}
BROKEN: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "the plain net of the identity write-up": (lambda: mlp(20, he=True, scale=20**-0.5), "vanishing gradients"),
    "a 30-layer net at default init": (lambda: mlp(30), "vanishing gradients"),
    "a sigmoid MLP of 12 layers": (lambda: mlp(12, act=nn.Sigmoid), "vanishing gradients"),
    "a plain net with large weights": (lambda: mlp(20, he=True, scale=2.5), "exploding gradients"),
    "an unscaled residual net": (lambda: Residual(40, 1.0), "exploding gradients"),
    "a deep residual net with large branches": (lambda: Residual(20, 2.0), "exploding activations"),
    "dead ReLUs": (lambda: dying(mlp(3)), "dead units"),
    "one dead layer": (lambda: dying(mlp(1)), "dead units"),
    "a saturated tanh net": (lambda: mlp(3, act=nn.Tanh, scale=60.0), "saturated units"),
    "a saturated sigmoid": (lambda: mlp(2, act=nn.Sigmoid, scale=200.0), "saturated units"),
    "a detach on the way": (lambda: Detached(), "no gradient"),
    "a frozen layer": (lambda: frozen(mlp(3)), "frozen"),
    "a logarithm of zero": (lambda: LogOfZero(), "NaN or infinity"),
    "weights that overflowed": (lambda: mlp(4, scale=1e30), "NaN or infinity"),
}


def probed(model: nn.Module, **options: Any) -> Any:
    torch.manual_seed(1)
    x, y = torch.randn(64, 32), torch.randint(0, 4, (64,))
    with gradlab.probe(model, **options) as p:
        nn.functional.cross_entropy(model(x), y).backward()
    return p


@pytest.mark.parametrize("name", HEALTHY)
def test_no_false_alarm_on_a_healthy_network(name: str) -> None:
    for seed in range(3):
        torch.manual_seed(seed)
        assert probed(HEALTHY[name]()).diagnose().healthy, probed(HEALTHY[name]()).diagnose()


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_network_gets_its_right_name(name: str) -> None:
    factory, expected = BROKEN[name]
    for seed in range(3):
        torch.manual_seed(seed)
        found = probed(factory()).diagnose()
        assert expected in found.names, (found.names, str(found))


def test_the_first_module_with_nan_is_named() -> None:
    torch.manual_seed(0)
    (finding, *_) = probed(LogOfZero()).diagnose().found
    assert finding.where == "log"


def test_nothing_is_changed_and_every_hook_is_gone_also_after_an_exception() -> None:
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


def test_tied_shared_nested_in_place_and_repeated_modules() -> None:
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


def test_a_compiled_model_is_looked_into() -> None:
    torch.manual_seed(0)
    model = mlp(3)
    p = probed(torch.compile(model, backend="eager"))
    assert len(p.table()) == 7


def test_an_optimisers_step_is_measured_and_judged_by_what_it_moves() -> None:
    torch.manual_seed(0)
    model = mlp(20, he=True, scale=20**-0.5)  # gradients vanish; Adam moves every weight all the same
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3, eps=1e-30)
    x, y = torch.randn(64, 32), torch.randint(0, 4, (64,))
    with gradlab.probe(model, optimiser) as p:
        nn.functional.cross_entropy(model(x), y).backward()
        optimiser.step()
    assert p.parameters().update_ratio.dropna().between(1e-5, 1).sum() >= 20
    assert "vanishing gradients" not in p.diagnose().names
    assert "vanishing gradients" in probed(mlp(20, he=True, scale=20**-0.5)).diagnose().names


def test_parameters_that_the_optimiser_does_not_hold_and_wild_steps_are_named() -> None:
    torch.manual_seed(0)
    model = mlp(3)
    partly = torch.optim.SGD(model[0].parameters(), lr=0.1)
    assert "not in the optimiser" in probed(model, optimizer=partly).diagnose().names
    wild = torch.optim.SGD(model.parameters(), lr=1e4)
    x, y = torch.randn(64, 32), torch.randint(0, 4, (64,))
    with gradlab.probe(model, wild) as p:
        nn.functional.cross_entropy(model(x), y).backward()
        wild.step()
    assert "steps too large" in p.diagnose().names


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


def test_the_gradflow_write_up_gets_its_published_table() -> None:
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


def test_a_figure_and_a_notebook_view() -> None:
    p = probed(mlp(3))
    assert p.figure().axes
    assert "<table" in p._repr_html_()
    assert "Nothing is wrong" in p.diagnose()._repr_html_()


# ---------------------------------------------------------------------- command line


def test_the_command_looks_into_a_file(tmp_path: Path) -> None:
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


# ---------------------------------------------------------------------- a watch over a loop


def trained(model: nn.Module, steps: int, **options: Any) -> Any:
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    torch.manual_seed(0)
    x, y = torch.randn(64, 32), torch.randint(0, 4, (64,))
    with gradlab.watch(model, optimiser, **options) as w:
        for _ in range(steps):
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimiser.step()
    return w


def test_a_watch_looks_at_every_so_many_steps_and_changes_nothing(tmp_path: Path) -> None:
    torch.manual_seed(0)
    watched, alone = mlp(3), mlp(3)
    alone.load_state_dict(watched.state_dict())
    w = trained(watched, 25, every=10)
    trained(alone, 25, every=1000)
    assert all(torch.equal(a, b) for a, b in zip(watched.parameters(), alone.parameters(), strict=True))
    assert [moment.step for moment in w.moments] == [0, 10, 20]
    assert w.step == 25
    assert set(w.table().measure) == {"delta", "rms", "std", "dead"}
    assert w.parameters().update_ratio.notna().all()
    assert w.overhead is not None
    assert w.figure().axes
    assert w.diagnose().healthy
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in watched.modules())
    w.save(tmp_path / "kept")
    import pandas as pd

    assert len(pd.read_parquet(tmp_path / "kept/layers.parquet")) == len(w.table())


def test_a_watch_lets_go_after_an_exception_and_refuses_nonsense() -> None:
    model = mlp(2)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(RuntimeError), gradlab.watch(model, optimiser, every=1):
        model(torch.randn(2, 31))
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    with pytest.raises(gradlab.GradlabError, match="at least 1"):
        gradlab.watch(model, optimiser, every=0)
