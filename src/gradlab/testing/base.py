"""What the contracts are made of: checks, gradients, and small networks, trials and results."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.analysis.measured import Measured
from gradlab.analysis.tuning import settle
from gradlab.engines.base import Engine
from gradlab.engines.reference import Reference
from gradlab.errors import StudyError, described
from gradlab.network.layout import Tensor
from gradlab.network.losses import Loss, Mse
from gradlab.network.mlp import MLP
from gradlab.network.noises import Draws
from gradlab.network.norms import Norm
from gradlab.network.skips import Skip
from gradlab.parts import BUILT_IN, Catalog, Part
from gradlab.plans.plan import make_plan, plan_code
from gradlab.plans.tuning import judged_phase, plan_study
from gradlab.runs.store.records import MemoryChunk, Records
from gradlab.runs.worker import run_trial
from gradlab.spec.config import Config, Model
from gradlab.spec.files import resolve
from gradlab.spec.study import Code, Study
from gradlab.trials.outcome import Curve, LayerTable, Outcome, TrialResult
from gradlab.trials.setup import Setup, prepare
from gradlab.trials.trial import Trial, TrialLabel

Array = NDArray[Any]


@dataclass(frozen=True)
class Check:
    """What was checked, and what was wrong (None: nothing)."""

    what: str
    problem: str | None


@dataclass(frozen=True)
class PartReport:
    """All checks of one part."""

    kind: str
    name: str
    checks: tuple[Check, ...]

    @property
    def problems(self) -> list[str]:
        """Those that failed."""
        return [f"{check.what}: {check.problem}" for check in self.checks if check.problem is not None]


def check(what: str, body: Callable[[], None]) -> Check:
    """Run a body that raises where the contract is broken."""
    try:
        with np.errstate(all="ignore"):
            body()
    except AssertionError as error:
        return Check(what, str(error) or "does not hold")
    except (Exception, SystemExit) as error:  # a user's part can fail in any way
        return Check(what, described(error))
    return Check(what, None)


def require(holds: bool | np.bool_, message: str) -> None:
    """Raise with this message unless it holds."""
    if not holds:
        raise AssertionError(message)


def require_like(what: str, array: Array, given: Array) -> None:
    """Require the shape and dtype of what a function was given."""
    fits = array.shape == given.shape and array.dtype == given.dtype
    require(fits, f"{what} gives {array.dtype} {array.shape} for {given.dtype} {given.shape}")


def unchanged(arrays: list[Array], body: Callable[[], object]) -> None:
    """Require that the body leaves these arrays as they are."""
    before = [array.copy() for array in arrays]
    body()
    for old, new in zip(before, arrays, strict=True):
        require(np.array_equal(old, new, equal_nan=True), "changes an array that it was given")


def random(shape: tuple[int, ...], seed: int = 0) -> NDArray[np.float64]:
    """Standard normal numbers for a check."""
    return np.random.default_rng(seed).standard_normal(shape)


# Analytic gradients of a whole network against central differences.

TOLERANCE = 1e-7
FLOOR = 1e-3
"""Differences are relative to the tensor's own norm, but at least to this share of the whole gradient's: some
gradients are zero in exact arithmetic (a bias in front of a batch norm)."""
STEP = 2e-4
"""About the fifth root of float64's epsilon, where truncation and rounding of the four-point rule balance."""


def analytic_gradient(mlp: MLP, loss: Loss, theta: Array, x: Array, y: Array, draws: Draws | None = None) -> Array:
    """dL/dθ by the network's own backward pass."""
    gradient = np.zeros_like(theta)
    p = mlp.layout.windows(theta)
    output, tape = mlp.forward(p, x, mlp.initial_running(theta.dtype), draws=draws)
    _, d_output = loss.value_and_gradient(output, y)
    mlp.backward(p, tape, d_output, mlp.layout.windows(gradient))
    return gradient


