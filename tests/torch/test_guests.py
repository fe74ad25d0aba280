"""A probe works on any model and in any loop: its numbers are right and it breaks nothing."""

from __future__ import annotations

import copy
import io
import subprocess
import sys
import warnings
from typing import Any

import pytest
import torch
from torch import nn
from torch_zoo import batch, mlp

import gradlab
from gradlab.errors import InvalidInput
from gradlab.torch.diagnosis import NO_ACTIVATIONS, NO_BACKWARD, NOTHING_SEEN
from gradlab.torch.overfit import try_overfitting
from gradlab.torch.statistics import sample_entries

ENTROPY = nn.functional.cross_entropy


def probed(model: nn.Module, x: Any = None, y: Any = None, optimizer: Any = None, loss: Any = ENTROPY) -> Any:
    own_x, own_y = batch()
    x, y = own_x if x is None else x, own_y if y is None else y
    with gradlab.probe(model, optimizer) as p:
        loss(model(x), y).backward()
        if optimizer is not None:
            optimizer.step()
            optimizer.zero_grad()
    return p


# ---------------------------------------------------------------------- copies, and unusual passes


def test_a_model_copied_or_saved_during_a_probe_carries_no_hooks() -> None:
    model, (x, y) = mlp(2), batch()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with gradlab.watch(model, optimizer, every=1, quiet=True) as w:
        copied, file = copy.deepcopy(model), io.BytesIO()
        torch.save(model, file)
        ENTROPY(copied(x), y).backward()
        ENTROPY(model(x), y).backward()
        optimizer.step()
    file.seek(0)
    saved = torch.load(file, weights_only=False)
    assert b"gradlab" not in file.getvalue()  # it can be loaded where there is no gradlab
    assert torch.equal(saved(x), copied(x))
    assert all(seen.calls == 1 for seen in w.moments[0].probe.modules.values())


def test_a_module_that_cannot_be_measured_is_named_and_the_pass_continues() -> None:
    model, x = mlp(1), batch()[0]
    with gradlab.probe(model) as p:
        found = torch.func.vmap(model)(x[:, None, :])
    assert torch.allclose(found[:, 0], model(x), atol=1e-6)
    assert p.skipped
    assert next(iter(p.skipped)) in p.diagnose().notes[-1]


def test_a_scripted_module_is_named_as_skipped() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scripted: Any = torch.jit.script(mlp(1))
    notes = probed(scripted).diagnose().notes
    assert NO_ACTIVATIONS in notes
    assert "ScriptModules" in notes[-1]


def test_the_modules_of_a_traced_model_are_named_as_not_looked_into() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced: Any = torch.jit.trace(mlp(1), batch()[0])
    found = probed(traced)
    assert found.loss is not None
    assert len(found.parameters()) == 4
    assert "was traced" in found.diagnose().notes[-1]


def test_lazy_and_meta_modules_can_be_probed() -> None:
    lazy = nn.Sequential(nn.LazyLinear(8), nn.ReLU(), nn.Linear(8, 4))
    assert len(probed(lazy).modules) == 3
    with torch.device("meta"):
        nowhere = nn.Linear(4, 4)
    with gradlab.probe(nowhere) as p:
        nowhere(torch.empty(2, 4, device="meta"))
    assert p.skipped


