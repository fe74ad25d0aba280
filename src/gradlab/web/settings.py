"""What a page can set, the study that it stands for (two arms, a task, a seed, a budget, a factor), and its limits.

The page trains the trials of that very study, so that what it shows has the bits of `gradlab run`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, ValidationError

from gradlab.data.base import Task
from gradlab.errors import GradlabError, Problem, StudyError, offer, shortened
from gradlab.parts import BUILT_IN
from gradlab.plans.plan import Plan
from gradlab.spec.base import Frozen, Scale
from gradlab.spec.messages import study_error
from gradlab.spec.naming import Names, name_setting
from gradlab.studies.loading import plan as plan_study
from gradlab.words import join

if TYPE_CHECKING:
    from gradlab.web.uploads import Uploads

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
        settings = Settings.model_validate(raw)
    except ValidationError as error:
        raise StudyError("; ".join(map(_say_problem, study_error(error, raw).problems))) from None
    task = settings.task
    if task not in (*TASKS, "upload"):
        raise StudyError(f"{shortened(task)} is not known{offer(task, [*TASKS, 'upload'])}", where="task")
    if task == "upload" and not settings.upload:
        raise StudyError("choose a file first: npz with the arrays x and y, or csv", where="task")
    return settings


def _say_problem(problem: Problem) -> str:
    """What is wrong, by the name that the page has for it: `the depth of A must be at most 100, not 101`."""
    words = [call_setting(str(key)) for key in problem.where]
    if words and words[0] in ("a", "b"):
        words = [" of ".join([*words[1:], words[0].upper()])]
    if not words:
        return problem.message
    return f"the {words[0]}{'' if problem.message.startswith('must ') else ':'} {problem.message}"


def call_setting(name: str) -> str:
    """What a setting is called: `learning rate`."""
    return name_setting(PATHS.get(name, name).removesuffix(".kind"))


def study_tree(settings: Settings, uploads: Uploads, name: str = "lab") -> dict[str, Any]:
    """The study of two arms that a page stands for, as a tree."""
    data = TASKS[settings.task] if settings.task in TASKS else uploads.get(settings.upload).data
    task: Task = BUILT_IN.make("task", data["task"], {key: value for key, value in data.items() if key != "task"})
    classes = task.facts().classes is not None
    first, second = ({PATHS[key]: getattr(arm, key) for key in PATHS} for arm in settings.arms)
    factors = settings.differing or ("skip",) if settings.factor == "all" else (settings.factor,)
    # the identity of 64 numbers needs neither stem nor head at width 64, as in the study `identity`
    bare = settings.task == "identity" and all(arm.width == TASKS["identity"]["dim"] for arm in settings.arms)
    end = "none" if bare else "linear"
    base: dict[str, Any] = {
        "data": dict(data),
        "model": {
            "stem": end,
            "head": end,
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
        "question": f"What does the {join(list(map(call_setting, factors)))} change?",
        "factor": [PATHS[factor] for factor in factors],
        "base": base,
        "arms": {"A": {}, "B": {path: value for path, value in second.items() if value != first[path]}},
        "seeds": [settings.seed],
        "seed": 0,
        "measure": {"layers": ["start", "log", "end"], "evaluate_every": NEVER},
        "headline": {"metric": "test_accuracy" if classes else "final_loss"},
    }


# From what a page sets to the plan of its study, within the limits of the lab.

PAGES = 20
"""Pages that may be connected."""
TRAINING = 2
"""Pages that may train at the same time, two networks each."""
PARAMETERS = 2_000_000
"""Parameters of one network."""
BYTES = 4 * 2**30
"""Memory of the networks of all pages, as the plan estimates it."""
FRAMES_PER_SECOND = 20
BODY = 100_000
"""Bytes of a request, an upload aside."""
UPLOAD, UNPACKED = 8 * 2**20, 64 * 2**20
"""Bytes of an uploaded file, and of what an archive unpacks to."""
SAMPLES, COLUMNS = 200_000, 2_000
RUNNING = 4
"""Runs that may be started from the page and be going on at the same time."""


class Refused(GradlabError):
    """More than the lab allows at once; the message says what to do."""


def plan_settings(settings: Settings, uploads: Uploads, others: int = 0) -> Plan:
    """The plan of a page: two trials; a sentence where it cannot be trained or is too large.

    `others` are the bytes that other pages use.
    """
    try:
        plan = plan_study(study_tree(settings, uploads))
    except StudyError as error:  # a page has settings, not paths of a study
        raise StudyError("; ".join(dict.fromkeys(problem.message for problem in error.problems))) from None
    for planned in plan.groups:
        if planned.cost.parameters > PARAMETERS:
            raise Refused(
                f"network {planned.group.name} would have {planned.cost.parameters:,} parameters, and the page trains "
                f"at most {PARAMETERS:,}; make it narrower or shallower, or save it as a study for `gradlab run`"
            )
    needed = sum(planned.cost.bytes for planned in plan.groups)
    if needed + others > BYTES:
        raise Refused(
            f"these networks need about {needed / 2**30:.1f} GiB, and {max(BYTES - others, 0) / 2**30:.1f} GiB are "
            "left for them; make them smaller, or close another page of the lab"
        )
    return plan


def name_arms(settings: Settings, plan: Plan) -> tuple[str, str]:
    """What people call the two networks: by what sets them apart."""
    if not settings.differing:
        return "the same", "the same"
    names = Names([planned.group for planned in plan.groups], plan.catalog, arms=True).by_settings
    paths = [PATHS[name] for name in settings.differing]
    first, second = (
        ", ".join(names.level(path.removesuffix(".kind"), planned.group.settings[path]) for path in paths)
        for planned in plan.groups
    )
    return first, second
