"""What the doctor sees is right to the number: attention, similarity, experts, entries that moved, names on pages."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch_zoo import Transformer, batch, mlp

import gradlab
from gradlab.report.charts.base import MOST, shorten_names, ticks_of
from gradlab.torch.diagnosis import QUIET_WATCH

ENTROPY = nn.functional.cross_entropy


def exact_attention(module: nn.MultiheadAttention, x: Tensor, causal: bool = False) -> tuple[float, float, float]:
    """Entropy over its largest, mean largest weight, largest logit: of all samples, heads and queries."""
    size = module.embed_dim // module.num_heads
    made = nn.functional.linear(x, module.in_proj_weight, module.in_proj_bias).detach()
    q, k = (part.unflatten(-1, (-1, size)).transpose(1, 2) for part in made.chunk(3, -1)[:2])
    logits = q @ k.transpose(-1, -2) / math.sqrt(size)
    hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1) if causal else None
    masked = logits if hidden is None else logits.masked_fill(hidden, -math.inf)
    weights = torch.softmax(masked, -1)
    entropy = -(weights * weights.clamp(min=1e-30).log()).sum(-1).mean() / math.log(x.shape[1])
    seen = logits if hidden is None else logits[:, :, ~hidden]
    return float(entropy), float(weights.amax(-1).mean()), float(seen.abs().max())


@pytest.mark.parametrize("causal", [False, True])
def test_attention_of_several_modules_is_measured_as_it_is(causal: bool) -> None:
    class Three(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = nn.ModuleList(nn.MultiheadAttention(16, 4, batch_first=True) for _ in range(3))

        def forward(self, x: Tensor) -> Tensor:
            mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1) if causal else None
            for part in self.parts:
                x = part(x, x, x, attn_mask=mask, need_weights=False)[0] * 5
            return x

    torch.manual_seed(0)
    model, x = Three(), 3 * torch.randn(2, 12, 16)  # few enough samples, heads and queries that all are measured
    given: list[Tensor] = []
    for part in model.parts:
        part.register_forward_pre_hook(lambda _, inputs: given.append(inputs[0].detach()))
    with gradlab.probe(model) as p:
        model(x).square().mean().backward()
    rows = p.attention().set_index("name")
    assert list(rows.index) == ["parts.0", "parts.1", "parts.2"]
    for part, name, own in zip(model.parts, rows.index, given, strict=True):
        assert tuple(rows.loc[name, ["entropy", "largest", "logit"]]) == pytest.approx(
            exact_attention(part, own, causal), rel=1e-4
        )


@pytest.mark.parametrize("scale", [1.0, 1e-18, 1e18])
def test_similarity_of_samples_and_tokens_is_the_share_that_differs(scale: float) -> None:
    torch.manual_seed(0)
    x = scale * (torch.randn(5, 7, 8, dtype=torch.float64) + 2.0)
    x[:, :, 0] *= 3
    model = nn.Sequential(nn.Identity(), nn.Linear(8, 8, bias=False), nn.Linear(8, 8, bias=False))
    nn.init.eye_(model[1].weight)
    with gradlab.probe(model) as p:
        model(x.float())
    apart, tokens = ((x - x.mean(axis, keepdim=True)).square().sum() / x.square().sum() for axis in (0, 1))
    row = p.modules["1"]
    assert (row.spread, row.token_spread) == (
        pytest.approx(float(apart), rel=1e-5),
        pytest.approx(float(tokens), rel=1e-5),
    )


def test_the_gradient_of_an_output_is_measured_by_all_its_finite_entries() -> None:
    model = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64))
    torch.manual_seed(0)
    signal = torch.randn(4096, 64) * torch.linspace(0, 3, 4096)[:, None]  # more than one chunk
    with gradlab.probe(model) as p:
        (model(torch.randn(4096, 64)) * signal).sum().backward()
    assert p.modules["1"].delta == pytest.approx(float(signal.double().square().mean().sqrt()), rel=1e-6)
    signal[0, :3] = torch.tensor([math.nan, math.inf, -math.inf])
    with gradlab.probe(model) as p:
        (model(torch.randn(4096, 64)) * signal).sum().backward()
    kept = signal[torch.isfinite(signal)].double()
    assert p.modules["1"].delta_nonfinite == 3
    assert p.modules["1"].delta == pytest.approx(float(kept.square().mean().sqrt()), rel=1e-6)


def test_the_load_of_experts_is_counted() -> None:
    class Router(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate = nn.Linear(8, 4)
            self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))

        def forward(self, x: Tensor) -> Tensor:
            weights, chosen = torch.topk(torch.softmax(self.gate(x), -1), 2, -1)
            self.chosen = chosen
            made = torch.stack([expert(x) for expert in self.experts], 1)
            return (made.gather(1, chosen[:, :, None].expand(-1, -1, 8)) * weights[:, :, None]).sum(1)

    torch.manual_seed(0)
    model = Router()
    with gradlab.probe(model) as p:
        model(torch.randn(64, 8)).sum().backward()
    (counts,) = p.records.loads.values()
    assert counts == torch.bincount(model.chosen.flatten(), minlength=4).tolist()


def test_the_share_of_entries_that_moved_is_small_for_bfloat16_at_a_small_rate() -> None:
    torch.manual_seed(0)
    model, x = nn.Linear(64, 64).bfloat16(), torch.randn(32, 64, dtype=torch.bfloat16)
    before = model.weight.detach().clone()
    optimizer = torch.optim.Adam(model.parameters(), 1e-5)
    with gradlab.probe(model, optimizer) as p:
        model(x).square().mean().backward()
        optimizer.step()
    share = float((model.weight != before).float().mean())
    assert 0 < share < 0.5
    assert p.parameters().set_index("name").moved["weight"] == pytest.approx(share)


# ---------------------------------------------------------------------- on pages


def test_long_names_are_shortened_and_stay_apart() -> None:
    names = ["embed", *(f"encoder.layers.{n}.{part}" for n in range(12) for part in ("linear1", "linear2")), "head"]
    short = shorten_names(names)
    assert short[:3] == ("embed", "…0.linear1", "…0.linear2")
    assert len(set(short)) == len(names)
    assert max(map(len, shorten_names([f"a_rather_long_name_of_a_module.and_its_child_{n}" for n in "xyz"]))) <= 20
    ticks = ticks_of(names)
    assert len(ticks) <= MOST
    assert (ticks[0], ticks[-1]) == ((1, "embed"), (len(names), "head"))
    assert ticks_of(["only"]) == [(1, "only")]


def watched() -> Any:
    torch.manual_seed(0)
    model, (x, y) = Transformer(layers=3), batch()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    with gradlab.watch(model, optimizer, every=4, quiet=True) as w:
        for _ in range(12):
            optimizer.zero_grad()
            ENTROPY(model(x), y).backward()
            optimizer.step()
    return w


def test_the_page_of_a_watch_begins_with_the_loss_and_has_modules_on_its_axes(tmp_path: Path) -> None:
    result = watched().save(tmp_path / "kept")
    assert next(iter(result.charts)) == "training_loss"
    names = ["body.layers.0.self_attn", "body.layers.0.linear1"]
    for opened in (result, gradlab.open_run(tmp_path / "kept")):
        lines, heat = opened.charts["gradient_by_layer"], opened.charts["gradient_heat_map"]
        assert (lines.x_label, heat.y_label) == ("module", "module")
        assert [row[1] for row in lines.table()[1]][:2] == names
        labels = [text.get_text() for text in opened.figure("gradient_by_layer").axes[0].get_xticklabels()]
        assert labels[0] == "…0.self_attn"
        assert labels[-1] == "head"
    page = (tmp_path / "kept/report.html").read_text(encoding="utf8")
    assert page.index("Training loss") < page.index(result.charts["gradient_by_layer"].title)
    assert '"body.layers.0.self_attn"' in page
    assert "first module, " in page


def test_a_watch_in_a_notebook_shows_diagnosis_curves_and_folded_tables() -> None:
    w = watched()
    html = w._repr_html_()
    assert repr(w).startswith("<watch of Transformer: 3 of 12 steps probed, ")
    assert QUIET_WATCH in html
    assert html.count("<img") == 2
    assert "<summary>Blocks at" in html
    (axes, *_) = w.figure().axes
    assert "head" in [text.get_text() for text in axes.get_yticklabels()]
    assert not any("dropout" in text.get_text() for text in axes.get_yticklabels())


def test_a_change_is_drawn_by_the_names_of_modules() -> None:
    x, y = batch()
    probes = []
    for depth in (2, 3):
        torch.manual_seed(0)
        model = mlp(depth)
        with gradlab.probe(model) as p:
            ENTROPY(model(x), y).backward()
        probes.append(p)
    (axes, *_) = probes[1].against(probes[0]).figure().axes
    assert [text.get_text() for text in axes.get_xticklabels()] == ["0", "1", "2", "3", "4", "5", "6"]
    assert np.isfinite(axes.get_lines()[0].get_ydata()).all()
