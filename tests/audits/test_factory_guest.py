"""The audit of factories changes nothing of the user's, and tells every mistake in one line."""

from __future__ import annotations

import copy
import json
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader
from torch_arms import Arms, Own
from typer.testing import CliRunner

import gradlab
from gradlab.cli import app

BASE = Arms()


def kept(arm: Any) -> tuple[Any, list[Any]]:
    """A factory that remembers what it returned."""
    made: list[Any] = []

    def make() -> Any:
        made.append(arm())
        return made[-1]

    return make, made


def state(made: Any) -> Any:
    model, optimizer, loader, _ = made
    return copy.deepcopy(
        {
            "state": {name: value.tolist() for name, value in model.state_dict().items()},
            "modes": [module.training for module in model.modules()],
            "grads": [None if p.grad is None else p.grad.tolist() for p in model.parameters()],
            "trained": [p.requires_grad for p in model.parameters()],
            "hooks": [(len(m._forward_hooks), len(m._forward_pre_hooks)) for m in model.modules()],
            "optimizer": repr(optimizer.state_dict()),
            "scheduler": repr(optimizer.kept.state_dict()),
            "generator": loader.generator.get_state().tolist(),
            "counter": model.calls,
        }
    )


def test_models_optimizers_loaders_and_generators_are_left_as_they_were_built() -> None:
    def prepare(net: Any) -> None:
        net.calls = 0
        net.layers[0].eval()
        net.head.requires_grad_(False)
        net.stem.weight.grad = torch.ones_like(net.stem.weight)
        net.register_forward_pre_hook(lambda module, _: setattr(module, "calls", module.calls + 1))

    arm = BASE.but(
        change=prepare,
        then=lambda optimizer: setattr(optimizer, "kept", torch.optim.lr_scheduler.MultiStepLR(optimizer, [2, 500])),
        norm=lambda: nn.BatchNorm1d(16),
        dropout=lambda: nn.Dropout(0.2),
        loader=lambda d: DataLoader(d, 32, shuffle=True, generator=torch.Generator().manual_seed(5)),
    )
    torch.manual_seed(0)
    fresh = state(arm())
    make, made = kept(arm)
    other, others = kept(arm.but(skip=True))
    generators = torch.get_rng_state().tolist(), random.getstate(), np.random.get_state()[1].tolist()
    gradlab.audit({"a": make, "b": other})
    assert (torch.get_rng_state().tolist(), random.getstate(), np.random.get_state()[1].tolist()) == generators
    assert len(made) == len(others) == 2  # the second time under another seed
    assert state(made[0]) == fresh
    assert state(others[0]) == fresh


def test_arms_may_share_a_loader_with_its_own_generator() -> None:
    _, _, loader, _ = BASE.but(
        loader=lambda d: DataLoader(d, 32, shuffle=True, generator=torch.Generator().manual_seed(5))
    )()
    shared = BASE.but(loader=lambda _: loader)
    assert gradlab.audit({"a": shared, "b": shared}).fair


def test_switches_that_a_factory_turns_are_turned_back() -> None:
    def turn() -> None:
        torch.set_default_dtype(torch.float64)
        torch.set_grad_enabled(False)
        torch.use_deterministic_algorithms(True)

    gradlab.audit({"a": BASE, "b": BASE.but(last=turn)})
    assert torch.get_default_dtype() == torch.float32
    assert torch.is_grad_enabled()
    assert not torch.are_deterministic_algorithms_enabled()


def test_arms_around_one_model_are_remarked_on() -> None:
    made = BASE()
    found = gradlab.audit({"a": lambda: made, "b": lambda: made})
    assert found.fair
    assert "same_model" in {fact.code for fact in found.facts}


class Odd(nn.Module):
    def forward(self, x: Any) -> Any:
        return "nothing"


def raising(error: BaseException) -> Any:
    def call(*_: Any) -> Any:
        raise error

    return call


def returns(index: int, value: Any) -> Any:
    def make() -> Any:
        made = list(BASE())
        made[index] = value
        return tuple(made)

    return make


