"""Two processes train together, over gloo: the same bits under a watch, names and numbers as they are."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gradlab.torch.diagnosis import LOCAL, SHARDED

pytestmark = pytest.mark.frameworks
SCRIPT = Path(__file__).with_name("two_processes.py")
BLOCKS = [f"{block}.{module}" for block in range(3) for module in range(2)]
WEIGHTS = [f"{name}.{kind}" for name in ("0.0", "1.0", "2.0", "3") for kind in ("weight", "bias")]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    folder = tmp_path_factory.mktemp("store")
    return {wrap: run_pair(wrap, folder) for wrap in ("ddp", "fsdp1", "fsdp2")}


def run_pair(wrap: str, folder: Path) -> list[dict[str, Any]]:
    started = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), wrap, str(rank), str(folder)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    said = [process.communicate(timeout=600) for process in started]
    assert all(process.returncode == 0 for process in started), said
    return [json.loads(out) for out, _ in said]


@pytest.mark.parametrize("wrap", ["ddp", "fsdp1", "fsdp2"])
def test_training_is_the_same_to_the_last_bit_and_no_hook_is_left(seen: dict[str, Any], wrap: str) -> None:
    for one in seen[wrap]:
        assert one["same"]
        assert one["hooks"] == 0
        assert one["steps"] == 6
        assert one["moments"] == [0, 2, 4]
        assert one["losses"]
        assert not one["skipped"]


@pytest.mark.parametrize("wrap", ["ddp", "fsdp1", "fsdp2"])
def test_names_have_no_prefixes_and_nothing_is_taken_for_a_fault(seen: dict[str, Any], wrap: str) -> None:
    for one in seen[wrap]:
        assert one["modules"] == [*BLOCKS, "3"]
        assert one["weights"] == WEIGHTS
        assert one["nonfinite"] == 0
        assert one["gradients"] == one["updates"] == one["held"] > 0
        assert not one["found"]


def test_gradients_under_ddp_are_said_to_be_means_and_are(seen: dict[str, Any]) -> None:
    first, second = seen["ddp"]
    assert first["norms"] == second["norms"]
    assert LOCAL in first["notes"]


@pytest.mark.parametrize("wrap", ["fsdp1", "fsdp2"])
def test_shards_are_said_to_be_shards_and_together_make_the_whole(seen: dict[str, Any], wrap: str) -> None:
    pair = seen[wrap]
    assert all(one["notes"] == [SHARDED] for one in pair)
    for place, whole in enumerate(seen["ddp"][0]["norms"]):
        parts = [one["norms"][place] or 0.0 for one in pair]
        assert math.hypot(*parts) == pytest.approx(whole, rel=1e-3)
