"""A study: a question, the arms that could answer it, and what they are allowed to differ in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from gradlab.spec.axes import Axis
from gradlab.spec.base import Frozen, refusal
from gradlab.spec.claims import Claim
from gradlab.spec.config import Measure, Target
from gradlab.spec.place import At, Label, Text

Seed = Annotated[int, Field(ge=0, lt=2**63, strict=True)]


def _each_once(seeds: tuple[int, ...]) -> tuple[int, ...]:
    if len(set(seeds)) != len(seeds):
        raise refusal("a seed is listed twice")
    return seeds


Seeds = (
    Annotated[int, Field(ge=1, le=1_000_000, strict=True)]
    | Annotated[tuple[Seed, ...], Field(min_length=1), AfterValidator(_each_once)]
)
"""How many trial seeds (0, 1, 2, …), or which."""


def listed(seeds: int | tuple[int, ...]) -> tuple[int, ...]:
    """The seeds themselves."""
    return tuple(range(seeds)) if isinstance(seeds, int) else seeds


Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,59}$")]
Tree = Mapping[str, Any]


class Published(Frozen):
    """A number (or one per layer) from the write-up, to stand beside what is measured."""

    noun: ClassVar[str] = "published"

    metric: str
    arms: Label
    at: At = At()
    value: float | tuple[float, ...]
    note: Text | None = None
    """What a reader has to know about this number."""

    @model_validator(mode="after")
    def _one_value_per_layer(self) -> Self:
        values = len(self.value) if isinstance(self.value, tuple) else 1
        if values != len(self.at.places()):
            raise refusal(f"{values} values for {len(self.at.places())} places; give one for each layer", where="value")
        return self


class Level(Frozen):
    """A value of a metric that means something, drawn as a line in its figures: a floor, a chance level."""

    noun: ClassVar[str] = "level"

    metric: str
    value: float
    name: Label


class Headline(Frozen):
    """The measure that answers the question, and where it is taken."""

    noun: ClassVar[str] = "headline"

    metric: str
    at: At = At()

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if isinstance(self.at.layer, tuple):
            raise refusal("the headline is taken in one layer; give a number or last", where="at.layer")
        return self


Tolerance = Literal["equal"] | Annotated[float, Field(gt=0, le=1)]
"""Equal, or apart by at most this fraction."""


class Consequences(Frozen):
    """How far the factor may change what it does not name; a field that is not given may change freely."""

    noun: ClassVar[str] = "consequences"

    parameters: Tolerance | None = None
    flops: Tolerance | None = None
    """Of one step."""
    updates: Tolerance | None = None
    samples: Tolerance | None = None
    """Samples seen in training."""


class Study(Frozen):
    """What is to be run. `base` and the arms are configuration trees; `gradlab.spec.expand` resolves them."""

    noun: ClassVar[str] = "study"

    name: Name = "study"
    question: Text
    source: Text | None = None
    """The write-up whose claim this is."""
    factor: tuple[str, ...] = ()
    """Paths in which the arms are allowed to differ; not given: the axes."""
    consequences: Consequences = Consequences()
    """What the factor may entail; whatever goes further fails the audit."""
    parts: tuple[str, ...] = ()
    """Python files with parts of the user's own. They are run."""
    base: Tree
    arms: Mapping[Label, Tree] | None = None
    axes: Mapping[str, Axis] | None = None
    """Paths and the values each takes: every combination is a group."""
    zip: Mapping[str, Axis] | None = None
    """Paths whose values change together, first with first, second with second; crossed with the axes."""
    seeds: Seeds = 3
    """How many trial seeds (0, 1, 2, …), or which."""
    seed: Seed = 0
    """The root seed of the study."""
    measure: Measure = Measure()
    headline: Headline | None = None
    claims: tuple[Claim, ...] = ()
    limits: tuple[Text, ...] = ()
    """What this design cannot say, in the author's words; it stands beside what the audit finds."""
    other_data: Label | None = None
    """The data of this study, where the claims were published on others: verdicts then say `holds on …`."""
    published: tuple[Published, ...] = ()
    levels: tuple[Level, ...] = ()
    """Values that mean something, drawn in the figures of their metric."""
    figures: tuple[str, ...] | None = None
    """Figures of the report, in order; not given: all that apply."""
    quick: Tree = Field(default_factory=dict)
    """Overrides for a reduced budget (`--quick`)."""

    @field_validator("factor", mode="before")
    @classmethod
    def _one_factor(cls, raw: Any) -> Any:
        return (raw,) if isinstance(raw, str) else raw

    @model_validator(mode="after")
    def _arms_or_axes(self) -> Self:
        if self.arms is not None and self.axes is not None:
            raise refusal("a study has arms or axes, not both", where="axes")
        if self.arms is not None and not self.arms:
            raise refusal("a study needs at least one arm", where="arms")
        if self.arms is not None and self.zip is not None:
            raise refusal("zip belongs to axes; a study has arms or axes, not both", where="zip")
        for name, axes in (("axes", self.axes), ("zip", self.zip)):
            if axes is not None and not axes:
                raise refusal("a study needs at least one axis", where=name)
        lengths = {path: len(values) for path, values in (self.zip or {}).items()}
        if len(set(lengths.values())) > 1:
            counted = ", ".join(f"{path} has {length}" for path, length in lengths.items())
            raise refusal(f"zipped axes have as many values as each other; {counted}", where="zip")
        for path in set(self.zip or ()) & set(self.axes or ()):
            raise refusal(f"{path} is also an axis; leave it in one of the two", where=f"zip.{path}")
        return self

    @property
    def trial_seeds(self) -> tuple[int, ...]:
        """The seeds that every group is trained with."""
        return listed(self.seeds)

    @property
    def target(self) -> Target | None:
        """A value of a metric whose reaching is timed."""
        return self.measure.target

    @property
    def watched(self) -> bool:
        """The lab trains its own networks itself."""
        return False

    @property
    def remarks(self) -> tuple[str, ...]:
        """What the reader has to know before all else: nothing but what the report says itself."""
        return ()