class NoText(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


MISTAKES: dict[str, tuple[Any, str]] = {
    "raises": (raising(ValueError("bad width")), "bad width"),
    "exits": (raising(SystemExit(3)), "SystemExit"),
    "raises without text": (raising(NoText()), "NoText"),
    "returns nothing": (lambda: None, r"has to return \(model, optimizer, loader, loss\), not None"),
    "returns three": (lambda: BASE()[:3], "Net, Adam, DataLoader"),
    "needs an argument": (lambda width: BASE(), "width"),
    "no optimizer": (returns(1, None), "optimizer"),
    "a scheduler for an optimizer": (returns(1, 3), "param_groups"),
    "no loader": (returns(2, None), "the loader"),
    "an empty loader": (returns(2, []), "batches of"),
    "batches without targets": (returns(2, [torch.ones(3, 6)]), "batches of"),
    "a loss that is none": (returns(3, "mse"), "callable"),
    "a loss that raises": (BASE.but(loss=raising(ValueError("odd"))), "odd"),
    "a loss that exits": (BASE.but(loss=raising(SystemExit(1))), "SystemExit"),
    "a loss per sample": (BASE.but(loss=nn.CrossEntropyLoss(reduction="none")), "one number"),
    "a forward that raises": (BASE.but(hidden=raising(KeyError("x"))), "forward pass"),
    "a forward that exits": (BASE.but(hidden=raising(SystemExit(1))), "SystemExit"),
    "a model that returns no tensor": (returns(0, Odd()), "floating-point"),
    "data that raise": (BASE.but(data=lambda x, y: Own(x, y, raising(OSError("gone")))), "gone"),
    "lazy parameters": (lambda: (nn.LazyLinear(3), BASE()[1], BASE()[2], nn.MSELoss()), "lazy"),
}


@pytest.mark.parametrize("side", ["first", "second"])
@pytest.mark.parametrize("name", MISTAKES)
@pytest.mark.filterwarnings("ignore:Lazy modules")
def test_a_mistake_is_told_not_thrown(name: str, side: str) -> None:
    wrong, words = MISTAKES[name]
    arms = {"wrong": wrong, "good": BASE} if side == "first" else {"good": BASE, "wrong": wrong}
    with pytest.raises(gradlab.GradlabError, match=words):
        gradlab.audit(arms)


def test_names_of_any_kind_and_many_arms() -> None:
    found = gradlab.audit({1: BASE, None: BASE.but(skip=True), "c": BASE.but(act=torch.tanh)}, factor="activation,skip")
    assert found.arms == ("1", "None", "c")
    assert found.fair
    assert all(len(row.cells) == 3 for row in found.rows)


MODULE = """
import sys
sys.path.insert(0, {support!r})
import torch
from torch_arms import Arms
print("loading")
BASE = Arms()
def sgd(net):
    print("building")
    return torch.optim.SGD(net.parameters(), lr=0.1)
ARMS = {{"adam": BASE, "sgd": BASE.but(optimizer=sgd)}}
LEAVES = {{"adam": BASE, "sgd": lambda: sys.exit(5)}}
"""


def test_the_command_line_takes_a_factor_and_keeps_stdout_for_data(tmp_path: Path) -> None:
    support = str(Path(sys.modules["torch_arms"].__file__ or "").parent)
    path = tmp_path / "arms_of_mine.py"
    path.write_text(MODULE.format(support=support))
    runner = CliRunner()
    first = runner.invoke(app(), ["audit", f"{path}:ARMS", "--json"])
    assert json.loads(first.stdout)["same_setup_except_factor"] is False
    unfair = runner.invoke(app(), ["audit", f"{path}:ARMS"])
    assert unfair.exit_code == 3
    assert "optimizer: Adam" in " ".join(unfair.stdout.split())
    assert unfair.stdout.rstrip().endswith("factories.")
    fair = runner.invoke(app(), ["audit", f"{path}:ARMS", "--factor", "optimizer,lr", "--json"])
    assert fair.exit_code == 0
    tree = json.loads(fair.stdout)
    assert tree["factor"] == ["optimizer", "lr"]
    assert "EMA" in tree["cannot_see"][-1]
    for words in (
        ["audit", f"{path}:ARMS", "--factor", "optimiser"],
        ["audit", f"{path}:LEAVES"],
        ["audit", "identity", "--factor", "lr"],
    ):
        assert isinstance(runner.invoke(app(), words).exception, gradlab.GradlabError)
