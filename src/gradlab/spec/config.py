"""The configuration of one trial: data, model, training, measurement. Every choice is a field with a default."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from gradlab.spec.base import Frozen, spec_error
from gradlab.spec.choice import (
    ActivationChoice,
    DataChoice,
    EngineChoice,
    InitChoice,
    LossChoice,
    NormChoice,
    OptimizerChoice,
    ScheduleChoice,
    SkipChoice,
)

EpochMetric = Literal[
    "train_loss", "train_accuracy", "validation_loss", "validation_accuracy", "test_loss", "test_accuracy"
]
"""Metrics that exist once per epoch."""
Moments = tuple[Annotated[int, Field(ge=0, strict=True)] | Literal["start", "log", "end"], ...]
"""Steps after which something happens; `log` is 1, 2, 4, 8, …"""
Count = Annotated[int, Field(ge=1, le=10**9, strict=True)]


class Model(Frozen):
    """An MLP: an optional stem, width-preserving blocks, an optional head."""

    noun: ClassVar[str] = "model"

    depth: Annotated[int, Field(ge=1, le=10_000, strict=True)]
    """Hidden layers including the stem; a block with two matrices counts as two."""
    width: Annotated[int, Field(ge=1, le=1_000_000, strict=True)]
    """Units of every hidden layer."""
    stem: Literal["linear", "none"] = "linear"
    """Input projection (a hidden layer with norm and activation), or none: the input must have this width."""
    head: Literal["linear", "none"] = "linear"
    """Output projection (linear, no activation), or none: the output must have this width."""
    layers_per_block: Annotated[int, Field(ge=1, le=10_000, strict=True)] = 1
    """Weight matrices per block."""
    activation: ActivationChoice = "relu"  # type: ignore[assignment]
    skip: SkipChoice = "none"  # type: ignore[assignment]
    norm: NormChoice = "none"  # type: ignore[assignment]
    bias: bool = True
    """Whether linear layers have a bias, the stem and the head included."""
    last_activation: bool = True
    """Off: the last hidden layer has no nonlinearity."""
    init: InitChoice = "torch_default"  # type: ignore[assignment]

    @model_validator(mode="after")
    def _check_blocks(self) -> Self:
        layers = self.depth - (self.stem == "linear")
        if layers % self.layers_per_block:
            raise spec_error(
                f"depth {self.depth} with stem {self.stem!r} leaves {layers} layers for blocks of "
                f"{self.layers_per_block}; choose a depth that divides evenly",
                where="depth",
            )
        return self


class Train(Frozen):
    """The training of a trial."""

    noun: ClassVar[str] = "train"

    loss: LossChoice
    optimizer: OptimizerChoice
    lr: Annotated[float, Field(gt=0, le=1e6)]
    """Learning rate, multiplied by the schedule."""
    schedule: ScheduleChoice = "fixed"  # type: ignore[assignment]
    warmup: Annotated[int, Field(ge=0, le=10**9, strict=True)] = 0
    """Steps of linear warm-up; the schedule starts after them."""
    batch: Count | Literal["full"]
    """Samples per step; the last batch of an epoch may be smaller."""
    steps: Annotated[int, Field(ge=0, le=10**8, strict=True)] | None = None
    """Budget in updates (0: only measure the initial state). Give steps or epochs."""
    epochs: Annotated[int, Field(ge=1, le=10**7, strict=True)] | None = None
    """Budget in passes over the training data."""
    clip: Annotated[float, Field(gt=0)] | None = None
    """Maximum global gradient norm; not given: no clipping."""
    precision: Literal["float32", "float64"] = "float32"
    engine: EngineChoice = "auto"  # type: ignore[assignment]

    @model_validator(mode="after")
    def _check_budget(self) -> Self:
        if (self.steps is None) == (self.epochs is None):
            raise spec_error("give a budget: either steps or epochs, not both", where="steps")
        return self


class Target(Frozen):
    """A value to reach; `steps_to_target` and `epochs_to_target` say when it was reached.

    `final_loss` (the mean of the last 10 steps) is checked after every step, the others after every epoch.
    """

    noun: ClassVar[str] = "target"

    metric: Literal["final_loss"] | EpochMetric
    value: float


class ProbeBatch(Frozen):
    """The samples on which the layers are measured, the same throughout a trial."""

    noun: ClassVar[str] = "probe batch"

    batch: Literal["train", "validation", "test", "fresh"] = "train"
    """Rows of a split, or new samples from the task's distribution."""
    size: Annotated[int, Field(ge=1, le=10**6, strict=True)] = 64


class Measure(Frozen):
    """What is measured, on what, and when."""

    noun: ClassVar[str] = "measure"

    layers: Moments = ("start", "end")
    """Steps after which the layers are measured; `log` is 1, 2, 4, 8, …"""
    probes: tuple[str, ...] | Literal["all"] = "all"
    probe: ProbeBatch = ProbeBatch()
    evaluate_every: Count = 1
    """Epochs between evaluations on validation and test data; the last epoch is always evaluated."""
    target: Target | None = None
    weights: Moments = ("end",)
    """Steps after which the parameters are kept, as for `layers`; empty: never."""


class Config(Frozen):
    """The whole configuration of one trial, except its seed."""

    noun: ClassVar[str] = "base"

    data: DataChoice
    model: Model
    train: Train
    measure: Measure = Measure()


BASE_SECTIONS = tuple(name for name in Config.model_fields if name != "measure")
"""What a study's `base` holds: all but `measure`, which belongs to the study itself."""
