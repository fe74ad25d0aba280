"""Make a set of stored runs with the version of gradlab that is installed: `python tests/runs/stored/make.py NAME`.

A set is made once, by the version it is named after, and never again: tests open, report, export and resume it with
every later version. Reports and figures are left out (they are made from the rest at any time).
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np

import gradlab

HERE = Path(__file__).parent
IDENTITY: dict[str, Any] = {
    "question": "Does the skip help a small network?",
    "factor": "model.skip",
    "base": {
        "data": {"task": "identity", "dim": 4, "samples": 32},
        "model": {"depth": 5, "width": 4, "stem": "none", "head": "none", "init": "he_normal"},
        "train": {"loss": "mse", "optimizer": "adam", "lr": 0.01, "batch": 8, "steps": 20},
    },
    "arms": {"plain": {}, "residual": {"model.skip": "identity"}},
    "seeds": 3,
    "measure": {"layers": ["start", "end"], "weights": ["end"]},
    "figures": ["training_loss", "gradient_by_layer"],
    "headline": {"metric": "final_loss"},
    "claims": [
        {"text": "The skip ends lower", "metric": "final_loss", "arms": ["residual", "plain"], "op": "<"},
        {
            "text": "Gradients are alive",
            "metric": "grad_l2",
            "arms": "residual",
            "at": {"layer": "all", "step": "end"},
            "op": ">",
            "value": 1e-9,
        },
    ],
    "published": [{"metric": "final_loss", "arms": "plain", "value": 0.3}],
}
DIGITS: dict[str, Any] = {
    "question": "Which learning rate learns digits, and which diverges?",
    "base": {
        "data": {"task": "mnist", "train": 60, "validation": 20, "test": 20},
        "model": {"depth": 2, "width": 6},
        "train": {"loss": "cross_entropy", "optimizer": "sgd", "lr": 0.1, "batch": 20, "epochs": 3},
    },
    "axes": {"train.lr": [0.1, 1e6], "train.precision": ["float32", "float64"]},
    "seeds": 2,
    "measure": {"layers": ["start", "end"], "weights": []},
    "figures": ["loss_curves"],
}
OWN: dict[str, Any] = {
    **IDENTITY,
    "question": "Do parts of the user's own train?",
    "parts": ["own_parts.py"],
    "base": {**IDENTITY["base"], "model": {**IDENTITY["base"]["model"], "activation": {"kind": "bent", "c": 0.25}}},
    "arms": {"plain": {}, "half": {"model.skip": "half"}},
    "seeds": 2,
    "claims": [],
    "published": [],
}


def train(skip: bool, seed: int) -> dict[str, Any]:
    """User training code for the stored comparison."""
    rng = np.random.default_rng(seed)
    losses = [1.0 / (1 + step) + (0.0 if skip else 0.5) + 0.01 * rng.random() for step in range(8)]
    return {"loss": losses, "test_accuracy": 0.9 if skip else 0.4}


def stop_after(trials: int) -> Any:
    """Return a callback that sends Ctrl-C once this many trials have finished."""
    seen = []

    def on_results(results: Any) -> None:
        seen.extend(results)
        if len(seen) >= trials:
            raise KeyboardInterrupt

    return on_results


def watched(out: Path) -> None:
    """Save a watch of a small torch model as a run."""
    import torch

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    x = torch.randn(16, 4)
    with gradlab.watch(model, optimizer, every=2, quiet=True) as seen:
        for _ in range(6):
            optimizer.zero_grad()
            ((model(x) - x.sum(1, keepdim=True)) ** 2).mean().backward()
            optimizer.step()
    seen.save(out)


def make(folder: Path) -> None:
    """Make all runs of a set."""
    os.chdir(HERE)
    gradlab.run({**IDENTITY, "name": "finished"}, out=folder / "finished", executor="inline")
    gradlab.run(
        {**IDENTITY, "name": "unfinished"},
        out=folder / "unfinished",
        executor="inline",
        on_results=stop_after(3),
    )
    gradlab.run({**DIGITS, "name": "digits"}, out=folder / "digits", executor="inline")
    gradlab.run({**OWN, "name": "own-parts"}, out=folder / "own-parts", executor="inline")
    gradlab.compare(
        train,
        {"plain": {"skip": False}, "residual": {"skip": True}},
        seeds=3,
        name="comparison",
        question="Does the skip help somebody's own code?",
        metric="test_accuracy",
        out=folder / "comparison",
    )
    watched(folder / "watch")
    for run in folder.iterdir():
        for made in ("report.md", "report.html", "tables.tex", "lock", "progress.json"):
            (run / made).unlink(missing_ok=True)
        shutil.rmtree(run / "figures", ignore_errors=True)


if __name__ == "__main__":
    place = HERE / sys.argv[1]
    if place.exists():
        sys.exit(f"{place} already exists: a stored set is never rewritten")
    make(place)