def numeric_gradient(mlp: MLP, loss: Loss, theta: Array, x: Array, y: Array, draws: Draws | None = None) -> Array:
    """dL/dθ by central differences, every parameter: (8 L(θ+h) − 8 L(θ−h) − L(θ+2h) + L(θ−2h))/12h."""
    moved = theta.copy()
    p, running = mlp.layout.windows(moved), mlp.initial_running(theta.dtype)

    def at(index: int, value: float) -> float:
        moved[index] = value
        return loss.value(mlp.forward(p, x, running, draws=draws)[0], y)

    gradient = np.empty_like(theta)
    for index, value in enumerate(theta):
        near = at(index, value + STEP) - at(index, value - STEP)
        far = at(index, value + 2 * STEP) - at(index, value - 2 * STEP)
        gradient[index] = (8 * near - far) / (12 * STEP)
        moved[index] = value
    return gradient


def worst_error(mlp: MLP, a: Array, b: Array, floor: float = FLOOR) -> float:
    """The largest norm-wise relative difference over all tensors, with an absolute floor."""
    whole = max(float(np.linalg.norm(a)), float(np.linalg.norm(b)))
    errors = [0.0]
    for slot in mlp.layout.slots:
        left, right = slot.view(a), slot.view(b)
        size = max(float(np.linalg.norm(left)), float(np.linalg.norm(right)), floor * whole, 1e-300)
        errors.append(float(np.linalg.norm(left - right)) / size)
    return max(errors) if np.isfinite(errors).all() else float("inf")


def gradient_error(mlp: MLP, loss: Loss, theta: Array, x: Array, y: Array, draws: Draws | None = None) -> float:
    """How far analytic and numeric gradients are apart."""
    given = mlp, loss, theta, x, y, draws
    return worst_error(mlp, analytic_gradient(*given), numeric_gradient(*given))


def away_from_kinks(mlp: MLP, theta: Array, x: Array, margin: float = 3e-3) -> bool:
    """Whether every nonlinearity is entered at least this far from 0, where ReLU has its kink.

    Exact zeros do not count: they come from units that are switched off, and stay 0 under a small step.
    """
    _, tape = mlp.forward(mlp.layout.windows(theta), x, mlp.initial_running(theta.dtype))
    return all(bool((((size := np.abs(record.pre)) == 0) | (size > margin)).all()) for record in tape.records)


# Small networks and trials for the checks.

WIDTH, DEPTH, SAMPLES = 4, 4, 6


def catalog_with(part: Part) -> Catalog:
    """The built-in parts and this one."""
    return Catalog((), {(part.part, part.name): type(part)})


def small_model(part: Part, **fields: Any) -> MLP:
    """A network of 4 hidden layers and a head in which the part is used with its parameters."""
    catalog = catalog_with(part)
    choice = {"kind": part.name, **part.parameters()}
    tree = {"depth": DEPTH, "width": WIDTH, "stem": "none", "activation": "tanh", **fields}
    tree[SECTION[part.part][1]] = choice
    return MLP.of(Model.model_validate(tree, context={"catalog": catalog}), WIDTH, 3, catalog)


