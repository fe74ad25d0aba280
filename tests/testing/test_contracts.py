"""Every built-in part keeps the contract of its kind, and a broken part does not get through."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import dedent

import numpy as np
import pytest

import gradlab
from gradlab.analysis.measured import Measured
from gradlab.data.file import File
from gradlab.parts import BUILT_IN, HOMES, Part
from gradlab.testing import check_file, check_part
from gradlab.testing.base import small_comparison, small_result, small_sweep, small_tree, small_tuning

PARTS = [(kind, name) for kind in HOMES for name in BUILT_IN.names(kind) if name != "images"]
"""All but the task whose files a user has to download (tests/data/test_preparing.py)."""
SLOWER = {("executor", "ray"): pytest.mark.clusters, ("executor", "slurm"): pytest.mark.clusters}
"""Parts that need seconds to start something else."""


def instance(kind: str, name: str, folder: Path) -> Part:
    if name == "slurm":
        return BUILT_IN.make(kind, name, {"mode": "local", "folder": str(folder / "jobs")})
    if name != "file":
        return BUILT_IN.make(kind, name, {})
    path = folder / "some.npz"
    rng = np.random.default_rng(0)
    np.savez(path, x=rng.standard_normal((40, 3)), y=rng.integers(0, 2, 40))
    return File(path=str(path))


@pytest.mark.parametrize(
    ("kind", "name"),
    [pytest.param(kind, name, marks=SLOWER.get((kind, name), ()), id=f"{kind}-{name}") for kind, name in PARTS],
)
def test_a_built_in_part_keeps_its_contract(kind: str, name: str, tmp_path: Path) -> None:
    report = check_part(instance(kind, name, tmp_path))
    assert len(report.checks) >= 2
    assert report.problems == []


HEAD = """
import numpy as np
from gradlab.parts import Activation, Dataset, Engine, Facts, Figure, Init, Loss, Norm, Optimizer, Probe, Schedule
from gradlab.parts import Skip, Task, Tensor
from gradlab.engines.base import State
from gradlab.engines.reference import Reference
"""

BROKEN = {
    "slope is the derivative": """
        class Bad(Activation):
            '''Wrong slope.'''
            name = "bad"
            def forward(self, x): return np.tanh(x)
            def slope(self, x, y): return 1 - y
    """,
    "NaN goes through": """
        class Bad(Activation):
            '''Hides NaN.'''
            name = "bad"
            def forward(self, x): return np.where(x > 0, x, np.zeros((), x.dtype))
            def slope(self, x, y): return (x > 0).astype(x.dtype)
    """,
    "keeps shape and dtype": """
        class Bad(Activation):
            '''Always float64.'''
            name = "bad"
            def forward(self, x): return np.tanh(x.astype(np.float64))
            def slope(self, x, y): return 1 - y * y
    """,
    "does not change its input": """
        class Bad(Activation):
            '''Writes into x.'''
            name = "bad"
            def forward(self, x): x *= 1.5; return np.tanh(x)
            def slope(self, x, y): return 1 - y * y
    """,
    "gradient is right, 1 per block": """
        class Bad(Skip):
            '''Forgets the factor on the way back.'''
            name = "bad"
            formula = "x + 2 f(Wx + b)"
            def forward(self, x, branch, p): return x + 2 * branch, None
            def backward(self, dy, p, cache): return dy, dy, {}
    """,
    "declares its tensors": """
        class Bad(Skip):
            '''Forgets the gradient of its gate.'''
            name = "bad"
            formula = "x + g f(Wx + b)"
            def tensors(self, width, depth): return {"gate": Tensor((width,), 1.0)}
            def forward(self, x, branch, p): return x + p["gate"] * branch, branch
            def backward(self, dy, p, cache): return dy, p["gate"] * dy, {}
    """,
    "declares its tensors and gives a gradient of each": """
        class Bad(Norm):
            '''One number for a gradient per unit.'''
            name = "bad"
            def tensors(self, width, depth): return {"gain": Tensor((width,), 1.0)}
            def forward(self, x, p, running, training): return p["gain"] * x, x, running
            def backward(self, dy, p, cache): return p["gain"] * dy, {"gain": np.vdot(dy, cache)}
    """,
    "does not change what it is given": """
        class Bad(Skip):
            '''Writes into its input.'''
            name = "bad"
            formula = "x + f(Wx + b)"
            def forward(self, x, branch, p): x += branch; return x, None
            def backward(self, dy, p, cache): return dy, dy, {}
    """,
    "keeps shape and dtype (float32, float64)": """
        class Bad(Norm):
            '''Always float64.'''
            name = "bad"
            def forward(self, x, p, running, training): return 2.0 * x.astype(np.float64), None, running
            def backward(self, dy, p, cache): return 2.0 * dy, {}
    """,
    "every engine agrees": """
        class Bad(Skip):
            '''Depends on how often it was asked.'''
            name = "bad"
            formula = "x + k f(Wx + b)"
            calls = []
            def forward(self, x, branch, p):
                self.calls.append(1)
                k = 1 + len(self.calls) % 2
                return x + k * branch, k
            def backward(self, dy, p, cache): return dy, cache * dy, {}
    """,
    "`labels` names": """
        class Bad(Probe):
            '''Labels something else.'''
            name = "bad"
            measures = ("x",)
            labels = {"y": "why"}
            def measure(self, layer): return {"x": 1.0}
    """,
    "evaluation of a sample": """
        class Bad(Norm):
            '''Batch statistics in evaluation.'''
            name = "bad"
            def forward(self, x, gain, shift, running, training):
                h = x - x.mean(0)
                return gain * h + shift, h, running
            def backward(self, dy, gain, cache):
                u = gain * dy
                return u - u.mean(0), np.sum(dy * cache, 0), dy.sum(0)
    """,
    "shape and finiteness": """
        class Bad(Init):
            '''Infinite.'''
            name = "bad"
            def quantile(self, u, fan_in, fan_out): return u / 0.0
    """,
    "quantile is an inverse CDF": """
        class Bad(Init):
            '''Falls.'''
            name = "bad"
            def quantile(self, u, fan_in, fan_out): return -u
    """,
    "gradient is right": """
        class Bad(Loss):
            '''Absolute error with the wrong gradient.'''
            name = "bad"
            targets = "values"
            def value(self, output, target): return float(np.abs(output - target).mean())
            def value_and_gradient(self, output, target): return self.value(output, target), np.sign(output - target)
    """,
    "goes downhill": """
        class Bad(Optimizer):
            '''Uphill.'''
            name = "bad"
            def init(self, theta): return {}
            def update(self, gradient, state, theta, lr): return lr * gradient, state
    """,
    "finite and not negative": """
        class Bad(Schedule):
            '''Negative.'''
            name = "bad"
            def factor(self, step, horizon): return 1 - step
    """,
    "facts agree": """
        class Bad(Task):
            '''Says 5, has 4.'''
            name = "bad"
            def facts(self): return Facts(5, 1, 8, None, 100)
            def load(self, samples, split): return Dataset(np.ones((8, 4)), np.ones((8, 1)), train=np.arange(8))
    """,
    "splits do not overlap": """
        class Bad(Task):
            '''Tests on what it trained on.'''
            name = "bad"
            def facts(self): return Facts(4, 1, 8, None, 100, test=8)
            def load(self, samples, split):
                rows = np.arange(8)
                return Dataset(np.ones((8, 4)), np.ones((8, 1)), train=rows, test=rows)
    """,
    "needs and measures are declared": """
        class Bad(Probe):
            '''Reads the gradient without asking.'''
            name = "bad"
            measures = ("x",)
            def measure(self, layer): return {"x": float(layer.weight_gradient.sum())}
    """,
    "does not change what it measures": """
        class Bad(Probe):
            '''Tampers.'''
            name = "bad"
            measures = ("x",)
            def measure(self, layer): layer.weight[0] = 0; return {"x": 1.0}
    """,
    "agrees with the reference": """
        class Bad(Engine):
            '''Does nothing.'''
            name = "bad"
            numerics = 1
            def trainer(self, setup):
                from gradlab.engines.reference import ReferenceTrainer
                class Lazy(ReferenceTrainer):
                    def state(self):
                        return State(setup.theta.copy(), super().state().running, None)
                return Lazy(setup)
    """,
    "gives a chart": """
        class Bad(Figure):
            '''No chart.'''
            name = "bad"
            def chart(self, measured): return 3
    """,
    "has a docstring": """
        class Bad(Schedule):
            name = "bad"
            def factor(self, step, horizon): return 1.0
    """,
    "every parameter has a default": """
        class Bad(Schedule):
            '''Needs a number.'''
            name = "bad"
            rate: float
            def factor(self, step, horizon): return 1.0
    """,
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_part_that_breaks_its_contract_is_caught_by_the_right_check(broken: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.py"
    path.write_text(HEAD + dedent(BROKEN[broken]))
    (report,) = check_file(path)
    assert any(problem.startswith(broken) or f": {broken}" in problem for problem in report.problems), report.problems


def test_the_examples_of_the_docs_keep_their_contract(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs/parts.md").read_text()
    examples = re.findall(r"```python\n# (\w+\.py)\n(.*?)```", text, re.DOTALL)
    assert [name for name, _ in examples] == ["my_activation.py", "my_skip.py"]
    for name, source in examples:
        (tmp_path / name).write_text(source)
        (report,) = check_file(tmp_path / name)
        assert report.problems == []


@cache
def special_kinds() -> tuple[Measured, ...]:
    """Results that some figures are about: seeds added until settled, an ablation, several tasks."""
    claim = {"text": "Lower", "metric": "final_loss", "arms": ["residual", "plain"], "op": "<"}
    seeds = {"from": 6, "to": 8, "until": "settled"}
    tables = [
        "arm,seed,score\n"
        + "".join(f"{arm},{seed},{seed % 3 + gap}\n" for arm, gap in (("all on", 1), ("less", 0)) for seed in range(6)),
        "arm,task,seed,score\n"
        + "".join(f"{arm},{task},{seed},{task + seed % 3}\n" for arm in "ab" for task in range(3) for seed in range(6)),
    ]
    with TemporaryDirectory() as folder:
        for number, table in enumerate(tables):
            Path(folder, f"{number}.csv").write_text(table)
        judged = [
            gradlab.judge(Path(folder, f"{number}.csv"), metric="score").measured for number in range(len(tables))
        ]
    return gradlab.run({**small_tree(), "seeds": seeds, "claims": [claim]}).measured, *judged


@pytest.mark.parametrize("name", BUILT_IN.names("figure"))
def test_every_built_in_figure_has_something_to_show_for_some_kind_of_result(name: str) -> None:
    figure = BUILT_IN.make("figure", name, {})
    makers = (small_result, small_sweep, small_tuning, small_comparison)
    assert any(figure.chart(make()) for make in makers) or any(figure.chart(result) for result in special_kinds())
