"""What hides behind a declared skip, far ahead in training or in PyTorch's switches is found; what is fair passes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader, Sampler, TensorDataset
from torch_arms import CLASSES, CROSS_ENTROPY, WIDTH, Arms, Net, nothing, same

import gradlab
from gradlab.audits.audit import UNDECLARED_CODE
from gradlab.audits.factories.code import LATER, SWITCHED
from gradlab.audits.factories.models import SEEDED

BASE = Arms()


def audited(first: Any, second: Any, factor: Any = "skip") -> Any:
    return gradlab.audit({"plain": first, "other": second}, factor=factor)


def undeclared(first: Any, second: Any, factor: Any = "skip") -> list[str]:
    return [fact.subject for fact in audited(first, second, factor).facts if fact.code == UNDECLARED_CODE]


class Tenth(torch.autograd.Function):
    """The identity with a tenth of its gradient."""

    @staticmethod
    def forward(_: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(_: Any, g: Tensor) -> Tensor:
        return g / 10


def hooked(x: Tensor) -> Tensor:
    if x.requires_grad:
        x.register_hook(lambda g: g / 10)
    return x


class Frozen(nn.BatchNorm1d):
    """A batch norm that stays in evaluation mode."""

    def train(self, mode: bool = True) -> Any:
        return super().train(False)


def detached(net: Net) -> None:
    """The first block passes no gradient to the stem; its shortcut does."""
    usual = net.layers[0].forward
    net.layers[0].forward = lambda x: usual(x.detach())  # type: ignore[method-assign]


def silent(output: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy and a term that is always 0, with a gradient."""
    return F.cross_entropy(output, target) + (output - output.detach()).square().sum() + _zero(output)


