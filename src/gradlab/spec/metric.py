"""A metric as an object: what is better, on which scale it is judged, and what kind of number it is.

Whatever produces a number declares it: the recorder its metrics, a probe its measures. Numbers that user code returns
carry only a name; `infer` is the one place that reads a kind off a name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import cache
from math import inf
from typing import Literal

Better = Literal["higher", "lower", "none"]
Scale = Literal["linear", "log"]
Split = Literal["train", "validation", "test"]
Kind = Literal[
    "accuracy", "score", "loss", "error", "time", "steps", "size", "quotient", "share", "flag", "count", "signed",
    "other",
]  # fmt: skip
"""
accuracy  share of right answers              score     any other number of which more is better
loss      what training minimizes             error     any other number of which less is better
time      wall time; not part of the bits     steps     steps or epochs until something happens
size      norm or spread of something inside  quotient  one metric over another
share     a share inside one network          flag      0 or 1: whether it happened to a network
count     how many                            signed    either sign, no better
"""
Traits = tuple[Better, Scale, tuple[float, float]]
EVERYWHERE, POSITIVE, FRACTION = (-inf, inf), (0.0, inf), (0.0, 1.0)
TRAITS: dict[Kind, Traits] = {
    "accuracy": ("higher", "linear", FRACTION),
    "score": ("higher", "linear", EVERYWHERE),
    "loss": ("lower", "log", POSITIVE),
    "error": ("lower", "log", POSITIVE),
    "time": ("lower", "log", POSITIVE),
    "steps": ("lower", "log", POSITIVE),
    "size": ("none", "log", POSITIVE),
    "quotient": ("none", "log", POSITIVE),
    "share": ("none", "linear", FRACTION),
    "flag": ("none", "linear", FRACTION),
    "count": ("none", "linear", POSITIVE),
    "signed": ("none", "linear", EVERYWHERE),
    "other": ("none", "linear", EVERYWHERE),
}
"""Of each kind: what is better, the scale, and between which bounds it lies."""
MATTERS: dict[Kind, float] = {"accuracy": 0.005, "loss": 0.05, "error": 0.05, "time": 0.05, "steps": 0.05}
"""Of each kind: the smallest difference (on logs: fraction) that matters, where a study says nothing else."""


@dataclass(frozen=True)
class Metric:
    """One named number per trial, or per layer of a trial."""

    name: str
    better: Better
    scale: Scale
    """`log`: ratios matter, so means are geometric and comparisons are quotients."""
    label: str
    """For people."""
    unit: str
    kind: Kind
    bounds: tuple[float, float]
    split: Split | None = None
    """Which part of the data it is evaluated on."""

    @staticmethod
    def of(name: str, kind: Kind, *, label: str = "", unit: str = "", split: Split | None = None) -> Metric:
        """A metric with the traits of its kind."""
        better, scale, bounds = TRAITS[kind]
        return Metric(name, better, scale, label or name.replace("_", " ").replace(".", " "), unit, kind, bounds, split)

    @property
    def sign(self) -> int:
        """+1 if more is better, −1 if less is, 0 if neither."""
        return {"higher": 1, "lower": -1, "none": 0}[self.better]

    @property
    def on_logs(self) -> bool:
        """Whether ratios are what matters."""
        return self.scale == "log"

    @property
    def forward(self) -> bool:
        """Whether it describes a signal of the forward pass, of the lab's own layer measures."""
        return self.name.startswith("activation")

    @property
    def of_outcome(self) -> bool:
        """Whether it says how well a network does, so that one that diverged is worse than any."""
        return self.kind in ("accuracy", "loss")

    @property
    def worst(self) -> float | None:
        """Beyond every number on the bad side; of a size that is not finite, larger than any; None if unknown."""
        if self.kind == "size":
            return inf
        return -self.sign * inf if self.sign else None

    @property
    def worst_if_missing(self) -> float | None:
        """What it counts as in a network that ran but has no such number: `steps` that never came are worst."""
        return self.worst if self.kind == "steps" else None


@dataclass(frozen=True)
class Metrics:
    """Declared metrics by name; other names are inferred."""

    declared: dict[str, Metric] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Metric:
        """The metric of this name; `a/b` is one metric over another."""
        if "/" in name:
            return Metric.of(name, "quotient")
        return self.declared.get(name) or infer(name)


def split_of(metric: str) -> Split:
    """Which part of the data a metric of an epoch is evaluated on: its name says so."""
    split = metric.partition("_")[0]
    return split if split in ("validation", "test") else "train"  # type: ignore[return-value]


_ENDS: tuple[tuple[Kind, tuple[str, ...]], ...] = (
    ("accuracy", ("accuracy", "acc", "top1", "top5")),
    (
        "score",
        (
            "score", "f1", "auc", "bleu", "rouge", "reward", "return", "precision", "recall", "r2", "iou", "dice",
            "map", "psnr", "ssim", "success_rate", "win_rate", "ndcg", "mrr", "rsquared",
        ),
    ),
    ("loss", ("loss",)),
    (
        "error",
        (
            "error", "perplexity", "ppl", "bpb", "bpc", "bits_per_byte", "cross_entropy", "xent", "mse", "rmse", "mae",
            "mape", "nll", "wer", "cer", "err", "fid", "brier", "ece", "regret",
        ),
    ),
    ("time", ("seconds", "seconds_per_epoch", "latency", "runtime")),
    ("steps", ("to_target",)),
    (
        "size",
        ("flops", "grad_l2", "grad_rms", "grad_mean_abs", "delta_l2", "delta_rms", "update_ratio", "weight_l2"),
    ),
)  # fmt: skip
_BEGINNINGS: tuple[tuple[Kind, tuple[str, ...]], ...] = (
    ("signed", ("activation_mean",)),
    ("size", ("grad", "bias_grad", "delta", "activation", "weight")),
)
_FLAGS = ("collapsed", "diverged")
PERCENT = 100.0


@cache
def infer(name: str) -> Metric:
    """The metric behind a name that nobody declared: user code returns numbers by name only."""
    if name in _FLAGS:
        return Metric.of(name, "flag")
    plain = re.sub(r"[\s_]*[\[(][^\])]*[\])]\s*$|%", "", name).strip().lower().replace(" ", "_").replace("-", "_")
    for kind, ends in _ENDS:
        if plain.endswith(ends):
            found = Metric.of(name, kind)
            # user code may give an accuracy in percent
            return replace(found, bounds=(0.0, PERCENT)) if kind == "accuracy" else found
    for kind, beginnings in _BEGINNINGS:
        if name.startswith(beginnings):
            return Metric.of(name, kind)
    return Metric.of(name, "other")
