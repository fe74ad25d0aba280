"""Claims and published numbers: what a result can settle, where its number is taken, and what a write-up states."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from gradlab.errors import offer, shortened
from gradlab.spec.base import Frozen, refuse, spec_error
from gradlab.spec.messages import LABEL_PATTERN

Label = Annotated[str, Field(min_length=1, max_length=80, pattern=LABEL_PATTERN)]
Text = Annotated[str, Field(min_length=1, max_length=2000)]
LayerNumber = Annotated[int, Field(ge=1, strict=True)]
OverLayers = Literal["smallest", "largest"]
"""The smallest or largest number of all layers, in each network."""
Layer = LayerNumber | Literal["last"] | OverLayers


class At(Frozen):
    """Where a value is taken: after which step, in which layer(s)."""

    noun: ClassVar[str] = "at"

    step: Annotated[int, Field(ge=0, strict=True)] | Literal["start", "end"] | None = None
    """After so many steps; `start` is before training, `end` after it."""
    layer: Layer | tuple[Layer, ...] | None = None
    """Its number, `last`, or `smallest` and `largest` for the least and most of all layers; several as a list."""

    def places(self) -> tuple[At, ...]:
        """Return one place per layer."""
        layers = self.layer if isinstance(self.layer, tuple) else (self.layer,)
        return tuple(self.model_copy(update={"layer": layer}) for layer in layers)


# Published numbers: what a write-up states, at the precision at which it states it, and where it stands.
#
# A number as it was printed means every number that rounds to it: `0.063` is 0.0625 to 0.0635, `0.0630` is 0.06295 to
# 0.06305. A float in YAML has lost its last zeros, so a number may also be a string: `"0.0630"`, `"~0.9"`, or a range
# such as `"0.96–0.97"`, which covers what rounds to either end or lies between them. A bare `0` is nothing at all, not
# everything up to a half: a zero that was rounded is written with its digits, `"0.00"`.

Origin = Literal["text", "figure", "code"]
"""Where a write-up states something: in its text, in a figure, or in its public code and saved results."""
LARGE = 1e6
"""From here on whole numbers are taken to be printed as 1.06e8."""
_RANGE = re.compile(r"(?<=[0-9])\s*(?:–|-|to|…)\s*(?=[-+.0-9])")


@dataclass(frozen=True)
class Stated:
    """A published number: every value that rounds to what was printed."""

    text: str
    low: float
    high: float

    @property
    def value(self) -> float:
        """The number as printed; of a range its middle."""
        return (self.low + self.high) / 2

    def overlaps(self, low: float, high: float) -> bool:
        """Whether a value between these ends rounds to it."""
        return self.low <= high and low <= self.high


def read_stated(printed: float | str) -> Stated:
    """Read a published number; a `ValueError` if it is not one."""
    text = printed.strip() if isinstance(printed, str) else _as_printed(printed)
    plain = text.lstrip("~≈ ").replace("×10^", "e").replace(",", "")
    ends = [_rounded(piece) for piece in _RANGE.split(plain)]
    if len(ends) > 2 or ends[0][0] > ends[-1][0]:
        raise ValueError(f"{shortened(text)} is not a number")
    return Stated(text, float(ends[0][0]), float(ends[-1][1]))


def _as_printed(number: float) -> str:
    """The shortest digits of a float: 5.0 was written as 5, 106000000.0 as 1.06e8."""
    if float(number).is_integer() and abs(number) < LARGE:
        return str(int(number))
    return str(Decimal(repr(number)).normalize()).replace("E+", "e").replace("E", "e")


def _rounded(piece: str) -> tuple[Decimal, Decimal]:
    """Between which numbers those lie that round to this one."""
    try:
        number = Decimal(piece.strip())
    except InvalidOperation:
        raise ValueError(f"{shortened(piece)} is not a number") from None
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int):
        raise ValueError(f"{shortened(piece)} is not a finite number")
    if number == 0 and exponent >= 0:
        return number, number
    half = Decimal(1).scaleb(exponent) / 2
    return number - half, number + half


def _check_stated(printed: str) -> str:
    try:
        read_stated(printed)
    except ValueError as error:
        raise spec_error(f"{error}; give one such as 0.063, '0.0630' or '0.96–0.97'") from None
    return printed


Number = float | Annotated[str, Field(max_length=80), AfterValidator(_check_stated)]
"""A published number as printed."""


def list_stated(published: Number | tuple[Number, ...] | None) -> tuple[Stated, ...]:
    """One or several published numbers, or none."""
    if published is None:
        return ()
    return tuple(map(read_stated, published if isinstance(published, tuple) else (published,)))


class Published(Frozen):
    """A number (or one per layer) from the write-up, compared with the measured one."""

    noun: ClassVar[str] = "published"

    metric: str
    """What was measured: a metric of trials, or a measure of a layer."""
    arms: Label
    """The group that the number is of."""
    at: At = At()
    value: Number | tuple[Number, ...]
    """As it was printed, in quotes: its digits say how precise it is; one per layer where `at` names several."""
    origin: Origin = Field(default="text", alias="from")
    """Where the number stands."""
    guessed: bool = False
    """Whether the write-up does not say which measure it printed: the report then names the one that fits best."""
    note: Text | None = None
    """A note for the reader about this number."""

    @model_validator(mode="after")
    def _check_values(self) -> Self:
        values = len(self.value) if isinstance(self.value, tuple) else 1
        if values != len(self.at.places()):
            raise spec_error(
                f"{values} values for {len(self.at.places())} places; give one for each layer", where="value"
            )
        return self


# Claims: statements that a result can settle, each with its metric and the asserted value.
#
#     >, <            one arm against `value`, or the first of two arms (layers, effects) against the second
#     between         one arm inside `value: [low, high]`
#     near            one arm at `value`, within the fraction `within`; `value: theory` is what theory predicts
#     ratio           the first of two arms (or layers) over the second: near `value`, or inside `value: [low, high]`
#     decreasing,
#     increasing      along the axis `along`, at every step
#     diminishing     along the axis `along`, every step gains less than the one before
#     ordered         arms from largest to smallest, at every step
#     highest,
#     lowest          the largest (smallest) number of all groups is one of `arms`; with `along`, of an axis's values
#
# An arm is a group's name, or a setting that selects it (`skip=none`); `at` narrows by axis (`at: {depth: 30}`), layer
# and step. If several groups match, the claim is about each of them or, with `pooled`, about their mean. Two arms at
# two layers compare the ratio of the first layer's number to the second's.
#
# `from` says where a write-up makes the statement (text, figure, code); without it the statement is the study author's
# own. A published number is compared apart from its sentence (`analysis.claims.numbers`).

OPS = (">", "<", "between", "near", "ratio", "decreasing", "increasing", "diminishing", "ordered", "highest", "lowest")
ALONG_AN_AXIS = ("decreasing", "increasing", "diminishing")
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
    """Groups by name, or settings that select them (`skip=none`): one, two to compare, or several in an order."""
    at: ClaimAt = ClaimAt()
    op: str | None = None
    """What is claimed: `>`, `<`, `between`, `near`, `ratio`, `increasing`, `decreasing`, `diminishing`, `ordered`,
    `highest` or `lowest`."""
    value: float | tuple[Bound, ...] | Literal["theory"] | None = None
    """A number, [low, high], or `theory`: for near and ratio before training, what theory predicts, within its band."""
    within: Annotated[float, Field(gt=0, le=10)] | None = None
    """For near and ratio: the tolerance, as a fraction."""
    pooled: bool = False
    """If several groups match: whether the claim is about their mean, seed by seed."""
    effects: tuple[str, str] | None = None
    """For >: two axes; the claim is that the first changes the metric more than the second."""
    along: str | None = None
    """For decreasing, increasing, diminishing: the axis. For highest, lowest: the axis whose other values compete."""
    origin: Origin | None = Field(default=None, alias="from")
    """Where the write-up states it; None: a statement of the study's author."""
    published: Number | tuple[Number, ...] | None = None
    """The number that the write-up gives: of the arm, of the ratio of two, or one per arm."""
    note: Text | None = None
    """How the sentence was turned into numbers, where that is not obvious."""
    matters: Annotated[float, Field(gt=0, lt=1)] | None = None
    """The smallest difference between two sides that would matter, instead of the study's."""
    primary: bool = False
    """Whether it is one of the claims that the study is made for: they are tested first, at the full level, and the
    others share what is left."""
    assume: Literal["symmetric"] | None = None
    """Of one arm: `symmetric` declares that its numbers (their logarithms, where ratios matter) lie symmetrically
    around their center, so that fewer seeds settle it; without it, nothing is assumed and the median is judged."""
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
        refuse(self.op is None, f"give what is claimed of {self.metric!r}: one of {', '.join(OPS)}", "op")
        if self.op not in OPS:
            raise spec_error(f"{shortened(self.op)} is not known{offer(self.op, OPS)}", where="op")
        refuse(self.metric is None, "name the metric of the claim", "metric")
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
        refuse(op not in ("near", "ratio"), f"{op} does not take theory; use near or ratio", "value")
        if claim.at.layer is not None and claim.at.step not in ("start", 0):
            raise spec_error("theory is about networks before training; give step: start", where="at.step")
        return
    two = isinstance(value, tuple) and len(value) == 2
    refuse(isinstance(value, tuple) and two and not value[0] < value[1], f"give low before high, not {value}", "value")
    refuse(op == "between" and not two, "between needs two values, [low, high]", "value")
    refuse(op == "near" and not isinstance(value, float), "near needs one value", "value")
    refuse(op == "near" and value == 0, "near takes a fraction of the value, which is 0; use between", "value")
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
    refuse(claim.op == "ordered" and arms < 2, "ordered needs at least two arms, the largest first", "arms")
    if claim.op in BEST and (not arms or layers == "all" or claim.pooled):
        raise spec_error(f"{claim.op} needs the arms of which one is claimed to be the {claim.op}", where="arms")
    if not claim.compares and claim.op not in ("ordered", *BEST) and arms > 1:
        raise spec_error(f"{claim.op} takes one arm; select several by a setting they share", where="arms")
    refuse(claim.op in ALONG_AN_AXIS and claim.along is None, f"{claim.op} needs the axis that it runs along", "along")
    if claim.along is not None and claim.op not in (*ALONG_AN_AXIS, *BEST):
        raise spec_error(f"{claim.op} does not run along an axis; leave along out", where="along")
    if claim.assume is not None and (claim.compares or claim.op in ("ordered", *ALONG_AN_AXIS, *BEST)):
        raise spec_error("comparisons assume it already; leave it out", where="assume")
    if claim.within is not None and (claim.op not in ("near", "ratio") or isinstance(claim.value, tuple)):
        raise spec_error("within applies to near, and to ratio with one value", where="within")
