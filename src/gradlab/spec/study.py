"""A study: a question, the arms that could answer it, and the settings in which they may differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from gradlab.spec.axes import Axis
from gradlab.spec.base import NAME_PATTERN, Frozen, spec_error
from gradlab.spec.claims import Claim
from gradlab.spec.config import Measure, Target
from gradlab.spec.place import At, Label, Text
from gradlab.spec.published import Published
from gradlab.spec.tuning import Tune

Seed = Annotated[int, Field(ge=0, lt=2**63, strict=True)]


def _check_unique(seeds: tuple[int, ...]) -> tuple[int, ...]:
    if len(set(seeds)) != len(seeds):
        raise spec_error("a seed is listed twice")
    return seeds


Seeds = (
    Annotated[int, Field(ge=1, le=1_000_000, strict=True)]
    | Annotated[tuple[Seed, ...], Field(min_length=1), AfterValidator(_check_unique)]
)
"""The number of trial seeds (0, 1, 2, …), or a list of them."""


def list_seeds(seeds: int | tuple[int, ...]) -> tuple[int, ...]:
    """Return the seeds as a tuple."""
    return tuple(range(seeds)) if isinstance(seeds, int) else seeds


Name = Annotated[str, Field(pattern=NAME_PATTERN)]
Tree = Mapping[str, Any]


class Level(Frozen):
    """A reference value of a metric, drawn as a line in its figures: a floor, a chance level."""

    noun: ClassVar[str] = "level"

    metric: str
    value: float
    name: Label


class Headline(Frozen):
    """The metric that answers the question, and where it is taken."""

    noun: ClassVar[str] = "headline"

    metric: str
    at: At = At()

    @model_validator(mode="after")
    def _check_place(self) -> Self:
        if isinstance(self.at.layer, tuple):
            raise spec_error("the headline needs a single layer; give a number or last", where="at.layer")
        return self


class Answers(Frozen):
    """The claims that the study's question hangs on, counted from 1."""

    noun: ClassVar[str] = "answers"

    holds: tuple[Annotated[int, Field(ge=1, strict=True)], ...] = ()
    """Of a question that is answered by yes or no: yes if all of them hold."""
    numbers: tuple[Annotated[int, Field(ge=1, strict=True)], ...] = ()
    """Of any other question: the claims whose numbers answer it, in this order."""
    says: Label | None = None
    """What the answer is if all of `holds` hold, for a question that is not answered by yes: `No`, `It is the init`."""

    @model_validator(mode="after")
    def _check_one(self) -> Self:
        if bool(self.holds) == bool(self.numbers):
            raise spec_error("give the claims that answer the question: either holds or numbers", where="holds")
        if self.says is not None and not self.holds:
            raise spec_error("`says` is what follows if claims hold: name them in `holds`", where="says")
        return self


Tolerance = Literal["equal"] | Annotated[float, Field(gt=0, le=1)]
"""Equal, or different by at most this fraction."""


class Consequences(Frozen):
    """How far the factor may change other quantities; a field that is not given may change freely."""

    noun: ClassVar[str] = "consequences"

    parameters: Tolerance | None = None
    flops: Tolerance | None = None
    """FLOPs of one step."""
    updates: Tolerance | None = None
    samples: Tolerance | None = None
    """Samples seen in training."""


