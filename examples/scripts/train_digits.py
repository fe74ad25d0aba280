"""A small PyTorch training as people write it: a tiny CNN on 8 × 8 digits. It knows nothing of Gradlab.

python train_digits.py --seed 0 --lr 0.05 --act relu
"""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--lr", type=float, default=0.05)
parser.add_argument("--act", default="relu", choices=["relu", "gelu", "gelu-loud"])
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--label", default="", help="Changes nothing.")
args = parser.parse_args()
torch.set_num_threads(1)


def digits() -> tuple[torch.Tensor, torch.Tensor]:
    """Noisy 8 × 8 pictures of ten shapes, always the same ones."""
    random = torch.Generator().manual_seed(12345)
    shapes = (torch.rand(10, 1, 8, 8, generator=random) > 0.5).float()
    labels = torch.randint(10, (1200,), generator=random)
    return shapes[labels] + 1.2 * torch.randn(1200, 1, 8, 8, generator=random), labels


class Net(nn.Module):
    def __init__(self, act: str) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3, padding=1)
        self.act = nn.ReLU() if act == "relu" else nn.GELU()
        self.head = nn.Linear(8 * 4 * 4, 10)
        if act == "gelu-loud":  # a difference that the name of the arm does not tell
            with torch.no_grad():
                self.conv.weight *= 3

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(nn.functional.max_pool2d(self.act(self.conv(x)), 2).flatten(1))


torch.manual_seed(args.seed)
images, labels = digits()
train = DataLoader(TensorDataset(images[:800], labels[:800]), batch_size=40, shuffle=True)
model = Net(args.act)
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs * len(train))
for epoch in range(args.epochs):
    for x, y in train:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        loss = nn.functional.cross_entropy(model(images[800:]), labels[800:]).item()
    print(f"epoch {epoch + 1} val_loss: {loss!r}")
