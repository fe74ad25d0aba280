"""BROKEN: The minority class is oversampled before the split, so copies of the same rows land in training and validation.
An expert would want to hear: oversampling (duplicates) was done before the split, identical rows are on both sides;
validation is contaminated; split first.
Accept also: train/val overlap; duplicated rows across splits; leakage.
Does not count: "class imbalance".
"""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset, random_split


class MLP(nn.Module):
    def __init__(self, d, out, h=64):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, out))

    def forward(self, x):
        return self.net(x)


def make():
    torch.manual_seed(11)
    x = torch.randn(900, 20)
    y = ((x[:, 0] + torch.randn(900)) > 1.9).long()
    minority = (y == 1).nonzero().flatten()
    extra = minority[torch.randint(len(minority), (600,))]
    x, y = torch.cat([x, x[extra]]), torch.cat([y, y[extra]])
    train, val = random_split(TensorDataset(x, y), [1200, 300], generator=torch.Generator().manual_seed(0))
    loader = DataLoader(train, batch_size=60, shuffle=True)
    val_loader = DataLoader(val, batch_size=100)
    model = MLP(20, 2, h=128)
    return dict(model=model, batch=next(iter(loader)), loss=nn.CrossEntropyLoss(), loader=loader, val_loader=val_loader,
                optimizer=torch.optim.Adam(model.parameters(), lr=2e-3))
