"""The contracts, a function per kind of part: of what networks and training are made of, then of what runs a study."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from gradlab.audits.caveats.base import Caveat, Remark
from gradlab.audits.study import design_of
from gradlab.data.base import Dataset, Task
from gradlab.engines.base import Engine
from gradlab.engines.reference import Reference
from gradlab.errors import InvalidInput, StudyError
from gradlab.network.activations import Activation
from gradlab.network.inits import Init
from gradlab.network.layout import checked
from gradlab.network.losses import Loss, Mse
from gradlab.network.noises import Draws, Noise
from gradlab.network.norms import Norm, Running
from gradlab.network.skips import Skip
from gradlab.optim.optimizers import Optimizer
from gradlab.optim.schedules import Horizon, Schedule
from gradlab.plans.plan import make_plan
from gradlab.probes import LayerView, Probe
from gradlab.report.charts import Chart
from gradlab.report.draw import draw_one, render_image
from gradlab.report.figures.base import Figure
from gradlab.report.result import Result
from gradlab.runs.executors.base import Executor
from gradlab.runs.executors.inline import Inline
from gradlab.runs.worker import Bundle, Monitor
from gradlab.scores import Score
from gradlab.spec.files import resolve
from gradlab.streams import Streams
from gradlab.testing.base import (
    DEPTH,
    TOLERANCE,
    Check,
    check,
    declared_values,
    engines_agree,
    gradient_error,
    random,
    require,
    require_declared,
    require_like,
    require_right_gradient,
    small_comparison,
    small_model,
    small_result,
    small_setup,
    small_state,
    small_sweep,
    small_tree,
    small_tuning,
    unchanged,
)
from gradlab.trackers.base import Tracker
from gradlab.trackers.exporting import export_run
from gradlab.trials.metrics import EVALUATED
from gradlab.trials.outcome import TrialResult


def check_activation(part: Activation) -> Iterator[Check]:
    """Shape and dtype, purity, slope, NaN."""

    def keeps_shape_and_dtype() -> None:
        for dtype in (np.float32, np.float64):
            x = random((5, 3)).astype(dtype)
            y = part.forward(x)
            for what, array in (("forward", y), ("slope", part.slope(x, y))):
                require_like(what, array, x)

    def slope_is_derivative() -> None:
        x = np.linspace(-3.03, 3.01, 200)
        h = 1e-6
        numeric = (part.forward(x + h) - part.forward(x - h)) / (2 * h)
        error = float(np.abs(part.slope(x, part.forward(x)) - numeric).max())
        require(error < 1e-7, f"slope differs from the central difference by up to {error:.1e}")

    def nan_goes_through() -> None:
        y = part.forward(np.array([np.nan, 1.0]))
        require(bool(np.isnan(y[0])) and bool(np.isfinite(y[1])), "forward(NaN) is not NaN: divergence would be hidden")

    x = random((4, 3))
    yield check("keeps shape and dtype (float32, float64)", keeps_shape_and_dtype)
    yield check("does not change its input", lambda: unchanged([x], lambda: part.slope(x, part.forward(x))))
    yield check("slope is the derivative of forward", slope_is_derivative)
    yield check("NaN goes through", nan_goes_through)
    yield check("a network's gradient is right with it", partial(require_right_gradient, part))
    yield engines_agree(part)


def check_init(part: Init) -> Iterator[Check]:
    """Shape, finiteness, purity, pairing through the inverse CDF."""

    def finite_and_shaped() -> None:
        for shape in ((7, 5), (5, 7), (1, 1), (64, 64)):
            w = part.weights(np.random.default_rng(0).random(shape) + 2.0**-54)
            require(w.shape == shape, f"weights gives shape {w.shape} for {shape}")
            require(bool(np.isfinite(w).all()), "weights are not finite")

    def monotone() -> None:
        values = part.quantile(np.linspace(0.001, 0.999, 200), 10, 20)
        require(bool((np.diff(values) >= 0).all()), "quantile falls somewhere: it is no inverse CDF, arms do not pair")

    u = np.random.default_rng(1).random((6, 4))
    yield check("shape and finiteness", finite_and_shaped)
    yield check("does not change the draw", lambda: unchanged([u], lambda: part.weights(u)))
    yield check(
        "the same draw gives the same weights",
        lambda: require((part.weights(u) == part.weights(u)).all(), "it does not"),
    )
    if part.elementwise:
        yield check("quantile is an inverse CDF", monotone)


def check_loss(part: Loss) -> Iterator[Check]:
    """Purity, gradient, agreement of its two forms."""
    try:
        width = part.outputs(4)
    except StudyError:  # for two classes only
        width = part.outputs(2)
    output = random((5, width))
    classes = np.array([0, 3, 1, 1, 2]) if width > 1 else np.array([0, 1, 1, 0, 1])
    target = classes if part.targets == "classes" else random((5, width), 1)

    def gradient() -> None:
        _, analytic = part.value_and_gradient(output, target)
        numeric, h = np.empty_like(output), 1e-6
        for index in np.ndindex(output.shape):
            step = np.zeros_like(output)
            step[index] = h
            numeric[index] = (part.value(output + step, target) - part.value(output - step, target)) / (2 * h)
        error = float(np.linalg.norm(analytic - numeric) / np.linalg.norm(numeric))
        require(error < 1e-7, f"the gradient differs from central differences by {error:.1e}")

    def same() -> None:
        a, b = part.value(output, target), part.value_and_gradient(output, target)[0]
        require(abs(a - b) <= 1e-12 * abs(b), f"value gives {a}, value_and_gradient {b}")

    yield check(
        "does not change its input", lambda: unchanged([output], lambda: part.value_and_gradient(output, target))
    )
    yield check("gradient is right", gradient)
    yield check("value and value_and_gradient agree", same)
    yield engines_agree(part)


def check_norm(part: Norm) -> Iterator[Check]:
    """Declaration, purity, shape and dtype, evaluation mode, gradient."""

    def given(dtype: Any = np.float64) -> tuple[Any, Any, dict[str, Any], Running]:
        """x, dy, the layer's tensors and running statistics."""
        p = declared_values(checked(part, part.tensors(4, DEPTH)), dtype)
        running = (np.zeros(4, dtype), np.ones(4, dtype)) if part.has_memory else None
        return random((6, 4)).astype(dtype), random((6, 4), 1).astype(dtype), p, running

    def declares() -> None:
        x, dy, p, running = given()
        _, cache, _ = part.forward(x, p, running, True)
        require_declared(part, part.backward(dy, p, cache)[1])

    def pure() -> None:
        x, dy, p, running = given()

        def both() -> None:
            _, cache, _ = part.forward(x, p, running, True)
            part.backward(dy, p, cache)

        unchanged([x, dy, *p.values(), *(running or ())], both)

    def keeps_shape() -> None:
        for dtype in (np.float32, np.float64):
            x, dy, p, running = given(dtype)
            y, cache, after = part.forward(x, p, running, True)
            dx, _ = part.backward(dy, p, cache)
            for what, array in (("forward", y), ("backward", dx)):
                require_like(what, array, x)
            require((after is not None) == part.has_memory, "running statistics do not agree with `has_memory`")

    def evaluates() -> None:
        mlp = small_model(part)
        theta, x, _ = small_state(mlp)
        p = mlp.layout.windows(theta)
        one = mlp.forward(p, x[:1], mlp.initial_running(float), training=False)[0]
        many = mlp.forward(p, x, mlp.initial_running(float), training=False)[0]
        require(np.allclose(one, many[:1], rtol=1e-12), "in evaluation a sample's output depends on its batch")

    yield check("declares its tensors and gives a gradient of each", declares)
    yield check("does not change what it is given", pure)
    yield check("keeps shape and dtype (float32, float64)", keeps_shape)
    yield check("evaluation of a sample does not depend on its batch", evaluates)
    for skip in ("none", "identity", "add_then_activate", "pre_activation"):
        yield check(f"gradient is right, skip {skip}", partial(require_right_gradient, part, skip=skip))
    yield engines_agree(part)


