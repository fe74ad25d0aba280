"""The doctor sees the loss, blocks, functions, attention and time steps, names the cause, and breaks no loop."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_zoo import Transformer, batch, mlp
from typer.testing import CliRunner

import gradlab
from gradlab.cli import app
from gradlab.torch.overfit import estimate_noise_scale
from gradlab.torch.probe import ModuleProbe

RUNNER = CliRunner()
ENTROPY = nn.functional.cross_entropy


def trained(model: nn.Module, loss: Any = ENTROPY, rate: float = 1e-3, steps: int = 12, **options: Any) -> Any:
    x, y = batch()
    optimizer = torch.optim.Adam(model.parameters(), rate)
    with gradlab.watch(model, optimizer, **{"every": 4, "quiet": True, **options}) as w:
        for _ in range(steps):
            optimizer.zero_grad()
            loss(model(x), y).backward()
            optimizer.step()
    return w


class Functional(nn.Module):
    """Nonlinearities as functions."""

    def __init__(self, bias: float = 0.0) -> None:
        super().__init__()
        self.first, self.head = nn.Linear(32, 32), nn.Linear(32, 4)
        nn.init.constant_(self.first.bias, bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.relu(self.first(x)))


# ---------------------------------------------------------------------- what is seen


def test_the_loss_is_heard_at_every_step_and_logged_scalars_are_kept() -> None:
    w = trained(mlp(2))
    curve = w.curves()["loss"]
    assert list(curve) == list(range(12))
    assert curve[0] == pytest.approx(w.moments[0].probe.loss)
    assert curve[11] < curve[0]
    w.log(validation_loss=torch.tensor(2.0), step=3)
    assert w.curves()["validation_loss"] == {3: 2.0}
    assert w.figure("loss").axes
    with pytest.raises(gradlab.GradlabError, match="a number"):
        w.log(name="x")
    assert not hasattr(torch.autograd._engine_run_backward, "__wrapped__")


def test_blocks_functions_and_the_model_itself_are_rows() -> None:
    x, y = batch()
    model = Transformer(layers=3)
    with gradlab.probe(model) as p:
        ENTROPY(model(x), y).backward()
    assert {"(model)", "body", "body.layers.2"} <= set(p.records.blocks)
    assert list(p.blocks().name)[:3] == ["body.layers.0", "body.layers.1", "body.layers.2"]
    assert not any("dropout" in name for name in p.table().name)
    assert any("dropout" in name for name in p.table(whole=True).name)
    assert p.attention().entropy.between(0.5, 1.0).all()
    post = Transformer(layers=3, post=True)  # a block that hands on what its last norm made is compared too
    with gradlab.probe(post) as r:
        post(x)
    assert all((r.records.blocks[f"body.layers.{number}"].spread or 0.0) > 0 for number in range(3))
    with gradlab.probe(Functional()) as q:
        q.model(x)
    assert list(q.operations().name) == ["first → relu"]


def test_a_dead_function_and_a_function_that_makes_nan_are_named() -> None:
    found = trained(Functional(-50.0)).diagnose()
    assert "dead_units" in found.codes
    assert any(one.where == "first → relu" for one in found.found)

    class Logs(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = mlp(1)

        def forward(self, x: Tensor) -> Tensor:
            return torch.log(self.body(x))

    (finding, *_) = trained(Logs(), steps=1).diagnose().found
    assert (finding.code, finding.numbers) == ("nonfinite", {"count": 160})
    assert "after body.2" in finding.evidence


def test_time_steps_of_a_recurrent_module_agree_with_autograd() -> None:
    torch.manual_seed(0)
    cells, x = nn.RNN(4, 8, batch_first=True), torch.randn(3, 12, 4)
    with gradlab.probe(cells) as p:
        cells(x)[0][:, -1].square().sum().backward()
    states, state = [], torch.zeros(1, 3, 8)
    for entry in x.unbind(1):
        out, state = cells(entry[:, None], state)
        state.retain_grad()
        states.append((out, state))
    states[-1][0].square().sum().backward()
    expected = [float(state.grad.norm()) for _, state in states[:-1]]  # type: ignore[union-attr]
    assert p.time_steps().delta.tolist()[:-1] == pytest.approx(expected, rel=1e-4)


def test_histograms_and_the_noise_scale_are_given_on_request() -> None:
    x, y = batch()
    model = mlp(2)
    with gradlab.probe(model, histograms=True) as p:
        ENTROPY(model(x), y).backward()
    edges, counts = p.histograms()["0"]
    assert len(edges) == len(counts) + 1
    assert sum(counts) == 64 * 32
    assert "δ 0" in p.histograms()
    before = [parameter.detach().clone() for parameter in model.parameters()]
    found = estimate_noise_scale(model, (x, y), ENTROPY, parts=8)
    assert found.variance > 0
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), before, strict=True))


# ---------------------------------------------------------------------- what is said


def test_wrong_losses_are_named() -> None:
    assert "probabilities_instead_of_logits" in trained(nn.Sequential(mlp(2), nn.Softmax(1))).diagnose().codes
    assert trained(mlp(2), lambda out, y: -ENTROPY(out, y)).diagnose().codes[0] == "wrong_sign_of_the_loss"
    large = mlp(2)
    nn.init.normal_(large[-1].weight, std=30.0)
    assert "initial_loss_too_high" in trained(large).diagnose().codes


def test_small_and_large_steps_and_a_forgotten_zero_grad_are_named() -> None:
    assert trained(mlp(2), rate=1e-7).diagnose().codes == ("steps_too_small",)
    model, (x, y) = mlp(2), batch()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    with gradlab.watch(model, optimizer, every=1, quiet=True) as w:
        for step in range(6):
            optimizer.param_groups[0]["lr"] = 1.0 if step == 0 else 1e-3
            ENTROPY(model(x), y).backward()
            optimizer.step()
    found = {one.code: one for one in w.diagnose().found}
    assert found["steps_too_large"].when == "at step 0"
    assert "gradients_not_cleared" in found


def test_any_batch_can_be_overfitted_and_an_unbounded_loss_is_no_success() -> None:
    x, y = batch()

    class Hugging(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = mlp(2)

        def forward(self, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
            return {"loss": ENTROPY(self.body(x), labels)}

    model = Hugging()
    with gradlab.probe(model) as p:
        model(x=x, labels=y)["loss"].backward()
    assert p.diagnose(overfit={"x": x, "labels": y}).overfit.ok
    plain = mlp(2)
    with gradlab.probe(plain) as q:
        ENTROPY(plain(x), y).backward()
    found = q.diagnose(overfit=(x, y), loss=lambda out, y: -ENTROPY(out, y), steps=60)
    assert "cannot_overfit_one_batch" in found.codes
    assert not found.overfit.bounded


# ---------------------------------------------------------------------- a guest


def test_an_error_of_its_own_ends_the_watch_and_not_the_loop(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(self: Any, earlier: Any) -> None:
        raise ZeroDivisionError("ours")

    monkeypatch.setattr(ModuleProbe, "follow", broken)
    model = mlp(2)
    w = trained(model, steps=3)
    assert "ZeroDivisionError: ours" in w.skipped["(watch)"]
    assert capsys.readouterr().err.count("let go") == 1
    assert all(not module._forward_hooks for module in model.modules())


def train_compiled(whole: bool, watched: bool, make_optimizer: Any) -> tuple[nn.Module, Any]:
    """Train with a compiled step of the optimizer, or a compiled step as a whole."""
    torch.compiler.reset()
    torch.manual_seed(0)
    model, (x, y) = mlp(2), batch()
    optimizer = make_optimizer(model.parameters(), 0.01)
    w = gradlab.watch(model, optimizer, every=3, quiet=True) if watched else None
    compiled = torch.compile(optimizer.step, backend="eager")

    def step() -> None:
        optimizer.zero_grad()
        ENTROPY(model(x), y).backward()
        optimizer.step() if whole else compiled()

    run = torch.compile(step, backend="eager") if whole else step
    for _ in range(7):
        run()
    if w is not None:
        w.close()
    return model, w


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("whole", "make_optimizer"), [(False, torch.optim.SGD), (False, torch.optim.Adam), (True, torch.optim.SGD)]
)
def test_compiled_steps_are_counted_and_probed_and_stay_the_same(whole: bool, make_optimizer: Any) -> None:
    alone, _ = train_compiled(whole, False, make_optimizer)
    model, w = train_compiled(whole, True, make_optimizer)
    assert all(torch.equal(a, b) for a, b in zip(alone.parameters(), model.parameters(), strict=True))
    assert w.step == 7
    assert [moment.step for moment in w.moments] == [0, 3, 6]
    assert all(len(moment.probe.modules) == 5 for moment in w.moments)
    assert all(moment.probe.parameters().update_ratio.notna().any() for moment in w.moments)
    assert not w.skipped


def test_a_scaler_is_found_by_itself() -> None:
    torch.manual_seed(0)
    model, (x, y) = mlp(2), batch()
    optimizer, scaler = torch.optim.SGD(model.parameters(), 0.1), torch.amp.GradScaler("cpu", init_scale=1024.0)
    with gradlab.probe(model, optimizer) as p:
        scaler.scale(ENTROPY(model(x), y)).backward()
        scaler.step(optimizer)
    assert p.scaler is scaler
    assert p.loss == pytest.approx(1.39, abs=0.1)
    assert p.parameters().grad_l2.max() < 10


def test_rows_of_a_nested_tensor_are_measured() -> None:
    layer = nn.Linear(8, 8)
    rows = torch.nested.nested_tensor([torch.randn(3, 8), torch.randn(5, 8)], layout=torch.jagged)
    with gradlab.probe(layer) as p:
        layer(rows)
    assert p.table().rms.item() > 0


# ---------------------------------------------------------------------- on the disk


def test_a_watch_on_the_disk_can_be_followed_and_reported(tmp_path: Path) -> None:
    heard: list[int] = []
    trained(mlp(2), steps=9, out=tmp_path / "live", on_moment=lambda moment: heard.append(moment.step))
    assert heard == [0, 4, 8]
    lines = (tmp_path / "live/watch.jsonl").read_text().splitlines()
    (tmp_path / "live/watch.jsonl").write_text("\n".join(lines[:3]) + "\n" + lines[3][:20])
    told = json.loads(RUNNER.invoke(app(), ["status", str(tmp_path / "live"), "--json"]).stdout)
    assert (told["moments"], told["step"]) == (2, 4)
    assert "latest is step 4, " in RUNNER.invoke(app(), ["status", str(tmp_path / "live")]).output
    done = RUNNER.invoke(app(), ["report", str(tmp_path / "live")])
    assert done.exit_code == 0, done.output
    assert gradlab.open_run(tmp_path / "live/run").measured.moments("Sequential") == (0, 4)
