"""A transformer that was broken on purpose: its norms are gone and its weights are three times too large.

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