def check_noise(part: Noise) -> Iterator[Check]:
    """Shape, finiteness, purity, the gradient with its draws, evaluation without them."""

    def broadcasts() -> None:
        for samples, units in ((5, 3), (1, 4)):
            shape = part.shape(samples, units)
            for values in part.affine(np.random.default_rng(0).random(shape), 0.5):
                require(np.isfinite(values).all(), "a or b is not finite")
                require(
                    np.broadcast_shapes(np.shape(values), (samples, units)) == (samples, units), "a or b is too large"
                )

    def right_gradient() -> None:
        mlp = small_model(part, skip="identity")
        error = max(gradient_error(mlp, Mse(), *small_state(mlp), Draws(Streams(0, 0), step)) for step in range(3))
        require(error <= TOLERANCE, f"the gradient differs from central differences by {error:.1e} with its draws")

    def evaluates() -> None:
        mlp = small_model(part, skip="identity")
        theta, x, _ = small_state(mlp)
        p, running = mlp.layout.windows(theta), mlp.initial_running(float)
        given = (Draws(Streams(0, 0), 0), Draws(Streams(0, 0), 1))
        first, second = (mlp.forward(p, x, running, training=False, draws=draws)[0] for draws in given)
        require(np.array_equal(first, second), "evaluation depends on the draws")

    u = np.random.default_rng(1).random(part.shape(6, 4))
    yield check("a and b are finite and broadcast to the signal", broadcasts)
    yield check("does not change the draw", lambda: unchanged([u], lambda: part.affine(u, 1.0)))
    yield check("the gradient is right with the draws of a step", right_gradient)
    yield check("evaluation draws nothing", evaluates)
    yield engines_agree(part)


