"""What one trial is made of: data, model, training, measurement. Every choice is a field with a default."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from gradlab.spec.base import Frozen, refusal
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
"""Numbers that exist once per epoch."""
Moments = tuple[Annotated[int, Field(ge=0, strict=True)] | Literal["start", "log", "end"], ...]
"""After which steps; `log` is 1, 2, 4, 8, …"""
Count = Annotated[int, Field(ge=1, le=10**9, strict=True)]


class Model(Frozen):
    """An MLP: an optional stem, width-preserving blocks, an optional head."""

    noun: ClassVar[str] = "model"

    depth: Annotated[int, Field(ge=1, le=10_000, strict=True)]
    """Hidden layers, the stem included; a block with two matrices counts two."""
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
    def _blocks_fit(self) -> Self:
        layers = self.depth - (self.stem == "linear")
        if layers % self.layers_per_block:
            raise refusal(
                f"depth {self.depth} with stem {self.stem!r} leaves {layers} layers for blocks of "
                f"{self.layers_per_block}; choose a depth that divides evenly",
                where="depth",
            )
        return self


class Train(Frozen):
    """How it is trained."""

    noun: ClassVar[str] = "train"

    loss: LossChoice
    optimizer: OptimizerChoice
    lr: Annotated[float, Field(gt=0, le=1e6)]
    """Learning rate that the schedule multiplies."""
    schedule: ScheduleChoice = "fixed"  # type: ignore[assignment]
    warmup: Annotated[int, Field(ge=0, le=10**9, strict=True)] = 0
    """Steps of linear warm-up; the schedule starts after them."""
    batch: Count | Literal["full"]
    """Samples per step; the last batch of an epoch may be smaller."""
    steps: Annotated[int, Field(ge=0, le=10**8, strict=True)] | None = None
    """Budget in updates (0: only measure the start). Give steps or epochs."""
    epochs: Annotated[int, Field(ge=1, le=10**7, strict=True)] | None = None
    """Budget in passes over the training data."""
    clip: Annotated[float, Field(gt=0)] | None = None
    """Largest global gradient norm; none: no clipping."""
    precision: Literal["float32", "float64"] = "float32"
    engine: EngineChoice = "auto"  # type: ignore[assignment]

    @model_validator(mode="after")
    def _one_budget(self) -> Self:
        if (self.steps is None) == (self.epochs is None):
            raise refusal("give a budget: either steps or epochs, not both", where="steps")
        return self


class Target(Frozen):
    """A value to be reached: `steps_to_target` and `epochs_to_target` say when.

    `final_loss` (the mean of the last 10 steps) is looked at after every step, the others after every epoch.
    """

    noun: ClassVar[str] = "target"

    metric: Literal["final_loss"] | EpochMetric
    value: float


class ProbeBatch(Frozen):
    """The samples on which the inside of the network is measured, the same throughout a trial."""

    noun: ClassVar[str] = "probe batch"

    batch: Literal["train", "validation", "test", "fresh"] = "train"
    """Rows of a split, or a fresh draw from the task's own distribution."""
    size: Annotated[int, Field(ge=1, le=10**6, strict=True)] = 64


class Measure(Frozen):
    """What is measured, on what, and when."""

    noun: ClassVar[str] = "measure"

    layers: Moments = ("start", "end")
    """When the inside is measured: after so many steps; `log` is 1, 2, 4, 8, …"""
    probes: tuple[str, ...] | Literal["all"] = "all"
    probe: ProbeBatch = ProbeBatch()
    evaluate_every: Count = 1
    """Epochs between evaluations on validation and test data; the last epoch is always evaluated."""
    target: Target | None = None
    weights: Moments = ("end",)
    """When the parameters are kept, as for `layers`; empty: never."""


class Config(Frozen):
    """One trial's whole configuration, but for its seed."""

    noun: ClassVar[str] = "base"

    data: DataChoice
    model: Model
    train: Train
    measure: Measure = Measure()


BASE_SECTIONS = tuple(name for name in Config.model_fields if name != "measure")
"""What a study's `base` holds: all but `measure`, which belongs to the study itself."""
