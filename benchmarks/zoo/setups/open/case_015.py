"""HEALTHY: A bidirectional LSTM that reads the whole sentence for classification (no causality needed).
"""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


class BiLSTM(nn.Module):
    def __init__(self, V, k, d=32):
        super().__init__()
        self.emb = nn.Embedding(V, d)
        self.rnn = nn.LSTM(d, 32, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(64, k)

    def forward(self, t):
        h, _ = self.rnn(self.emb(t))
        return self.fc(h.max(1).values)


def make():
    torch.manual_seed(0)
    y = torch.randint(0, 3, (600,))
    t = torch.randint(0, 60, (600, 18))
    hit = torch.rand(600, 18) < 0.25
    t[hit] = (y[:, None] * 4 + torch.randint(0, 4, (600, 18)))[hit]
    model = BiLSTM(60, 3)
    return dict(model=model, batch=(t[:40], y[:40]), loss=nn.CrossEntropyLoss(), optimizer=torch.optim.Adam(model.parameters(), lr=3e-3),
                loader=DataLoader(TensorDataset(t[:480], y[:480]), batch_size=40, shuffle=True),
                val_loader=DataLoader(TensorDataset(t[480:], y[480:]), batch_size=60))
