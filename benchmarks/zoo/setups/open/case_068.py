"""HEALTHY: A post-LN transformer encoder classifier with a correct padding mask and masked pooling.
"""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


PAD = 0


class Encoder(nn.Module):
    def __init__(self, V, k, T, d=48):
        super().__init__()
        self.emb = nn.Embedding(V, d, padding_idx=PAD)
        self.pos = nn.Parameter(0.02 * torch.randn(T, d))
        layer = nn.TransformerEncoderLayer(d, 4, 96, dropout=0.1, batch_first=True, norm_first=False)
        self.enc = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        self.fc = nn.Linear(d, k)

    def forward(self, tok):
        pad = tok == PAD
        h = self.enc(self.emb(tok) + self.pos[:tok.size(1)], src_key_padding_mask=pad)
        h = h.masked_fill(pad.unsqueeze(2), 0).sum(1) / (~pad).sum(1, keepdim=True)
        return self.fc(h)


def make():
    torch.manual_seed(0)
    V, k, T, n = 60, 3, 20, 600
    y = torch.randint(0, k, (n,))
    tok = torch.randint(1, V, (n, T))
    hit = torch.rand(n, T) < 0.3
    tok[hit] = (1 + y[:, None] * 5 + torch.randint(0, 5, (n, T)))[hit]
    lens = torch.randint(8, T + 1, (n,))
    tok[torch.arange(T)[None] >= lens[:, None]] = PAD
    model = Encoder(V, k, T)
    return dict(model=model, batch=(tok[:40], y[:40]), loss=nn.CrossEntropyLoss(),
                loader=DataLoader(TensorDataset(tok, y), batch_size=40, shuffle=True),
                optimizer=torch.optim.AdamW(model.parameters(), lr=5e-4))
