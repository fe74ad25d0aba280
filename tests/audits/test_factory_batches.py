"""Arms whose batches are dicts or hold several inputs, and models that return their own loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

import gradlab


class Words(nn.Module):
    """Takes keywords and returns its loss, as models of transformers do."""

    def __init__(self, act: nn.Module, times: float) -> None:
        super().__init__()
        self.embed, self.body, self.act, self.head = nn.Embedding(20, 16), nn.Linear(16, 16), act, nn.Linear(16, 5)
        self.times = times

    def forward(self, input_ids: Tensor, labels: Tensor | None = None) -> dict[str, Tensor]:
        logits = self.head(self.act(self.body(self.embed(input_ids))).mean(1))
        return {"loss": self.times * nn.functional.cross_entropy(logits, labels), "logits": logits}


class Two(nn.Module):
    """Takes two inputs."""

    def __init__(self, act: nn.Module) -> None:
        super().__init__()
        self.a, self.b, self.act, self.head = nn.Linear(4, 8), nn.Linear(4, 8), act, nn.Linear(8, 3)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return self.head(self.act(self.a(a) + self.b(b)))


def words(act: Callable[[], nn.Module], rate: float = 1e-3, times: float = 1.0) -> Callable[[], Any]:
    def make() -> Any:
        model = Words(act(), times)
        rows = [{"input_ids": (torch.arange(6) + k) % 20, "labels": torch.tensor(k % 5)} for k in range(32)]
        return model, torch.optim.Adam(model.parameters(), rate), DataLoader(rows, 8), None

    return make


def pairs(act: Callable[[], nn.Module], rate: float = 1e-3) -> Callable[[], Any]:
    def make() -> Any:
        model = Two(act())
        rows = [((torch.randn(4), torch.randn(4)), k % 3) for k in range(32)]
        return model, torch.optim.Adam(model.parameters(), rate), DataLoader(rows, 8), nn.CrossEntropyLoss()

    return make


@pytest.mark.parametrize("make", [words, pairs])
def test_batches_of_any_form_are_audited(make: Any) -> None:
    audit = gradlab.audit({"relu": make(nn.ReLU), "gelu": make(nn.GELU)}, factor="activation", seed=0)
    assert audit.fair
    audit = gradlab.audit({"relu": make(nn.ReLU), "gelu": make(nn.GELU, rate=2e-3)}, factor="activation", seed=0)
    assert not audit.fair
    assert "learning rate" in audit.answer


def test_another_loss_inside_the_model_is_seen() -> None:
    audit = gradlab.audit({"one": words(nn.ReLU), "two": words(nn.ReLU, times=2.0)}, factor="init", seed=0)
    assert not audit.fair


def test_a_model_without_a_loss_of_its_own_is_refused_in_a_sentence() -> None:
    def make() -> Any:
        model, optimizer, loader, _ = pairs(nn.ReLU)()
        return model, optimizer, loader, None

    with pytest.raises(gradlab.GradlabError, match="its loss"):
        gradlab.audit({"one": make, "two": make}, factor="init", seed=0)
