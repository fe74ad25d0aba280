"""Planted differences in tables, text and images, beside a declared factor; and fair arms of the same kinds."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import lr_scheduler
from torch.utils.checkpoint import checkpoint
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, RandomSampler, Sampler, TensorDataset
from torch_arms import CLASSES, CROSS_ENTROPY, WIDTH, Arms, Net, Own, same

import gradlab

BASE = Arms()
NORMED = BASE.but(norm=lambda: nn.BatchNorm1d(WIDTH))
TOKENS, LENGTH, PADDING = 11, 7, 0


def adam(net: nn.Module, lr: float = 1e-3, **settings: Any) -> Any:
    return torch.optim.Adam(net.parameters(), lr=lr, **settings)


# Text: attention, a recurrent layer, a pool and a head; rows end with padding.


@dataclass(frozen=True)
class Text:
    """A factory of a small text classifier, or of a language model."""

    skip: bool = False
    act: Callable[[Tensor], Tensor] = torch.relu
    dropout: float = 0.0
    norm: Callable[[int], nn.Module] = nn.Identity
    embed: dict[str, Any] = field(default_factory=dict)
    embedded: Callable[[Tensor], Tensor] = same
    heads: int = 2
    scores: Callable[[Tensor], Tensor] = same
    softmax: int = -1
    causal: bool = False
    masked: bool = True
    """Whether padding is hidden from attention and from the pool."""
    split: str = "transpose"
    recurrent: Callable[[nn.LSTM, Tensor], Tensor] = lambda rnn, h: rnn(h)[0]
    rnn: dict[str, Any] = field(default_factory=lambda: {"batch_first": True})
    language: bool = False
    change: Callable[[nn.Module], Any] = lambda net: None
    optimizer: Callable[[nn.Module], Any] = adam
    then: Callable[[Any], Any] = lambda optimizer: None
    loss: Callable[[Tensor, Tensor], Tensor] = CROSS_ENTROPY
    targets: Callable[[Tensor], Tensor] = lambda ids: ids.sum(1) % 3
    loader: Callable[[Any], Any] = lambda data: DataLoader(data, 8)

    def __call__(self) -> Any:
        ids = torch.randint(1, TOKENS, (32, LENGTH), generator=torch.Generator().manual_seed(2))
        ids = ids.where(torch.arange(LENGTH) < 3 + torch.arange(32)[:, None] % 5, PADDING)
        net = Reader(self)
        self.change(net)
        optimizer = self.optimizer(net)
        self.then(optimizer)
        return net, optimizer, self.loader(TensorDataset(ids, self.targets(ids))), self.loss

    def but(self, **changes: Any) -> Text:
        return replace(self, **changes)


class Reader(nn.Module):
    def __init__(self, text: Text, width: int = 8) -> None:
        super().__init__()
        self.text, self.width = text, width
        self.embed = nn.Embedding(TOKENS, width, **text.embed)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norm, self.drop = text.norm(width), nn.Dropout(text.dropout)
        self.rnn = nn.LSTM(width, width, **text.rnn)
        self.head = nn.Linear(width, TOKENS if text.language else 3)

    def attend(self, x: Tensor, real: Tensor) -> Tensor:
        text, shape = self.text, (len(x), LENGTH, self.text.heads, self.width // self.text.heads)
        q, k, v = (
            part.reshape(shape).transpose(1, 2)
            if text.split == "transpose"
            else part.reshape(shape[0], shape[2], shape[1], shape[3])
            for part in self.qkv(x).chunk(3, -1)
        )
        scores = text.scores(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]))
        if text.masked:
            scores = scores.masked_fill(~real[:, None, None], -1e9)
        if text.causal:
            scores = scores.masked_fill(torch.ones(LENGTH, LENGTH).triu(1).bool(), -1e9)
        return self.out((scores.softmax(text.softmax) @ v).transpose(1, 2).flatten(2))

    def forward(self, ids: Tensor) -> Tensor:
        text, real = self.text, ids != PADDING
        x = text.embedded(self.embed(ids))
        y = self.drop(text.act(self.norm(self.attend(x, real))))
        x = text.recurrent(self.rnn, x + y if text.skip else y)
        if text.language:
            return self.head(x).transpose(1, 2)
        weight = real.float() if text.masked else torch.ones_like(real, dtype=x.dtype)
        return self.head((x * weight[..., None]).sum(1) / weight.sum(1, keepdim=True))


TEXT = Text()
SPEECH = Text(language=True, targets=lambda ids: ids.roll(-1, 1), loss=nn.CrossEntropyLoss(ignore_index=PADDING))


def positions(x: Tensor) -> Tensor:
    return x + torch.sin(torch.arange(LENGTH)[:, None] / 10 ** torch.arange(8))


def forget_bias(net: Any) -> None:
    with torch.no_grad():
        net.rnn.bias_ih_l0[8:16] += 1


def truncated(rnn: nn.LSTM, x: Tensor) -> Tensor:
    """No gradient from the second half of the steps into the first."""
    early, state = rnn(x[:, :4])
    late, _ = rnn(x[:, 4:], tuple(s.detach() for s in state))
    return torch.cat([early, late], 1)


def halves(rnn: nn.LSTM, x: Tensor) -> Tensor:
    early, state = rnn(x[:, :4])
    return torch.cat([early, rnn(x[:, 4:], state)[0]], 1)


def per_row(output: Tensor, target: Tensor) -> Tensor:
    """Summed over tokens, averaged over rows: long rows count more."""
    return F.cross_entropy(output, target, ignore_index=PADDING, reduction="sum") / (len(target) * LENGTH)


# Images: two convolutions, a pool and a head.


@dataclass(frozen=True)
class Images:
    skip: bool = False
    act: Callable[[Tensor], Tensor] = torch.relu
    norm: Callable[[int], nn.Module] = nn.Identity
    conv: dict[str, Any] = field(default_factory=dict)
    pool: Callable[[Tensor], Tensor] = lambda h: F.avg_pool2d(h, 2)
    wrap: Callable[[nn.Module, Tensor], Tensor] = lambda layer, h: layer(h)
    change: Callable[[nn.Module], Any] = lambda net: None
    optimizer: Callable[[nn.Module], Any] = adam
    pixels: Callable[[Tensor], Tensor] = same
    data: Callable[[Tensor, Tensor], Any] = TensorDataset
    loader: Callable[[Any], Any] = lambda data: DataLoader(data, 8, shuffle=True)
    loss: Callable[[Tensor, Any], Tensor] = CROSS_ENTROPY

    def __call__(self) -> Any:
        x = torch.rand(32, 3, 8, 8, generator=torch.Generator().manual_seed(3))
        net = Viewer(self)
        self.change(net)
        return net, self.optimizer(net), self.loader(self.data(self.pixels(x), torch.arange(32) % 3)), self.loss

    def but(self, **changes: Any) -> Images:
        return replace(self, **changes)


class Viewer(nn.Module):
    def __init__(self, images: Images) -> None:
        super().__init__()
        self.images, self.act = images, images.act  # registered, if it is a module
        self.first = nn.Conv2d(3, 8, 3, padding=1, **images.conv)
        self.second = nn.Conv2d(8, 8, 3, padding=1)
        self.norm, self.head = images.norm(8), nn.Linear(8 * 16, 3)

    def forward(self, x: Tensor) -> Tensor:
        images = self.images
        h = self.act(images.wrap(self.first, x))
        y = self.act(self.norm(images.wrap(self.second, h)))
        return self.head(images.pool(h + y if images.skip else y).flatten(1))


IMAGES = Images()


# Tables: the arms of the other tests.


def resumed(optimizer: Any) -> None:
    """Moments as after a checkpoint."""
    for group in optimizer.param_groups:
        for p in group["params"]:
            optimizer.state[p] = {
                "step": torch.tensor(100.0), "exp_avg": torch.full_like(p, 1e-3), "exp_avg_sq": torch.full_like(p, 1e-4)
            }  # fmt: skip


def every_fourth(optimizer: Any) -> None:
    step, calls = optimizer.step, [0]

    def accumulate(*args: Any) -> None:
        calls[0] += 1
        if calls[0] % 4 == 0:
            step(*args)

    optimizer.step = accumulate


def never_zeroed(optimizer: Any) -> None:
    optimizer.zero_grad = lambda set_to_none=True: None


def decaying(optimizer: Any) -> None:
    """A tenth of the rate every twenty steps, by hand."""
    calls = [0]

    def decay(self: Any, *_: Any) -> None:
        calls[0] += 1
        if calls[0] % 20 == 0:
            for group in self.param_groups:
                group["lr"] *= 0.1

    optimizer.register_step_post_hook(decay)


def guarded(net: Net) -> None:
    """Gradients above a norm of 5 are cut: at ordinary sizes nothing happens."""
    for p in net.parameters():
        p.register_hook(lambda g: g * (5 / g.norm()).clamp(max=1))


def keeps_frozen(net: Net) -> None:
    train = type(net).train

    class Frozen(type(net)):  # type: ignore[misc]
        def train(self, mode: bool = True) -> Any:
            self.stem.requires_grad_(not mode)
            return train(self, mode)

    net.__class__ = Frozen


def warmed_up(net: Net) -> None:
    x = torch.randn(64, 6, generator=torch.Generator().manual_seed(8))
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    for _ in range(3):
        optimizer.zero_grad()
        F.cross_entropy(net(x), x[:, :CLASSES].argmax(1)).backward()
        optimizer.step()
    optimizer.zero_grad()


class Ghost(nn.BatchNorm1d):
    """Statistics of 16 rows at a time."""

    def forward(self, x: Tensor) -> Tensor:
        return (
            torch.cat([super(Ghost, self).forward(part) for part in x.split(16)])
            if self.training
            else super().forward(x)
        )


class DropPath(nn.Module):
    """Stochastic depth: a whole branch is left out of some steps."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 0 if self.training and float(torch.rand(())) < 0.2 else x