def small_state(mlp: MLP) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Parameters, inputs and targets away from kinks."""
    for seed in range(200):
        rng = np.random.default_rng(seed)
        theta = 0.6 * rng.standard_normal(mlp.layout.size)
        x, y = rng.standard_normal((SAMPLES, WIDTH)), rng.standard_normal((SAMPLES, 3))
        if away_from_kinks(mlp, theta, x):
            return theta, x, y
    raise AssertionError("found no parameters away from kinks: does the part give exact zeros everywhere?")


def declared_values(tensors: Mapping[str, Tensor], dtype: Any) -> dict[str, Any]:
    """Some value for every declared tensor, none of them 0."""
    return {
        name: np.asarray(1 + 0.3 * np.random.default_rng(number).random(tensor.shape)).astype(dtype)
        for number, (name, tensor) in enumerate(tensors.items())
    }


def require_declared(part: Norm | Skip, gradients: Mapping[str, Any]) -> None:
    """The same tensors when asked again; a gradient of each of them, in its shape, and of nothing else."""
    tensors = part.tensors(WIDTH, DEPTH)
    require(tensors.keys() == part.tensors(WIDTH, DEPTH).keys(), "declares other tensors when asked again")
    names = f"{sorted(gradients)}, declared are {sorted(tensors)}"
    require(gradients.keys() == tensors.keys(), f"backward gives gradients of {names}")
    for name, tensor in tensors.items():
        shape = np.shape(gradients[name])
        require(shape == tensor.shape, f"backward gives a gradient of shape {shape} for {name} of shape {tensor.shape}")


def require_right_gradient(part: Part, **fields: Any) -> None:
    """Analytic against central differences, every parameter of a small network with the part."""
    mlp = small_model(part, **fields)
    error = gradient_error(mlp, Mse(), *small_state(mlp))
    require(
        error <= TOLERANCE,
        f"the gradient differs from central differences by {error:.1e} (relative; at most {TOLERANCE:.0e})",
    )


# Small whole trials and results for the checks of engines and figures.


def small_tree(**model: Any) -> dict[str, Any]:
    """A study of two arms that trains in milliseconds."""
    return {
        "question": "Does the machinery work?",
        "factor": "model.skip",
        "base": {
            "data": {"task": "identity", "dim": 4, "samples": 32},
            "model": {"depth": 3, "width": 4, "stem": "none", "head": "none", "init": "he_normal", **model},
            "train": {"loss": "mse", "optimizer": "adam", "lr": 0.01, "batch": 8, "steps": 20, "precision": "float64"},
        },
        "arms": {"plain": {}, "residual": {"model.skip": "identity"}},
        "seeds": 2,
        "measure": {"layers": ["start", "log", "end"]},
    }


def small_setup(**model: Any) -> Setup:
    """The first trial of the small study, realized."""
    tree = {**small_tree(**model), "arms": None}
    return prepare(make_plan(resolve(tree, "contract")).trials[0])


@cache
def small_result() -> Measured:
    """The small study, run."""
    return _run(small_tree())


@cache
def small_sweep() -> Measured:
    """A small grid of classifiers, run."""
    return _run(
        {
            "question": "Does the machinery sweep?",
            "base": {
                "data": {"task": "mnist", "train": 60, "validation": 20, "test": 20},
                "model": {"depth": 2, "width": 6},
                "train": {"loss": "cross_entropy", "optimizer": "adam", "lr": 0.01, "batch": 20, "epochs": 4},
            },
            "axes": {"model.depth": [2, 3, 30], "train.schedule": ["fixed", "cosine"]},
            "seeds": 2,
            "measure": {"layers": ["start", "log", "end"]},
        }
    )


def _run(tree: dict[str, Any]) -> Measured:
    plan = make_plan(resolve(tree, "contract"))
    return Measured(plan, Records([MemoryChunk.of([run_trial(trial) for trial in plan.trials])]))


@cache
def small_tuning() -> Measured:
    """Two arms, each at its own best of three learning rates."""
    tune = {"train.lr": [1e-3, 1e-2, 1e-1], "seeds": 2, "by": "final_loss"}
    pending = plan_study(resolve({**small_tree(), "tune": tune}, "contract"))
    assert pending.tuning is not None
    tried = Records([MemoryChunk.of([run_trial(trial) for trial in pending.tuning.plan.trials])])
    plan = settle(pending, tried)
    judged = MemoryChunk.of([run_trial(trial) for trial in judged_phase(plan).trials])
    return Measured(plan, Records([*tried.chunks, judged]))


@cache
def small_comparison() -> Measured:
    """Two arms of somebody's own code, with a curve of its own and no layers."""
    code = Code(function="train", sha256="0" * 64, text="def train(rate, seed): ...")
    study = Study(question="Does it compare?", arms={"slow": {"rate": 1}, "fast": {"rate": 2}}, seeds=2, code=code)
    plan = plan_code(study, "none")
    rates = {arm.group.name: float(arm.group.settings["rate"]) for arm in plan.groups}
    return Measured(plan, Records([MemoryChunk.of([_called(trial, rates[trial.group]) for trial in plan.trials])]))


