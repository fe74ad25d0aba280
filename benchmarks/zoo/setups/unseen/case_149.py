"""BROKEN: NLLLoss gets raw logits.
An expert would want to hear: NLLLoss needs log-probabilities; on logits it is -logit[y], unbounded below, so the loss goes
to minus infinity; add log_softmax or use CrossEntropyLoss.
Accept also: loss is negative/unbounded because log_softmax is missing.
Does not count: "loss is negative" with no cause.
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


class SmallCNN(nn.Module):
    def __init__(self, k, ch=1):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(ch, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(2))
        self.fc = nn.Linear(128, k)

    def forward(self, x):
        return self.fc(self.features(x).flatten(1))


def make():
    torch.manual_seed(0)
    x, y = pictures(480, 5)
    model = SmallCNN(5)
    return dict(model=model, batch=(x[:48], y[:48]), loss=nn.NLLLoss(), optimizer=torch.optim.Adam(model.parameters(), lr=1e-3),
                loader=DataLoader(TensorDataset(x, y), batch_size=48, shuffle=True))