def check_skip(part: Skip) -> Iterator[Check]:
    """Declaration, purity, shape and dtype, gradient with one and two layers per block, with and without norm."""

    def given(dtype: Any = np.float64) -> tuple[list[Any], dict[str, Any]]:
        """x, branch and dy; and what the skip sees of its block."""
        arrays = [random((3, 4), seed).astype(dtype) for seed in range(3)]
        tensors = declared_values(checked(part, part.tensors(4, DEPTH)), dtype)
        return arrays, {**part.constants(4, DEPTH), **tensors}

    def declares() -> None:
        shared = part.tensors(4, DEPTH).keys() & part.constants(4, DEPTH).keys()
        require(not shared, f"{', '.join(sorted(shared))}: learned and constant at the same time")
        (x, branch, dy), p = given()
        _, cache = part.forward(x, branch, p)
        require_declared(part, part.backward(dy, p, cache)[2])

    def pure() -> None:
        (x, branch, dy), p = given()
        held = [x, branch, dy, *(value for value in p.values() if isinstance(value, np.ndarray))]

        def both() -> None:
            _, cache = part.forward(x, branch, p)
            part.backward(dy, p, cache)

        unchanged(held, both)

    def keeps_shape() -> None:
        for dtype in (np.float32, np.float64):
            (x, branch, dy), p = given(dtype)
            y, cache = part.forward(x, branch, p)
            along, to_branch, _ = part.backward(dy, p, cache)
            for what, array in (("forward", y), ("backward's dx", along), ("backward's dF", to_branch)):
                if array is not None:
                    require_like(what, array, x)

    yield check("states its formula", lambda: require(bool(part.formula), "formula is empty"))
    yield check("declares its tensors and gives a gradient of each", declares)
    yield check("does not change what it is given", pure)
    yield check("keeps shape and dtype (float32, float64)", keeps_shape)
    for layers in (1, 2):
        for norm in ("none", "layer"):
            right = partial(require_right_gradient, part, layers_per_block=layers, norm=norm)
            yield check(f"gradient is right, {layers} per block, norm {norm}", right)
    yield engines_agree(part)


def check_optimizer(part: Optimizer) -> Iterator[Check]:
    """Purity, dtype, descent."""
    shape = (4, 2) if part.by_tensor else (8,)

    def pure() -> None:
        theta, gradient = random(shape), random(shape, 1)
        state = part.init(theta)
        _, state = part.update(gradient, state, theta, 0.1)
        arrays = [theta, gradient, *(value for value in state.values() if isinstance(value, np.ndarray))]
        unchanged(arrays, lambda: part.update(gradient, state, theta, 0.1))

    def keeps_dtype() -> None:
        theta = random(shape).astype(np.float32)
        delta, state = part.update(theta, part.init(theta), theta, 0.1)
        require(delta.dtype == np.float32, f"gives {delta.dtype} for float32")
        for name, value in state.items():
            if isinstance(value, np.ndarray):
                require(value.dtype == np.float32, f"keeps {name} as {value.dtype} for float32")

    def descends() -> None:
        theta = random(shape)
        start, state = float(np.sum(theta * theta)), part.init(theta)
        for _ in range(300):
            delta, state = part.update(2 * theta, state, theta, 0.01)
            theta = theta + delta
        require(float(np.sum(theta * theta)) < 0.5 * start, "300 steps on a bowl do not halve its value")

    yield check("does not change what it is given", pure)
    yield check("keeps float32", keeps_dtype)
    yield check("goes downhill", descends)
    yield engines_agree(part)


