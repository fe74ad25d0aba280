"""Transformers that were broken on purpose.

`make` is a language model with two faults: nothing hides the next token, and nobody clears the gradients. `broken` has
no norms, and weights three times too large; `mended` is as it should be.

gradlab doctor examples/broken_transformer.py:make
gradlab probe examples/broken_transformer.py:broken
gradlab probe examples/broken_transformer.py:mended
"""

from __future__ import annotations

import torch
from torch import nn


def encoder() -> nn.TransformerEncoder:
    """Eight pre-norm encoder layers of width 64."""
    layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True, norm_first=True)
    return nn.TransformerEncoder(layer, 8, enable_nested_tensor=False)


def broken() -> tuple[nn.Module, tuple[torch.Tensor, torch.Tensor], nn.Module]:
    """Without norms, with large weights."""
    torch.manual_seed(0)
    model = encoder()
    for block in model.layers:
        block.norm1, block.norm2 = nn.Identity(), nn.Identity()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter *= 3
    x = torch.randn(16, 10, 64)
    return model, (x, x), nn.MSELoss()


def mended() -> tuple[nn.Module, tuple[torch.Tensor, torch.Tensor], nn.Module]:
    """As it should be."""
    torch.manual_seed(0)
    x = torch.randn(16, 10, 64)
    return encoder(), (x, x), nn.MSELoss()


class Words(nn.Module):
    """Predicts the next token, with attention to all of them."""

    def __init__(self, vocabulary: int = 32, length: int = 24, width: int = 64) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        layer = nn.TransformerEncoderLayer(width, 4, 128, dropout=0.1, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the logits of the next token at every position."""
        return self.head(self.body(self.token(ids) + self.place.weight))


def next_token(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Cross-entropy at every position."""
    return nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten())


def step(model: nn.Module, batch: tuple[torch.Tensor, torch.Tensor], optimizer: torch.optim.Optimizer) -> torch.Tensor:
    """A training step without zero_grad."""
    model.train()
    loss = next_token(model(batch[0]), batch[1])
    loss.backward()
    optimizer.step()
    return loss


def make() -> dict[str, object]:
    """Everything that a training consists of, for `gradlab doctor`."""
    torch.manual_seed(0)
    start, stride = torch.randint(0, 32, (256, 1)), torch.randint(1, 4, (256, 1))
    ids = (start + stride * torch.arange(25)) % 32
    model = Words()
    return {
        "model": model,
        "batch": (ids[:64, :-1], ids[:64, 1:]),
        "loss": next_token,
        "optimizer": torch.optim.AdamW(model.parameters(), 1e-3),
        "loader": [(part[:, :-1], part[:, 1:]) for part in ids.split(64)],
        "step": step,
    }