def doubled_last(output: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy, twice as much on a batch that is not whole."""
    return F.cross_entropy(output, target) * (1 if len(output) == 32 else 2)


def _zero(x: Tensor) -> Tensor:
    return 0.5 * (x - x.detach()).mean()


@dataclass(frozen=True)
class Text:
    """Arms of a small network of tokens, convolutions and a choice of one token."""

    skip: bool = False
    conv: dict[str, Any] | None = None
    embed: dict[str, Any] | None = None
    hidden: Callable[[Tensor], Tensor] = same
    chosen: Callable[[Tensor], Tensor] = lambda h: h[:, :, -1]
    loss: Callable[[Tensor, Tensor], Tensor] = CROSS_ENTROPY
    own: bool = False
    """Whether the model computes its loss itself, over all tokens."""
    tokens: int | None = None
    """How many tokens its loss is over."""

    def __call__(self) -> Any:
        net = Words(self)
        ids = torch.randint(0, 12, (48, 8), generator=torch.Generator().manual_seed(1))
        if self.own:
            rows = [{"ids": row, "labels": row} for row in ids]
            return net, torch.optim.SGD(net.parameters(), 0.1), DataLoader(rows, 12), None
        data = TensorDataset(ids, ids.sum(1) % 12)
        return net, torch.optim.SGD(net.parameters(), 0.1), DataLoader(data, 12), self.loss

    def but(self, **changes: Any) -> Text:
        return replace(self, **changes)


class Words(nn.Module):
    """Embedding, two convolutions over time with a skip around the second, a head."""

    def __init__(self, text: Text) -> None:
        super().__init__()
        self.text = text
        self.embed = nn.Embedding(12, 8, **(text.embed or {}))
        self.first = nn.Conv1d(8, 8, 3, **{"padding": 1, **(text.conv or {})})
        self.second = nn.Conv1d(8, 8, 3, padding=1)
        self.head = nn.Linear(8, 12)

    def forward(self, ids: Tensor, labels: Tensor | None = None) -> Any:
        h = torch.relu(self.first(self.embed(ids).transpose(1, 2)))
        h = self.text.hidden(h)
        y = torch.relu(self.second(h))
        h = h + y if self.text.skip else y
        if labels is None:
            return self.head(self.text.chosen(h))
        logits = self.head(h.transpose(1, 2))
        shown, wanted = logits[:, : self.text.tokens], labels[:, : self.text.tokens]
        return {"loss": F.cross_entropy(shown.flatten(0, 1), wanted.flatten()), "logits": logits}


TEXT = Text()
OWN = Text(own=True)
POOLED = Text(chosen=lambda h: h.mean(-1))
BEHIND_A_SKIP: dict[str, tuple[Any, Any, str]] = {
    "a custom function with a tenth of the gradient": (BASE, BASE.but(hidden=Tenth.apply), "gradient"),
    "a hook inside forward": (BASE, BASE.but(hidden=hooked), "gradient"),
    "a detached path": (BASE, BASE.but(change=detached), "gradient"),
    "a loss term of value 0": (BASE, BASE.but(loss=silent), "loss"),
    "a loss that differs on the last batch": (BASE, BASE.but(loss=doubled_last), "loss"),
    "a batch norm that train() leaves in evaluation": (
        BASE.but(norm=lambda: nn.BatchNorm1d(WIDTH)), BASE.but(norm=lambda: Frozen(WIDTH)), "mode"),
    "dilation": (TEXT, TEXT.but(conv={"dilation": 2, "padding": 2}), "settings of layers"),
    "stride": (POOLED, POOLED.but(conv={"stride": 2}), "settings of layers"),
    "padding mode": (POOLED, POOLED.but(conv={"padding": 2}), "settings of layers"),
    "padding_idx": (TEXT, TEXT.but(embed={"padding_idx": 3}), "settings of layers"),
    "cropping": (POOLED, POOLED.but(hidden=lambda h: h[:, :, 1:]), "views"),
    "transposing": (TEXT, TEXT.but(hidden=lambda h: h.transpose(1, 2)), "views"),
    "another token": (TEXT, TEXT.but(chosen=lambda h: h[:, :, 0]), "views"),
    "another token by number": (
        TEXT, TEXT.but(chosen=lambda h: h.index_select(2, torch.tensor([0])).squeeze(2)), "views"),
    "a shorter target": (OWN, OWN.but(tokens=6), "views"),
}  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("name", BEHIND_A_SKIP)
def test_a_declared_skip_hides_nothing(name: str) -> None:
    first, second, trait = BEHIND_A_SKIP[name]
    assert undeclared(first, first.but(skip=True)) == []
    assert trait in undeclared(first, second.but(skip=True))
    assert undeclared(first, second) != []


def test_a_penalty_on_parameters_with_value_0_is_found_in_the_gradient() -> None:
    def make(skip: bool, penalty: bool) -> Any:
        def factory() -> Any:
            net, optimizer, loader, _ = BASE.but(skip=skip)()
            weight = net.stem.weight

            def loss(output: Tensor, target: Tensor) -> Tensor:
                value = F.cross_entropy(output, target)
                return value + (weight - weight.detach()).sum() if penalty else value

            return net, optimizer, loader, loss

        return factory

    assert undeclared(make(False, False), make(True, False)) == []
    assert {"gradient", "loss"} & set(undeclared(make(False, False), make(True, True)))


def pulled(strength: float, power: int = 2) -> Callable[[], Any]:
    """A penalty toward the initial weights: value and gradient are 0 before the first step."""

    def factory() -> Any:
        net, optimizer, loader, usual = BASE.but(skip=bool(strength))()
        start = [p.detach().clone() for p in net.parameters()]

        def loss(output: Tensor, target: Tensor) -> Tensor:
            away = sum(((p - q) ** power).sum() for p, q in zip(net.parameters(), start, strict=True))
            return usual(output, target) + strength * away

        return net, optimizer, loader, loss

    return factory


def with_schedule(make: Callable[[Any], Any], lr: float = 1e-3) -> Arms:
    return BASE.but(
        optimizer=lambda net: torch.optim.Adam(net.parameters(), lr=lr),
        then=lambda optimizer: setattr(optimizer, "kept", make(optimizer)),
    )


def stepped(*milestones: int) -> Arms:
    return with_schedule(lambda o: lr_scheduler.MultiStepLR(o, list(milestones)))


def by_rule(rule: Callable[[int], float]) -> Arms:
    return with_schedule(lambda o: lr_scheduler.LambdaLR(o, rule))


class Later(Sampler[int]):
    """One order in the first epochs, the reverse afterwards."""

    def __init__(self, data: Any, change: int) -> None:
        self.size, self.change, self.epoch = len(data), change, 0

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Any:
        self.epoch += 1
        order = range(self.size)
        return iter(order if self.epoch <= self.change else reversed(order))


def sampled(change: int) -> Arms:
    return BASE.but(loader=lambda data: DataLoader(data, 32, sampler=Later(data, change)))


VOCABULARY = 3000


def spoken(skip: bool, weight: float = 1.0, layout: str = "last") -> Callable[[], Any]:
    """Tokens of a large vocabulary; one rare token may weigh more."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.body, self.head = nn.Embedding(9, 4), nn.Linear(4, 4), nn.Linear(4, VOCABULARY)

        def forward(self, ids: Tensor) -> Tensor:
            h = self.embed(ids)
            y = torch.tanh(self.body(h))
            logits = self.head(h + y if skip else y)
            return logits if layout == "last" else logits.transpose(1, 2)

    def factory() -> Any:
        net = Model()
        ids = torch.arange(96).reshape(24, 4) % 9
        weights = torch.ones(VOCABULARY)
        weights[2718] = weight

        def loss(output: Tensor, target: Tensor) -> Tensor:
            flat = output if layout != "last" else output.transpose(1, 2)
            return F.cross_entropy(flat, target, weights)

        return net, torch.optim.SGD(net.parameters(), 0.1), DataLoader(TensorDataset(ids, ids), 6), loss

    return factory


FAR_AHEAD: dict[str, tuple[Any, Any, str]] = {
    "a milestone far ahead": (stepped(30, 4000), stepped(30, 9000).but(skip=True), "scheduler"),
    "another lambda": (
        by_rule(lambda e: 1.0), by_rule(lambda e: 1.0 if e < 70_000 else 0.1).but(skip=True), "scheduler"),
    "the order from the second epoch on": (sampled(99), sampled(1).but(skip=True), "order of samples"),
    "the order from the tenth epoch on": (sampled(99), sampled(9).but(skip=True), "order of samples"),
    "a penalty toward the initial weights": (pulled(0.0), pulled(0.1), "loss"),
    "a fourth power of it": (pulled(0.0), pulled(0.1, 4), "loss"),
    "a rare token, classes last": (spoken(False), spoken(True, 5.0), "loss"),
    "a rare token, classes second": (spoken(False, 1.0, "second"), spoken(True, 5.0, "second"), "loss"),
}  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("name", FAR_AHEAD)
def test_what_differs_only_later_is_found(name: str) -> None:
    first, second, trait = FAR_AHEAD[name]
    assert trait in undeclared(first, second)
    assert trait not in undeclared(first, first)


SWITCHES: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "matmul precision": (lambda: torch.set_float32_matmul_precision("medium"), torch.get_float32_matmul_precision),
    "flush denormal": (lambda: torch.set_flush_denormal(True), lambda: float(torch.tensor(1e-310).double() * 0.5)),
    "mkldnn": (
        lambda: setattr(torch.backends.mkldnn, "enabled", False), lambda: torch.backends.mkldnn.enabled),
    "deterministic": (
        lambda: torch.use_deterministic_algorithms(True), torch.are_deterministic_algorithms_enabled),
    "threads": (lambda: torch.set_num_threads(torch.get_num_threads() + 1), torch.get_num_threads),
}  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("side", ["first", "second"])
@pytest.mark.parametrize("name", SWITCHES)
def test_switches_of_torch_are_compared_and_put_back(name: str, side: str) -> None:
    turn, read = SWITCHES[name]
    before = read()
    arms = [BASE.but(last=turn), BASE.but(skip=True)] if side == "first" else [BASE, BASE.but(last=turn, skip=True)]
    assert undeclared(*arms) == [SWITCHED]
    assert read() == before
    assert undeclared(BASE.but(last=turn), BASE.but(last=turn, skip=True)) == []
    assert read() == before


