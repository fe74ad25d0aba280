"""Claims: statements that a result can settle, each with its metric and the asserted value.

    >, <            one arm against `value`, or the first of two arms (layers, effects) against the second
    between         one arm inside `value: [low, high]`
    near            one arm at `value`, within the fraction `within`; `value: theory` is what theory predicts
    ratio           the first of two arms (or layers) over the second: near `value`, or inside `value: [low, high]`
    decreasing,
    increasing      along the axis `along`, at every step
    ordered         arms from largest to smallest, at every step
    highest,
    lowest          the largest (smallest) number of all groups is one of `arms`; with `along`, of all values of an axis

An arm is a group's name, or a setting that selects it (`skip=none`); `at` narrows by axis (`at: {depth: 30}`), layer
and step. If several groups match, the claim is about each of them or, with `pooled`, about their mean. Two arms at two
layers compare the ratio of the first layer's number to the second's.

`from` says where a write-up makes the statement (text, figure, code); without it the statement is the study author's
own. A published number is compared apart from its sentence (`analysis.claims.numbers`).
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from gradlab.errors import offer, shortened
from gradlab.spec.base import Frozen, spec_error
from gradlab.spec.place import At, Label, Layer, Text
from gradlab.spec.published import Number, Origin

OPS = (">", "<", "between", "near", "ratio", "decreasing", "increasing", "ordered", "highest", "lowest")
ALONG_AN_AXIS = ("decreasing", "increasing")
BEST = ("highest", "lowest")
NEAR, RATIO = 0.1, 0.25
"""Default tolerance of `near` and `ratio`, as a fraction."""
THEORY: Literal["theory"] = "theory"
"""In place of a value: what theory predicts there, with its band over seeds."""
Bound = Annotated[float, Field(allow_inf_nan=True)]


class ClaimAt(At):
    """Where a claim's number is taken: layer, step, and under any other key the value (or values) of an axis."""

    model_config = ConfigDict(extra="allow")
    noun: ClassVar[str] = "at"

    layer: Layer | Literal["all"] | tuple[Layer, ...] | None = None  # type: ignore[assignment]
    """`all`: the claim is about every layer."""

    @property
    def axes(self) -> dict[str, Any]:
        """Axis (full path or its last word) -> the value or list of values."""
        return dict(self.model_extra or {})


class Claim(Frozen):
    """A statement about the result, with the number that it rests on."""

    noun: ClassVar[str] = "claim"

    text: Text
    """The statement, for people to read."""
    metric: str | None = None
    """What is measured; `a/b` is one metric over another in the same trial."""
    arms: Label | tuple[Label, ...] | None = None
    at: ClaimAt = ClaimAt()
    op: str | None = None
    value: float | tuple[Bound, ...] | Literal["theory"] | None = None
    """A number, [low, high], or `theory`: for near and ratio before training, what theory predicts, within its band."""
    within: Annotated[float, Field(gt=0, le=10)] | None = None
    """For near and ratio: the tolerance, as a fraction."""
    pooled: bool = False
    """If several groups match: whether the claim is about their mean, seed by seed."""
    effects: tuple[str, str] | None = None
    """For >: two axes; the claim is that the first changes the metric more than the second."""
    along: str | None = None
    """For decreasing and increasing: the axis. For highest and lowest: the axis whose other values are compared."""
    origin: Origin | None = Field(default=None, alias="from")
    """Where the write-up states it; None: a statement of the study's author."""
    published: Number | tuple[Number, ...] | None = None
    """The number that the write-up gives: of the arm, of the ratio of two, or one per arm."""
    note: Text | None = None
    """How the sentence was turned into numbers, where that is not obvious."""
    budget: Literal["full", "any"] = "full"
    """`any`: the claim is also tested on a reduced budget (`--quick`)."""
    figure: str | None = None
    """The figure that shows it; default: the first that shows its metric."""

    @model_validator(mode="before")
    @classmethod
    def _wrap_sentence(cls, raw: Any) -> Any:
        return {"text": raw} if isinstance(raw, str) else raw

    @model_validator(mode="after")
    def _check_complete(self) -> Self:
        if self.op is None and self.metric is None:
            return self  # a statement alone is listed as not tested
        if self.op is None:
            raise spec_error(f"give what is claimed of {self.metric!r}: one of {', '.join(OPS)}", where="op")
        if self.op not in OPS:
            raise spec_error(f"{shortened(self.op)} is not known{offer(self.op, OPS)}", where="op")
        if self.metric is None:
            raise spec_error("name the metric of the claim", where="metric")
        _check_value(self)
        _check_arms(self)
        return self

    @property
    def selectors(self) -> tuple[str, ...]:
        """The arms as written."""
        return (self.arms,) if isinstance(self.arms, str) else self.arms or ()

    @property
    def compares(self) -> bool:
        """Whether the claim compares two sides, arms or layers."""
        two_layers = isinstance(self.at.layer, tuple) and len(self.at.layer) == 2
        two = len(self.selectors) == 2 or two_layers or self.effects is not None
        return self.op == "ratio" or (self.op in (">", "<") and two)