def check_schedule(part: Schedule) -> Iterator[Check]:
    """A finite factor that is not negative, for every step of short and long trials."""

    def finite() -> None:
        for steps, per_epoch in ((1, 1), (2, 1), (10, 3), (500, 16), (1000, 1)):
            for step in range(steps):
                factor = part.factor(step, Horizon(steps, per_epoch))
                require(math.isfinite(factor) and factor >= 0, f"factor({step}) of {steps} steps is {factor}")

    def pure() -> None:
        horizon = Horizon(100, 10)
        first = [part.factor(step, horizon) for step in range(100)]
        again = [part.factor(step, horizon) for step in reversed(range(100))][::-1]
        require(first == again, "the factor depends on the order of calls")

    def reacts() -> None:
        first, again = part.reaction(0.1), part.reaction(0.1)
        if first is None or again is None:
            return
        require(first.metric in EVALUATED, f"it reacts to {first.metric!r}, which is not a metric of an epoch")
        values = [1.0, 0.5, 0.5, math.nan, math.inf, 0.4, *[0.4] * 30]
        factors = [first.update(value) for value in values]
        require(all(math.isfinite(factor) and factor >= 0 for factor in factors), f"its reactions are {factors}")
        require(factors == [again.update(value) for value in values], "another trial's reactions are different")

    yield check("finite and not negative", finite)
    yield check("reacts the same in every trial", reacts)
    yield check("a function of the step alone", pure)


KNOWN = {"backward", "update"}


def check_probe(part: Probe) -> Iterator[Check]:
    """It reads only what it declares, names what it gives, changes nothing."""

    def view(full: bool) -> LayerView:
        """A layer; without `full`, what the probe did not ask for is not there."""
        backward, update = full or "backward" in part.needs, full or "update" in part.needs
        pre = random((6, 4))
        return LayerView(
            number=2,
            weight=random((3, 4), 1),
            weight_gradient=random((3, 4), 2) if backward else None,
            bias_gradient=random((4,), 3) if backward else None,
            delta=random((6, 4), 4) if backward else None,
            pre=pre,
            post=np.maximum(pre, 0),
            stream=random((6, 4), 5),
            slope=(pre > 0).astype(float),
            update=random((3, 4), 6) if update else None,
        )

    def declared() -> None:
        require(set(part.needs) <= KNOWN, f"needs {sorted(part.needs)}; there are {sorted(KNOWN)}")
        numbers = part.measure(view(full=False))
        extra = set(numbers) - set(part.measures)
        require(not extra, f"gives {sorted(extra)}, which `measures` does not name")
        for where, names in (("labels", part.labels), ("kinds", part.kinds)):
            unknown = set(names) - set(part.measures)
            require(not unknown, f"`{where}` names {sorted(unknown)}, which `measures` does not")

    def finite() -> None:
        for name, value in part.measure(view(full=True)).items():
            require(isinstance(value, float) and np.isfinite(value), f"{name} of an ordinary layer is {value!r}")

    def pure() -> None:
        layer = view(full=True)
        arrays = [value for value in vars(layer).values() if isinstance(value, np.ndarray)]
        unchanged(arrays, lambda: part.measure(layer))

    yield check("needs and measures are declared", declared)
    yield check("gives finite floats for an ordinary layer", finite)
    yield check("does not change what it measures", pure)


