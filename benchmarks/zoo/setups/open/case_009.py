"""BROKEN: The labels are random with respect to the inputs; the network memorises them and validation stays at chance.
An expert would want to hear: no relation between inputs and labels (check the labelling/joining), training falls, validation
rises.
Accept also: labels are noise; no generalisation because labels carry no signal.
Does not count: "loss slow".
"""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


def make():
    torch.manual_seed(0)
    x = torch.randn(500, 32)
    y = torch.randint(0, 4, (500,))
    model = nn.Sequential(nn.Linear(32, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 4))
    return dict(model=model, batch=(x[:50], y[:50]), loss=nn.CrossEntropyLoss(),
                optimizer=torch.optim.Adam(model.parameters(), lr=1e-3),
                loader=DataLoader(TensorDataset(x[:400], y[:400]), batch_size=50, shuffle=True),
                val_loader=DataLoader(TensorDataset(x[400:], y[400:]), batch_size=100))
