"""What a page can set, and the study that it stands for: two arms, a task, a seed, a budget, a factor.

The page trains the trials of that very study, so that what it shows has the bits of `gradlab run`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, ValidationError

from gradlab.errors import Problem, StudyError, offer, shortened
from gradlab.spec.base import Frozen, Scale
from gradlab.spec.messages import study_error

PATHS = {
    "skip": "model.skip",
    "norm": "model.norm",
    "init": "model.init.kind",
    "scale": "model.init.scale",
    "activation": "model.activation",
    "depth": "model.depth",
    "width": "model.width",
    "optimizer": "train.optimizer",
    "lr": "train.lr",
    "batch": "train.batch",
}
"""Setting of an arm -> its path in a study."""
WORDS = {"scale": "init scale", "lr": "learning rate", "batch": "batch size"}
"""What a setting is called, where its name is not good enough."""
TASKS: Mapping[str, Mapping[str, Any]] = {
    "identity": {"task": "identity", "dim": 64, "samples": 1024},
    "circles": {"task": "circles"},
    "moons": {"task": "moons"},
    "spirals": {"task": "spirals"},
    "xor": {"task": "xor"},
    "mnist": {"task": "mnist", "train": 55_000, "validation": 0, "test": 2_000},
}
"""Tasks by name; `upload` is the user's own file."""
Factor = Literal["skip", "norm", "init", "scale", "activation", "depth", "width", "optimizer", "lr", "batch", "all"]
NEVER = 1_000_000
"""Epochs between evaluations: only the last one is evaluated, so that a step costs what it costs."""


class Arm(Frozen):
    """The settings of one network and its training."""

    noun: ClassVar[str] = "an arm"

    skip: str = "none"
    norm: str = "none"
    init: str = "he_normal"
    scale: Scale = "1/sqrt(depth)"
    activation: str = "relu"
    depth: Annotated[int, Field(ge=1, le=100, strict=True)] = 20
    width: Annotated[int, Field(ge=1, le=512, strict=True)] = 64
    optimizer: str = "adam"
    lr: Annotated[float, Field(gt=0, le=1e6)] = 1e-3
    batch: Annotated[int, Field(ge=1, le=1024, strict=True)] | Literal["full"] = 64


class Settings(Frozen):
    """Everything that a page can set. The seed is the trial's; the root seed of the study is 0."""

    noun: ClassVar[str] = "the settings"

    task: str = "identity"
    upload: Annotated[str, Field(pattern=r"^([0-9a-f]{16})?$")] = ""
    """Which uploaded file the task `upload` reads."""
    factor: Factor = "skip"
    """What the arms are meant to differ in; `all`: whatever they differ in."""
    seed: Annotated[int, Field(ge=0, lt=2**31, strict=True)] = 0
    steps: Annotated[int, Field(ge=1, le=100_000, strict=True)] = 500
    a: Arm = Arm()
    b: Arm = Arm(skip="identity")

    @property
    def arms(self) -> tuple[Arm, Arm]:
        """Both arms."""
        return self.a, self.b

    @property
    def differing(self) -> tuple[str, ...]:
        """The settings in which the arms differ."""
        return tuple(name for name in PATHS if getattr(self.a, name) != getattr(self.b, name))


def read_settings(raw: Any) -> Settings:
    """Check what a page sent; a `StudyError` says what is wrong with it."""
    if not isinstance(raw, Mapping):
        raise StudyError(f"the settings were expected as an object, not {shortened(raw)}")
    try:
        found = Settings.model_validate(raw)
    except ValidationError as error:
        raise StudyError("; ".join(map(_say_problem, study_error(error, raw).problems))) from None
    if found.task not in (*TASKS, "upload"):
        raise StudyError(f"{shortened(found.task)} is not known{offer(found.task, [*TASKS, 'upload'])}", where="task")
    if found.task == "upload" and not found.upload:
        raise StudyError("choose a file first: npz with the arrays x and y, or csv", where="task")
    return found


def _say_problem(problem: Problem) -> str:
    """What is wrong, by the name that the page has for it: `the depth of A must be at most 100, not 101`."""
    words = [call_setting(str(key)) for key in problem.where]
    if words and words[0] in ("a", "b"):
        words = [" of ".join([*words[1:], words[0].upper()])]
    name = f"the {words[0]}" if words else ""
    return (
        f"{name} {problem.message}"
        if problem.message.startswith("must ")
        else f"{name}: {problem.message}".lstrip(": ")
    )


def call_setting(name: str) -> str:
    """What a setting is called: `learning rate`."""
    return WORDS.get(name, name)


def factor_paths(settings: Settings) -> tuple[str, ...]:
    """The declared factor as paths of a study."""
    if settings.factor != "all":
        return (PATHS[settings.factor],)
    return tuple(PATHS[name] for name in settings.differing) or (PATHS["skip"],)


def make_tree(settings: Settings, data: Mapping[str, Any], *, classes: bool, name: str = "lab") -> dict[str, Any]:
    """The study of two arms; `data` is the task as a study writes it, `classes` whether it is a classification."""
    own = ends_of(settings)
    first, second = ({PATHS[key]: getattr(arm, key) for key in PATHS} for arm in settings.arms)
    base: dict[str, Any] = {
        "data": dict(data),
        "model": {
            **own,
            "depth": settings.a.depth,
            "width": settings.a.width,
            "activation": settings.a.activation,
            "skip": settings.a.skip,
            "norm": settings.a.norm,
            "init": {"kind": settings.a.init, "scale": settings.a.scale, "bias": "zeros"},
        },
        "train": {
            "loss": "cross_entropy" if classes else "mse",
            "optimizer": settings.a.optimizer,
            "lr": settings.a.lr,
            "schedule": "fixed",
            "batch": settings.a.batch,
            "steps": settings.steps,
        },
    }
    return {
        "name": name,
        "question": f"What does the {_what(settings)} change?",
        "factor": list(factor_paths(settings)),
        "base": base,
        "arms": {"A": {}, "B": {path: value for path, value in second.items() if value != first[path]}},
        "seeds": [settings.seed],
        "seed": 0,
        "measure": {"layers": ["start", "log", "end"], "evaluate_every": NEVER},
        "headline": {"metric": "test_accuracy" if classes else "final_loss"},
    }


def ends_of(settings: Settings) -> dict[str, str]:
    """Stem and head: the identity of 64 numbers needs none at width 64, as in the study `identity`."""
    bare = settings.task == "identity" and all(arm.width == TASKS["identity"]["dim"] for arm in settings.arms)
    return {"stem": "none", "head": "none"} if bare else {"stem": "linear", "head": "linear"}


def _what(settings: Settings) -> str:
    names = settings.differing if settings.factor == "all" else (settings.factor,)
    words = [call_setting(name) for name in names or ("skip",)]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
