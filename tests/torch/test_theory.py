"""What theory expects of a user's own network, beside what the probe measures in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from torch import Tensor, nn

import gradlab
from gradlab.errors import InvalidInput

WIDTH = 64
cross_entropy = nn.functional.cross_entropy


class After(nn.Module):
    """x + f(W x + b)."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.tanh(self.linear(x))


class Before(nn.Module):
    """x + W f(x) + b."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.function = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(self.function(x)) + x


class Activated(After):
    """f(x + W x + b): its theory is not derived."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x + self.linear(x))


class Branching(After):
    """A forward pass that asks for numbers."""

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) if x.sum() > 0 else x


def plain(*between: Callable[[], nn.Module], gain: float = 2.0) -> nn.Sequential:
    layers: list[nn.Module] = []
    for _ in range(6):
        linear = nn.Linear(WIDTH, WIDTH)
        nn.init.normal_(linear.weight, std=(gain / WIDTH) ** 0.5)
        layers += [linear, *(make() for make in between)]
    return nn.Sequential(*layers, nn.Linear(WIDTH, 10))


def residual(block: Callable[[], nn.Module], *behind: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), *behind, *(block() for _ in range(4)), nn.Linear(WIDTH, 10))


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "relu": lambda: plain(nn.ReLU),
    "too small": lambda: plain(nn.ReLU, gain=0.2),
    "tanh": lambda: plain(nn.Tanh, gain=1.5),
    "gelu": lambda: plain(nn.GELU),
    "layer norm": lambda: plain(lambda: nn.LayerNorm(WIDTH), nn.ReLU),
    "residual": lambda: residual(After, nn.Tanh()),
    "pre-activation": lambda: residual(Before),
}


def batch() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(48, WIDTH, generator=generator), torch.randint(0, 10, (48,), generator=generator)


@pytest.mark.parametrize("name", list(NETWORKS))
def test_the_probe_measures_what_theory_expects(name: str) -> None:
    x, y = batch()
    ratios: dict[str, list[float]] = {}
    inside = []
    for seed in range(8):
        torch.manual_seed(seed)
        model = NETWORKS[name]()
        found = gradlab.torch.predict(model, x, y, loss=cross_entropy)
        with gradlab.probe(model) as probe:
            cross_entropy(model(x), y).backward()
        table = found.beside(probe)
        for measure in ("delta_l2", "grad_l2", "activation_std.pre"):
            own = table[table.measure == measure]
            ratios.setdefault(measure, []).append(float(np.log(own.measured / own.center).mean()))
        inside += list(table[table.measure == "delta_l2"].inside)
        assert found.prediction.loss.low * 0.9 < probe.loss < found.prediction.loss.high * 1.1
    assert abs(np.mean(ratios["delta_l2"])) < 0.15
    assert abs(np.mean(ratios["grad_l2"])) < 0.7  # an order of magnitude
    if name != "layer norm":  # only its head's output is not normalized
        assert abs(np.mean(ratios["activation_std.pre"])) < 0.15
    assert np.mean(inside) > 0.8  # 0.95 of many seeds; the layers of one seed go together


def test_theory_says_in_words_what_becomes_of_a_network_that_is_too_small() -> None:
    x, y = batch()
    torch.manual_seed(0)
    model = NETWORKS["too small"]()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    found = gradlab.torch.predict(model, x, y, loss=cross_entropy)
    assert found.prediction.phase.word == "ordered"
    assert found.prediction.per_layer("delta_l2") == pytest.approx(10**0.5, rel=0.1)
    assert found.layers == ("0", "2", "4", "6", "8", "10", "12")
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_without_a_loss_theory_speaks_of_the_signal_only() -> None:
    x, _ = batch()
    measures = set(gradlab.torch.predict(NETWORKS["tanh"](), x).frame().measure)
    assert "activation_std.pre" in measures
    assert "delta_l2" not in measures


def test_a_loss_that_sums_over_the_batch_gives_a_delta_as_many_times_as_large() -> None:
    x, y = batch()
    model = NETWORKS["tanh"]()
    mean, total = (
        gradlab.torch.predict(model, x, y, loss=nn.CrossEntropyLoss(reduction=how)).prediction
        for how in ("mean", "sum")
    )
    first, second = mean.forecast("delta_l2", 1), total.forecast("delta_l2", 1)
    assert first is not None
    assert second is not None
    assert second.center / first.center == pytest.approx(48, rel=1e-6)
    assert total.loss.center / mean.loss.center == pytest.approx(48, rel=1e-6)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: nn.Sequential(nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 4, 3), nn.Flatten()), "Unflatten"),
        (lambda: nn.Sequential(nn.Linear(WIDTH, 8), nn.Softmax(1), nn.Linear(8, 10)), "Softmax"),
        (lambda: nn.Sequential(nn.TransformerEncoderLayer(WIDTH, 4), nn.Linear(WIDTH, 10)), "TransformerEncoderLayer"),
        (lambda: plain(lambda: nn.BatchNorm1d(WIDTH), nn.ReLU), "batch norm mixes"),
        (lambda: plain(nn.ReLU, nn.Dropout), "drops units"),
        (lambda: residual(Activated), "not derived|outside of both|between"),
        (Branching, "cannot be followed"),
        (lambda: nn.Sequential(nn.ReLU(), nn.Linear(WIDTH, 10)), "before it|does not belong"),
        (nn.Identity, "no linear layer"),
    ],
)
def test_a_network_that_theory_does_not_cover_is_refused_with_the_reason(make: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        gradlab.torch.predict(make(), batch()[0])


def test_wrong_input_is_told_in_a_sentence() -> None:
    x, y = batch()
    model = NETWORKS["relu"]()
    with pytest.raises(InvalidInput, match="both targets"):
        gradlab.torch.predict(model, x, y)
    with pytest.raises(InvalidInput, match="63 features"):
        gradlab.torch.predict(model, x[:, 1:])
    with pytest.raises(InvalidInput, match="48 inputs, but 47"):
        gradlab.torch.predict(model, x, y[1:], loss=cross_entropy)
    other = NETWORKS["residual"]()
    with gradlab.probe(other) as probe:
        cross_entropy(other(x), y).backward()
    with pytest.raises(InvalidInput, match="another network"):
        gradlab.torch.predict(model, x).beside(probe)
