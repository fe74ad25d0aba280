"""A study as a file has it: its axes, its tuning, and the study itself."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from gradlab.spec.base import Frozen, refuse, spec_error
from gradlab.spec.claims import At, Claim, Label, Published, Text
from gradlab.spec.config import BASE_SECTIONS, Measure, Target
from gradlab.spec.messages import NAME_PATTERN, first_problem
from gradlab.words import join

# The values of an axis: a list, or a rule that generates one.
#
#     train.lr: [1e-4, 1e-3, 1e-2]                the values themselves
#     train.lr: {log: [1e-4, 1e-1], points: 7}    equal ratios, both ends included
#     train.lr: {linear: [0.1, 0.5], points: 5}   equal steps
#     model.depth: {range: [2, 50], step: 4}      integers, both ends included if the step fits
#
# Integer ends of a log or linear range give integers. Other values are rounded to four digits, or to as many as they
# need to differ, so that the name of a point is easy to read and type.

DIGITS = 4
MAX_VALUES = 10_000
Points = Annotated[int, Field(ge=2, le=MAX_VALUES, strict=True)]
End = Annotated[int, Field(strict=True)] | Annotated[float, Field(strict=True)]
Ends = tuple[End, End]


class Range(Frozen):
    """A rule that generates the values of an axis."""

    noun: ClassVar[str] = "an axis"

    log: Ends | None = None
    linear: Ends | None = None
    range: tuple[Annotated[int, Field(strict=True)], Annotated[int, Field(strict=True)]] | None = None
    points: Points | None = None
    step: Annotated[int, Field(ge=1, strict=True)] = 1

    @model_validator(mode="after")
    def _check_rule(self) -> Self:
        given = [name for name in ("log", "linear", "range") if getattr(self, name) is not None]
        refuse(len(given) != 1, "give a list of values, or one of log, linear and range")
        if given == ["range"]:
            refuse(self.points is not None, "a range of integers has a step, not points", "points")
        elif self.points is None:
            raise spec_error(f"give the number of points: {{{given[0]}: [from, to], points: 5}}", where="points")
        if self.log is not None and min(self.log) <= 0:
            raise spec_error(f"both ends of a log range must be above 0, not {list(self.log)}", where="log")
        return self

    def values(self) -> tuple[int | float, ...]:
        """Return the values of the rule, each once, in order."""
        if self.range is not None:
            first, last = self.range
            way = self.step if last >= first else -self.step
            refuse(abs(last - first) // self.step >= MAX_VALUES, f"more than {MAX_VALUES:,} values", "range")
            return tuple(range(first, last + (1 if way > 0 else -1), way))
        ends = self.log or self.linear
        assert ends is not None
        assert self.points is not None
        try:
            spaced = _space_values(*ends, self.points, by_ratio=self.log is not None)
        except OverflowError:
            raise spec_error("the ends are too large", where="log" if self.log else "linear") from None
        if all(isinstance(end, int) for end in ends):
            return tuple(dict.fromkeys(round(value) for value in spaced))
        return _round_values(spaced, ends)


def _space_values(low: float, high: float, points: int, by_ratio: bool) -> list[float]:
    """Return evenly spaced values from one end to the other."""
    if by_ratio:
        low, high = math.log(low), math.log(high)
    places = [low + (high - low) * index / (points - 1) for index in range(points)]
    return [math.exp(place) if by_ratio else float(place) for place in places]


def _round_values(values: list[float], ends: Ends) -> tuple[float, ...]:
    """Round the values to the fewest digits at which they still differ; keep the ends as written."""
    first, last = float(ends[0]), float(ends[1])
    for digits in range(DIGITS, 18):
        inner = [float(f"{value:.{digits}g}") for value in values[1:-1]]
        rounded = (first, *inner, last)
        if len(set(rounded)) == len(values):
            return rounded
    return tuple(dict.fromkeys([first, *values[1:-1], last]))


def expand_range(raw: Any) -> Any:
    """The values of a rule; a list as it is."""
    if not isinstance(raw, Mapping):
        return raw
    try:
        return Range.model_validate(raw).values()
    except ValidationError as error:
        where, message = first_problem(error, raw)
        raise spec_error(message, where=where) from None


Axis = Annotated[
    tuple[Any, ...],
    Field(min_length=1, max_length=MAX_VALUES),
    BeforeValidator(expand_range),
    WithJsonSchema({"anyOf": [{"type": "array", "minItems": 1}, Range.model_json_schema()]}),
]
"""An axis as written in a study; a rule becomes its values."""


# `tune:` gives every arm its own best value of some settings, found with the same number of trials for each arm.
#
#     tune:
#       train.lr: {log: [1e-5, 1e-1], points: 9}    any path below base: a list of values or a rule, as for an axis
#       seeds: 3                                    tuning trials per value; their seeds are −1, −2, −3
#       by: validation_loss                         the metric that decides, in its own direction
#       search: {random: 40}                        instead of the full grid: so many points, the same for every arm
#
# Trial seeds of a study are never negative, so no tuning trial shares its randomness with a trial that is judged.

BUDGETS = ("train.epochs", "train.steps")
FEW = 3
"""Values per path, or random points, that remain of a tuning in a reduced budget."""


class Interval(Frozen):
    """A range without points, for a random search: uniform in the logarithm or in the value itself."""

    noun: ClassVar[str] = "a range"

    log: Ends | None = None
    """[from, to], in equal ratios."""
    linear: Ends | None = None
    """[from, to], in equal steps."""

    @model_validator(mode="after")
    def _check_ends(self) -> Self:
        refuse((self.log is None) == (self.linear is None), "give one of log and linear")
        if self.log is not None and min(self.log) <= 0:
            raise spec_error(f"both ends of a log range must be above 0, not {list(self.log)}", where="log")
        return self

    @property
    def ends(self) -> Ends:
        """From where to where."""
        ends = self.log or self.linear
        assert ends is not None
        return ends


def _read_candidates(raw: Any) -> Any:
    if isinstance(raw, Interval) or (isinstance(raw, Mapping) and "points" not in raw and "range" not in raw):
        return raw
    return expand_range(raw)


Candidates = Annotated[
    Interval | Axis,
    BeforeValidator(_read_candidates),
    WithJsonSchema({"anyOf": [{"type": "array", "minItems": 1}, Range.model_json_schema()]}),
]
"""The values that are tried at a path; a rule becomes its values."""
Paths = Mapping[str, Candidates]


class RandomSearch(Frozen):
    """`{random: 40}`: so many points, drawn once from the study's own seed."""

    noun: ClassVar[str] = "search"

    random: Annotated[int, Field(ge=1, le=MAX_VALUES, strict=True)]
    """So many settings, drawn at random, the same for every arm."""