class Study(Frozen):
    """What to run. `base` and the arms are configuration trees; `gradlab.spec.expand` resolves them."""

    noun: ClassVar[str] = "study"

    name: Name = "study"
    """The name of its run folder; default: the file's name."""
    question: Text
    """What the study asks, in one sentence."""
    source: Text | None = None
    """The write-up whose claim this is."""
    factor: tuple[str, ...] = ()
    """Paths in which the arms may differ; default: the axes."""
    consequences: Consequences = Consequences()
    """What the factor may entail; larger differences fail the audit."""
    parts: tuple[str, ...] = ()
    """Python files with the user's own parts. They are executed."""
    base: Tree
    """What all arms share."""
    arms: Mapping[Label, Tree] | None = None
    """Named arms, each with the settings in which it differs from the base. Give arms or axes."""
    axes: Mapping[str, Axis] | None = None
    """Paths with their values: every combination is a group."""
    zip: Mapping[str, Axis] | None = None
    """Paths whose values change together, element by element; crossed with the axes."""
    tune: Tune | None = None
    """Settings of which every arm gets its own best value, found on seeds of their own before the arms are judged."""
    seeds: Seeds = 3
    """The number of trial seeds (0, 1, 2, …), or a list of them."""
    seed: Seed = 0
    """The root seed of the study."""
    measure: Measure = Measure()
    headline: Headline | None = None
    claims: tuple[Claim, ...] = ()
    answers: Answers | None = None
    """The claims that answer the question; default: the headline of every group."""
    sequel: Label | None = None
    """The study that separates what this one cannot."""
    limits: tuple[Text, ...] = ()
    """What this design cannot show, in the author's words; listed beside the audit's findings."""
    other_data: Label | None = None
    """The data of this study, if the claims were published for other data: verdicts then say `holds on …`."""
    published: tuple[Published, ...] = ()
    levels: tuple[Level, ...] = ()
    """Reference values, drawn in the figures of their metric."""
    figures: tuple[str, ...] | None = None
    """Figures of the report, in order; default: all that apply."""
    labels: Mapping[Text, Label] = Field(default_factory=dict)
    """Names for people: of levels (`skip=none: plain`) and of arms, in figures, tables and sentences."""
    changed: tuple[Text, ...] = ()
    """What was overridden of the set-up in the study's file: published numbers are then not compared."""
    quick: Tree = Field(default_factory=dict)
    """Overrides for a reduced budget (`--quick`)."""

    @field_validator("factor", mode="before")
    @classmethod
    def _wrap_factor(cls, raw: Any) -> Any:
        return (raw,) if isinstance(raw, str) else raw

    @model_validator(mode="after")
    def _check_arms_and_axes(self) -> Self:
        if self.arms is not None and self.axes is not None:
            raise spec_error("a study has arms or axes, not both", where="axes")
        if self.arms is not None and not self.arms:
            raise spec_error("a study needs arms or axes, and `arms` is empty", where="arms")
        if self.arms is not None and self.zip is not None:
            raise spec_error("zip belongs to axes; a study has arms or axes, not both", where="zip")
        for name, axes in (("axes", self.axes), ("zip", self.zip)):
            if axes is not None and not axes:
                raise spec_error(f"a study needs arms or axes, and `{name}` is empty", where=name)
        lengths = {path: len(values) for path, values in (self.zip or {}).items()}
        if len(set(lengths.values())) > 1:
            counted = ", ".join(f"{path} has {length}" for path, length in lengths.items())
            raise spec_error(f"zipped axes need the same number of values; {counted}", where="zip")
        for path in set(self.zip or ()) & set(self.axes or ()):
            raise spec_error(f"{path} is also an axis; list it in only one of the two", where=f"zip.{path}")
        for path in self.tune.paths if self.tune is not None else ():
            if path in {**(self.axes or {}), **(self.zip or {})}:
                raise spec_error(f"the study sweeps {path}; it cannot also be tuned", where=f"tune.{path}")
        return self

    @model_validator(mode="after")
    def _check_answers(self) -> Self:
        asked = (*self.answers.holds, *self.answers.numbers) if self.answers is not None else ()
        if asked and max(asked) > len(self.claims):
            raise spec_error(f"there is no claim {max(asked)}; the study has {len(self.claims)}", where="answers")
        return self

    @property
    def trial_seeds(self) -> tuple[int, ...]:
        """The seeds that every group is trained with."""
        return list_seeds(self.seeds)

    @property
    def target(self) -> Target | None:
        """A metric value; the time to reach it is recorded."""
        return self.measure.target

    @property
    def watched(self) -> bool:
        """False: Gradlab trains the networks itself."""
        return False

    @property
    def remarks(self) -> tuple[str, ...]:
        """A note if the set-up is not the published one."""
        published = self.published or any(claim.origin for claim in self.claims)
        if not self.changed or not published:
            return ()
        return (f"Differs from the published set-up ({'; '.join(self.changed)}): published numbers are not compared.",)