def _called(trial: TrialLabel, rate: float) -> TrialResult:
    steps, none = np.arange(1, 9), np.empty(0, np.int64)
    curve = Curve("reward", steps, np.array([rate * step + 0.1 * trial.seed for step in steps], np.float64))
    layers = LayerTable(none, none, (), np.empty(0))
    return TrialResult(trial, Outcome("done", {"reward": float(curve.values[-1])}, (curve,), layers, np.empty(0)))


# Who trains a network with a part trains what the part says, or refuses: no engine may quietly do something else.

SECTION = {
    "activation": ("model", "activation"),
    "skip": ("model", "skip"),
    "norm": ("model", "norm"),
    "noise": ("model", "branch_dropout"),
    "loss": ("train", "loss"),
    "optimizer": ("train", "optimizer"),
}
"""Where a study names a part of a kind."""
STEPS, AGREEMENT = 5, 1e-10
CLASSES = {"task": "mnist", "train": 24, "validation": 0, "test": 0}


def engines_agree(part: Part) -> Check:
    """Every engine agrees with the reference engine on a small network with this part, or says why it refuses it."""

    def agree() -> None:
        for name in BUILT_IN.names("engine"):
            if name not in ("auto", "reference") and not (name == "torch" and find_spec("torch") is None):
                for batch in (8, "full"):
                    _compare(BUILT_IN.make("engine", name, {}), part, batch)

    return check("every engine agrees with the reference engine, or refuses", agree)


def _compare(engine: Engine, part: Part, batch: int | str) -> None:
    trial = _trial(part, batch)
    refusal = engine.refusal(trial.config, trial.catalog)
    if refusal is not None:
        require(bool(refusal.strip()), f"the engine {engine.name!r} refuses it without a reason")
        return
    ours, reference = (trainer.train(prepare(trial)).theta for trainer in (engine, Reference()))
    error = float(np.linalg.norm(ours - reference) / np.linalg.norm(reference))
    both_diverge = not (np.isfinite(ours).all() or np.isfinite(reference).all())
    require(
        both_diverge or error <= AGREEMENT,
        f"the engine {engine.name!r} trains something else: after {STEPS} steps (batch {batch}) its parameters differ "
        f"from the reference engine's by {error:.1e}",
    )


def _needs_two_classes(part: Loss) -> bool:
    try:
        part.outputs(10)
    except StudyError:
        return True
    return False


def _trial(part: Part, batch: int | str) -> Trial:
    base: dict[str, Any] = copy.deepcopy(small_tree()["base"])
    # not Adam: it makes steps of the sign of gradients that are 0 but for rounding, as a bias has before batch norm
    base["train"] |= {"batch": batch, "steps": STEPS, "optimizer": "momentum", "lr": 1e-3}
    if getattr(part, "targets", "values") == "classes":
        base["data"] = CLASSES
        base["model"] |= {"stem": "linear", "head": "linear"}
        if isinstance(part, Loss) and _needs_two_classes(part):
            base["data"] = {"task": "moons", "samples": 24, "test": 0}
    section, field = SECTION[part.part]
    base[section][field] = {"kind": part.name, **part.parameters()}
    if getattr(part, "by_tensor", False):
        base["model"]["bias"] = False  # it may update matrices only
    if part.part == "noise":
        base["model"]["skip"] = "identity"
    catalog = BUILT_IN if part.name in BUILT_IN.names(part.part) else catalog_with(part)
    config = Config.model_validate(base, context={"catalog": catalog})
    return Trial("contract", "contract", 0, 0, config, catalog)
