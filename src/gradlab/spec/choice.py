"""A choice of a part: its name and its parameters.

    activation: relu                                       # short
    activation: {kind: leaky_relu, negative_slope: 0.2}    # with parameters

Validation checks the name against the catalog and the parameters against the part, and fills in every default, so that
a resolved study states everything it depends on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field, ValidationError, ValidationInfo, model_serializer, model_validator

from gradlab.errors import PartError, offer, shortened, with_article
from gradlab.parts import BUILT_IN, Catalog
from gradlab.spec.base import Frozen, Scale, spec_error
from gradlab.spec.messages import first_problem, shown


class Choice(Frozen):
    """A part's name under `key`, its parameters as further keys."""

    model_config = ConfigDict(extra="allow")
    part: ClassVar[str]
    key: ClassVar[str] = "kind"

    @classmethod
    def own_fields(cls) -> dict[str, Any]:
        """What the choice itself says besides the part's name, with its defaults; the rest belongs to the part."""
        return {name: field.default for name, field in cls.model_fields.items() if name != cls.key}

    @classmethod
    def short_form(cls, raw: Any) -> Any:
        """What other short form of a choice stands for; names are read everywhere."""
        return raw

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, raw: Any, info: ValidationInfo) -> Any:
        if isinstance(raw, Choice):
            return raw
        if isinstance(raw, str):
            raw = {cls.key: raw}
        raw = cls.short_form(raw)
        if not isinstance(raw, Mapping):
            raise spec_error(f"the name of {with_article(cls.part)} was expected, not {shown(raw)}", value=raw)
        if cls.key not in raw:
            raise spec_error(f"the key {cls.key!r} is missing: it names the {cls.part}", where=cls.key)
        catalog: Catalog = (info.context or {}).get("catalog", BUILT_IN)
        try:
            part = catalog.get(cls.part, raw[cls.key])
        except PartError as error:
            raise spec_error(str(error), where=cls.key if isinstance(raw[cls.key], str) else "") from None
        for name in part.parameter_names() if catalog.executed else ():
            if name in cls.model_fields:
                raise spec_error(f"the {cls.part} {raw[cls.key]!r} has a parameter {name!r}, which is a reserved name")
        own = {key: value for key, value in raw.items() if key in cls.model_fields}
        rest = {key: value for key, value in raw.items() if key not in own}
        accepted = part.parameter_names()
        for key in rest:
            if not part.accepts(key):
                names = [*accepted, *cls.own_fields()]
                raise spec_error(
                    f"unknown key {shortened(key)} of {cls.part} {raw[cls.key]!r}{offer(key, names)}", where=str(key)
                )
        try:
            return own | part.parse(rest).parameters()
        except ValidationError as error:
            where, message = first_problem(error, rest)
            raise spec_error(message, where=where) from None

    @model_serializer(mode="plain")
    def _serialize(self) -> Any:
        fields = type(self).model_fields
        shown = (name for name in fields if name not in self.later or getattr(self, name) != fields[name].default)
        values = {name: getattr(self, name) for name in shown} | self.parameters
        return values[self.key] if len(values) == 1 else values

    @property
    def name(self) -> str:
        """The name of the part."""
        return str(getattr(self, self.key))

    @property
    def parameters(self) -> dict[str, Any]:
        """The part's parameters, defaults included."""
        return dict(self.__pydantic_extra__ or {})

    def build(self, catalog: Catalog) -> Any:
        """Build the part."""
        return catalog.make(self.part, self.name, self.parameters)


class KindChoice(Choice):
    """A choice whose name is under `kind`."""

    kind: str


class ActivationChoice(KindChoice):
    """The nonlinearity."""

    part = "activation"


class SkipChoice(KindChoice):
    """How a block's input joins its branch."""

    part = "skip"


class NormChoice(KindChoice):
    """The normalization before the nonlinearity."""

    part = "norm"


