"""The configuration of one trial: data, model, training, measurement. Every choice is a field with a default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from gradlab.spec.base import Frozen, refuse, spec_error
from gradlab.spec.choice import (
    ActivationChoice,
    DataChoice,
    EngineChoice,
    InitChoice,
    LossChoice,
    NoiseChoice,
    NormChoice,
    OptimizerChoice,
    ProjectionChoice,
    ScheduleChoice,
    SkipChoice,
)

EpochMetric = str
"""A metric that exists once per epoch: the loss or a score of a split, such as `validation_loss`, `test_accuracy`."""
Moments = tuple[Annotated[int, Field(ge=0, strict=True)] | Literal["start", "log", "end"], ...]
"""Steps after which something happens; `log` is 1, 2, 4, 8, …"""
Kept = tuple[Annotated[int, Field(ge=0, strict=True)] | Literal["start", "log", "end", "best"], ...]
"""Steps after which parameters are kept; `best` is the best epoch."""
Count = Annotated[int, Field(ge=1, le=10**9, strict=True)]
MAX_DEPTH, MAX_WIDTH = 10_000, 1_000_000
Width = Annotated[int, Field(ge=1, le=MAX_WIDTH, strict=True)]


class Taper(Frozen):
    """Widths from the first stage (the stem or the first block) to the last block, in equal steps or equal ratios."""

    noun: ClassVar[str] = "widths"

    linear: tuple[Width, Width] | None = None
    """Widths in equal steps from the first to the last layer: [first, last]."""
    log: tuple[Width, Width] | None = None
    """Widths in equal ratios: [first, last]."""

    @model_validator(mode="after")
    def _check_rule(self) -> Self:
        if (self.linear is None) == (self.log is None):
            raise spec_error("give a list of widths, or one of linear and log: {linear: [64, 16]}")
        return self

    @model_serializer(mode="plain")
    def _write_rule(self) -> dict[str, Any]:
        return {name: list(ends) for name in type(self).model_fields if (ends := getattr(self, name)) is not None}

    def values(self, stages: int) -> tuple[int, ...]:
        """Return one width per stage."""
        first, last = self.linear or self.log or (1, 1)
        places = [index / max(stages - 1, 1) for index in range(stages)]
        if self.linear is not None:
            return tuple(round(first + (last - first) * place) for place in places)
        return tuple(round(first * (last / first) ** place) for place in places)


class Model(Frozen):
    """An MLP: an optional stem, blocks, an optional head."""

    noun: ClassVar[str] = "model"
    later: ClassVar[frozenset[str]] = frozenset(
        (
            *("blocks", "widths", "stem_activation", "stem_norm", "head_activation", "projection"),
            *("dropout", "input_dropout", "branch_dropout", "output_scale"),
        )
    )

    depth: Annotated[int, Field(ge=1, le=MAX_DEPTH, strict=True)] = Field(default=None)  # type: ignore[assignment]
    """Hidden layers including the stem; a block with two matrices counts as two. Give depth or blocks."""
    blocks: Annotated[int, Field(ge=1, le=MAX_DEPTH, strict=True)] | None = None
    """Blocks after the stem: another way to give the depth."""
    width: Width = Field(default=None)  # type: ignore[assignment]
    """Units of every hidden layer (with `widths`: of the widest). Give width or widths."""
    widths: Annotated[tuple[Width, ...], Field(min_length=1, max_length=MAX_DEPTH)] | Taper | None = None
    """Units of each hidden layer in order, or a taper over stem and blocks: {linear: [64, 16]}, {log: [64, 16]}."""
    stem: Literal["linear", "none"] = "linear"
    """Input projection (a hidden layer with norm and activation), or none: the input must have this width."""
    stem_activation: bool = True
    """Off: the stem has no nonlinearity."""
    stem_norm: bool = True
    """Off: the stem has no norm."""
    output_scale: float | Literal["1/sqrt(width)", "1/width"] = 1.0
    """Multiplies what the head computes, before its activation."""
    head: Literal["linear", "none"] = "linear"
    """Output projection (linear), or none: the output must have this width."""
    head_activation: ActivationChoice = "identity"  # type: ignore[assignment]
    """What follows the head's projection."""
    layers_per_block: Annotated[int, Field(ge=1, le=MAX_DEPTH, strict=True)] = 1
    """Weight matrices per block."""
    activation: ActivationChoice = "relu"  # type: ignore[assignment]
    skip: SkipChoice = "none"  # type: ignore[assignment]
    projection: ProjectionChoice = "lecun_normal"  # type: ignore[assignment]
    """Initial values of the matrix in a skip whose block changes the width; other skips have none."""
    norm: NormChoice = "none"  # type: ignore[assignment]
    dropout: NoiseChoice = "none"  # type: ignore[assignment]
    """After the activation of every hidden layer (in a block: inside the branch): a rate, or a noise by name."""
    input_dropout: NoiseChoice = "none"  # type: ignore[assignment]
    """On the inputs: a rate, or a noise by name (`{kind: gaussian_noise, std: 0.1}`)."""
    branch_dropout: NoiseChoice = "none"  # type: ignore[assignment]
    """On every block's branch, before it joins the skip: a rate, or a noise by name (`stochastic_depth`)."""
    bias: bool = True
    """Whether linear layers have a bias, the stem and the head included."""
    last_activation: bool = True
    """Off: the last hidden layer has no nonlinearity."""
    init: InitChoice = "torch_default"  # type: ignore[assignment]

    @model_validator(mode="before")
    @classmethod
    def _fill_in_sizes(cls, raw: Any) -> Any:
        """Compute depth from blocks or the list of widths, and width from widths."""
        if not isinstance(raw, Mapping) or not raw.keys() <= cls.model_fields.keys():
            return raw  # an unknown key is refused by name
        filled = {k: v for k, v in raw.items() if not (v is None and k in ("depth", "blocks", "width", "widths"))}
        widths = filled.get("widths")
        listed = len(widths) if isinstance(widths, list | tuple) else 0
        if "depth" in filled and "blocks" in filled:
            raise spec_error("depth and blocks say the same thing; give one of them", where="blocks")
        refuse("width" in filled and "widths" in filled, "give width or widths, not both", "widths")
        if not listed and not filled.keys() & {"depth", "blocks"}:
            raise spec_error("is missing; give depth (hidden layers with the stem) or blocks", where="depth")
        if not filled.keys() & {"width", "widths"}:
            raise spec_error("is missing; give width, or widths as a list or a taper", where="width")
        if "blocks" in filled:
            filled["depth"] = _depth_of(filled)
        elif listed:
            filled.setdefault("depth", min(listed, MAX_DEPTH))
        if "widths" in filled:
            filled["width"] = _widest(widths)
        return filled

    @model_validator(mode="after")
    def _check_blocks(self) -> Self:
        layers = self.depth - (self.stem == "linear")
        if layers % self.layers_per_block:
            raise spec_error(
                f"depth {self.depth} with stem {self.stem!r} leaves {layers} layers for blocks of "
                f"{self.layers_per_block}; choose a depth that divides evenly",
                where="depth",
            )
        if isinstance(self.widths, tuple) and len(self.widths) != self.depth:
            said = "depth" if self.blocks is None else f"{self.blocks} blocks: a depth of"
            raise spec_error(
                f"{len(self.widths)} widths for {said} {self.depth}; give one per hidden layer, the stem's first",
                where="widths",
            )
        return self

    @model_validator(mode="after")
    def _check_ends(self) -> Self:
        for end, fields in (("stem", ("stem_activation", "stem_norm")), ("head", ("head_activation", "output_scale"))):
            for name in fields:
                if getattr(self, end) == "none" and getattr(self, name) != self.default(name):
                    raise spec_error(f"there is no {end}: use {end}: linear, or leave {name} out", where=name)
        return self

    @property
    def derived(self) -> frozenset[str]:
        """Depth and width, where blocks or widths give them."""
        depth = self.blocks is not None or isinstance(self.widths, tuple)
        return frozenset((*(("depth",) if depth else ()), *(("width",) if self.widths is not None else ())))

    @model_serializer(mode="wrap")
    def _leave_out_derived(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in write(self).items() if name not in self.derived}

    @property
    def output_factor(self) -> float:
        """The number that `output_scale` stands for; the width is that of the last hidden layer."""
        if isinstance(self.output_scale, str):
            return float(self.layer_widths[-1] ** (-1.0 if self.output_scale == "1/width" else -0.5))
        return self.output_scale

    @property
    def layer_widths(self) -> tuple[int, ...]:
        """Units of each hidden layer, the stem's first."""
        if self.widths is None:
            return (self.width,) * self.depth
        if isinstance(self.widths, tuple):
            return self.widths
        per, stem = self.layers_per_block, self.stem == "linear"
        stages = self.widths.values((self.depth - stem) // per + stem)
        return (*stages[:stem], *(width for width in stages[stem:] for _ in range(per)))


def _depth_of(raw: Mapping[str, Any]) -> int:
    """Depth from blocks; 1 where another field is not valid, so that its own error is reported."""
    blocks, per, stem = raw["blocks"], raw.get("layers_per_block", 1), raw.get("stem", "linear") == "linear"
    if any(type(number) is not int or not 1 <= number <= MAX_DEPTH for number in (blocks, per)):
        return 1
    depth: int = blocks * per + stem
    refuse(depth > MAX_DEPTH, f"{blocks:,} blocks of {per:,} layers are more than {MAX_DEPTH:,} layers", "blocks")
    return depth


def _widest(widths: Any) -> int:
    """The largest width of a list or taper; 1 where they are not valid, so that their own error is reported."""
    lists = list(widths.values()) if isinstance(widths, Mapping) else [widths]
    units = [width for own in lists if isinstance(own, list | tuple) for width in own]
    valid = all(type(width) is int and 1 <= width <= MAX_WIDTH for width in units)
    return max(units, default=1) if valid else 1


class EarlyStopping(Frozen):
    """End training when a metric has not improved for some epochs."""

    noun: ClassVar[str] = "early stopping"

    by: EpochMetric = "validation_loss"
    """Evaluated after every epoch, whatever `measure.evaluate_every` says."""
    patience: Count = 5
    """Epochs in a row without improvement after which training ends."""
    min_delta: Annotated[float, Field(ge=0)] = 0.0
    """Smaller changes are no improvement."""


class TensorRule(Frozen):
    """How the tensors of a group are updated."""

    noun: ClassVar[str] = "group"

    lr: Annotated[float, Field(ge=0, le=1e6)] | None = None
    """The group's learning rate, multiplied by the schedule like `train.lr`; 0: it is frozen. Not given: `train.lr`."""
    optimizer: OptimizerChoice | None = None
    """Not given: the study's."""


class Groups(Frozen):
    """Groups of tensors with a rate or an optimizer of their own; `biases` are all that is no matrix."""

    noun: ClassVar[str] = "groups"

    stem: TensorRule | None = None
    blocks: TensorRule | None = None
    head: TensorRule | None = None
    biases: TensorRule | None = None
    """Biases, gains, shifts and gates: every tensor that is not a matrix, wherever it belongs."""


class Decay(Frozen):
    """What pulls parameters to 0, beside a `weight_decay` of the optimizer."""

    noun: ClassVar[str] = "decay"

    l2: Annotated[float, Field(ge=0)] = 0.0
    """λ θ is added to the gradient."""
    decoupled: Annotated[float, Field(ge=0)] = 0.0
    """η λ θ is taken from θ beside the update, as in AdamW."""
    l1: Annotated[float, Field(ge=0)] = 0.0
    """λ sign θ is added to the gradient."""
    on: Literal["weights", "all"] = "weights"
    """The layers' matrices, or every parameter as `weight_decay` of an optimizer."""


class GradientNoise(Frozen):
    """Normal noise on every gradient, with standard deviation std/(1 + t)^gamma at step t."""

    noun: ClassVar[str] = "gradient noise"

    std: Annotated[float, Field(gt=0)]
    """Standard deviation of what is added to every gradient at the first step."""
    gamma: Annotated[float, Field(ge=0)] = 0.0
    """How fast it decays, see above."""


class Prune(Frozen):
    """Weights that are set to 0 and stay 0."""

    noun: ClassVar[str] = "prune"

    share: Annotated[float, Field(gt=0, lt=1)]
    """Of the weights that are left, every time."""
    at: Annotated[int, Field(ge=0, strict=True)] | tuple[Annotated[int, Field(ge=0, strict=True)], ...]
    """The step, or steps, after which; 0: before training."""
    by: Literal["magnitude", "random"] = "magnitude"
    """The smallest, or random ones."""
    scope: Literal["layer", "network"] = "layer"
    """Whether every layer loses its share, or the network."""
    rewind: Annotated[int, Field(ge=0, strict=True)] | None = None
    """Afterwards all parameters return to their values after this step (0: the initial ones): lottery tickets."""

    @property
    def moments(self) -> tuple[int, ...]:
        """The steps after which weights are pruned."""
        return self.at if isinstance(self.at, tuple) else (self.at,)

    @model_validator(mode="after")
    def _check_rewind(self) -> Self:
        refuse(self.rewind is not None and self.rewind > min(self.moments), "lies after the first pruning", "rewind")
        return self


FrozenTensors = tuple[Annotated[int, Field(ge=1, strict=True)] | Literal["stem", "blocks", "head", "biases"], ...]
"""Numbers of layers, or groups."""


class Train(Frozen):
    """The training of a trial."""

    noun: ClassVar[str] = "train"
    rules: ClassVar[tuple[str, ...]] = ("groups", "decay", "max_norm", "gradient_noise", "prune", "frozen")
    """What acts beside the optimizer."""
    later: ClassVar[frozenset[str]] = frozenset(("early_stopping", *rules))

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
    early_stopping: EarlyStopping | None = None
    """Not given: the whole budget is trained."""
    clip: Annotated[float, Field(gt=0)] | None = None
    """Maximum global gradient norm; not given: no clipping."""
    groups: Groups | None = None
    """Learning rates and optimizers of stem, blocks, head and biases: {head: {lr: 1e-4}}."""
    decay: Decay | None = None
    """L2, decoupled or L1 decay, on the weights only or on everything; not part of the reported loss."""
    max_norm: Annotated[float, Field(gt=0)] | None = None
    """The largest norm of the weights that enter a unit, enforced after every step."""
    gradient_noise: GradientNoise | None = None
    prune: Prune | None = None
    frozen: FrozenTensors = ()
    """Layers by number, or groups, that are not trained."""
    precision: Literal["float32", "float64"] = "float32"
    """The precision of weights, activations and gradients."""
    engine: EngineChoice = "auto"  # type: ignore[assignment]

    @model_validator(mode="after")
    def _check_budget(self) -> Self:
        if (self.steps is None) == (self.epochs is None):
            raise spec_error("give a budget: either steps or epochs, not both", where="steps")
        return self

    @property
    def has_rule(self) -> bool:
        """Whether anything acts beside the optimizer."""
        return any(getattr(self, name) not in (None, ()) for name in self.rules)


class Target(Frozen):
    """A value to reach; `steps_to_target` and `epochs_to_target` say when it was reached.

    `final_loss` (the mean of the last 10 steps) is checked after every step, the others after every epoch.
    """

    noun: ClassVar[str] = "target"

    metric: EpochMetric
    """A metric of an epoch, such as test_accuracy."""
    value: float
    """What it has to reach."""


class ProbeBatch(Frozen):
    """The samples on which the layers are measured, the same throughout a trial."""

    noun: ClassVar[str] = "probe batch"

    batch: Literal["train", "validation", "test", "fresh"] = "train"
    """Rows of a split, or new samples from the task's distribution."""
    size: Annotated[int, Field(ge=1, le=10**6, strict=True)] = 64
    """Samples on which the inside is measured."""


class Measure(Frozen):
    """What is measured, on what, and when."""

    noun: ClassVar[str] = "measure"
    later: ClassVar[frozenset[str]] = frozenset(("best", "scores", "train_set", "sharpness"))

    layers: Moments = ("start", "end")
    """Steps after which the layers are measured; `log` is 1, 2, 4, 8, …"""
    probes: tuple[str, ...] | Literal["all"] = "all"
    """Probes by name, or all that there are."""
    probe: ProbeBatch = ProbeBatch()
    evaluate_every: Count = 1
    """Epochs between evaluations on validation and test data; the last epoch is always evaluated."""
    scores: tuple[str, ...] = ("accuracy",)
    """What is evaluated besides the loss, where the task has it: `accuracy`, `calibration_error`, or your own."""
    target: Target | None = None
    best: EpochMetric | None = None
    """The metric that chooses the best epoch, of those evaluated; `best_epoch`, `best_test_accuracy` … tell of it."""
    train_set: bool = False
    """At the end, loss and scores on all training samples in evaluation mode, and the generalization gap."""
    sharpness: Count | None = None
    """Training samples on which the largest eigenvalue of the Hessian is computed, whenever layers are measured."""
    weights: Kept = ("end",)
    """Steps after which the parameters are kept, as for `layers`, and `best`; empty: never."""

    @model_validator(mode="after")
    def _check_best(self) -> Self:
        if "best" in self.weights and self.best is None:
            raise spec_error("'best' needs measure.best: the metric that chooses the best epoch", where="weights")
        return self


class Config(Frozen):
    """The whole configuration of one trial, except its seed."""

    noun: ClassVar[str] = "base"

    data: DataChoice
    model: Model
    train: Train
    measure: Measure = Measure()


@dataclass(frozen=True)
class Group:
    """One arm or grid point: its name, its settings, and the configuration of its networks."""

    name: str
    settings: Mapping[str, Any]
    network: Config | None = None
    """None where the user's code is trained: only the code knows what it does."""
    arm: str = ""
    """The arm that it belongs to, in a study of arms and axes."""
    point: tuple[str, ...] = ()
    """The paths of the axes, in a study of arms and axes."""

    @property
    def config(self) -> Config:
        """The configuration, for whoever deals with networks of the lab only."""
        if self.network is None:
            raise TypeError(f"{self.name} is the user's code, which has no configuration")
        return self.network


BASE_SECTIONS = tuple(name for name in Config.model_fields if name != "measure")
"""What a study's `base` holds: all but `measure`, which belongs to the study itself."""