def test_an_invalid_model_or_optimizer_is_refused_and_leaves_no_hooks() -> None:
    model = mlp(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for call in (
        lambda: gradlab.probe("x"),
        lambda: gradlab.probe(model, "x"),
        lambda: gradlab.watch("x", optimizer),
        lambda: gradlab.watch(model, None),
        lambda: probed(model).against("x"),
    ):
        with pytest.raises(InvalidInput):
            call()
    assert not optimizer._optimizer_step_post_hooks
    with gradlab.watch(model, optimizer, quiet=True) as w, pytest.raises(InvalidInput, match="no step"):
        w.figure()


def test_an_abandoned_watch_does_not_keep_eager_mode_on() -> None:
    import gc

    from torch._dynamo import eval_frame

    def train(arm: str, seed: int) -> float:
        model = mlp(1)
        gradlab.watch(model, torch.optim.SGD(model.parameters(), lr=0.1))
        if arm == "b":
            raise ValueError("oh")
        return 1.0

    gradlab.compare(train, ["a", "b"], 2)
    assert eval_frame._stance.stance == "default"
    model = mlp(1)
    gradlab.watch(model, torch.optim.SGD(model.parameters(), lr=0.1))
    del model
    gc.collect()
    assert eval_frame._stance.stance == "default"


# ---------------------------------------------------------------------- numbers


def test_sampling_favors_and_misses_no_unit() -> None:
    torch.manual_seed(0)
    layer = nn.Linear(16, 512)
    with torch.no_grad():
        layer.weight[::8] *= 100
    x = torch.randn(1024, 16)
    with gradlab.probe(layer) as p:
        out = layer(x).detach()
    assert p.table().rms.item() == pytest.approx(float(out.square().mean().sqrt()), rel=0.05)
    units = sample_entries(torch.arange(512.0).expand(1024, 512), 65_536)
    assert len(torch.unique(units)) == 512


def test_the_first_module_with_nan_is_found_in_any_position() -> None:
    model = nn.Sequential(nn.Linear(16, 512), nn.ReLU(), nn.Linear(512, 4))
    with torch.no_grad():
        model[0].weight[1] = float("nan")
    (finding, *_) = probed(model, torch.randn(1024, 16), torch.zeros(1024, dtype=torch.long)).diagnose().found
    assert (finding.code, finding.where) == ("nonfinite", "0")


def test_complex_activations_count_both_parts() -> None:
    layer = nn.Linear(4, 4, dtype=torch.complex64)
    x = torch.randn(8, 4, dtype=torch.complex64)
    with gradlab.probe(layer) as p:
        layer(x).abs().square().mean().backward()
    assert layer.weight.grad is not None
    assert p.parameters().grad_l2[0] == pytest.approx(float(layer.weight.grad.norm()), rel=1e-5)
    assert p.table().rms.item() > 0


def test_a_state_that_is_used_instead_of_the_output_carries_the_signal() -> None:
    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cells, self.head = nn.GRU(8, 16, batch_first=True), nn.Linear(16, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.cells(x.reshape(-1, 4, 8))[1][0])

    assert probed(Last()).table().set_index("name").delta["cells"] > 0


def test_channels_are_units_of_one_dimensional_convolutions() -> None:
    model = nn.Sequential(nn.Conv1d(1, 20, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(640, 4))
    with torch.no_grad():
        model[0].bias[:19] = -100
    assert probed(model, batch()[0][:, None, :]).table().dead[1] == pytest.approx(0.95)


def test_gradients_are_recorded_before_clipping_and_a_second_pass_resets_the_probe() -> None:
    model, (x, y) = mlp(2), batch()
    p = gradlab.probe(model, torch.optim.SGD(model.parameters(), lr=0.1))
    for _ in range(2):
        with p:
            model.zero_grad()
            ENTROPY(model(x), y).backward()
            expected = float(model[0].weight.grad.norm())
            nn.utils.clip_grad_norm_(model.parameters(), 1e-6)
            model.zero_grad()
        assert p.parameters().grad_l2[0] == pytest.approx(expected, rel=1e-5)
        assert set(p.table().calls) == {1}
    with p, pytest.raises(InvalidInput, match="already active"), p:
        pass


# ---------------------------------------------------------------------- no false positives, no false negatives


def zero_head() -> nn.Sequential:
    model = mlp(2)
    nn.init.zeros_(model[-1].weight)
    nn.init.zeros_(model[-1].bias)
    return model


def test_weights_that_start_at_0_are_not_reported_as_large_steps() -> None:
    model = zero_head()
    found = probed(model, optimizer=torch.optim.Adam(model.parameters(), lr=1e-3)).diagnose()
    assert found.healthy, found


def test_a_step_skipped_by_the_scaler_is_not_reported_as_nan() -> None:
    model, (x, y) = mlp(2), batch()
    optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.1), torch.amp.GradScaler("cpu", init_scale=2.0**118)
    with gradlab.watch(model, optimizer, every=1, scaler=scaler, quiet=True) as w:
        for _ in range(8):
            optimizer.zero_grad()
            scaler.scale(1e3 * ENTROPY(model(x), y)).backward()
            scaler.step(optimizer)
            scaler.update()
    assert 0 < w.step < 8  # some were skipped, some not
    assert all("nonfinite" not in moment.probe.diagnose().codes for moment in w.moments)


def test_parameters_of_two_optimizers_are_both_held() -> None:
    model, (x, y) = mlp(2), batch()
    both = [torch.optim.Adam(model[:2].parameters(), lr=1e-3), torch.optim.SGD(model[2:].parameters(), lr=0.1)]
    with gradlab.watch(model, both, every=1, quiet=True) as w:
        for _ in range(2):
            model.zero_grad()
            ENTROPY(model(x), y).backward()
            for optimizer in both:
                optimizer.step()
    assert w.diagnose().healthy, w.diagnose()
    assert len(w.moments) == 2
    assert w.parameters().update_ratio.notna().all()


@pytest.mark.parametrize("kind", ["rate 0", "rounded away"])
def test_weights_that_do_not_move_are_reported(kind: str) -> None:
    model, x = mlp(2), batch()[0]
    model, x = (model.bfloat16(), x.bfloat16()) if kind == "rounded away" else (model, x)
    rate = 0.0 if kind == "rate 0" else 1e-9
    p = probed(model, x, optimizer=torch.optim.SGD(model.parameters(), lr=rate))
    assert p.diagnose().codes == ("does_not_move",)
    assert (p.parameters().update_ratio == 0).all()


def test_a_probe_without_a_forward_pass_is_not_healthy() -> None:
    model, (x, _) = mlp(2), batch()
    with gradlab.probe(model) as p:
        mlp(2)(x)
    assert not p.diagnose().healthy
    assert NOTHING_SEEN in p.diagnose().notes
    with gradlab.probe(model) as p:
        model(x)
    assert NO_BACKWARD in p.diagnose().notes


def test_nan_in_a_backward_pass_is_attributed_to_its_origin() -> None:
    class Bad(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
            return grads[0] * float("nan")

    class Layer(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return Bad.apply(x)  # type: ignore[no-any-return]

    (finding, *_) = probed(nn.Sequential(nn.Linear(32, 32), Layer(), nn.Linear(32, 4))).diagnose().found
    assert finding.code == "nonfinite"
    assert "backward pass" in finding.evidence


# ---------------------------------------------------------------------- overfitting one batch


def test_a_loss_that_cannot_reach_0_is_compared_with_its_floor() -> None:
    smooth = nn.CrossEntropyLoss(label_smoothing=0.1)
    torch.manual_seed(0)
    found = try_overfitting(mlp(3), batch(), smooth)
    assert found.floor > 0.3
    assert found.ok, found.words


def test_a_batch_of_one_class_and_a_constant_target_can_be_overfitted() -> None:
    x, _ = batch()
    assert try_overfitting(mlp(2), (x, torch.zeros(64, dtype=torch.long)), ENTROPY).ok
    assert try_overfitting(mlp(2), (x, torch.full((64, 4), 3.0)), nn.functional.mse_loss).ok


def test_overfitting_disables_dropout_in_attention_and_recurrent_layers() -> None:
    class Attends(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = nn.MultiheadAttention(8, 2, dropout=0.9, batch_first=True)
            self.cells = nn.LSTM(8, 32, num_layers=2, dropout=0.9, batch_first=True)
            self.head = nn.Linear(32, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = x.reshape(-1, 4, 8)
            return self.head(self.cells(x + self.attention(x, x, x)[0])[0][:, -1])

    torch.manual_seed(0)
    assert try_overfitting(Attends(), batch(), ENTROPY).ok


def test_overfitting_supports_closures_and_refuses_an_invalid_batch() -> None:
    model = mlp(1)
    assert try_overfitting(model, batch(), ENTROPY, [torch.optim.LBFGS(model.parameters())], steps=30).ok
    with pytest.raises(InvalidInput, match=r"\(input, target\)"):
        try_overfitting(model, batch()[0], ENTROPY)  # type: ignore[arg-type]


SHARDED = """
import torch, torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
import gradlab

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
model = torch.nn.Sequential(*[torch.nn.Linear(8, 8) for _ in range(4)])
fully_shard(model, mesh=init_device_mesh("cpu", (1,)))
with gradlab.probe(model) as p:
    model(torch.randn(4, 8)).pow(2).mean().backward()
print(p.sharded, "those of the shard that this process holds" in str(p.diagnose()))
dist.destroy_process_group()
"""


@pytest.mark.shipped
def test_numbers_of_a_shard_are_labeled_as_such() -> None:
    done = subprocess.run([sys.executable, "-c", SHARDED], capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["True", "True"], done.stderr
    assert not gradlab.probe(mlp(2)).sharded


def test_a_watch_that_cannot_print_still_removes_its_hooks(monkeypatch: pytest.MonkeyPatch) -> None:
    model, (x, y) = mlp(2), batch()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    class Closed:
        def write(self, text: str) -> int:
            raise ValueError("I/O operation on closed file")

    for stream in (Closed(), None):
        w = gradlab.watch(model, optimizer, every=1)
        ENTROPY(model(x), y).backward()
        optimizer.step()
        with monkeypatch.context() as patched:
            patched.setattr(sys, "stderr", stream)
            w.close()
        assert len(w.moments) == 1
        assert all(not module._forward_hooks for module in model.modules())
        assert not optimizer._optimizer_step_post_hooks