class Tune(Frozen):
    """Which settings are tuned for each arm, over which values, by which metric."""

    noun: ClassVar[str] = "tune"
    model_config = ConfigDict(json_schema_extra=lambda schema: schema.update(_dotted_keys(schema)))

    paths: Paths = Field(default_factory=dict)
    """Path -> values. In a file, the paths stand directly in `tune`."""
    seeds: Annotated[int, Field(ge=1, le=10_000, strict=True)] = 3
    """Tuning trials per value and arm."""
    by: str = "validation_loss"
    """The metric of a trial that decides; its median over the tuning seeds. Diverged trials count as worst."""
    search: Literal["grid"] | RandomSearch = "grid"
    """Every combination of the values, or a random search of a stated size."""
    budget: Mapping[str, Annotated[int, Field(ge=1, strict=True)]] = Field(default_factory=dict)
    """`train.epochs` or `train.steps` of the tuning trials, the same for every arm; default: the study's own."""
    untuned: bool = True
    """Whether each arm is also trained at the value of `base` on the judging seeds, to show tuned beside untuned."""
    arms: Mapping[Label, Paths] = Field(default_factory=dict)
    """Values of single arms instead of the common ones. The audit fails a study that gives arms different values."""

    @model_validator(mode="before")
    @classmethod
    def _gather_paths(cls, raw: Any) -> Any:
        """Move the dotted paths of a file into `paths`."""
        if not isinstance(raw, Mapping):
            return raw
        dotted = {key: value for key, value in raw.items() if str(key).split(".")[0] in BASE_SECTIONS}
        if not dotted:
            return raw
        kept = {key: value for key, value in raw.items() if key not in dotted}
        given = kept.get("paths", {})
        return {**kept, "paths": {**(given if isinstance(given, Mapping) else {}), **dotted}}

    @model_validator(mode="after")
    def _check_paths(self) -> Self:
        refuse(not self.paths, "name what is tuned, such as train.lr: {log: [1e-4, 1e-1], points: 7}")
        for path in self.paths:
            if path.split(".")[0] not in BASE_SECTIONS or "." not in path:
                raise spec_error(f"{path!r} is not a path below base, such as train.lr", where=path)
            refuse(path in BUDGETS, "the training budget cannot be tuned: arms would train unequally long", path)
        for path in self.budget:
            refuse(path not in BUDGETS, f"{path!r} is not a budget; give {join(BUDGETS, 'or')}", f"budget.{path}")
        for arm, paths in self.arms.items():
            for path in paths:
                refuse(path not in self.paths, f"{path!r} is not a tuned path", f"arms.{arm}.{path}")
        if self.search == "grid":
            everywhere = [("", self.paths), *((f"arms.{arm}.", paths) for arm, paths in self.arms.items())]
            for above, paths in everywhere:
                for path, values in paths.items():
                    if isinstance(values, Interval):
                        message = "give the number of points: {log: [from, to], points: 9}, or search: {random: 40}"
                        raise spec_error(message, where=f"{above}{path}")
        return self

    def values_of(self, arm: str) -> Paths:
        """The values that one arm is tried at, by path."""
        return {**self.paths, **self.arms.get(arm, {})}

    @property
    def tuning_seeds(self) -> tuple[int, ...]:
        """−1, −2, …: seeds that no study can ask for."""
        return tuple(-1 - number for number in range(self.seeds))