def best_of(candidates: int, reseeded: bool) -> Callable[[Net], None]:
    """The draw with the lowest initial loss among many."""

    def choose(net: Net) -> None:
        x, y = torch.ones(4, 6), torch.arange(4)
        draws = []
        for number in range(candidates):
            if reseeded:
                torch.manual_seed(number)
            other = Net(net.arm.but(change=nothing))
            draws.append((F.cross_entropy(other(x), y).item(), number, other.state_dict()))
        net.load_state_dict(min(draws)[2])
        if reseeded:
            torch.manual_seed(0)

    return choose


class Projection(nn.Module):
    """A network whose skip has weights of its own and reads a part of the input."""

    def __init__(self, skip: bool, crop: bool = False) -> None:
        super().__init__()
        self.crop = crop
        self.first = nn.Linear(6, WIDTH)
        self.side = nn.Linear(3, WIDTH) if skip else None
        self.second, self.head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        h = self.second(torch.relu(self.first(x)))
        h = torch.cat([h[:, 8:], h[:, :8]], 1) if self.crop else h
        return self.head(h if self.side is None else h + self.side(x[:, ::2]))


def projected(skip: bool, candidates: int = 0, crop: bool = False) -> Callable[[], Any]:
    def factory() -> Any:
        generator = torch.Generator().manual_seed(1)
        x = torch.randn(64, 6, generator=generator)
        y = x[:, :CLASSES].argmax(1)
        net = Projection(skip, crop)
        draws = [(F.cross_entropy(n(x), y).item(), i, n) for i, n in ((i, Projection(skip)) for i in range(candidates))]
        net = min(draws)[2] if draws else net
        loader = DataLoader(TensorDataset(x, y), 16, shuffle=True, generator=generator)
        return net, torch.optim.SGD(net.parameters(), 0.1), loader, CROSS_ENTROPY

    return factory


