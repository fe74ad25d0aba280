"""Claims: sentences that a result can settle, each with the number it rests on and what that number is said to be.

    >, <            one arm against `value`, or the first of two arms (layers, effects) against the second
    between         one arm inside `value: [low, high]`
    near            one arm at `value`, give or take `within` (a fraction of it)
    ratio           first of two arms (or layers) over the second: near `value`, or inside `value: [low, high]`
    decreasing,
    increasing      along the axis `along`, every step
    ordered         arms from largest to smallest, every step

An arm is a group's name, or what sets it apart (`skip=none`); `at` narrows by axis (`at: {depth: 30}`), layer and
step. Where several groups fit, the claim is made of every one of them, or (`pooled`) of their mean. Two arms at two
layers compare how many times larger the first layer's number is than the second's.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from gradlab.errors import nearest, shortened
from gradlab.spec.base import Frozen, refusal
from gradlab.spec.place import At, Label, LayerNumber, Text

OPS = (">", "<", "between", "near", "ratio", "decreasing", "increasing", "ordered")
ALONG_AN_AXIS = ("decreasing", "increasing")
NEAR, RATIO = 0.1, 0.25
"""How far off still counts as near a value or a ratio, as a fraction, where the claim does not say."""
Bound = Annotated[float, Field(allow_inf_nan=True)]


class ClaimAt(At):
    """Where a claim's number is taken: layer, step, and by any other key the value (or values) on an axis."""

    model_config = ConfigDict(extra="allow")
    noun: ClassVar[str] = "at"

    layer: LayerNumber | Literal["last", "all"] | tuple[LayerNumber, ...] | None = None  # type: ignore[assignment]
    """`all`: the claim is made of every layer."""

    @property
    def axes(self) -> dict[str, Any]:
        """Axis, by its path or the last word of it, -> the value or list of values there."""
        return dict(self.model_extra or {})


class Claim(Frozen):
    """A sentence about the result, with the number that it rests on."""

    noun: ClassVar[str] = "claim"

    text: Text
    """The sentence that people read."""
    metric: str | None = None
    """What is measured; `a/b` is one metric over another in the same trial."""
    arms: Label | tuple[Label, ...] | None = None
    at: ClaimAt = ClaimAt()
    op: str | None = None
    value: float | tuple[Bound, ...] | None = None
    within: Annotated[float, Field(gt=0, le=10)] | None = None
    """For near and ratio: how far off still counts, as a fraction."""
    pooled: bool = False
    """Where several groups fit: whether the claim is about their mean, seed by seed."""
    effects: tuple[str, str] | None = None
    """For >: two axes, of which the first is said to move the metric more than the second."""
    along: str | None = None
    """For decreasing and increasing: the axis."""
    published: float | tuple[float, ...] | None = None
    budget: Literal["full", "any"] = "full"
    """Whether a reduced budget (`--quick`) leaves it untested."""
    figure: str | None = None
    """The figure that shows it; not given: the first that shows its metric."""

    @model_validator(mode="before")
    @classmethod
    def _sentence_alone(cls, raw: Any) -> Any:
        return {"text": raw} if isinstance(raw, str) else raw

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.op is None and self.metric is None:
            return self  # a sentence alone: listed, and said not to be tested
        if self.op is None:
            raise refusal(f"say what is claimed of {self.metric!r}: one of {', '.join(OPS)}", where="op")
        if self.op not in OPS:
            raise refusal(
                f"{shortened(self.op)} is not known; accepted: {', '.join(OPS)}{nearest(self.op, OPS)}", where="op"
            )
        if self.metric is None:
            raise refusal("name the metric that the claim is about", where="metric")
        _check_value(self)
        _check_arms(self)
        return self

    @property
    def selectors(self) -> tuple[str, ...]:
        """The arms as written, one after the other."""
        return (self.arms,) if isinstance(self.arms, str) else self.arms or ()

    @property
    def compares(self) -> bool:
        """Whether two sides are set against each other, arms or layers."""
        two_layers = isinstance(self.at.layer, tuple) and len(self.at.layer) == 2
        two = len(self.selectors) == 2 or two_layers or self.effects is not None
        return self.op == "ratio" or (self.op in (">", "<") and two)


def _check_value(claim: Claim) -> None:
    value, op = claim.value, claim.op
    two = isinstance(value, tuple) and len(value) == 2
    if two and not value[0] < value[1]:  # type: ignore[index]
        raise refusal(f"low before high, not {value}", where="value")
    if op == "between" and not two:
        raise refusal("between needs two values, [low, high]", where="value")
    if op == "near" and not isinstance(value, float):
        raise refusal("near needs one value", where="value")
    if op == "near" and value == 0:
        raise refusal("near takes a fraction of the value, and 0 has none; use between", where="value")
    if op == "ratio" and not (two or (isinstance(value, float) and value > 0)):
        raise refusal("a ratio needs a positive value, or [low, high]", where="value")
    if op in (">", "<") and not claim.compares and not isinstance(value, float):
        raise refusal(f"{op} needs a value, or two arms to compare", where="value")
    if value is not None and (op in ("ordered", *ALONG_AN_AXIS) or (op in (">", "<") and claim.compares)):
        raise refusal(f"{op} compares arms with each other; leave the value out", where="value")


def _check_arms(claim: Claim) -> None:
    arms, layers = len(claim.selectors), claim.at.layer
    two_layers = isinstance(layers, tuple) and len(layers) == 2
    if isinstance(layers, tuple) and not (two_layers and claim.compares):
        raise refusal("a claim is made at one layer, or compares two", where="at.layer")
    if claim.effects is not None and (claim.op != ">" or arms or layers is not None or claim.pooled):
        raise refusal("effects are compared by > alone, over all groups", where="effects")
    if claim.compares and not (arms == 2 or (two_layers and arms <= 1) or claim.effects):
        raise refusal(f"{claim.op} compares two arms, or two layers of one", where="arms")
    if claim.op == "ordered" and arms < 2:
        raise refusal("ordered needs at least two arms, the largest first", where="arms")
    if not claim.compares and claim.op != "ordered" and arms > 1:
        raise refusal(f"{claim.op} is said of one arm; narrow several down by what they share", where="arms")
    if (claim.op in ALONG_AN_AXIS) != (claim.along is not None):
        raise refusal("decreasing and increasing, and only they, name the axis they run along", where="along")
    if claim.within is not None and (claim.op not in ("near", "ratio") or isinstance(claim.value, tuple)):
        raise refusal("within belongs to near and to the ratio with one value", where="within")