def _dotted_keys(schema: dict[str, Any]) -> dict[str, Any]:
    """In a file, paths stand directly in the section."""
    below = "|".join(BASE_SECTIONS)
    return {"patternProperties": {f"^({below})\\.": schema["properties"]["paths"]["additionalProperties"]}}


def override_tune(tune: Any, path: str, value: Any) -> dict[str, Any]:
    """The raw section with another value: `train.lr`, `seeds`, `by`, …"""
    kept = dict(tune) if isinstance(tune, Mapping) else {}
    written = kept.get("paths")
    if isinstance(written, Mapping) and path in written:
        return {**kept, "paths": {**written, path: value}}
    if path.split(".")[0] in BASE_SECTIONS:
        above, _, last = path.rpartition(".")
        if above in kept and last in Range.model_fields:  # train.lr.points
            rule = kept[above]
            return {**kept, above: {**(rule if isinstance(rule, Mapping) else {}), last: value}}
        return {**kept, path: value}
    first, _, rest = path.partition(".")
    if rest:
        below = kept.get(first)
        return {**kept, first: {**(below if isinstance(below, Mapping) else {}), rest: value}}
    return {**kept, first: value}


def reduce_tune(tune: Any) -> Any:
    """The raw section for a reduced budget: one seed, and the first, middle and last of the values of each path."""
    if not isinstance(tune, Mapping):
        return tune
    reduced: dict[str, Any] = {**tune, "seeds": 1}
    if isinstance(search := tune.get("search"), Mapping):
        points = search.get("random")
        return {**reduced, "search": {**search, "random": min(FEW, points) if isinstance(points, int) else points}}
    for key, value in tune.items():
        if str(key).split(".")[0] in BASE_SECTIONS:
            reduced[key] = _reduce_values(value)
    if isinstance(tune.get("paths"), Mapping):
        reduced["paths"] = {path: _reduce_values(value) for path, value in tune["paths"].items()}
    return reduced