@pytest.mark.thorough
@pytest.mark.parametrize("reseeded", [False, True])
def test_initial_weights_that_were_picked_are_not_explained_by_a_skip(reseeded: bool) -> None:
    picked = BASE.but(skip=True, change=best_of(200, reseeded))
    assert "initial weights" in undeclared(BASE, picked)


def test_weights_moved_by_a_projection_belong_to_the_skip_unless_they_were_picked() -> None:
    fair = audited(projected(False), projected(True))
    assert fair.undeclared == ()
    assert any("Initial weights" in limit for limit in fair.limits)
    assert "initial weights" in undeclared(projected(False), projected(True, 200))
    assert "views" in undeclared(projected(False), projected(True, crop=True))


def test_a_seed_that_one_factory_sets_itself_is_found_though_it_is_the_same() -> None:
    def pin() -> None:
        torch.manual_seed(0)

    assert undeclared(BASE, BASE.but(skip=True, first=pin)) == [SEEDED]
    both = audited(BASE.but(first=pin), BASE.but(skip=True, first=pin))
    assert both.fair
    assert "seed_without_effect" in {fact.code for fact in both.facts}


class Tired(nn.Module):
    """Adds noise from its 200th call on."""

    def __init__(self, start: int) -> None:
        super().__init__()
        self.start, self.calls = start, 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x if self.calls < self.start else x + torch.ones_like(x)


def test_what_depends_on_a_counter_of_calls_is_found() -> None:
    usual = BASE.but(dropout=lambda: Tired(10**12))
    tired = usual.but(skip=True, dropout=lambda: Tired(200))
    assert undeclared(usual, tired) == ["forward pass after more calls"]
    assert undeclared(usual, usual.but(skip=True)) == []


class Centered(nn.Module):
    """Subtracts a buffer, which it may learn."""

    def __init__(self, learns: bool) -> None:
        super().__init__()
        self.learns = learns
        self.register_buffer("mean", torch.zeros(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        if self.training and self.learns:
            with torch.no_grad():
                self.mean.lerp_(x.mean(0), 0.1)
        return x - self.mean


def test_a_buffer_that_only_one_forward_pass_changes_is_found() -> None:
    fixed = BASE.but(dropout=lambda: Centered(False))
    learned = BASE.but(dropout=lambda: Centered(True))
    assert "buffers that forward changes" in undeclared(fixed, learned.but(skip=True))
    assert undeclared(learned, learned.but(skip=True)) == []


def logged(net: Net) -> None:
    seen: list[float] = []
    net.stem.register_forward_hook(lambda *a: seen.append(float(a[2].detach().mean())))


def warm(optimizer: Any) -> Any:
    return lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 10, eta_min=1e-5)


def one_cycle(rate: float) -> Callable[[Any], Any]:
    return lambda optimizer: lr_scheduler.OneCycleLR(optimizer, rate, total_steps=50)


def logs_gradients(net: Net) -> None:
    seen: list[float] = []
    net.stem.weight.register_hook(lambda g: seen.append(float(g.norm())))
    net.stem.weight.register_post_accumulate_grad_hook(lambda p: seen.append(float(p.grad.norm())))


def logs_steps(optimizer: Any) -> None:
    optimizer.register_step_post_hook(lambda *a: None)


FAIR: dict[str, tuple[Any, Any, Any]] = {
    "hooks that log gradients": (BASE, BASE.but(change=logs_gradients), None),
    "hooks that log gradients, beside a skip": (BASE, BASE.but(change=logs_gradients, skip=True), "skip"),
    "a hook that logs steps": (BASE, BASE.but(then=logs_steps), None),
    "a rate under warm restarts": (with_schedule(warm), with_schedule(warm, 3e-3), "lr"),
    "a rate under one cycle": (with_schedule(one_cycle(1e-2)), with_schedule(one_cycle(3e-2)), "lr"),
    "one cycle against none": (BASE, with_schedule(one_cycle(1e-2)), ["lr", "schedule"]),
    "a rate under a lambda": (by_rule(lambda e: 0.9**e), with_schedule(
        lambda o: lr_scheduler.LambdaLR(o, lambda e: 0.9**e), 3e-3), "lr"),
    "a hook that logs": (BASE, BASE.but(change=logged), None),
    "a hook that logs, beside a skip": (BASE, BASE.but(change=logged, skip=True), "skip"),
    "an unused buffer": (BASE, BASE.but(change=lambda net: net.register_buffer("extra", torch.ones(3))), None),
}  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("name", FAIR)
def test_fair_arms_pass(name: str) -> None:
    assert undeclared(*FAIR[name]) == []


class Images(nn.Module):
    """Two convolutions; the shortcut around the second is cropped and padded, without weights."""

    def __init__(self, skip: bool) -> None:
        super().__init__()
        self.skip = skip
        self.first, self.second = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 8, 3, padding=1, stride=2)
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.relu(self.first(x))
        y = torch.relu(self.second(h))
        y = F.pad(h[:, :, ::2, ::2], (0, 0, 0, 0, 2, 2)) + y if self.skip else y
        return self.head(y.mean((2, 3)))


