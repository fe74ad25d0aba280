"""BROKEN: Only the decoder's parameters are handed to the optimizer of an autoencoder trained from scratch.
An expert would want to hear: the encoder is missing in the optimizer and stays random; pass all parameters.
Accept also: encoder never updated; parameters not in optimizer.
Does not count: "reconstruction poor".
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


class ConvAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(1, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 4, 3, 2, 1), nn.ReLU(),
                                     nn.Flatten(), nn.Linear(64, 8))
        self.decoder = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Unflatten(1, (4, 4, 4)),
                                     nn.ConvTranspose2d(4, 8, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(8, 1, 4, 2, 1))

    def forward(self, x):
        return self.decoder(self.encoder(x))


def make():
    torch.manual_seed(0)
    x, _ = pictures(512, 6, noise=0.1)
    model = ConvAE()
    opt = torch.optim.Adam(model.decoder.parameters(), lr=2e-3)
    return dict(model=model, batch=(x[:64], x[:64]), loss=nn.MSELoss(), optimizer=opt,
                loader=DataLoader(TensorDataset(x, x), batch_size=64, shuffle=True))
