"""A small PyTorch training as people write it: a tiny CNN on scikit-learn's digits. It knows nothing of Gradlab.

python train_digits.py --seed 0 --lr 0.05 --act relu

A real effect: --lr 0.05 against --lr 0.01. None: --head-first, which draws the same distributions in another order.
A hidden one: --act gelu-loud, which also begins with larger weights.
"""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--lr", type=float, default=0.05)
parser.add_argument("--act", default="relu", choices=["relu", "gelu", "gelu-loud"])
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--head-first", action="store_true")
args = parser.parse_args()
torch.set_num_threads(1)


class Net(nn.Module):
    def __init__(self, act: str, head_first: bool) -> None:
        super().__init__()
        head = nn.Linear(8 * 4 * 4, 10) if head_first else None
        self.conv = nn.Conv2d(1, 8, 3, padding=1)
        self.act = nn.ReLU() if act == "relu" else nn.GELU()
        self.head = head or nn.Linear(8 * 4 * 4, 10)
        if act == "gelu-loud":  # a difference that the name of the arm does not tell
            with torch.no_grad():
                self.conv.weight *= 3

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(nn.functional.max_pool2d(self.act(self.conv(x)), 2).flatten(1))


pixels, numbers = load_digits(return_X_y=True)
images, labels = torch.tensor(pixels, dtype=torch.float32).view(-1, 1, 8, 8) / 16, torch.tensor(numbers)
torch.manual_seed(args.seed)
train = DataLoader(TensorDataset(images[:1200], labels[:1200]), batch_size=40, shuffle=True)
model = Net(args.act, args.head_first)
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs * len(train))
for epoch in range(args.epochs):
    for x, y in train:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        loss = nn.functional.cross_entropy(model(images[1200:]), labels[1200:]).item()
    print(f"epoch {epoch + 1} val_loss: {loss!r}")
