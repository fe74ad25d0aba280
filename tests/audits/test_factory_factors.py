"""A declared factor explains its differences and no others; what changes nothing is no difference."""

from __future__ import annotations

from typing import Any

import pytest
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset
from torch_arms import CLASSES, WIDTH, Arms

import gradlab
import torch
from gradlab.audits.audit import BY_FACTOR, UNDECLARED
from gradlab.audits.factories.factors import FACTORS
from gradlab.errors import InvalidInput
from torch import Tensor, nn

BASE = Arms()


def audited(first: Any, second: Any, factor: Any = None) -> Any:
    return gradlab.audit({"a": first, "b": second}, factor=factor)


def xavier(net: nn.Module) -> None:
    for p in net.parameters():
        if p.dim() > 1:
            nn.init.xavier_uniform_(p)


def zero_head(net: Any) -> None:
    nn.init.zeros_(net.head.weight)


def smaller(net: Any) -> None:
    with torch.no_grad():
        for p in net.parameters():
            p *= 0.5


class OwnNorm(nn.Module):
    """A root-mean-square norm, written by hand."""

    def forward(self, x: Tensor) -> Tensor:
        return x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt()


class Handmade(nn.Module):
    """Dropout, written by hand."""

    def forward(self, x: Tensor) -> Tensor:
        return x * (torch.rand_like(x) > 0.1) / 0.9 if self.training else x


class Projected(nn.Module):
    """A skip with its own scale."""

    def __init__(self, skip: bool) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, WIDTH), nn.Linear(WIDTH, CLASSES)
        self.alpha = nn.Parameter(torch.zeros(1)) if skip else None

    def forward(self, x: Tensor) -> Tensor:
        h = torch.relu(self.first(x))
        return self.second(h if self.alpha is None else h + self.alpha * torch.tanh(h))


def sgd(lr: float = 0.1, **settings: Any) -> Any:
    return lambda net: torch.optim.SGD(net.parameters(), lr=lr, **settings)


def adam(lr: float = 1e-3, **settings: Any) -> Any:
    return lambda net: torch.optim.Adam(net.parameters(), lr=lr, **settings)


def half(x: Tensor, y: Tensor) -> Any:
    return TensorDataset(x[::2].contiguous(), y[::2].contiguous())


FAIR: dict[str, tuple[str, Arms]] = {
    "optimizer of another class": ("optimizer", BASE.but(optimizer=sgd())),
    "optimizer with decay": ("optimizer", BASE.but(optimizer=lambda n: torch.optim.AdamW(n.parameters(), lr=1e-3))),
    "optimizer's betas": ("optimizer", BASE.but(optimizer=adam(betas=(0.8, 0.99)))),
    "learning rate": ("lr", BASE.but(optimizer=adam(3e-3))),
    "weight decay": ("weight_decay", BASE.but(optimizer=adam(weight_decay=0.1))),
    "schedule": ("schedule", BASE.but(then=lambda o: torch.optim.lr_scheduler.LinearLR(o))),
    "init of another kind": ("init", BASE.but(change=xavier)),
    "init of another scale": ("init", BASE.but(change=smaller)),
    "zero init of the head": ("init", BASE.but(change=zero_head)),
    "batch norm": ("norm", BASE.but(norm=lambda: nn.BatchNorm1d(WIDTH))),
    "layer norm": ("norm", BASE.but(norm=lambda: nn.LayerNorm(WIDTH))),
    "RMS norm": ("norm", BASE.but(norm=lambda: nn.RMSNorm(WIDTH))),
    "own norm": ("norm", BASE.but(norm=OwnNorm)),
    "dropout": ("dropout", BASE.but(dropout=lambda: nn.Dropout(0.2))),
    "functional dropout": ("dropout", BASE.but(hidden=lambda x: F.dropout(x, 0.2))),
    "handmade dropout": ("dropout", BASE.but(dropout=Handmade)),
    "activation": ("activation", BASE.but(act=F.gelu)),
    "skip": ("skip", BASE.but(skip=True)),
    "scaled skip": ("skip", BASE.but(skip=True, hidden=lambda x: 0.5 * x)),
    "loss": ("loss", BASE.but(loss=nn.CrossEntropyLoss(label_smoothing=0.1))),
    "data": ("data", BASE.but(data=half)),
    "batch": ("batch", BASE.but(loader=lambda d: DataLoader(d, 64, shuffle=True))),
    "order": ("order", BASE.but(loader=lambda d: DataLoader(d, 32))),
    "frozen": ("frozen", BASE.but(change=lambda n: n.stem.requires_grad_(False))),
    "mode": ("mode", BASE.but(change=lambda n: n.eval())),
    "precision": ("precision", BASE.but(change=lambda n: n.double())),
    "seed": ("seed", BASE.but(first=lambda: torch.manual_seed(9))),
    "model": ("model", BASE.but(act=torch.tanh, skip=True, norm=lambda: nn.LayerNorm(WIDTH), before=lambda x: 2 * x)),
    "two": ("optimizer,loss", BASE.but(optimizer=sgd(), loss=nn.CrossEntropyLoss(label_smoothing=0.1))),
}