class NoiseChoice(KindChoice):
    """What training adds or drops at random: a number is the rate of a plain dropout."""

    part = "noise"

    @classmethod
    def short_form(cls, raw: Any) -> Any:
        """`dropout: 0.5`; a rate of 0 is none."""
        if isinstance(raw, int | float) and not isinstance(raw, bool):
            return {"kind": "dropout", "rate": raw} if raw else {"kind": "none"}
        return raw


class LossChoice(KindChoice):
    """The loss to minimize."""

    part = "loss"


class OptimizerChoice(KindChoice):
    """The optimizer."""

    part = "optimizer"


class ScheduleChoice(KindChoice):
    """How the learning rate changes over the steps."""

    part = "schedule"


class EngineChoice(KindChoice):
    """The engine that trains it."""

    part = "engine"


class BiasChoice(KindChoice):
    """A distribution of initial biases."""

    part = "init"


Bias = Literal["zeros", "same"] | float | BiasChoice


class PlaceInit(KindChoice):
    """The initial weights of the stem or the head; what is not given is as in the blocks."""

    part = "init"
    scale: Scale = 1.0
    bias: Bias = "zeros"


class InitChoice(KindChoice):
    """The initial weights: a distribution, an explicit scale factor, and the initial biases."""

    part = "init"
    later: ClassVar[frozenset[str]] = frozenset(("stem", "head"))
    scale: Scale = 1.0
    """Multiplies the drawn weight matrices, not the biases."""
    scale_on: Literal["all", "blocks"] = "all"
    """Which weight matrices the scale multiplies: all, or only those inside blocks (not stem and head)."""
    bias: Bias = "zeros"
    """Zero, a number, a distribution of their own, or `same`: drawn like their layer's weights."""
    stem: PlaceInit | None = None
    """The stem's own: any of kind (with its parameters), scale and bias; the rest is as above."""
    head: PlaceInit | None = None
    """The head's own."""

    @model_validator(mode="before")
    @classmethod
    def _fill_in_places(cls, raw: Any) -> Any:
        """What stem and head do not say is what the blocks have."""
        if not isinstance(raw, Mapping):
            return raw
        filled = dict(raw)
        shared = {key: value for key, value in raw.items() if key not in ("scale_on", "stem", "head")}
        if raw.get("scale_on", "all") == "blocks":
            shared.pop("scale", None)
        for place in ("stem", "head"):
            own = raw.get(place)
            own = {cls.key: own} if isinstance(own, str) else own
            if isinstance(own, Mapping):
                both = ("scale", "bias")
                usual = {key: shared[key] for key in both if key in shared} if cls.key in own else shared
                filled[place] = {**usual, **own}
        return filled

    def at(self, place: Literal["stem", "blocks", "head"]) -> PlaceInit:
        """What a layer of this place is drawn from."""
        own = {"stem": self.stem, "blocks": None, "head": self.head}[place]
        if own is not None:
            return own
        scale = self.scale if place == "blocks" or self.scale_on == "all" else 1.0
        found = PlaceInit.model_construct(kind=self.kind, scale=scale, bias=self.bias)
        object.__setattr__(found, "__pydantic_extra__", self.parameters)
        return found


class ProjectionChoice(KindChoice):
    """The initial matrix of a skip that changes the width: a distribution and a scale factor."""

    part = "init"
    scale: Scale = 1.0


class DataChoice(Choice):
    """The task, its parameters, and whether all trials of the study share its split."""

    part = "task"
    key = "task"
    task: str
    split: Literal["per_study", "per_trial"] = "per_study"
    later: ClassVar[frozenset[str]] = frozenset(("scaling", "label_noise"))
    scaling: Literal["task", "none", "unit", "standardized", "per_feature", "min_max", "quantile"] = "task"
    """As the task does it; or as stored, by the largest number, by mean and deviation of all numbers or of each column,
    each column to 0 … 1, or to its ranks. What is fitted is fitted on the training rows."""
    label_noise: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Share of the training samples that get a wrong class."""
