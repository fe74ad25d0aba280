"""Healthy networks of PyTorch's own modules, and well-known designs written small."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from cases import Case, MakeOptimizer, healthy, labels
from torch import Tensor, nn
from training import ENTROPY


class Sequences(nn.Module):
    """A recurrent network with a head on its last step."""

    def __init__(self, cells: nn.Module, width: int = 32) -> None:
        super().__init__()
        self.cells, self.head = cells, nn.Linear(width, 4)

    def forward(self, x: Any) -> Tensor:
        return self.head(self.cells(x)[0][:, -1])


@healthy("torch", "LSTM of two layers (torch)")
def _lstm() -> Case:
    model, x = Sequences(nn.LSTM(8, 32, num_layers=2, batch_first=True)), torch.randn(16, 20, 8)
    return model, lambda: ENTROPY(model(x), labels(16, 4))


@healthy("torch", "packed GRU (torch)")
def _gru() -> Case:
    class Packed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cells, self.head = nn.GRU(8, 32, batch_first=True), nn.Linear(32, 4)

        def forward(self, x: Any) -> Tensor:
            return self.head(self.cells(x)[1][0])

    model = Packed()
    packed = nn.utils.rnn.pack_padded_sequence(
        torch.randn(16, 20, 8), torch.arange(20, 4, -1), batch_first=True, enforce_sorted=True
    )
    return model, lambda: ENTROPY(model(packed), labels(16, 4))


@healthy("torch", "loop of LSTMCells (torch)")
def _cells() -> Case:
    class Loop(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell, self.head = nn.LSTMCell(8, 32), nn.Linear(32, 4)

        def forward(self, x: Tensor) -> Tensor:
            state: Any = None
            for entry in x.unbind(1):
                state = self.cell(entry, state)
            return self.head(state[0])

    model, x = Loop(), torch.randn(16, 12, 8)
    return model, lambda: ENTROPY(model(x), labels(16, 4))


@healthy("torch", "TransformerEncoder, pre-norm (torch)")
def _encoder() -> Case:
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=True)
    body = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)
    model, x = nn.Sequential(body, nn.Flatten(), nn.Linear(32 * 10, 4)), torch.randn(16, 10, 32)
    return model, lambda: ENTROPY(model(x), labels(16, 4))


@healthy("torch", "Transformer, encoder and decoder (torch)")
def _whole_transformer() -> Case:
    model = nn.Transformer(32, 4, 2, 2, 64, batch_first=True)
    x, y = torch.randn(16, 10, 32), torch.randn(16, 8, 32)
    return model, lambda: nn.functional.mse_loss(model(x, y), y)


class Adversaries(nn.Module):
    """A generator and its critic."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = nn.Sequential(
            nn.ConvTranspose2d(16, 32, 4), nn.BatchNorm2d(32), nn.ReLU(), nn.ConvTranspose2d(32, 16, 4, 2, 1),
            nn.BatchNorm2d(16), nn.ReLU(), nn.ConvTranspose2d(16, 3, 4, 2, 1), nn.Tanh(),
        )  # fmt: skip
        self.critic = nn.Sequential(
            nn.Conv2d(3, 16, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(16, 32, 4, 2, 1), nn.BatchNorm2d(32),
            nn.LeakyReLU(0.2), nn.Conv2d(32, 1, 4),
        )  # fmt: skip


class AdversarialLoss:
    """The losses of a DCGAN; `alternate` is its usual loop, with one optimizer for each of both."""

    def __init__(self, model: Adversaries) -> None:
        self.model = model
        self.real, self.noise = torch.randn(8, 3, 16, 16).tanh(), torch.randn(8, 16, 1, 1)

    def score(self, images: Tensor, real: bool) -> Tensor:
        """Return the critic's loss if it should call these images real, or not."""
        wanted = torch.full((len(images),), float(real))
        return nn.functional.binary_cross_entropy_with_logits(self.model.critic(images).flatten(), wanted)

    def __call__(self) -> Tensor:
        """Return a loss that reaches every parameter, for a single pass."""
        return self.score(self.real, True) + self.score(self.model.generator(self.noise), False)

    def alternate(self, make: MakeOptimizer) -> tuple[list[torch.optim.Optimizer], Callable[[], None]]:
        """Step the critic on real images and on detached ones, then the generator through the critic."""
        critic, generator = make(list(self.model.critic.parameters())), make(list(self.model.generator.parameters()))

        def step() -> None:
            critic.zero_grad()
            made = self.model.generator(self.noise)
            self.score(self.real, True).backward()
            self.score(made.detach(), False).backward()
            critic.step()
            generator.zero_grad()
            self.score(made, True).backward()
            generator.step()

        return [critic, generator], step


@healthy("torch", "DCGAN with two optimizers (torch)")
def _gan() -> Case:
    model = Adversaries()
    return model, AdversarialLoss(model)


@healthy("torch", "convolutional net, accumulating gradients (torch)")
def _accumulating() -> Case:
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Flatten(), nn.Linear(16 * 144, 10),
    )  # fmt: skip
    x = torch.randn(16, 3, 16, 16)

    def loss() -> Tensor:
        (ENTROPY(model(x[:8]), labels(8)) / 2).backward()
        return ENTROPY(model(x[8:]), labels(8)) / 2

    return model, loss