@pytest.mark.parametrize("name", FAIR)
def test_a_declared_factor_passes_and_fails_undeclared(name: str) -> None:
    factor, other = FAIR[name]
    found = audited(BASE, other, factor)
    assert found.fair, found.answer
    assert found.factor == tuple(factor.split(","))
    assert any(row.status == BY_FACTOR for row in found.rows)
    assert found.only_difference
    assert "none" not in found.only_difference.split()[0]
    if factor != "skip":
        assert not audited(BASE, other).fair
    wrong = "mode" if factor != "mode" else "loss"
    assert not audited(BASE, other, wrong).fair


@pytest.mark.parametrize("name", FAIR)
def test_a_second_difference_beside_a_declared_factor_is_found(name: str) -> None:
    factor, other = FAIR[name]
    planted = other.but(loss=lambda o, y: F.cross_entropy(o.clamp(-20, 20), y), last=lambda: None)
    if "loss" not in factor:
        assert {words.partition(":")[0] for words in audited(BASE, planted, factor).undeclared} == {"loss"}
    if factor in ("optimizer", "lr", "weight_decay", "init", "loss", "order", "batch", "frozen", "schedule"):
        inside = audited(BASE, other.but(before=lambda x: 2 * x), factor)
        assert "steps before the first layer" in {row.trait for row in inside.rows if row.status == UNDECLARED}


