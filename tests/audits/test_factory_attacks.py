"""What is planted in one of two hand-written arms is found, and named as what it is."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Subset, TensorDataset, WeightedRandomSampler
from torch_arms import CLASSES, WIDTH, Arms, Net, Own

import gradlab
from gradlab.audits.audit import UNDECLARED_CODE
from gradlab.audits.compare import UNDECLARED
from gradlab.audits.factories.code import LOOP

pytestmark = pytest.mark.thorough

BASE = Arms()


def found(first: Any, second: Any, factor: Any = None) -> dict[str, str]:
    """Undeclared traits with their sentences."""
    audit = gradlab.audit({"plain": first, "other": second}, factor=factor)
    sentences = {fact.subject: fact.words for fact in audit.facts if fact.code == UNDECLARED_CODE}
    rows = {row.trait for row in audit.rows if row.status == UNDECLARED}
    assert set(sentences) <= rows
    assert audit.cannot_see
    assert audit.cannot_see[-1] == LOOP
    return sentences


def adam(**settings: Any) -> Any:
    return lambda net: torch.optim.Adam(net.parameters(), **{"lr": 1e-3, **settings})


def scaled(net: Net) -> None:
    with torch.no_grad():
        net.layers[1].weight *= 2


def head_lr(net: Net) -> Any:
    head = list(net.head.parameters())
    rest = [p for p in net.parameters() if all(p is not q for q in head)]
    return torch.optim.Adam([{"params": rest}, {"params": head, "lr": 1e-2}], lr=1e-3)


def without_head(net: Net) -> Any:
    return torch.optim.Adam([*net.stem.parameters(), *net.layers.parameters()], lr=1e-3)


def noise_hook(net: Net) -> None:
    net.stem.register_forward_pre_hook(lambda _, args: (args[0] + 0.1 * torch.randn_like(args[0]),))


def evaluation_scale(net: Net) -> None:
    net.register_forward_hook(lambda module, _, out: out if module.training else 2 * out)


def evaluation_method(net: Net) -> None:
    usual = net.forward
    net.forward = lambda x: usual(x) if net.training else usual(x) * 3  # type: ignore[method-assign]


def scaled_weight(net: Net) -> None:
    stem = net.stem
    stem.forward = lambda x: F.linear(x, 1.1 * stem.weight, stem.bias)  # type: ignore[method-assign]


def autocast(net: Net) -> None:
    net.forward = torch.autocast("cpu", torch.bfloat16)(net.forward)  # type: ignore[method-assign]


def clamp_hooks(net: Net) -> None:
    for p in net.parameters():
        p.register_hook(lambda g: g.clamp(-1e-3, 1e-3))


def clip_hook(optimizer: Any) -> None:
    def clip(own: Any, *_: Any) -> None:
        nn.utils.clip_grad_norm_([p for g in own.param_groups for p in g["params"]], 0.1)

    optimizer.register_step_pre_hook(clip)


def shrink_weights(optimizer: Any, *_: Any) -> None:
    with torch.no_grad():
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                parameter.mul_(0.99)


def shrink(p: Tensor) -> None:
    p.grad.mul_(0.1)


def flipped(x: Tensor, y: Tensor) -> Any:
    wrong = y.clone()
    wrong[:10] = (wrong[:10] + 1) % CLASSES
    return TensorDataset(x, wrong)


def flipped_own(x: Tensor, y: Tensor) -> Any:
    return Own(x, y, lambda a, b, i: (a, (b + 1) % CLASSES if i % 20 == 0 else b))


def weighted(data: Any) -> Any:
    return DataLoader(data, 32, sampler=WeightedRandomSampler(torch.rand(len(data), generator=torch.Generator()), 200))


def attach(net: Net) -> None:
    net.stem.register_buffer("extra", torch.ones(6))
    usual = net.stem.forward
    net.stem.forward = lambda x: usual(x * net.stem.extra)  # type: ignore[method-assign]


def batch_norm(momentum: float = 0.1) -> Any:
    return lambda: nn.BatchNorm1d(WIDTH, momentum=momentum)


class Halved(torch.autograd.Function):
    """The identity with half its gradient."""

    @staticmethod
    def forward(_: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(_: Any, g: Tensor) -> Tensor:
        return g / 2


class Clipping(torch.optim.Adam):
    def step(self, closure: Any = None) -> Any:
        nn.utils.clip_grad_norm_([p for g in self.param_groups for p in g["params"]], 0.1)
        return super().step(closure)


Clipping.__name__ = "Adam"
HELD = "parameters the optimizer does not hold"
DIFFERENT: dict[str, tuple[Arms, str]] = {
    # the list of attacks, in its order
    "one layer's init scale": (BASE.but(change=scaled), "initial weights"),
    "Adam's epsilon": (BASE.but(optimizer=adam(eps=1e-6)), "optimizer"),
    "Adam's betas": (BASE.but(optimizer=adam(betas=(0.9, 0.99))), "optimizer"),
    "weight decay": (BASE.but(optimizer=adam(weight_decay=0.1)), "weight decay"),
    "learning rate": (BASE.but(optimizer=adam(lr=2e-3)), "learning rate"),
    "the head's learning rate": (BASE.but(optimizer=head_lr), "learning rate"),
    "head missing from the optimizer": (BASE.but(optimizer=without_head), HELD),
    "frozen layer": (BASE.but(change=lambda net: net.stem.requires_grad_(False)), "frozen parameters"),
    "loss summed": (BASE.but(loss=nn.CrossEntropyLoss(reduction="sum")), "loss"),
    "label smoothing": (BASE.but(loss=nn.CrossEntropyLoss(label_smoothing=0.1)), "loss"),
    "class weights": (BASE.but(loss=nn.CrossEntropyLoss(weight=torch.tensor([1.0, 1, 1, 2]))), "loss"),
    "ignore_index": (BASE.but(loss=nn.CrossEntropyLoss(ignore_index=2)), "loss"),
    "ignore_index that no target has": (BASE.but(loss=nn.CrossEntropyLoss(ignore_index=255)), "loss"),
    "clamped logits": (BASE.but(loss=lambda o, y: F.cross_entropy(o.clamp(-20, 20), y)), "loss"),
    "noise in the data": (
        BASE.but(data=lambda x, y: Own(x, y, lambda a, b, _: (a + 0.1 * torch.randn_like(a), b))), "augmentation"),
    "noise by a forward pre-hook": (BASE.but(change=noise_hook), "forward hooks"),
    "input scaled inside forward": (BASE.but(before=lambda x: x * 2), "steps before the first layer"),
    "output temperature": (BASE.but(after=lambda x: x / 2), "steps after the last layer"),
    "shuffle off": (BASE.but(loader=lambda d: DataLoader(d, 32)), "sampler"),
    "drop_last": (BASE.but(loader=lambda d: DataLoader(d, 32, shuffle=True, drop_last=True)), "batch size"),
    "batch size": (BASE.but(loader=lambda d: DataLoader(d, 16, shuffle=True)), "batch size"),
    "normalization constants": (BASE.but(data=lambda x, y: TensorDataset((x - 0.5) / 2, y)), "data"),
    "labels flipped": (BASE.but(data=flipped), "data"),
    "dropout module": (BASE.but(dropout=lambda: nn.Dropout(0.1)), "dropout"),
    "functional dropout": (BASE.but(hidden=lambda x: F.dropout(x, 0.1)), "random operations"),
    "float64": (BASE.but(change=lambda net: net.double()), "precision and device"),
    "evaluation mode": (BASE.but(change=lambda net: net.eval()), "mode"),
    "scheduler": (BASE.but(then=lambda o: torch.optim.lr_scheduler.StepLR(o, 3)), "scheduler"),
    "gradient clamp by hooks": (BASE.but(change=clamp_hooks), "gradient hooks"),
    "clipping in an optimizer pre-hook": (BASE.but(then=clip_hook), "optimizer hooks"),
    "GELU for ReLU": (BASE.but(act=F.gelu), "activation"),
    "generator used after the model": (BASE.but(last=lambda: torch.rand(1)), "order of samples"),
    "generator used before": (BASE.but(first=lambda: torch.rand(1)), "initial weights"),
    "a buffer": (BASE.but(change=attach), "buffers"),
    "another subset": (BASE.but(samples=300, data=lambda x, y: Subset(TensorDataset(x, y), range(100, 300))), "data"),
    "a weighted sampler": (BASE.but(loader=weighted), "sampler"),
    "amsgrad": (BASE.but(optimizer=adam(amsgrad=True)), "optimizer"),
    "weight_norm": (
        BASE.but(change=lambda net: nn.utils.parametrizations.weight_norm(net.stem)), "parametrizations"),
    "layers ignored": (BASE.but(layers=False), "parameters used"),
    # our own
    "maximize": (BASE.but(optimizer=adam(maximize=True)), "optimizer"),
    "a step that clips, in a class of the same name": (
        BASE.but(optimizer=lambda n: Clipping(n.parameters(), lr=1e-3)), "update"),
    "clamped input": (BASE.but(before=lambda x: x.clamp(-1, 1)), "steps before the first layer"),
    "noise in forward": (BASE.but(hidden=lambda x: x + 0.01 * torch.randn_like(x)), "noise"),
    "leaky slope": (BASE.but(act=lambda x: F.leaky_relu(x, 0.1)), "activation"),
    "softmax at the end": (BASE.but(after=lambda x: x.softmax(1)), "activation"),
    "hidden scale": (BASE.but(hidden=lambda x: 1.5 * x), "scales between layers"),
    "hidden clamp": (BASE.but(hidden=lambda x: x.clamp(max=3.0)), "other operations"),
    "bfloat16 inside forward": (BASE.but(hidden=lambda x: x.bfloat16().float()), "other operations"),
    "NumPy inside forward": (
        BASE.but(before=lambda x: torch.from_numpy(1.5 * x.numpy())), "masks and other values from outside"),
    "a scale in evaluation mode": (BASE.but(change=evaluation_scale), "forward hooks"),
    "a method that scales in evaluation mode": (BASE.but(change=evaluation_method), "steps after the last layer"),
    "a weight scaled before use": (BASE.but(change=scaled_weight), "operations on parameters"),
    "bfloat16 by autocast": (BASE.but(change=autocast), "other operations"),
    "a stem without gradient": (
        BASE.but(change=lambda n: setattr(n.stem, "forward", torch.no_grad()(n.stem.forward))),
        "parameters without gradient"),
    "tied weights": (BASE.but(change=lambda n: setattr(n.layers[1], "weight", n.layers[0].weight)), "layers"),
    "Python's random numbers in forward": (
        BASE.but(before=lambda x: x * (1 + random.random())), "random numbers in the forward pass"),
    "half the gradient": (BASE.but(hidden=Halved.apply), "gradient"),
    "detached stem": (BASE.but(change=lambda net: net.stem.register_forward_hook(lambda *a: a[2].detach())),
                      "forward hooks"),
    "bias init": (BASE.but(change=lambda net: nn.init.ones_(net.head.bias)), "initial biases and scales"),
    "a layer without bias": (BASE.but(change=lambda net: setattr(net, "head", nn.Linear(WIDTH, CLASSES, bias=False))),
                             "layers"),
    "no decay for biases": (
        BASE.but(optimizer=lambda n: torch.optim.Adam([
            {"params": [p for p in n.parameters() if p.dim() > 1], "weight_decay": 0.1},
            {"params": [p for p in n.parameters() if p.dim() < 2]}], lr=1e-3)), "weight decay"),
    "SGD": (BASE.but(optimizer=lambda n: torch.optim.SGD(n.parameters(), lr=1e-3)), "optimizer"),
    "post-hook on the optimizer": (BASE.but(then=lambda o: o.register_step_post_hook(shrink_weights)),
                                   "optimizer hooks"),
    "gradient hook after accumulation": (
        BASE.but(change=lambda n: n.stem.weight.register_post_accumulate_grad_hook(shrink)),
        "gradient hooks"),
    "penalty in the loss": (BASE.but(loss=lambda o, y: F.cross_entropy(o, y) + 0.01 * o.square().mean()), "loss"),
    "loss scaled": (BASE.but(loss=lambda o, y: 2 * F.cross_entropy(o, y)), "loss"),
    "flip augmentation": (
        BASE.but(data=lambda x, y: Own(x, y, lambda a, b, _: (a.flip(0) if torch.rand(1) < 0.5 else a, b))),
        "augmentation"),
    "fewer samples": (BASE.but(samples=190), "samples"),
    "samples in another order": (
        BASE.but(data=lambda x, y: TensorDataset(x.flip(0), y.flip(0))), "data"),
    "one label of 200": (
        BASE.but(data=lambda x, y: Own(x, y, lambda a, b, i: (a, (b + (i == 137)) % CLASSES))), "data"),
    "collate that scales": (
        BASE.but(loader=lambda d: DataLoader(d, 32, shuffle=True, collate_fn=lambda rows: (
            2 * torch.stack([r[0] for r in rows]), torch.tensor([int(r[1]) for r in rows])))), "first batches"),
    "a default dtype": (BASE.but(first=lambda: torch.set_default_dtype(torch.float64)), "precision and device"),
}  # fmt: skip


PART_OF_A_SKIP = {"hidden scale"}
"""The scale of a branch is part of the connection."""


@pytest.mark.parametrize("skip", [False, True], ids=["alone", "beside a skip"])
@pytest.mark.parametrize("name", DIFFERENT)
def test_a_planted_difference_is_found_and_named(name: str, skip: bool) -> None:
    other, trait = DIFFERENT[name]
    if skip and name in PART_OF_A_SKIP:
        return
    sentences = found(BASE, other.but(skip=skip))
    assert trait in sentences, sentences
    assert len(sentences) <= 5, sentences


OWN = BASE.but(data=Own)
NORMED = BASE.but(norm=batch_norm())
NUMBERS = BASE.but(labels=lambda x: x[:, :CLASSES], loss=nn.MSELoss())
BINARY = BASE.but(labels=lambda x: (x[:, :CLASSES] > 0).float(), loss=nn.BCEWithLogitsLoss())
PAIRS: dict[str, tuple[Arms, Arms, str]] = {
    "flipped labels in a data set of one's own": (OWN, OWN.but(data=flipped_own), "data"),
    "batch-norm momentum": (NORMED, NORMED.but(norm=batch_norm(0.2)), "normalization"),
    "batch-norm epsilon": (NORMED, NORMED.but(norm=lambda: nn.BatchNorm1d(WIDTH, eps=1e-3)), "normalization"),
    "norm that starts at 0": (
        NORMED, NORMED.but(change=lambda n: nn.init.zeros_(n.norms[1].weight)), "normalization"),
    "running statistics": (
        NORMED, NORMED.but(change=lambda n: n.norms[0].running_var.mul_(2)), "normalization"),
    "pos_weight": (BINARY, BINARY.but(loss=nn.BCEWithLogitsLoss(pos_weight=torch.tensor(3.0))), "loss"),
    "Huber's delta": (
        NUMBERS.but(loss=nn.HuberLoss(delta=1.0)), NUMBERS.but(loss=nn.HuberLoss(delta=50.0)), "loss"),
    "clamped targets": (NUMBERS, NUMBERS.but(loss=lambda o, y: F.mse_loss(o, y.clamp(-5, 5))), "loss"),
    "clamped outputs": (NUMBERS, NUMBERS.but(loss=lambda o, y: F.mse_loss(o.clamp(-9, 9), y)), "loss"),
    "weighted columns": (
        NUMBERS, NUMBERS.but(loss=lambda o, y: ((o - y).square() * torch.tensor([1, 1, 1, 2])).mean()), "loss"),
    "momentum's dampening": (
        BASE.but(optimizer=lambda n: torch.optim.SGD(n.parameters(), 0.1, 0.9)),
        BASE.but(optimizer=lambda n: torch.optim.SGD(n.parameters(), 0.1, 0.9, dampening=0.5)), "optimizer"),
    "Nesterov": (
        BASE.but(optimizer=lambda n: torch.optim.SGD(n.parameters(), 0.1, 0.9)),
        BASE.but(optimizer=lambda n: torch.optim.SGD(n.parameters(), 0.1, 0.9, nesterov=True)), "optimizer"),
    "scheduler's step": (
        BASE.but(then=lambda o: setattr(o, "kept", torch.optim.lr_scheduler.StepLR(o, 3))),
        BASE.but(then=lambda o: setattr(o, "kept", torch.optim.lr_scheduler.StepLR(o, 4))), "scheduler"),
    "weights of the sampler": (
        BASE.but(loader=lambda d: DataLoader(d, 32, sampler=WeightedRandomSampler(torch.ones(200), 200))),
        BASE.but(loader=lambda d: DataLoader(d, 32, sampler=WeightedRandomSampler(torch.arange(200.0), 200))),
        "sampler"),
    "list of batches": (
        BASE.but(loader=lambda d: [(d.tensors[0][i::8], d.tensors[1][i::8]) for i in range(8)]),
        BASE.but(loader=lambda d: [(d.tensors[0][i::8] * (1 + (i == 7)), d.tensors[1][i::8]) for i in range(8)]),
        "data"),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_a_subtle_difference_of_two_special_arms_is_found(name: str) -> None:
    first, second, trait = PAIRS[name]
    assert trait in found(first, second)
    assert found(first, first) == {}


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("class weights", "loss: relative to plain, other weighs class 3 2 × as much"),
        ("ignore_index", "loss: other ignores targets of class 2"),
        ("loss scaled", "loss: that of other is 2 × that of plain on the same outputs and targets"),
        ("GELU for ReLU", "activation: 3 × relu in plain, 3 × gelu in other"),
        ("input scaled inside forward", "steps before the first layer: only other has mul(2)"),
        ("labels flipped", "data: labels differ in 10 of 200 samples"),
        ("normalization constants", "data: inputs differ in 200 (× 0.5 -0.25) of 200 samples"),
        (
            "the head's learning rate",
            "learning rate: 0.001 in plain, 0.01 in other (for head.weight, head.bias)",
        ),
        ("weight decay", "weight decay: 0 in plain, 0.1 in other"),
        ("clamped logits", "they agree on the first batches"),
        ("generator used after the model", "generator="),
    ],
)
def test_sentences_are_concrete(name: str, sentence: str) -> None:
    other, trait = DIFFERENT[name]
    assert sentence in found(BASE, other)[trait]