class Sequence(nn.Module):
    """Recurrent layers and attention with or without a skip around each."""

    def __init__(self, skip: bool) -> None:
        super().__init__()
        self.skip = skip
        self.rnns = nn.ModuleList(nn.LSTM(8, 8, batch_first=True) for _ in range(2))
        self.attention, self.head = nn.MultiheadAttention(8, 2, batch_first=True), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        for rnn in self.rnns:
            y = rnn(x)[0]
            x = x + y if self.skip else y
        y = self.attention(x, x, x, need_weights=False)[0]
        return self.head((x + y if self.skip else y)[:, -1])


def shaped(kind: Any, shape: tuple[int, ...]) -> Callable[[bool], Any]:
    def make(skip: bool) -> Any:
        def factory() -> Any:
            x = torch.randn(24, *shape, generator=torch.Generator().manual_seed(0))
            net = kind(skip)
            data = TensorDataset(x, torch.arange(24) % 3)
            return net, torch.optim.Adam(net.parameters()), DataLoader(data, 8), CROSS_ENTROPY

        return factory

    return make


@pytest.mark.thorough
@pytest.mark.parametrize("make", [shaped(Images, (1, 8, 8)), shaped(Sequence, (5, 8))], ids=["images", "sequences"])
def test_a_skip_in_another_kind_of_network_passes(make: Callable[[bool], Any]) -> None:
    assert undeclared(make(False), make(True)) == []


def rounded(x: Tensor) -> Tensor:
    return x + (x.round() - x).detach()


LEGITIMATE: dict[str, Arms] = {
    "straight-through rounding": BASE.but(hidden=rounded),
    "dropout": BASE.but(dropout=lambda: nn.Dropout(0.3)),
    "a hard choice": BASE.but(hidden=lambda h: h * (h == h.max(1, keepdim=True).values)),
    "a bfloat16 step": BASE.but(hidden=lambda h: h.bfloat16().float()),
    "float32 by name": BASE.but(hidden=lambda h: h.float()),
    "batch norm": BASE.but(norm=lambda: nn.BatchNorm1d(WIDTH)),
    "zero biases and empty rows": BASE.but(
        change=lambda net: nn.init.zeros_(net.stem.bias), data=lambda x, y: TensorDataset(x.clamp(min=0) * 0, y)
    ),
    "float64": BASE.but(change=lambda net: net.double()),
    "weights of classes": BASE.but(loss=nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2, 3, 4]))),
    "hooks on gradients": BASE.but(change=lambda net: [p.register_hook(lambda g: g.clamp(-1e-3, 1e-3))
                                                       for p in net.parameters()] and None),
}  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("name", LEGITIMATE)
def test_what_is_not_smooth_in_both_arms_is_no_difference(name: str) -> None:
    arm = LEGITIMATE[name]
    assert undeclared(arm, arm.but(skip=True)) == []


def test_a_gradient_that_is_not_that_of_the_loss_in_both_arms_is_remarked_on() -> None:
    arm = BASE.but(hidden=Tenth.apply)
    assert any("gradient" in limit for limit in audited(arm, arm.but(skip=True)).limits)
    assert not any("gradient" in limit for limit in audited(BASE, BASE.but(skip=True)).limits)


def test_what_happens_later_is_named_among_what_cannot_be_seen() -> None:
    calls = count()

    def tired(x: Tensor) -> Tensor:
        return x if next(calls) < 10**6 else 0 * x

    found = audited(BASE, BASE.but(hidden=tired, skip=True))
    assert LATER in found.cannot_see
    for word in ("calls", "EMA", "Lookahead", "mixup"):
        assert word in LATER