UNDER: dict[str, tuple[str, Arms, str]] = {
    "skip beside a norm": ("norm", BASE.but(norm=lambda: nn.LayerNorm(WIDTH), skip=True), "forward pass"),
    "skip beside dropout": ("dropout", BASE.but(dropout=lambda: nn.Dropout(0.2), skip=True), "forward pass"),
    "skip beside an activation": ("activation", BASE.but(act=torch.tanh, skip=True), "forward pass"),
    "GELU beside a norm": ("norm", BASE.but(norm=lambda: nn.LayerNorm(WIDTH), act=F.gelu), "activation"),
    "noise beside dropout": (
        "dropout", BASE.but(dropout=lambda: nn.Dropout(0.2), hidden=lambda x: x + torch.randn_like(x)), "noise"),
    "eps beside a rate": ("lr", BASE.but(optimizer=adam(1e-2, eps=1e-3)), "optimizer"),
    "rate alone under optimizer": ("optimizer", BASE.but(optimizer=adam(1e-2)), "learning rate"),
    "scale beside a seed": ("seed", BASE.but(change=smaller), "initial weights"),
    "labels beside a batch size": (
        "batch", BASE.but(loader=lambda d: DataLoader(d, 64, shuffle=True), labels=lambda x: (x[:, 0] > 0).long()),
        "data"),
    "head's rate beside an optimizer": (
        "optimizer", BASE.but(optimizer=lambda n: torch.optim.SGD(
            [{"params": [*n.stem.parameters(), *n.layers.parameters()]},
             {"params": [*n.head.parameters()], "lr": 1.0}], lr=0.1)), "learning rate"),
    "an init scale beside a model": ("model", BASE.but(skip=True, change=smaller), "initial weights"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNDER)
def test_a_factor_does_not_cover_its_neighbor(name: str) -> None:
    factor, other, trait = UNDER[name]
    words = [each.partition(":")[0] for each in audited(BASE, other, factor).undeclared]
    assert trait in words, words


def grouped(net: Any) -> Any:
    return torch.optim.Adam([{"params": [p]} for p in net.parameters()], lr=1e-3)


def bare_loader(data: Any) -> Any:
    return DataLoader(data, 32, shuffle=True, num_workers=0, pin_memory=False)


NO_DIFFERENCE: dict[str, Arms] = {
    "Dropout(0)": BASE.but(dropout=lambda: nn.Dropout(0.0)),
    "an identity": BASE.but(dropout=nn.Identity),
    "foreach": BASE.but(optimizer=adam(foreach=True)),
    "one group per parameter": BASE.but(optimizer=grouped),
    "AdamW without decay": BASE.but(optimizer=lambda n: torch.optim.AdamW(n.parameters(), lr=1e-3, weight_decay=0.0)),
    "rate as a tensor": BASE.but(optimizer=adam(torch.tensor(1e-3))),
    "a ReLU module": BASE.but(act=nn.ReLU()),
    "ReLU in place": BASE.but(act=lambda x: torch.relu_(x)),
    "ReLU by clamping": BASE.but(act=lambda x: x.clamp(min=0)),
    "the loss as a function": BASE.but(loss=F.cross_entropy),
    "the loss written out": BASE.but(loss=lambda o, y: -o.log_softmax(1)[torch.arange(len(y)), y].mean()),
    "weights of 1": BASE.but(loss=nn.CrossEntropyLoss(weight=torch.ones(CLASSES))),
    "there and back": BASE.but(change=lambda n: n.double().float()),
    "loader settings": BASE.but(loader=bare_loader),
}


@pytest.mark.parametrize("name", NO_DIFFERENCE)
def test_what_changes_nothing_is_no_difference(name: str) -> None:
    found = audited(BASE, NO_DIFFERENCE[name])
    assert found.fair, found.answer
    assert found.only_difference == "none, in anything that was compared"
    assert audited(BASE, NO_DIFFERENCE[name].but(skip=True)).fair


def test_an_init_that_draws_other_numbers_moves_the_batches_and_says_so() -> None:
    def normal(net: Any) -> None:
        nn.init.normal_(net.head.weight)
        torch.rand(7)

    found = audited(BASE, BASE.but(change=normal), "init")
    assert found.fair
    assert any("own generator" in limit for limit in found.limits)


def test_a_shortcuts_own_parameter_belongs_to_the_skip() -> None:
    def make(skip: bool) -> Any:
        def factory() -> Any:
            net = Projected(skip)
            _, _, loader, loss = BASE()
            return net, torch.optim.Adam(net.parameters()), loader, loss

        return factory

    skip = gradlab.audit({"plain": make(False), "residual": make(True)}, factor="skip")
    assert any("alpha" in words for words in gradlab.audit({"a": make(False), "b": make(True)}).undeclared)
    assert [w for w in skip.undeclared if w.startswith("layers")] == []


def test_an_unknown_factor_is_refused_with_the_nearest() -> None:
    with pytest.raises(InvalidInput, match="did you mean 'optimizer'"):
        audited(BASE, BASE, "optimiser")
    with pytest.raises(InvalidInput, match="no name"):
        audited(BASE, BASE, " , ")
    with pytest.raises(InvalidInput, match="accepted"):
        audited(BASE, BASE, 3)
    with pytest.raises(InvalidInput, match="a study declares"):
        gradlab.audit("identity", factor="lr")
    assert audited(BASE, BASE, ["lr", "optimizer"]).factor == ("lr", "optimizer")
    assert set(FACTORS) >= {"model", "init", "norm", "activation", "skip", "dropout", "optimizer", "lr", "loss", "data"}
