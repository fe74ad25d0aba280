"""A declared factor explains its differences and no others; what changes nothing is no difference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset
from torch_arms import CLASSES, WIDTH, Arms

import gradlab
from gradlab.audits.audit import UNDECLARED_CODE
from gradlab.audits.compare import BY_FACTOR, UNDECLARED
from gradlab.audits.factories.code import NOTHING
from gradlab.audits.side_by_side import FACTORS
from gradlab.errors import InvalidInput

pytestmark = pytest.mark.thorough

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


class Shortcut(nn.Module):
    """A block of a residual network, with its projection or without."""

    def __init__(self, skip: bool, deep: bool = False) -> None:
        super().__init__()
        self.first, self.norm = nn.Linear(6, WIDTH), nn.BatchNorm1d(WIDTH)
        self.head = nn.Linear(WIDTH, CLASSES)
        self.extra = nn.Linear(WIDTH, WIDTH) if deep else None
        self.side = nn.Sequential(nn.Linear(6, WIDTH), nn.BatchNorm1d(WIDTH)) if skip else None

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(self.first(x))
        h = h if self.side is None else h + self.side(x)
        h = torch.relu(h)
        return self.head(h if self.extra is None else torch.relu(self.extra(h)))


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
        facts = audited(BASE, planted, factor).facts
        assert {fact.subject for fact in facts if fact.code == UNDECLARED_CODE} == {"loss"}
    if factor in ("optimizer", "lr", "weight_decay", "init", "loss", "order", "batch", "frozen", "schedule"):
        inside = audited(BASE, other.but(before=lambda x: 2 * x), factor)
        assert any("first layer" in row.trait for row in inside.rows if row.status == UNDECLARED)


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
    assert found.only_difference == NOTHING
    assert audited(BASE, NO_DIFFERENCE[name].but(skip=True)).fair


def test_an_init_that_draws_other_numbers_moves_the_batches_and_says_so() -> None:
    def normal(net: Any) -> None:
        nn.init.normal_(net.head.weight)
        torch.rand(7)

    found = audited(BASE, BASE.but(change=normal), "init")
    assert found.fair
    assert any("own generator" in limit for limit in found.limits)


def test_dropout_inside_attention_is_dropout_alone() -> None:
    def make(rate: float) -> Any:
        def factory() -> Any:
            layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=rate, batch_first=True)
            net = nn.Sequential(layer, nn.Linear(8, 3))
            x = torch.randn(12, 5, 8, generator=torch.Generator().manual_seed(0))
            return net, torch.optim.Adam(net.parameters()), [(x[:6], x[:6, :, :3]), (x[6:], x[6:, :, :3])], nn.MSELoss()

        return factory

    found = gradlab.audit({"none": make(0.0), "some": make(0.1)}, factor="dropout")
    assert found.fair, found.answer
    assert not any("beyond" in sentence for sentence in found.cannot_see)
    assert not gradlab.audit({"none": make(0.0), "some": make(0.1)}).fair


def around(make: Any) -> Any:
    """A factory of a model, with the data of the others."""

    def factory() -> Any:
        torch.manual_seed(0)
        net = make()
        torch.manual_seed(0)
        _, _, loader, loss = BASE()
        return net, torch.optim.Adam(net.parameters()), loader, loss

    return factory


def differences(first: Any, second: Any, factor: str | None = None) -> list[str]:
    found = audited(around(first), around(second), factor)
    return [words.partition(":")[0] for words in found.undeclared]


def test_a_shortcuts_own_parameters_belong_to_the_skip() -> None:
    assert differences(lambda: Projected(False), lambda: Projected(True)) != []
    assert "layers" not in differences(lambda: Projected(False), lambda: Projected(True), "skip")
    assert differences(lambda: Shortcut(False), lambda: Shortcut(True), "skip") == []
    assert differences(lambda: Shortcut(False), lambda: Shortcut(True)) == ["layers", "normalization"]
    assert "layers" in differences(lambda: Shortcut(False), lambda: Shortcut(True, deep=True), "skip")


def test_parameters_of_an_activation_belong_to_it_and_names_may_shift() -> None:
    def net(*inner: nn.Module) -> nn.Module:
        return nn.Sequential(nn.Linear(6, WIDTH), *inner, nn.Linear(WIDTH, CLASSES))

    assert differences(lambda: net(nn.ReLU()), lambda: net(nn.PReLU()), "activation") == []
    assert differences(lambda: net(nn.ReLU()), lambda: net(nn.BatchNorm1d(WIDTH), nn.ReLU()), "norm") == []
    assert differences(lambda: net(nn.ReLU()), lambda: net(nn.Identity(), nn.ReLU())) == []


def test_an_unknown_factor_is_refused_with_the_nearest() -> None:
    with pytest.raises(InvalidInput, match="'optimizer'"):
        audited(BASE, BASE, "optimiser")
    with pytest.raises(InvalidInput, match="no name"):
        audited(BASE, BASE, " , ")
    with pytest.raises(InvalidInput, match="accepted"):
        audited(BASE, BASE, 3)
    with pytest.raises(InvalidInput, match="study declares"):
        gradlab.audit("identity", factor="lr")
    assert audited(BASE, BASE, ["lr", "optimizer"]).factor == ("lr", "optimizer")
    assert set(FACTORS) >= {"model", "init", "norm", "activation", "skip", "dropout", "optimizer", "lr", "loss", "data"}


def test_the_documentation_lists_every_factor() -> None:
    text = (Path(__file__).parents[2] / "docs/pytorch.md").read_text()
    for name, words in FACTORS.items():
        assert f"| `{name}` | {words} |" in text
