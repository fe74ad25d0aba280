"""The workloads. Each is an ordinary trial; peers get its realized set-up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gradlab.studies.loading import plan
from gradlab.trials.setup import Setup, prepare

_MNIST = {"task": "mnist", "validation": 0, "test": 0}
_CLASSES = {"loss": "cross_entropy"}


@dataclass(frozen=True)
class Workload:
    """One network and its number of timed steps."""

    key: str
    title: str
    data: dict[str, Any]
    model: dict[str, Any]
    train: dict[str, Any]

    def setup(self) -> Setup:
        """Return data, initial parameters and batches: what every system trains."""
        base = {"data": self.data, "model": self.model, "train": self.train}
        tree = {"question": self.title, "base": base, "seeds": 1, "measure": {"layers": []}}
        return prepare(plan(tree).trials[0])


def _mnist(key: str, title: str, model: dict[str, Any], **train: Any) -> Workload:
    return Workload(key, title, _MNIST, model, {**_CLASSES, **train})


def _full(key: str, title: str, width: int, steps: int) -> Workload:
    train = {**_CLASSES, "optimizer": "sgd", "lr": 1e-2, "batch": "full", "steps": steps}
    return Workload(key, title, {**_MNIST, "train": 28_900}, {"depth": 2, "width": width}, train)


WORKLOADS = {
    workload.key: workload
    for workload in (
        _mnist("A", "30 × 32, batch 256, MNIST, Adam, residual",
               {"depth": 30, "width": 32, "skip": "add_then_activate"},
               optimizer="adam", lr=1e-4, batch=256, steps=200),
        Workload("B", "identity: 20 × 64, batch 64, residual", {"task": "identity"},
                 {"stem": "none", "head": "none", "depth": 20, "width": 64, "skip": "identity",
                  "init": {"kind": "he_normal", "scale": "1/sqrt(depth)"}},
                 {"loss": "mse", "optimizer": "adam", "lr": 1e-3, "batch": 64, "steps": 500}),
        _mnist("C", "2 × 10, batch 32, MNIST, gradient descent", {"depth": 2, "width": 10},
               optimizer="sgd", lr=1e-2, batch=32, steps=1500),
        _mnist("D", "2 × 128, batch 128, MNIST, Adam", {"depth": 2, "width": 128},
               optimizer="adam", lr=1e-3, batch=128, steps=300),
        _mnist("E", "3 × 256, batch 256, MNIST, Adam", {"depth": 3, "width": 256},
               optimizer="adam", lr=1e-3, batch=256, steps=60),
        _full("I", "2 × 10, full batch of 28,900, MNIST, gradient descent", width=10, steps=20),
        _full("J", "2 × 128, full batch of 28,900, MNIST, gradient descent", width=128, steps=4),
    )
}  # fmt: skip

TINY = Workload(
    "F", "tiny nets: 1 × 16 tanh, 16 samples, full batch, 500 steps, each its own learning rate",
    {"task": "identity", "dim": 2, "samples": 16}, {"depth": 1, "width": 16, "activation": "tanh"},
    {"loss": "mse", "optimizer": "sgd", "lr": 0.1, "batch": "full", "steps": 500},
)  # fmt: skip


def depth_tree() -> dict[str, Any]:
    """Return workload H: the depth write-up's six networks, 50 epochs each, evaluated at the end; all cores."""
    return {
        "question": "The depth study, one seed",
        "base": {
            "data": {"task": "mnist"},
            "model": {"depth": 10, "width": 32},
            "train": {**_CLASSES, "optimizer": "adam", "lr": 1e-4, "batch": 256, "epochs": 50},
        },
        "axes": {"model.depth": [30, 20, 10], "model.skip": ["none", "add_then_activate"]},
        "seeds": 1,
        "measure": {"layers": [], "evaluate_every": 50},
    }


def sweep_tree() -> dict[str, Any]:
    """Return workload G: a study of 64 different networks, 300 steps each; times the whole process."""
    return {
        "question": "A sweep of 64 architectures",
        "base": {
            "data": _MNIST,
            "model": {"depth": 1, "width": 8},
            "train": {**_CLASSES, "optimizer": "adam", "lr": 1e-3, "batch": 128, "steps": 300},
        },
        "axes": {"model.depth": list(range(1, 17)), "model.width": [8, 16, 32, 64]},
        "seeds": 1,
        "measure": {"layers": []},
    }