def _reduce_values(raw: Any) -> Any:
    if isinstance(raw, Mapping) and isinstance(raw.get("points"), int):
        return {**raw, "points": min(FEW, raw["points"])}
    if isinstance(raw, list | tuple) and len(raw) > FEW:
        return [raw[0], raw[len(raw) // 2], raw[-1]]
    return raw


# A study: a question, the arms that could answer it, and the settings in which they may differ.

Seed = Annotated[int, Field(ge=0, lt=2**63, strict=True)]


def _check_unique(seeds: tuple[int, ...]) -> tuple[int, ...]:
    refuse(len(set(seeds)) != len(seeds), "a seed is listed twice")
    return seeds


class UntilSettled(Frozen):
    """Seeds 0, 1, 2, … until the claims are settled: `{from: 10, to: 200, until: settled}`."""

    first: Annotated[int, Field(ge=1, le=1_000_000, strict=True, alias="from")] = 10
    """Seeds that every group is trained with."""
    most: Annotated[int, Field(ge=1, le=1_000_000, strict=True, alias="to")] = 200
    """Seeds that a group is trained with at most, because a claim about it is open."""
    until: Literal["settled"] = "settled"
    """When to stop: once every claim is settled, or more seeds would not help."""

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        refuse(self.most < self.first, f"{self.most} is fewer than `from`, {self.first}", "to")
        return self


Seeds = (
    Annotated[int, Field(ge=1, le=1_000_000, strict=True)]
    | Annotated[tuple[Seed, ...], Field(min_length=1), AfterValidator(_check_unique)]
    | UntilSettled
)
"""The number of trial seeds (0, 1, 2, …), a list of them, or how far to go until the claims are settled."""


def list_seeds(seeds: int | tuple[int, ...] | UntilSettled, extra: int = 0) -> tuple[int, ...]:
    """Return the seeds as a tuple, with so many more of the sequence 0, 1, 2, …"""
    count = seeds.first if isinstance(seeds, UntilSettled) else seeds
    return tuple(range(count + extra)) if isinstance(count, int) else count


Name = Annotated[str, Field(pattern=NAME_PATTERN)]
Tree = Mapping[str, Any]


class Level(Frozen):
    """A reference value of a metric, drawn as a line in its figures: a floor, a chance level."""

    noun: ClassVar[str] = "level"

    metric: str
    """The metric in whose figures it is drawn."""
    value: float
    """Where it lies."""
    name: Label
    """What it is called there."""


class Headline(Frozen):
    """The metric that answers the question, and where it is taken."""

    noun: ClassVar[str] = "headline"

    metric: str
    """A metric of trials, or with `at` a measure of a layer."""
    at: At = At()
    better: Literal["higher", "lower"] | None = None
    """What is better, where the name of the metric does not say so."""

    @model_validator(mode="after")
    def _check_place(self) -> Self:
        refuse(isinstance(self.at.layer, tuple), "the headline needs a single layer; give a number or last", "at.layer")
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
    """Number of parameters."""
    flops: Tolerance | None = None
    """FLOPs of one step."""
    updates: Tolerance | None = None
    """Number of updates."""
    samples: Tolerance | None = None
    """Samples seen in training."""


class Code(Frozen):
    """What trials of the user's own are: a function, a command, or rows of a table; as it was when it was used."""

    noun: ClassVar[str] = "code"

    function: str
    sha256: str
    """Hash of the function and of all user code that it uses."""
    text: str
    """The same as readable source text."""
    kind: Literal["function", "command", "table"] = "function"
    watched: bool = False
    """Whether the user ran the training, and it was only watched."""


class Study(Frozen):
    """What to run. `base` and the arms are configuration trees; `gradlab.spec.expand` resolves them.

    Of a comparison of the user's code (`code`), an arm is a set of arguments with which the code is called.
    """

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
    base: Tree = Field(default_factory=dict)
    """What all arms share."""
    arms: Mapping[Label, Tree] | None = None
    """Named arms, each with the settings in which it differs from the base. With axes: every arm at every point."""
    axes: Mapping[str, Axis] | None = None
    """Paths with their values: every combination is a group."""
    zip: Mapping[str, Axis] | None = None
    """Paths whose values change together, element by element; crossed with the axes."""
    tune: Tune | None = None
    """Settings of which every arm gets its own best value, found on seeds of their own before the arms are judged."""
    seeds: Seeds = 3
    """The number of trial seeds (0, 1, 2, …), a list of them, or `{from: 10, to: 200, until: settled}`."""
    matters: Annotated[float, Field(gt=0, lt=1)] | None = None
    """The smallest difference that would matter: of metrics judged by ratios a fraction (0.05: 5 %), of others a
    difference. One that is shown to be smaller settles a comparison. Default: 0.005 for accuracies, 5 % for losses."""
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
    not_comparable: Text | None = None
    """Why published numbers cannot be compared with those of this study; default: `other_data`, if it is given."""
    published: tuple[Published, ...] = ()
    levels: tuple[Level, ...] = ()
    """Reference values, drawn in the figures of their metric."""
    figures: tuple[str, ...] | None = None
    """Figures of the report, in order; default: all that apply."""
    labels: Mapping[Text, Label] = Field(default_factory=dict)
    """Names for people: of levels (`skip=none: plain`) and of arms, in figures, tables and sentences."""
    notes: tuple[Text, ...] = ()
    """Notes for the reader, shown before anything else."""
    code: Code | None = None
    """The user's training code that the arms are arguments of; `gradlab.compare` writes it."""
    changed: tuple[Text, ...] = ()
    """What was overridden of the set-up in the study's file: published numbers are then not compared."""
    quick: Tree = Field(default_factory=dict)
    """Overrides for a reduced budget (`--quick`)."""

    def to_yaml(self) -> str:
        """Return the study as a file: what differs from the defaults, in the order of the fields."""
        from gradlab.spec import yaml_text

        tree = self.model_dump(mode="json", exclude_defaults=True, by_alias=True)
        return yaml_text.dump({name: tree[name] for name in type(self).model_fields if name in tree})

    @field_validator("factor", mode="before")
    @classmethod
    def _wrap_factor(cls, raw: Any) -> Any:
        return (raw,) if isinstance(raw, str) else raw

    @model_validator(mode="after")
    def _check_arms_and_axes(self) -> Self:
        if self.code is not None:
            refuse(self.axes is not None or self.zip is not None, "arms of code have no axes", "axes")
        refuse(self.code is None and "base" not in self.model_fields_set, "missing", "base")
        refuse(self.code is not None and not self.arms, "a comparison needs arms", "arms")
        refuse(self.arms is not None and not self.arms, "a study needs arms or axes, and `arms` is empty", "arms")
        for path in {**(self.axes or {}), **(self.zip or {})} if self.arms is not None else ():
            for name, own in (self.arms or {}).items():
                refuse(path in own, f"{path} is an axis; an arm cannot set it too", f"arms.{name}")
        if self.arms is not None and (self.axes or self.zip) and not self.factor:
            raise spec_error("arms and axes together need a factor: in what may the arms differ?", where="factor")
        for name, axes in (("axes", self.axes), ("zip", self.zip)):
            refuse(axes is not None and not axes, f"a study needs arms or axes, and `{name}` is empty", name)
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
    def until_settled(self) -> UntilSettled | None:
        """How far seeds are added while claims are open; None if their number is fixed."""
        return self.seeds if isinstance(self.seeds, UntilSettled) else None

    @property
    def target(self) -> Target | None:
        """A metric value; the time to reach it is recorded."""
        return self.measure.target

    @property
    def code_file(self) -> str:
        """The file of a run's folder that holds the user's code."""
        return "code.py" if self.code is None or self.code.kind == "function" else f"{self.code.kind}.txt"

    @property
    def watched(self) -> bool:
        """Whether the user ran the training, and it was only watched."""
        return self.code is not None and self.code.watched

    @property
    def remarks(self) -> tuple[str, ...]:
        """Its notes; and one more if the set-up is not the published one."""
        published = self.published or any(claim.origin for claim in self.claims)
        if not self.changed or not published:
            return self.notes
        return (
            *self.notes,
            f"Differs from the published set-up ({'; '.join(self.changed)}): published numbers are not compared.",
        )
