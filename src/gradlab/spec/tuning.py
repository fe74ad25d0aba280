"""`tune:` gives every arm its own best value of some settings, found with the same number of trials for each arm.

    tune:
      train.lr: {log: [1e-5, 1e-1], points: 9}    any path below base: a list of values or a rule, as for an axis
      seeds: 3                                    tuning trials per value; their seeds are −1, −2, −3
      by: validation_loss                         the metric that decides, in its own direction
      search: {random: 40}                        instead of the full grid: so many points, the same for every arm

Trial seeds of a study are never negative, so no tuning trial shares its randomness with a trial that is judged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from gradlab.spec.axes import MAX_VALUES, Axis, Ends, Range, expand_range
from gradlab.spec.base import Frozen, spec_error
from gradlab.spec.config import BASE_SECTIONS
from gradlab.spec.place import Label

BUDGETS = ("train.epochs", "train.steps")
SPOKEN = {
    "train.lr": "learning rate",
    "train.batch": "batch size",
    "train.clip": "largest gradient norm",
    "model.width": "width",
    "model.depth": "depth",
}
"""Paths that people call by another name than their last word."""
FEW = 3
"""Values per path, or random points, that remain of a tuning in a reduced budget."""


def spoken(path: str) -> str:
    """A path as people say it: `learning rate`."""
    return SPOKEN.get(path, path.split(".")[-1].replace("_", " "))


class Interval(Frozen):
    """A range without points, for a random search: uniform in the logarithm or in the value itself."""

    noun: ClassVar[str] = "a range"

    log: Ends | None = None
    linear: Ends | None = None

    @model_validator(mode="after")
    def _check_ends(self) -> Self:
        if (self.log is None) == (self.linear is None):
            raise spec_error("give one of log and linear")
        if self.log is not None and min(self.log) <= 0:
            raise spec_error(f"both ends of a log range must be above 0, not {list(self.log)}", where="log")
        return self

    @property
    def ends(self) -> Ends:
        """From where to where."""
        found = self.log or self.linear
        assert found is not None
        return found


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
        if not self.paths:
            raise spec_error("name what is tuned, such as train.lr: {log: [1e-4, 1e-1], points: 7}")
        for path in self.paths:
            if path.split(".")[0] not in BASE_SECTIONS or "." not in path:
                raise spec_error(f"{path!r} is not a path below base, such as train.lr", where=path)
            if path in BUDGETS:
                raise spec_error("the training budget cannot be tuned: arms would train unequally long", where=path)
        for path in self.budget:
            if path not in BUDGETS:
                raise spec_error(f"{path!r} is not a budget; give {' or '.join(BUDGETS)}", where=f"budget.{path}")
        for arm, own in self.arms.items():
            for path in own:
                if path not in self.paths:
                    raise spec_error(f"{path!r} is not a tuned path", where=f"arms.{arm}.{path}")
        if self.search == "grid":
            everywhere = [("", self.paths), *((f"arms.{arm}.", own) for arm, own in self.arms.items())]
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
    if isinstance(tune.get("search"), Mapping):
        return {**reduced, "search": {"random": FEW}}
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