def check_task(part: Task) -> Iterator[Check]:
    """Facts, splits, repeatability."""

    def load(seed: int = 0) -> Dataset:
        return part.load(np.random.default_rng(seed), np.random.default_rng(seed + 1))

    def facts() -> None:
        data, said = load(), part.facts()
        loaded = (data.input_width, data.output_width, len(data.train), data.classes)
        stated = (said.input_width, said.output_width, said.samples, said.classes)
        require(loaded == stated, f"facts say {stated} (inputs, outputs, samples, classes), the data are {loaded}")
        rest = (len(data.validation), len(data.test))
        stated_rest = (said.validation, said.test)
        require(stated_rest == rest, f"facts say {stated_rest} (validation, test), the data are {rest}")

    def splits() -> None:
        data = load()
        rows = np.concatenate([data.train, data.validation, data.test])
        require(len(np.unique(rows)) == len(rows), "a row is in two splits, or twice in one")
        require(len(data.train) > 0, "no training rows")
        require(
            rows.min() >= 0 and rows.max() < len(data.inputs) == len(data.targets),
            "a split names rows that are not there",
        )

    def repeatable() -> None:
        a, b = load(), load()
        same = all(
            np.array_equal(getattr(a, name), getattr(b, name))
            for name in ("inputs", "targets", "train", "validation", "test")
        )
        require(same, "the same generators give different data")

    def batch() -> None:
        data = load()
        x, y = data.gather(data.train[:3], np.float32)
        require(x.dtype == np.float32 and x.ndim == 2, f"inputs are {x.dtype} {x.shape}")
        require(bool(np.isfinite(x).all()), "inputs are not finite")
        if data.classes is not None:
            require(y.ndim == 1 and y.min() >= 0 and y.max() < data.classes, "targets are not class numbers")

    def fresh() -> None:
        drawn = part.fresh(np.random.default_rng(0), 5)
        require((drawn is not None) == part.draws_fresh, "fresh is defined but draws nothing")
        if drawn is not None:
            require(drawn[0].shape == (5, part.facts().input_width), f"fresh gives inputs {drawn[0].shape}")
            require(len(drawn[1]) == 5, "fresh gives another number of targets than asked for")

    yield check("facts agree with the data", facts)
    yield check("splits do not overlap", splits)
    yield check("the same generators give the same data", repeatable)
    yield check("batches can be gathered", batch)
    yield check("fresh samples have the task's shape", fresh)


def check_engine(part: Engine) -> Iterator[Check]:
    """It agrees with the reference engine and with itself."""

    def agrees() -> None:
        for skip in ("none", "identity", "add_then_activate"):
            setup = small_setup(skip=skip)
            ours, reference = part.train(setup), Reference().train(setup)
            error = float(np.linalg.norm(ours.theta - reference.theta) / np.linalg.norm(reference.theta))
            require(error <= 1e-10, f"parameters after 20 steps differ from the reference by {error:.1e} (skip {skip})")

    def repeats() -> None:
        setup = small_setup()
        require(
            np.array_equal(part.train(setup).theta, part.train(setup).theta), "two runs of a trial give different bits"
        )

    def leaves_setup() -> None:
        setup = small_setup()
        before = setup.theta.copy()
        part.train(setup)
        require(np.array_equal(before, setup.theta), "training changes the initial parameters it was handed")

    yield check("agrees with the reference engine (float64, 20 steps)", agrees)
    yield check("gives the same bits twice", repeats)
    yield check("does not change what it is handed", leaves_setup)


def check_score(part: Score) -> Iterator[Check]:
    """A finite number that a split's order does not change, and inputs that stay as they are."""
    output = random((40, 4))
    target = np.arange(40) % 4 if part.targets == "classes" else random((40, 4), 1)

    def finite() -> None:
        for dtype in (np.float32, np.float64):
            value = part.value(output.astype(dtype), target)
            require(isinstance(value, float) and math.isfinite(value), f"it gives {value!r}")

    def in_any_order() -> None:
        order = np.random.default_rng(0).permutation(40)
        apart = abs(part.value(output, target) - part.value(output[order], target[order]))
        require(apart < 1e-9, f"the same samples in another order give a number that differs by {apart:.1e}")

    yield check("a finite float, in both precisions", finite)
    yield check("does not depend on the order of samples", in_any_order)
    yield check("does not change its inputs", lambda: unchanged([output, target], lambda: part.value(output, target)))


# Parts that audit, run, draw and export.


def check_caveat(caveat: Caveat) -> list[Check]:
    """On a small study with two arms."""
    design = design_of(make_plan(resolve(small_tree(), "contract")))

    def remarks_are_sentences() -> None:
        for remark in caveat.remarks(design):
            require(isinstance(remark, Remark), f"gives {type(remark).__name__}, not a Remark")
            require(remark.words.strip().endswith("."), "a remark is a sentence and ends with a full stop")

    def twice_the_same() -> None:
        require(list(caveat.remarks(design)) == list(caveat.remarks(design)), "says something else the second time")

    return [check("its remarks are sentences", remarks_are_sentences), check("the same twice", twice_the_same)]