# ---------------------------------------------------------------------- well-known designs, written small


class Attends(nn.Module):
    """Words, one MultiheadAttention with a causal mask, a head."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(64, 32), nn.Parameter(0.02 * torch.randn(16, 32))
        self.norm, self.attention = nn.LayerNorm(32), nn.MultiheadAttention(32, 4, batch_first=True)
        self.head = nn.Linear(32, 64)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.words(tokens) + self.places[: tokens.shape[1]]
        inner, hidden = self.norm(x), torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool).triu(1)
        return self.head(x + self.attention(inner, inner, inner, attn_mask=hidden, need_weights=False)[0])


@healthy("torch", "causal MultiheadAttention (torch)")
def _attends() -> Case:
    model, tokens = Attends(), torch.randint(0, 64, (8, 16))
    return model, lambda: ENTROPY(model(tokens[:, :-1]).transpose(1, 2), tokens[:, 1:])


@healthy("torch", "TransformerEncoder, post-norm (torch)")
def _post_norm() -> Case:
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    body = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
    model, x = nn.Sequential(body, nn.Flatten(), nn.Linear(32 * 10, 4)), torch.randn(16, 10, 32)
    return model, lambda: ENTROPY(model(x), labels(16, 4))


@healthy("torch", "bidirectional LSTM with a loss at every step (torch)")
def _tagger() -> Case:
    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.cells = nn.Embedding(64, 16), nn.LSTM(16, 16, batch_first=True, bidirectional=True)
            self.head = nn.Linear(32, 4)

        def forward(self, tokens: Tensor) -> Tensor:
            return self.head(self.cells(self.words(tokens))[0])

    model, tokens = Tagger(), torch.randint(0, 64, (8, 20))
    return model, lambda: ENTROPY(model(tokens).flatten(0, 1), tokens.flatten() % 4)


def convolve(inward: int, outward: int) -> nn.Sequential:
    """Return a convolution, a norm and a ReLU."""
    return nn.Sequential(nn.Conv2d(inward, outward, 3, padding=1), nn.BatchNorm2d(outward), nn.ReLU())


class SmallUNet(nn.Module):
    """Down twice, up twice, with concatenated skips."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.bottom = convolve(3, 8), convolve(8, 16), convolve(16, 32)
        self.up_second, self.up_first = nn.ConvTranspose2d(32, 16, 2, 2), nn.ConvTranspose2d(16, 8, 2, 2)
        self.join_second, self.join_first, self.head = convolve(32, 16), convolve(16, 8), nn.Conv2d(8, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        shrink = nn.functional.max_pool2d
        first = self.first(x)
        second = self.second(shrink(first, 2))
        bottom = self.bottom(shrink(second, 2))
        back = self.join_second(torch.cat([self.up_second(bottom), second], 1))
        return self.head(self.join_first(torch.cat([self.up_first(back), first], 1)))


@healthy("torch", "U-Net, written small (torch)")
def _small_unet() -> Case:
    model, x = SmallUNet(), torch.randn(4, 3, 16, 16)
    y = torch.randint(0, 4, (4, 16, 16))
    return model, lambda: ENTROPY(model(x), y)


class Dense(nn.Module):
    """A layer of a DenseNet: its input, and what it makes of it."""

    def __init__(self, inward: int, growth: int = 8) -> None:
        super().__init__()
        self.norm, self.conv = nn.BatchNorm2d(inward), nn.Conv2d(inward, growth, 3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.conv(torch.relu(self.norm(x)))], 1)


class Wide(nn.Module):
    """A block of a wide ResNet: pre-activation, dropout."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.branch = nn.Sequential(
            nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Dropout(0.3), nn.Conv2d(width, width, 3, padding=1),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return x + self.branch(x)


class ConvNext(nn.Module):
    """A block of a ConvNeXt with a layer scale of 1e-6."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.mix, self.norm = nn.Conv2d(width, width, 7, padding=3, groups=width), nn.LayerNorm(width)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.scale = nn.Parameter(torch.full((width,), 1e-6))

    def forward(self, x: Tensor) -> Tensor:
        inner = self.norm(self.mix(x).permute(0, 2, 3, 1))
        inner = self.scale * self.narrow(nn.functional.gelu(self.widen(inner)))
        return x + inner.permute(0, 3, 1, 2)


def _image_net(name: str, make_blocks: Callable[[], list[nn.Module]], width: int) -> None:
    @healthy("torch", f"{name}, written small (torch)")
    def make() -> Case:
        pooled = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10)]
        model, x = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), *make_blocks(), *pooled), torch.randn(8, 3, 16, 16)
        return model, lambda: ENTROPY(model(x), labels(8))


_image_net("DenseNet", lambda: [Dense(16 + 8 * number) for number in range(6)], 64)
_image_net("wide ResNet", lambda: [Wide(16) for _ in range(4)], 16)
_image_net("ConvNeXt", lambda: [ConvNext(16) for _ in range(6)], 16)
