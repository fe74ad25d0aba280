"""BROKEN: A 20-layer plain convolution stack with default init and no normalisation or shortcuts.
An expert would want to hear: activations and gradients shrink layer by layer; add batch norm/residuals/He init.
Accept also: vanishing activations/gradients in depth.
Does not count: "loss flat".
"""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def pictures(n, k, size=16, ch=1, noise=0.5, seed=0):
    g = torch.Generator().manual_seed(seed)
    proto = torch.randn(k, ch, size // 4, size // 4, generator=g)
    proto = F.interpolate(proto, size=(size, size), mode="bilinear", align_corners=False)
    y = torch.randint(0, k, (n,), generator=g)
    return proto[y] + noise * torch.randn(n, ch, size, size, generator=g), y


class Plain(nn.Module):
    def __init__(self, k, c=16, depth=20):
        super().__init__()
        convs = [nn.Conv2d(1 if i == 0 else c, c, 3, padding=1) for i in range(depth)]
        self.convs = nn.ModuleList(convs)
        self.fc = nn.Linear(c, k)

    def forward(self, x):
        for c in self.convs:
            x = F.relu(c(x))
        return self.fc(x.mean((2, 3)))


def make():
    torch.manual_seed(0)
    x, y = pictures(320, 4, size=8)
    model = Plain(4)
    return dict(model=model, batch=(x[:32], y[:32]), loss=nn.CrossEntropyLoss(),
                optimizer=torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9),
                loader=DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True))