def check_executor(part: Executor) -> Iterator[Check]:
    """It runs every trial once, changes no bit, and stops when told to."""

    def complete() -> None:
        wanted = [trial.id for bundle in _bundles() for trial in bundle]
        returned = [result.trial.id for result in _run(part, _bundles(), Monitor())]
        same = Counter(returned) == Counter(wanted)
        require(same, f"{len(wanted)} trials were handed over, {len(returned)} came back")

    def same_bits() -> None:
        ours = sorted(result.digest for result in _run(part, _bundles(), Monitor()))
        inline = sorted(result.digest for result in _run(Inline(), _bundles(), Monitor()))
        require(ours == inline, "results differ from those of the inline executor")

    def stops() -> None:
        monitor = Monitor()
        monitor.stop()
        require(_run(part, _bundles(), monitor) == [], "trials were run although the run was stopped before it began")

    def failures_stay_single() -> None:
        bundles = _bundles(broken=True)
        results = _run(part, bundles, Monitor())
        statuses = Counter(result.status for result in results)
        require(statuses["failed"] == 1 and statuses["done"] == 4, f"one of five trials fails; found {dict(statuses)}")

    yield check("runs every trial once", complete)
    yield check("gives the same bits as running inline", same_bits)
    yield check("runs nothing after it was told to stop", stops)
    yield check("a failing trial does not stop the others", failures_stay_single)


def _bundles(broken: bool = False) -> list[Bundle]:
    trials = make_plan(resolve(small_tree(), "contract")).trials
    bundles: list[Bundle] = [trials[:2], trials[2:3], trials[3:]]
    if broken:
        tree = {**small_tree(), "arms": None}
        tree["base"]["model"] |= {"width": 5}
        tree["base"]["data"] |= {"dim": 5}
        odd = make_plan(resolve(tree, "contract")).trials[0]
        narrow = type(odd.config.data).model_validate({"task": "identity", "dim": 4, "samples": 32})
        config = odd.config.model_copy(update={"data": narrow})
        bundles.insert(1, (type(odd)("broken", odd.group, odd.seed, odd.root, config, odd.catalog),))
    return bundles


def _run(executor: Executor, bundles: Sequence[Bundle], monitor: Monitor) -> list[TrialResult]:
    return [result for results in executor.run(bundles, monitor) for result in results]


def check_figure(part: Figure) -> Iterator[Check]:
    """It computes a chart (or nothing), and the chart can be drawn."""

    def draws() -> None:
        for measured in (small_result(), small_sweep(), small_tuning(), small_comparison()):
            chart = part.chart(measured)
            if chart is None:
                continue
            require(isinstance(chart, Chart), f"chart gives a {type(chart).__name__}")
            require(bool(chart.title and chart.x_label and chart.y_label), "a figure needs a title and both labels")
            require(render_image(draw_one(chart), "png").startswith(b"\x89PNG"), "it cannot be drawn")

    yield check("gives a chart that can be drawn", draws)


def check_tracker(part: Tracker) -> Iterator[Check]:
    """It writes a run into its folder, once; without its package it says how to install it."""
    installed = not part.package or find_spec(part.package) is not None

    def writes_once() -> None:
        result = Result(small_result(), {}, "gradlab run small")
        with TemporaryDirectory() as name:
            first = export_run(result, part, Path(name))
            require(first.trials == 4 and first.groups == 2, f"4 trials and 2 groups; it says {first.sentence}")
            require(any(Path(name).rglob("*")), "nothing is in its folder")
            again = export_run(result, part, Path(name))
            require(again.trials + again.groups + again.studies == 0, f"written again: {again.sentence}")

    def names_the_command() -> None:
        try:
            part.require()
        except InvalidInput as error:
            require(f"gradlab[{part.extra}]" in str(error), f"the message does not name the extra: {error}")

    yield check("names what it needs", names_the_command)
    if installed:
        yield check("writes a run once", writes_once)
    else:
        yield check("says which package is missing", names_the_command)
