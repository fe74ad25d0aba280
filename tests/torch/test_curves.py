"""The loss and other curves: what is said of them, and what a long training keeps in memory and on the disk."""

from __future__ import annotations

import gc
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch_zoo import batch, mlp

import gradlab
from gradlab.comparing.live import read_live
from gradlab.comparing.saving import save_live
from gradlab.torch.diagnosis import diagnose_history
from gradlab.torch.rules import Finding
from gradlab.words import rounded


def judged(values: Sequence[float], **others: Sequence[float]) -> dict[str, Finding]:
    curves = {"loss": dict(enumerate(values)), **{name: dict(enumerate(each)) for name, each in others.items()}}
    return {finding.code: finding for finding in diagnose_history((), curves).all}


def test_what_a_loss_does_is_said_with_its_numbers() -> None:
    falling = [2.0 * 0.97**step for step in range(60)]
    assert judged(falling) == {}
    rising = judged([1 + step / 10 for step in range(40)])["loss_rises"]
    assert rising.numbers == {"first": 1.0, "last": 4.9, "steps": 40}
    level = judged([1.39 - step / 20000 for step in range(40)])["loss_does_not_fall"]
    assert level.numbers == {"first": 1.39, "last": pytest.approx(1.388, abs=1e-4), "steps": 40}
    spiky = [*falling[:30], 40.0, *falling[31:]]
    assert judged(spiky)["loss_spikes"].numbers == {"loss": 40.0, "step": 30, "spikes": 1}
    broken = [*falling[:17], math.nan, *falling[18:]]
    assert judged(broken)["nonfinite"].numbers["step"] == 17
    assert "wrong_sign_of_the_loss" in judged([-(1.1**step) for step in range(60)])
    worse = [2.0 + step / 20 for step in range(60)]
    assert "does_not_generalize" in judged(falling, validation_loss=worse)
    assert judged(falling[:5]) == {}  # too few to be judged


def train(steps: int, rates: Any, **options: Any) -> Any:
    torch.manual_seed(0)
    model, (x, y) = mlp(2), batch()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    with gradlab.watch(model, optimizer, **{"quiet": True, **options}) as watch:
        for step in range(steps):
            optimizer.param_groups[0]["lr"] = rates(step)
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    return watch


def test_a_fault_of_the_first_step_is_not_forgotten_by_the_last() -> None:
    watch = train(31, lambda step: 1.0 if step == 0 else 1e-4, every=10)
    assert "steps_too_large" not in watch.moments[-1].probe.diagnose().codes
    (found,) = (one for one in watch.diagnose().found if one.code == "steps_too_large")
    assert found.when == "at step 0"


def tensors_alive() -> int:
    gc.collect()
    return sum(type(each) is torch.Tensor for each in gc.get_objects())


@pytest.mark.parametrize("every", [1, 2])
def test_moments_keep_numbers_and_no_tensors(every: int) -> None:
    model, (x, y) = mlp(4), batch()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    counts = []
    with gradlab.watch(model, optimizer, every=every, quiet=True) as watch:
        for step in range(12):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            if step in (5, 11):
                watch.curves()  # losses are read, which until then are tensors
                counts.append(tensors_alive())
    assert counts[1] == counts[0]


def test_the_file_of_a_watch_has_every_loss_once(tmp_path: Path) -> None:
    watch = train(40, lambda _: 1e-3, every=5, out=tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "watch.jsonl").read_text().splitlines()]
    told = [int(step) for line in lines for step in (line.get("scalars") or {}).get("loss", {})]
    assert told == list(range(40))
    (tmp_path / "watch.jsonl").write_text("\n".join(map(json.dumps, lines[:-1])) + "\n")  # killed before it was closed
    curve = read_live(tmp_path).curves()["loss"]
    assert curve == {step: pytest.approx(watch.curves()["loss"][step]) for step in range(36)}


def test_a_fault_of_the_first_steps_is_still_told_by_the_file_of_a_watch(tmp_path: Path) -> None:
    """Steps a hundred times too large, then none: the last probed step alone shows nothing of it."""
    watch = train(40, lambda step: 3.0 if step < 4 else 1e-3, every=2, out=tmp_path)
    named = [(finding.code, finding.words) for finding in watch.diagnose().found]
    assert "steps_too_large" in dict(named)
    live = read_live(tmp_path)
    assert [(finding.code, finding.words) for finding in live.findings] == named
    assert [finding["code"] for finding in live.to_json()["diagnosis"]] == [code for code, _ in named]
    lines = (tmp_path / "watch.jsonl").read_text().splitlines()
    (tmp_path / "watch.jsonl").write_text("\n".join(lines[:-1]) + "\n")  # killed before it was closed
    assert "steps_too_large" in {finding.code for finding in read_live(tmp_path).findings}


def test_a_long_watch_is_judged_ever_more_rarely(tmp_path: Path) -> None:
    train(200, lambda _: 1e-3, every=1, out=tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "watch.jsonl").read_text().splitlines()]
    judged_at = [line["step"] for line in lines if "findings" in line]
    assert judged_at[:20] == list(range(20))
    assert len(judged_at) < 100
    assert judged_at[-1] == 200  # when it was closed


def test_the_page_of_a_watch_begins_with_what_the_loss_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    watch = train(12, lambda _: 1e-2, every=4, out=tmp_path / "live", quiet=False)
    assert f"its page: gradlab report {tmp_path / 'live'}" in capsys.readouterr().err
    losses = watch.curves()["loss"]
    answer = save_live(tmp_path / "live", figures=False).answer
    assert losses[11] < losses[0]
    assert answer.startswith(f"The loss falls from {rounded(losses[0])} to {rounded(losses[11])} ")
    assert answer.endswith(" in 12 steps.")
