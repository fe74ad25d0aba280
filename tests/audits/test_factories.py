"""The audit of hand-written code: the identity write-up's mistake is found, the corrected pair passes."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from typer.testing import CliRunner

import gradlab
from gradlab.audits.audit import ONE_SEED, UNDECLARED_CODE, Audit
from gradlab.audits.factories.code import NOTHING
from gradlab.audits.factories.models import FORWARD
from gradlab.audits.factories.updates import HELD
from gradlab.cli import app
from gradlab.cli.loading import load_module
from gradlab.errors import InvalidInput
from gradlab.spec.claims import At

RUNNER = CliRunner()


class Net(nn.Module):
    def __init__(self, skip: bool, scale: float) -> None:
        super().__init__()
        self.skip = skip
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(20))
        for layer in self.layers:
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            nn.init.zeros_(layer.bias)
            with torch.no_grad():
                layer.weight *= scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = x + torch.relu(layer(x)) if self.skip else torch.relu(layer(x))
        return x


def factory(skip: bool, scale: float, **changes: Any) -> Any:
    def make() -> Any:
        model = Net(skip, scale)
        if "change" in changes:
            changes["change"](model)
        optimizer = changes.get("optimizer", torch.optim.Adam)(model.parameters(), lr=changes.get("lr", 1e-3))
        x = torch.rand(256, 64) * 2 - 1
        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, x), 64, shuffle=True)
        return model, optimizer, loader, changes.get("loss", nn.MSELoss())

    return make


def undeclared(**changes: Any) -> set[str]:
    found = gradlab.audit({"plain": factory(False, 0.2), "residual": factory(True, 0.2, **changes)}, seed=3)
    return traits(found)


def traits(found: Audit) -> set[str]:
    """In what the arms differ without its being declared."""
    return {fact.subject for fact in found.facts if fact.code == UNDECLARED_CODE}


def test_the_write_ups_two_snippets_fail_with_the_ratio_in_every_layer() -> None:
    found = gradlab.audit({"plain": factory(False, 1.0), "residual": factory(True, 20**-0.5)}, seed=0)
    assert not found.fair
    assert traits(found) == {"initial weights"}
    assert "0.2236 ×" in found.undeclared[0]


def test_the_corrected_pair_differs_in_the_forward_pass_alone() -> None:
    found = gradlab.audit({"plain": factory(False, 20**-0.5), "residual": factory(True, 20**-0.5)}, seed=0)
    assert found.fair
    assert found.only_difference
    assert FORWARD in found.only_difference
    assert "output_scale" in {fact.code for fact in found.facts}
    assert found.to_json()["same_setup_except_factor"] is True
    assert found.hashes["plain"]["initial weights"] == found.hashes["residual"]["initial weights"]


def _freeze(model: Net) -> None:
    model.layers[0].requires_grad_(False)


def _bias(model: Net) -> None:
    nn.init.ones_(model.layers[3].bias)


def _normalize(model: Net) -> None:
    model.extra = nn.LayerNorm(64)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"lr": 1e-2}, {"learning rate"}),
        ({"optimizer": torch.optim.AdamW}, {"optimizer", "weight decay"}),
        ({"loss": nn.L1Loss()}, {"loss"}),
        ({"change": _bias}, {"initial biases and scales"}),
        ({"change": _freeze}, {"frozen parameters"}),
        ({"change": _normalize}, {"normalization"}),
        ({"change": lambda model: model.eval()}, {"mode"}),
        ({"change": lambda model: model.double().float()}, set()),
        ({"change": lambda model: torch.rand(1)}, {"data", "order of samples"}),
    ],
)
def test_a_planted_difference_is_found_and_named(changes: Any, expected: set[str]) -> None:
    assert undeclared(**changes) == expected


def changed(change: Any) -> Any:
    """A residual factory whose model, optimizer, loader or loss was tampered with."""

    def make() -> Any:
        made = factory(True, 0.2)()
        return change(*made)

    return make


class Extra(nn.Module):
    """A container for modules that this forward pass does not use."""

    def __init__(self, net: nn.Module, *others: nn.Module) -> None:
        super().__init__()
        self.net, self.others = net, nn.ModuleList(others)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)


def pair(first: Any, second: Any) -> set[str]:
    found = gradlab.audit({"first": changed(first), "second": changed(second)}, seed=3)
    return traits(found)


def grouped(*decays: float) -> Any:
    def change(model: Any, _: Any, loader: Any, loss: Any) -> Any:
        own = list(model.parameters())
        groups = [{"params": own[:20], "weight_decay": decays[0]}, {"params": own[20:], "weight_decay": decays[1]}]
        return model, torch.optim.SGD(groups, lr=0.1), loader, loss

    return change


def with_modules(*modules: nn.Module) -> Any:
    def change(model: Any, _: Any, loader: Any, loss: Any) -> Any:
        whole = Extra(model, *modules)
        return whole, torch.optim.SGD(whole.net.parameters(), lr=0.1), loader, loss

    return change


def with_loss(loss: Any) -> Any:
    return lambda model, optimizer, loader, _: (model, optimizer, loader, loss)


def of_size(count: int) -> Any:
    data = torch.linspace(-1, 1, 1024 * 64).reshape(1024, 64)[:count]
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(data, data), 32)
    return lambda model, optimizer, _, loss: (model, optimizer, loader, loss)


SUBTLE = {
    "the second dropout": (with_modules(nn.Dropout(0.1), nn.Dropout(0.2)),
                           with_modules(nn.Dropout(0.1), nn.Dropout(0.5)), "dropout"),
    "dropout inside attention": (with_modules(nn.MultiheadAttention(8, 2, dropout=0.1)),
                                 with_modules(nn.MultiheadAttention(8, 2, dropout=0.5)), "dropout"),
    "a norm's epsilon": (with_modules(nn.BatchNorm1d(4)), with_modules(nn.BatchNorm1d(4, eps=0.1)), "normalization"),
    "a module in evaluation mode": (with_modules(nn.Dropout(0.1)), with_modules(nn.Dropout(0.1).eval()), "mode"),
    "swapped weight decays": (grouped(0.5, 0.0), grouped(0.0, 0.5), "weight decay"),
    "another loss of the same name": (with_loss(lambda o, y: (o - y).square().mean()),
                                      with_loss(lambda o, y: 2 * (o - y).square().mean()), "loss"),
    "fewer data": (of_size(1024), of_size(512), "samples"),
}  # fmt: skip
OFTEN = ("a norm's epsilon", "swapped weight decays", "another loss of the same name", "fewer data")


@pytest.mark.parametrize(
    "name", [name if name in OFTEN else pytest.param(name, marks=pytest.mark.thorough) for name in SUBTLE]
)
def test_a_subtle_difference_is_found_too(name: str) -> None:
    first, second, trait = SUBTLE[name]
    assert trait in pair(first, second)
    assert pair(first, first) == set()


def test_which_tensors_are_in_which_group_counts() -> None:
    def backwards(model: Any, _: Any, loader: Any, loss: Any) -> Any:
        own = list(model.parameters())
        groups = [{"params": own[20:], "weight_decay": 0.5}, {"params": own[:20], "weight_decay": 0.0}]
        return model, torch.optim.SGD(groups, lr=0.1), loader, loss

    assert "weight decay" in pair(grouped(0.5, 0.0), backwards)


def test_equal_arms_are_reported_as_equal() -> None:
    found = gradlab.audit({"a": factory(True, 0.2), "b": factory(True, 0.2)})
    assert found.only_difference == NOTHING


@pytest.mark.parametrize(
    "wrong",
    [
        {"a": 1, "b": 2},
        {"a": lambda: 1, "b": lambda: 2},
        {"a": factory(True, 0.2), "b": lambda: 1 / 0},
        {"a": factory(True, 0.2), "b": changed(lambda m, o, d, f: (m, None, d, f))},
        {"a": factory(True, 0.2), "b": changed(lambda m, o, d, f: (m, o, None, f))},
    ],
)
def test_a_mistake_in_a_factory_is_reported_instead_of_raised(wrong: Any) -> None:
    with pytest.raises(gradlab.GradlabError):
        gradlab.audit(wrong)


def test_outputs_of_any_kind_and_steps_by_closure() -> None:
    class Named(nn.Module):
        def __init__(self, net: nn.Module) -> None:
            super().__init__()
            self.net = net

        def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"out": self.net(x)}

    def change(model: Any, _: Any, loader: Any, loss: Any) -> Any:
        named = Named(model)
        return named, torch.optim.LBFGS(named.parameters()), loader, lambda o, y: loss(o["out"], y)

    assert pair(change, change) == set()


def test_names_may_differ_as_long_as_order_and_shapes_agree() -> None:
    class Other(Net):
        def __init__(self) -> None:
            super().__init__(True, 0.2)
            self.blocks, self.layers = self.layers, None

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for layer in self.blocks:
                x = x + torch.relu(layer(x))
            return x

    def make() -> Any:
        model = Other()
        x = torch.rand(256, 64) * 2 - 1
        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, x), 64, shuffle=True)
        return model, torch.optim.Adam(model.parameters(), lr=1e-3), loader, nn.MSELoss()

    found = gradlab.audit({"plain": factory(False, 0.2), "other": make}, seed=3)
    assert found.fair, found.answer


def test_a_parameter_that_the_optimizer_lacks_is_found() -> None:
    def make() -> Any:
        model, _, loader, loss = factory(True, 0.2)()
        return model, torch.optim.Adam(list(model.parameters())[2:], lr=1e-3), loader, loss

    found = gradlab.audit({"plain": factory(False, 0.2), "residual": make}, seed=3)
    assert HELD in traits(found)


def test_a_factory_that_returns_something_else_is_refused() -> None:
    with pytest.raises(InvalidInput, match="to return"):
        gradlab.audit({"a": lambda: 1, "b": lambda: 2})
    with pytest.raises(InvalidInput, match="two factories"):
        gradlab.audit({"a": factory(True, 1.0)})


EXAMPLE = Path(__file__).parents[2] / "examples/compare_identity.py"


def test_the_example_fails_as_written_and_passes_corrected() -> None:
    unfair = RUNNER.invoke(app(), ["audit", f"{EXAMPLE}:AS_WRITTEN"])
    assert unfair.exit_code == 3
    assert "residual are 0.2236 ×" in unfair.stdout.replace("\n", " ")
    fair = RUNNER.invoke(app(), ["audit", f"{EXAMPLE}:CORRECTED", "--json"])
    assert fair.exit_code == 0
    assert json.loads(fair.stdout)["only_difference"].startswith(f"the {FORWARD}")
    for words in (["audit", f"{EXAMPLE}:ARMS"], ["audit", f"{EXAMPLE}:CORRECTED", "--seeds", "2"]):
        assert isinstance(RUNNER.invoke(app(), words).exception, gradlab.GradlabError)


def test_the_example_is_compared_with_its_audit(tmp_path: Path) -> None:
    module = load_module(f"{EXAMPLE}:train")
    result = gradlab.compare(
        partial(module.train, steps=60), module.ARMS, 2, audit=module.CORRECTED, out=tmp_path / "run", figures=False
    )
    assert result.audit is not None
    assert result.audit.fair
    assert ONE_SEED not in result.audit.facts
    assert gradlab.open_run(tmp_path / "run").audit == result.audit
    start = {arm: result.measured.summary("grad_l2", arm, At(layer=1, step="start")).median for arm in module.ARMS}
    assert start["plain"] < 1e-9 < 1 < start["residual"]
    assert "Not audited" not in (tmp_path / "run/report.md").read_text()
