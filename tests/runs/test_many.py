"""Thousands of trials: planned, run, stored, opened and summarized."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks/many_trials.py"


def measured(*words: str) -> dict[str, float]:
    found = subprocess.run([sys.executable, str(SCRIPT), *words], capture_output=True, text=True, timeout=900)
    assert found.returncode == 0, found.stderr
    result: dict[str, float] = json.loads(found.stdout)
    return result


@pytest.mark.parametrize(
    "executor", [pytest.param("pool", marks=pytest.mark.shipped), pytest.param("processes", marks=pytest.mark.slow)]
)
def test_a_sweep_of_hundreds_of_trials_is_stored_in_few_chunks(executor: str) -> None:
    found = measured("600", executor)
    assert found["trials"] == 600
    assert found["table_rows"] > 600
    assert found["chunks"] < 30


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["pool", "processes"])
def test_twenty_thousand_trials_need_less_than_a_gigabyte(executor: str) -> None:
    found = measured("20000", executor)
    assert found["trials"] == 20_000
    assert found["peak_memory_megabytes"] < 1000
    assert found["megabytes"] < 100