def twice_tested(net: Net) -> None:
    """Predictions at test time are averaged over two looks."""
    forward = net.forward
    twice = lambda x: forward(x) if net.training else (forward(x) + forward(x * 1.01)) / 2  # noqa: E731
    net.forward = twice  # type: ignore[method-assign]


class Ramped(nn.Module):
    """Label smoothing that starts after some hundred batches."""

    def __init__(self, smoothing: float) -> None:
        super().__init__()
        self.smoothing, self.calls = smoothing, 0

    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        self.calls += 1
        return F.cross_entropy(output, target, label_smoothing=self.smoothing if self.calls > 500 else 0.0)


def hardest(output: Tensor, target: Tensor) -> Tensor:
    each = F.cross_entropy(output, target, reduction="none")
    return each.topk(max(1, 3 * len(each) // 4)).values.mean()


def capped(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output, target, reduction="none").clamp(max=12).mean()


class Sorted(Sampler[Any]):
    """Batches of similar rows, as bucketing by length makes them."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def __len__(self) -> int:
        return 7

    def __iter__(self) -> Iterator[list[int]]:
        order = self.data.tensors[0][:, 0].argsort().split(32)
        return iter([order[i].tolist() for i in torch.randperm(len(order))])


def mixed(rows: Any) -> Any:
    x, y = torch.stack([r[0] for r in rows]), torch.stack([r[1] for r in rows])
    return 0.9 * x + 0.1 * x.roll(1, 0), y


class Second(Own):
    """Noise from the second pass over the data on."""

    def __init__(self, x: Tensor, y: Tensor, noise: float) -> None:
        super().__init__(x, y)
        self.noise, self.reads = noise, 0

    def __getitem__(self, index: int) -> Any:
        self.reads += 1
        x, y = super().__getitem__(index)
        return (x + self.noise * (self.reads > len(self)), y)


class Stream(IterableDataset[Any]):
    """A stream, shuffled within a buffer or not."""

    def __init__(self, x: Tensor, y: Tensor, buffer: int) -> None:
        self.x, self.y, self.buffer = x, y, buffer

    def __iter__(self) -> Iterator[Any]:
        for start in range(0, len(self.x), self.buffer):
            size = min(self.buffer, len(self.x) - start)
            for i in torch.randperm(size, generator=torch.Generator().manual_seed(start)).tolist():
                yield self.x[start + i], self.y[start + i]


def rarer_repeated(x: Tensor, y: Tensor) -> Any:
    often = torch.cat([torch.arange(len(x)), (y == 3).nonzero()[:10, 0]])
    return TensorDataset(x[often], y[often])


def watched_activity(skip: bool, strength: float) -> Callable[[], Any]:
    """A penalty on activities that a forward hook hands to the loss."""

    def factory() -> Any:
        net, optimizer, loader, usual = BASE.but(skip=skip)()
        seen: list[Tensor] = []
        net.layers[1].register_forward_hook(lambda m, i, o: seen.__setitem__(slice(None), [o]))
        return net, optimizer, loader, lambda o, y: usual(o, y) + strength * seen[0].abs().mean()

    return factory


def one_number(skip: bool, squeezed: bool) -> Callable[[], Any]:
    """Regression of one number: outputs (n, 1) against targets (n,) are spread to (n, n)."""

    def loss(output: Tensor, target: Tensor) -> Tensor:
        output = output[:, :1].squeeze(1) if squeezed else output[:, :1]
        return (output - target).square().mean()

    return BASE.but(skip=skip, labels=lambda x: x[:, 0], loss=loss)


def scheduled(make: Callable[[Any], Any], lr: float = 1e-3) -> Arms:
    return BASE.but(
        optimizer=lambda net: adam(net, lr), then=lambda optimizer: setattr(optimizer, "kept", make(optimizer))
    )


def cosine(optimizer: Any, last: int = -1) -> Any:
    if last >= 0:
        for group in optimizer.param_groups:
            group["initial_lr"] = group["lr"]
    return lr_scheduler.CosineAnnealingLR(optimizer, 200, last_epoch=last)


def filled(scale: float) -> Callable[[nn.LSTM, Tensor], Tensor]:
    """The recurrent layer step by step, into a tensor that was made before."""

    def run(rnn: nn.LSTM, x: Tensor) -> Tensor:
        out, state = torch.zeros(len(x), LENGTH, 8), None
        for at in range(LENGTH):
            step, state = rnn(scale * x[:, at : at + 1], state)
            out[:, at] = step[:, 0]
        return out

    return run


class LayerDrop(nn.Module):
    """A branch is left out now and then, as Python's generator says."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 0 if self.training and random.random() < 1e-3 else x


class Warming(torch.optim.SGD):
    """Its rate grows over the first steps."""

    def __init__(self, parameters: Any, lr: float, steps: int) -> None:
        super().__init__(parameters, lr)
        self.steps, self.taken, self.rate = steps, 0, lr

    def step(self, closure: Any = None) -> Any:
        self.taken += 1
        for group in self.param_groups:
            group["lr"] = self.rate * (1.0 if self.taken < 50 else 50 / self.taken) if self.steps else self.rate
        return super().step(closure)


def warming(steps: int) -> Callable[[nn.Module], Any]:
    return lambda net: Warming(net.parameters(), 0.1, steps)


PLANTED: dict[str, tuple[Any, Any, Any, str]] = {
    # text
    "no causal mask": (
        SPEECH.but(causal=True),
        SPEECH.but(act=F.gelu),
        "activation",
        "masks and other values from outside",
    ),
    "scores divided by the width": (
        TEXT,
        TEXT.but(scores=lambda s: s / 2, act=torch.tanh),
        "activation",
        "scales between layers",
    ),
    "softmax over the wrong axis": (TEXT, TEXT.but(softmax=-2, skip=True), "skip", "activation"),
    "four heads of the same shapes": (TEXT, TEXT.but(heads=4, norm=nn.LayerNorm), "norm", "scales between layers"),
    "heads that mix positions": (TEXT, TEXT.but(split="reshape", skip=True), "skip", "views"),
    "padding that is attended to": (TEXT, TEXT.but(masked=False, skip=True), "skip", "activation"),
    "positions": (TEXT, TEXT.but(embedded=positions, dropout=0.1), "dropout", "scales between layers"),
    "embeddings scaled by the root of the width": (
        TEXT,
        TEXT.but(embedded=lambda x: x * 8**0.5, skip=True),
        "skip",
        "scales between layers",
    ),
    "gradients by frequency": (
        TEXT,
        TEXT.but(embed={"scale_grad_by_freq": True}, skip=True),
        "skip",
        "settings of layers",
    ),
    "embeddings of bounded norm": (TEXT, TEXT.but(embed={"max_norm": 1.0}, skip=True), "skip", "other operations"),
    "time and batch mixed up": (
        TEXT,
        TEXT.but(rnn={"batch_first": False}, skip=True),
        "skip",
        "masks and other values from outside",
    ),
    "bias of the forget gate": (
        TEXT,
        TEXT.but(change=forget_bias, dropout=0.1),
        "dropout",
        "initial biases and scales",
    ),
    "state detached between chunks": (
        TEXT.but(recurrent=halves),
        TEXT.but(recurrent=truncated, skip=True),
        "skip",
        "gradient",
    ),
    "targets not shifted": (
        SPEECH,
        SPEECH.but(targets=same, optimizer=lambda n: torch.optim.SGD(n.parameters(), 0.1)),
        "optimizer",
        "data",
    ),
    "averaged over rows, not tokens": (SPEECH, SPEECH.but(loss=per_row, skip=True), "skip", "loss"),
    # images
    "another padding of the border": (
        IMAGES,
        IMAGES.but(conv={"padding_mode": "circular"}, skip=True),
        "skip",
        "steps before the first layer",
    ),
    "maximum for mean": (
        IMAGES,
        IMAGES.but(pool=lambda h: F.max_pool2d(h, 2), norm=nn.BatchNorm2d),
        "norm",
        "other operations",
    ),
    "groups of a norm": (
        IMAGES.but(norm=lambda n: nn.GroupNorm(2, n)),
        IMAGES.but(norm=lambda n: nn.GroupNorm(4, n), act=F.gelu),
        "activation",
        "normalization",
    ),
    "channels in another order": (
        IMAGES,
        IMAGES.but(pixels=lambda x: x.flip(1), loader=lambda d: DataLoader(d, 16, shuffle=True)),
        "batch",
        "data",
    ),
    "pixels of 16 levels": (
        IMAGES,
        IMAGES.but(pixels=lambda x: (x * 15).round() / 15, loader=DataLoader),
        ["batch", "order"],
        "data",
    ),
    "spectral norm": (
        IMAGES,
        IMAGES.but(change=lambda n: nn.utils.spectral_norm(n.second), act=F.gelu),
        "activation",
        "layers",
    ),
    # tables
    "an approximate GELU": (
        BASE.but(act=F.gelu),
        BASE.but(act=lambda x: F.gelu(x, approximate="tanh"), skip=True),
        "skip",
        "activation",
    ),
    "dropout that keeps the variance": (
        BASE.but(dropout=lambda: nn.Dropout(0.2)),
        BASE.but(dropout=lambda: nn.AlphaDropout(0.2), skip=True),
        "skip",
        "dropout",
    ),
    "ghost batch norm": (NORMED, BASE.but(norm=lambda: Ghost(WIDTH), skip=True), "skip", "normalization"),
    "norm without running statistics": (
        NORMED,
        BASE.but(norm=lambda: nn.BatchNorm1d(WIDTH, track_running_stats=False), skip=True),
        "skip",
        "normalization",
    ),
    "stochastic depth": (BASE, BASE.but(dropout=DropPath, skip=True), "skip", "random operations"),
    "two looks at test time": (BASE, BASE.but(change=twice_tested, skip=True), "skip", "activation"),
    "a stem that train() freezes": (BASE, BASE.but(change=keeps_frozen, skip=True), "skip", "frozen parameters"),
    "weights that were trained a little": (
        BASE,
        BASE.but(change=warmed_up, optimizer=lambda n: torch.optim.SGD(n.parameters(), 0.1)),
        "optimizer",
        "initial weights",
    ),
    "moments of a checkpoint": (BASE, BASE.but(optimizer=lambda n: adam(n, 3e-3), then=resumed), "lr", "update"),
    "a step at every fourth call": (BASE, BASE.but(then=every_fourth, skip=True), "skip", "update"),
    "gradients that add up": (BASE, BASE.but(then=never_zeroed, skip=True), "skip", "update"),
    "a rate that a hook decays": (BASE, BASE.but(then=decaying, skip=True), "skip", "scheduler"),
    "hooks that cut large gradients": (BASE, BASE.but(change=guarded, skip=True), "skip", "gradient hooks"),
    "a schedule that was resumed": (scheduled(cosine), scheduled(lambda o: cosine(o, 60), 3e-3), "lr", "scheduler"),
    "autocast everywhere": (
        BASE,
        BASE.but(last=lambda: torch.set_autocast_enabled("cpu", True), optimizer=lambda n: adam(n, 3e-3)),
        "lr",
        "switches of torch",
    ),
    "the hardest rows only": (BASE, BASE.but(loss=hardest, skip=True), "skip", "loss"),
    "losses of rows that are capped": (BASE, BASE.but(loss=capped, skip=True), "skip", "loss"),
    "smoothing after 500 batches": (BASE.but(loss=Ramped(0.0)), BASE.but(loss=Ramped(0.1), skip=True), "skip", "loss"),
    "a penalty on activities": (watched_activity(False, 0.0), watched_activity(True, 0.01), "skip", "loss"),
    "targets that are spread": (one_number(False, True), one_number(True, False), "skip", "loss"),
    "rows drawn with replacement": (
        BASE,
        BASE.but(loader=lambda d: DataLoader(d, 32, sampler=RandomSampler(d, replacement=True)), skip=True),
        "skip",
        "sampler",
    ),
    "batches of similar rows": (
        BASE,
        BASE.but(
            loader=lambda d: DataLoader(d, batch_sampler=Sorted(d)),
            optimizer=lambda n: torch.optim.SGD(n.parameters(), 0.1),
        ),
        "optimizer",
        "sampler",
    ),
    "rows mixed in the collate function": (
        BASE,
        BASE.but(loader=lambda d: DataLoader(d, 32, shuffle=True, collate_fn=mixed), skip=True),
        "skip",
        "first batches",
    ),
    "noise from the second pass on": (
        BASE.but(data=lambda x, y: Second(x, y, 0.0)),
        BASE.but(data=lambda x, y: Second(x, y, 0.1), optimizer=lambda n: adam(n, 3e-3)),
        "lr",
        "data",
    ),
    "rare rows repeated": (BASE, BASE.but(data=rarer_repeated, optimizer=lambda n: adam(n, 3e-3)), "lr", "samples"),
    "a stream with a smaller buffer": (
        BASE.but(data=lambda x, y: Stream(x, y, 100), loader=lambda d: DataLoader(d, 32)),
        BASE.but(data=lambda x, y: Stream(x, y, 10), loader=lambda d: DataLoader(d, 32), skip=True),
        "skip",
        "data",
    ),
    "soft labels": (
        BASE,
        BASE.but(
            labels=lambda x: F.one_hot(x[:, :CLASSES].argmax(1), CLASSES) * 0.9 + 0.025,
            optimizer=lambda n: torch.optim.SGD(n.parameters(), 0.1),
        ),
        "optimizer",
        "data",
    ),
    # written after the mends, to see whether these hold for more than their plants
    "a scale before a loop over time": (
        TEXT.but(recurrent=filled(1.0)),
        TEXT.but(recurrent=filled(1.1), skip=True),
        "skip",
        "scales between layers",
    ),
    "layers that Python leaves out": (
        BASE,
        BASE.but(dropout=LayerDrop, skip=True),
        "skip",
        "random numbers in the forward pass",
    ),
    "a rate that the step itself decays": (
        BASE.but(optimizer=warming(0)),
        BASE.but(optimizer=warming(50), skip=True),
        "skip",
        "scheduler",
    ),
}


# Fair arms


class Gate(nn.Module):
    """A branch that starts closed, with a learned gate."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        return self.gate * x


def orthogonal(net: Any) -> None:
    nn.init.orthogonal_(net.rnn.weight_hh_l0)


def warmup(optimizer: Any) -> Any:
    first = lr_scheduler.LinearLR(optimizer, 0.1, total_iters=10)
    return lr_scheduler.SequentialLR(optimizer, [first, lr_scheduler.CosineAnnealingLR(optimizer, 90)], [10])


def focal(output: Tensor, target: Tensor) -> Tensor:
    each = F.cross_entropy(output, target, reduction="none")
    return ((1 - (-each).exp()) ** 2 * each).mean()


def no_decay(net: nn.Module) -> Any:
    matrices = [p for p in net.parameters() if p.dim() > 1]
    return torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.1}, {"params": [p for p in net.parameters() if p.dim() < 2]}],
        lr=1e-3, weight_decay=0.0,
    )  # fmt: skip


class Curriculum(Sampler[int]):
    def __init__(self, data: Any) -> None:
        self.data = data

    def __len__(self) -> int:
        return len(self.data)

    def __iter__(self) -> Iterator[int]:
        return iter(self.data.tensors[0].norm(dim=1).argsort().tolist())


def clipped(net: nn.Module) -> None:
    for p in net.parameters():
        p.register_hook(lambda g: g.clamp(-1e-3, 1e-3))


FAIR: dict[str, tuple[Any, Any, Any]] = {
    "checkpointed layers": (
        IMAGES,
        IMAGES.but(wrap=lambda m, h: checkpoint(m, h, use_reentrant=False), skip=True),
        "skip",
    ),
    "a gate of its own": (BASE, BASE.but(skip=True, dropout=Gate), "skip"),
    "group norm": (IMAGES, IMAGES.but(norm=lambda n: nn.GroupNorm(2, n)), "norm"),
    "a learned slope": (IMAGES, IMAGES.but(act=nn.PReLU()), "activation"),
    "RMSprop for Adam": (TEXT, TEXT.but(optimizer=lambda n: torch.optim.RMSprop(n.parameters(), 1e-3)), "optimizer"),
    "Adagrad for SGD": (
        IMAGES.but(optimizer=lambda n: torch.optim.SGD(n.parameters(), 0.1, 0.9)),
        IMAGES.but(optimizer=lambda n: torch.optim.Adagrad(n.parameters())),
        "optimizer",
    ),
    "warm-up, then cosine": (BASE, scheduled(warmup), "schedule"),
    "a plateau": (BASE, scheduled(lr_scheduler.ReduceLROnPlateau), "schedule"),
    "a rate under a warm-up": (scheduled(warmup), scheduled(warmup, 3e-3), "lr"),
    "focal loss": (TEXT, TEXT.but(loss=focal), "loss"),
    "more dropout": (TEXT.but(dropout=0.1), TEXT.but(dropout=0.5), "dropout"),
    "orthogonal recurrence": (TEXT, TEXT.but(change=orthogonal), "init"),
    "autocast, declared": (BASE, BASE.but(last=lambda: torch.set_autocast_enabled("cpu", True)), "precision"),
    "gradients clamped, declared": (TEXT, TEXT.but(change=clipped), "clip"),
    "a curriculum": (BASE, BASE.but(loader=lambda d: DataLoader(d, 32, sampler=Curriculum(d))), "order"),
    "frozen embeddings": (TEXT, TEXT.but(change=lambda n: n.embed.requires_grad_(False)), "frozen"),
    "no decay for biases": (
        BASE.but(optimizer=lambda n: torch.optim.AdamW(n.parameters(), lr=1e-3, weight_decay=0.1)),
        BASE.but(optimizer=no_decay),
        "weight_decay",
    ),
    "images turned in the data": (IMAGES, IMAGES.but(pixels=lambda x: x.flip(-1)), "data"),
    "another memory layout": (
        IMAGES,
        IMAGES.but(change=lambda n: n.to(memory_format=torch.channels_last), skip=True),
        "skip",
    ),
    "batches of 16, the last dropped": (TEXT, TEXT.but(loader=lambda d: DataLoader(d, 16, drop_last=True)), "batch"),
    "a sequence in two chunks": (TEXT, TEXT.but(recurrent=halves, optimizer=lambda n: adam(n, 3e-3)), "lr"),
    "a loop over time": (TEXT.but(recurrent=filled(1.0)), TEXT.but(recurrent=filled(1.0), skip=True), "skip"),
    "a loop over time in one arm": (TEXT, TEXT.but(recurrent=filled(1.0), optimizer=lambda n: adam(n, 3e-3)), "lr"),
    "an optimizer of its own": (BASE.but(optimizer=warming(50)), BASE.but(optimizer=warming(50), skip=True), "skip"),
    "a batch sampler that is the usual one": (
        BASE.but(loader=lambda d: DataLoader(d, 32)),
        BASE.but(
            loader=lambda d: DataLoader(d, batch_sampler=BatchSampler(range(len(d)), 32, False)),  # type: ignore
            optimizer=lambda n: adam(n, 3e-3),
        ),
        "lr",
    ),
    "a seed of the loader": (
        BASE,
        BASE.but(loader=lambda d: DataLoader(d, 32, shuffle=True, generator=torch.Generator().manual_seed(4))),
        "order",
    ),
}


def undeclared(first: Any, second: Any, factor: Any) -> list[str]:
    return list(gradlab.audit({"first": first, "second": second}, factor=factor).undeclared)


@pytest.mark.thorough
@pytest.mark.parametrize("name", PLANTED)
def test_a_plant_beside_a_declared_factor_is_found(name: str) -> None:
    *arms, trait = PLANTED[name]
    assert trait in [words.partition(":")[0] for words in undeclared(*arms)]


@pytest.mark.thorough
@pytest.mark.parametrize("name", FAIR)
def test_fair_arms_of_every_kind_pass(name: str) -> None:
    assert undeclared(*FAIR[name]) == []
