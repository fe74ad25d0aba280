"""A watch over a training loop: it changes nothing, works in any loop, and can be saved as a run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn
from torch_zoo import Residual, Transformer, batch, mlp
from typer.testing import CliRunner

import gradlab
from gradlab.cli import app
from gradlab.spec.claims import At
from gradlab.torch import watch
from gradlab.torch.views import find_layers
from gradlab.trials.setup import prepare

RUNNER = CliRunner()


def trained(model: nn.Module, steps: int, optimizer: Any = None, **options: Any) -> Any:
    optimizer = optimizer or torch.optim.Adam(model.parameters(), lr=1e-3)
    x, y = batch()
    with gradlab.watch(model, optimizer, quiet=True, **options) as w:
        for _ in range(steps):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    return w


def without_hooks(model: nn.Module) -> bool:
    parameters = all(not parameter._post_accumulate_grad_hooks for parameter in model.parameters())
    return parameters and not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_a_watch_probes_every_nth_step_and_changes_nothing() -> None:
    torch.manual_seed(0)
    watched, alone = mlp(3), mlp(3)
    alone.load_state_dict(watched.state_dict())
    w = trained(watched, 25, every=10)
    trained(alone, 25, every=1000)
    assert all(torch.equal(a, b) for a, b in zip(watched.parameters(), alone.parameters(), strict=True))
    assert [moment.step for moment in w.moments] == [0, 10, 20]
    assert w.step == 25
    assert set(w.table().measure) == {"delta", "rms", "std", "dead"}
    assert w.parameters().update_ratio.notna().all()
    assert w.overhead is not None
    assert w.figure().axes
    assert w.diagnose().healthy
    assert without_hooks(watched)


def test_no_hooks_are_attached_between_probed_steps() -> None:
    model, (x, y) = mlp(2), batch()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with gradlab.watch(model, optimizer, every=3, quiet=True):
        for step in range(6):
            assert without_hooks(model) == (step % 3 != 0)
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()


def test_an_evaluation_between_two_steps_is_not_recorded() -> None:
    model, (x, y) = mlp(2), batch()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with gradlab.watch(model, optimizer, every=1, quiet=True) as w:
        for _ in range(3):
            model.eval()
            with torch.no_grad():
                model(1000 * x)
            model.train()
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    assert all(seen.calls == 1 and seen.rms < 10 for moment in w.moments for seen in moment.probe.modules.values())


def test_a_watch_removes_its_hooks_after_an_exception_and_refuses_invalid_arguments() -> None:
    model = mlp(2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(RuntimeError), gradlab.watch(model, optimizer, every=1):
        model(torch.randn(2, 31))
    assert without_hooks(model)
    with pytest.raises(gradlab.GradlabError, match="at least 1"):
        gradlab.watch(model, optimizer, every=0)
    with gradlab.watch(model, optimizer) as w, pytest.raises(gradlab.GradlabError, match="no step"):
        w.save("nowhere")


def test_two_concurrent_watches_restore_the_compiler_stance() -> None:
    from torch._dynamo import eval_frame

    first, second = mlp(1), mlp(1)
    one = gradlab.watch(first, torch.optim.SGD(first.parameters(), lr=0.1))
    two = gradlab.watch(second, torch.optim.SGD(second.parameters(), lr=0.1))
    assert eval_frame._stance.stance == "force_eager"
    one.close()
    assert eval_frame._stance.stance == "force_eager"
    two.close()
    two.close()
    assert eval_frame._stance.stance == "default"


@pytest.mark.parametrize("in_place", [False, True])
def test_a_compiled_model_stays_compiled_and_is_measured(in_place: bool) -> None:
    torch.compiler.reset()
    torch.manual_seed(0)
    model, alone = Residual(3, 0.3), Residual(3, 0.3)
    alone.load_state_dict(model.state_dict())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    graphs = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    compiled: nn.Module = model
    if in_place:
        model.compile(backend=backend)
    else:
        compiled = torch.compile(model, backend=backend)
    w = trained(compiled, 9, optimizer, every=4)
    trained(alone, 9, every=1000)
    assert [moment.step for moment in w.moments] == [0, 4, 8]
    assert all(len(moment.probe.modules) == 4 for moment in w.moments)
    assert len(graphs) == 1  # compiled once, whatever was watched
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), alone.parameters(), strict=True))


def test_mixed_precision_with_a_real_scaler_is_unscaled() -> None:
    torch.manual_seed(0)
    model, (x, y) = mlp(3), batch()
    alone = mlp(3)
    alone.load_state_dict(model.state_dict())
    optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.1), torch.amp.GradScaler("cpu", init_scale=1024.0)
    with gradlab.watch(model, optimizer, every=1, scaler=scaler, quiet=True) as w:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    with gradlab.probe(alone) as plain, torch.autocast("cpu", dtype=torch.bfloat16):
        nn.functional.cross_entropy(alone(x), y).backward()
    ours, theirs = w.parameters(), plain.parameters()
    assert np.allclose(ours.grad_l2, theirs.grad_l2, rtol=0.02)  # neither scaled nor clipped nor cleared
    assert np.allclose(w.moments[0].probe.table().delta, plain.table().delta, rtol=0.02)
    assert ours.update_ratio.notna().all()


def test_a_framework_wrapper_is_unwrapped() -> None:
    class Accelerated:
        def __init__(self, optimizer: torch.optim.Optimizer) -> None:
            self.optimizer = optimizer

        def zero_grad(self) -> None:
            self.optimizer.zero_grad()

        def step(self) -> None:
            self.optimizer.step()

    model = mlp(2)
    w = trained(model, 3, Accelerated(torch.optim.SGD(model.parameters(), lr=0.1)), every=1)
    assert len(w.moments) == 3
    assert w.parameters().held.all()


def test_the_overhead_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    model = mlp(2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = batch()
    with gradlab.watch(model, optimizer, every=2):
        for _ in range(5):
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    assert "3 of 5 steps probed, " in capsys.readouterr().err


# ---------------------------------------------------------------------- layers, and runs


def test_layers_are_the_modules_with_weights_in_gradlab_measures() -> None:
    torch.manual_seed(0)
    model, (x, y) = mlp(3), batch()
    with gradlab.probe(model) as p:
        nn.functional.cross_entropy(model(x), y).backward()
    layers = find_layers(p)
    assert [layer.name for layer in layers] == ["0", "2", "4", "6"]
    first: Any = model[0]
    pre = first(x).detach()
    assert layers[0].measures["grad_l2"] == pytest.approx(float(first.weight.grad.norm()), rel=1e-6)
    assert layers[0].measures["bias_grad_l2"] == pytest.approx(float(first.bias.grad.norm()), rel=1e-6)
    assert layers[0].measures["activation_std.pre"] == pytest.approx(float(pre.std(correction=0)), rel=1e-5)
    dead = float((torch.relu(pre) == 0).all(0).float().mean())
    assert layers[0].measures["dead_share"] == pytest.approx(dead)


def test_a_watch_and_a_trial_measure_the_same_network_alike() -> None:
    """A study's network at the start, measured as a module by the watch and by the trial's probes."""
    study = gradlab.load("identity", seeds=1)
    result, plan = gradlab.run(study), gradlab.plan(study)
    module = gradlab.torch.to_module(study, "residual", seed=0)
    setup = prepare(next(trial for trial in plan.trials if trial.group == "residual"))
    with gradlab.probe(module) as p:
        nn.functional.mse_loss(module(torch.as_tensor(setup.probe_x)), torch.as_tensor(setup.probe_y)).backward()
    layers = find_layers(p)
    for measure in ("grad_l2", "grad_mean_abs", "delta_l2", "activation_std.pre"):
        ours = result.layers().query("group == 'residual' and measure == @measure and step == 0").value
        assert np.allclose(ours, [layer.measures[measure] for layer in layers], rtol=1e-4), measure


def test_weights_of_a_module_that_is_never_called_belong_to_its_parent() -> None:
    model, (x, y) = Transformer(layers=1), batch()
    with gradlab.probe(model) as p:
        nn.functional.cross_entropy(model(x), y).backward()
    names = [layer.name for layer in find_layers(p)]
    assert names == ["body.layers.0.self_attn", "body.layers.0.linear1", "body.layers.0.linear2", "head"]
    attention = model.body.layers[0].self_attn
    both = float(torch.cat([attention.in_proj_weight.grad.ravel(), attention.out_proj.weight.grad.ravel()]).norm())
    assert find_layers(p)[0].measures["grad_l2"] == pytest.approx(both, rel=1e-5)


def test_a_watch_is_saved_as_an_ordinary_run(tmp_path: Path) -> None:
    w = trained(mlp(4, he=True), 30, every=10)
    question = "What happens inside?"
    result = w.save(tmp_path / "kept", question=question)
    assert {"gradient_by_layer", "gradient_heat_map", "signal_by_layer"} <= set(result.charts)
    opened = gradlab.open_run(tmp_path / "kept")
    assert opened.measured.moments("Sequential") == (0, 10, 20)
    assert opened.layer_names["Sequential"] == ["0", "2", "4", "6", "8"]
    report = (tmp_path / "kept/report.md").read_text()
    assert report.startswith(f"# {question}")
    assert "no probed step" in report
    done = RUNNER.invoke(app(), ["export", str(tmp_path / "kept"), "--table", "layers", "--to", "json"])
    assert {row["measure"] for row in json.loads(done.stdout)} >= {"grad_l2", "delta_l2", "update_ratio"}
    modules = pd.read_parquet(tmp_path / "kept/modules.parquet")
    assert len(modules) == len(w.table())
    w.save(tmp_path / "kept", figures=False)
    assert (tmp_path / "kept~1").is_dir()


def test_a_returned_watch_gives_a_comparison_its_layers(tmp_path: Path) -> None:
    def train(scale: float, seed: int) -> dict[str, Any]:
        return {"inside": trained(mlp(4, he=True, scale=scale), 4, every=2), "loss": scale + seed / 100}

    arms = {"he": {"scale": 1.0}, "small": {"scale": 0.3}}
    claim = {
        "text": "Gradients vanish",
        "metric": "grad_l2",
        "arms": ["small", "he"],
        "at": {"layer": 1, "step": "start"},
        "op": "<",
    }
    result = gradlab.compare(train, arms, 5, claims=[claim], out=tmp_path / "run", figures=False)
    assert result.verdicts[0].outcome == "reproduced"
    assert {"gradient_by_layer", "gradient_at_start_by_layer"} <= set(result.charts)
    assert gradlab.open_run(tmp_path / "run").layer_names["he"][0] == "0"
    assert "Modules that are" in (tmp_path / "run/report.md").read_text()


def test_each_trial_has_its_own_last_step() -> None:
    def train(arm: str, seed: int) -> dict[str, Any]:
        return {"inside": trained(mlp(2), 3 + 2 * seed, every=1)}

    measured = gradlab.compare(train, ["a"], 3).measured
    assert measured.moments("a") == tuple(range(7))
    ends = measured.values("grad_l2", "a", At(layer=1, step="end"))
    assert [ends[seed] is not None for seed in range(3)] == [True] * 3
    assert np.isfinite(measured.profile("grad_l2", "a", "end").values).all()


def test_torch_is_seeded_even_if_the_function_imports_it() -> None:
    code = (
        "import gradlab, sys\n"
        "def train(arm, seed):\n    import torch\n    return {'drawn': torch.rand(1).item()}\n"
        "assert 'torch' not in sys.modules\n"
        "first = gradlab.compare(train, ['a', 'b'], 2).trials().drawn.tolist()\n"
        "import torch\n"
        "torch.manual_seed(0)\n"
        "assert abs(first[0] - torch.rand(1).item()) < 1e-9 and first[0] == first[1] != first[2]\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_hooks_that_stay_from_step_to_step_follow_a_model_that_changes() -> None:
    model, (x, y) = mlp(2), batch()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    replaced = model[0]
    with gradlab.watch(model, optimizer, every=1, quiet=True) as w:
        for step in range(4):
            if step == 2:
                model[0] = nn.Linear(32, 32)
                optimizer.add_param_group({"params": list(model[0].parameters())})
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()
    assert [moment.step for moment in w.moments] == [0, 1, 2, 3]
    assert all(weight.update_ratio for moment in w.moments[:2] for weight in moment.probe.weights)
    assert all(weight.update_ratio for weight in w.moments[3].probe.weights)
    assert not replaced._forward_hooks
    assert all(not module._forward_hooks for module in model.modules())
    assert not any(parameter._post_accumulate_grad_hooks for parameter in (*model.parameters(), *replaced.parameters()))


def test_numbers_are_there_before_a_probe_ends() -> None:
    model, (x, y) = mlp(2), batch()
    with gradlab.probe(model) as p:
        nn.functional.cross_entropy(model(x), y).backward()
        inside = p.table().set_index("name")
    after = p.table().set_index("name")
    assert (inside["rms"] > 0).all()
    assert (inside["rms"] == after["rms"]).all()


def test_a_watch_of_every_step_keeps_a_bounded_number_of_moments_and_no_fault_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watch, "MOST_MOMENTS", 8)
    model, (x, y) = mlp(2), batch()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    most = 0
    with gradlab.watch(model, optimizer, every=1, quiet=True) as w:
        for step in range(60):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            (loss * float("nan") if step == 33 else loss).backward()
            if step == 33:
                optimizer.zero_grad()
            optimizer.step()
            most = max(most, len(w.moments))
    assert most <= 8 + 1
    assert w.moments[0].step == 0
    assert w.moments[-1].step >= 58
    assert any(moment.step == 33 for moment in w.moments)
    assert "nonfinite" in w.diagnose().codes
    assert "60 of 60 steps probed" in w.summary
    assert len(w.curves()["loss"]) == 60