def _check_value(claim: Claim) -> None:
    value, op = claim.value, claim.op
    if value == THEORY:
        if op not in ("near", "ratio"):
            raise spec_error(f"{op} does not take theory; use near or ratio", where="value")
        if claim.at.layer is not None and claim.at.step not in ("start", 0):
            raise spec_error("theory is about networks before training; give step: start", where="at.step")
        return
    two = isinstance(value, tuple) and len(value) == 2
    if two and not value[0] < value[1]:  # type: ignore[index]
        raise spec_error(f"give low before high, not {value}", where="value")
    if op == "between" and not two:
        raise spec_error("between needs two values, [low, high]", where="value")
    if op == "near" and not isinstance(value, float):
        raise spec_error("near needs one value", where="value")
    if op == "near" and value == 0:
        raise spec_error("near takes a fraction of the value, which is 0; use between", where="value")
    if op == "ratio" and not (two or (isinstance(value, float) and value > 0)):
        raise spec_error("a ratio needs a positive value, or [low, high]", where="value")
    if op in (">", "<") and not claim.compares and not isinstance(value, float):
        raise spec_error(f"{op} needs a value, or two arms to compare", where="value")
    if value is not None and (op in ("ordered", *ALONG_AN_AXIS, *BEST) or (op in (">", "<") and claim.compares)):
        raise spec_error(f"{op} compares arms with each other; leave the value out", where="value")


def _check_arms(claim: Claim) -> None:
    arms, layers = len(claim.selectors), claim.at.layer
    two_layers = isinstance(layers, tuple) and len(layers) == 2
    if isinstance(layers, tuple) and not (two_layers and claim.compares):
        raise spec_error("give one layer, or two to compare", where="at.layer")
    if claim.effects is not None and (claim.op != ">" or arms or layers is not None or claim.pooled):
        raise spec_error("effects are compared by > only, over all groups", where="effects")
    if claim.compares and not (arms == 2 or (two_layers and arms <= 1) or claim.effects):
        raise spec_error(f"{claim.op} compares two arms, or two layers of one arm", where="arms")
    if claim.op == "ordered" and arms < 2:
        raise spec_error("ordered needs at least two arms, the largest first", where="arms")
    if claim.op in BEST and (not arms or layers == "all" or claim.pooled):
        raise spec_error(f"{claim.op} needs the arms of which one is claimed to be the {claim.op}", where="arms")
    if not claim.compares and claim.op not in ("ordered", *BEST) and arms > 1:
        raise spec_error(f"{claim.op} takes one arm; select several by a setting they share", where="arms")
    if claim.op in ALONG_AN_AXIS and claim.along is None:
        raise spec_error(f"{claim.op} needs the axis that it runs along", where="along")
    if claim.along is not None and claim.op not in (*ALONG_AN_AXIS, *BEST):
        raise spec_error(f"{claim.op} does not run along an axis; leave along out", where="along")
    if claim.within is not None and (claim.op not in ("near", "ratio") or isinstance(claim.value, tuple)):
        raise spec_error("within applies to near, and to ratio with one value", where="within")
