"""Shared fixtures: a tiny study, and limits on threads and workers."""

from __future__ import annotations

import os

# tests run in parallel, one core each
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
# some virtual machines report AMX but kill a process that uses it, as PyTorch does for bfloat16
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

from typing import Any

import pytest
from hypothesis import settings

from gradlab.testing.base import small_tree

settings.register_profile("lab", deadline=None)  # machines differ: no test asserts a wall time
settings.load_profile("lab")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Use one worker per available core, even if two of them share a physical core."""
    return os.cpu_count() or 1


@pytest.fixture
def tree() -> dict[str, Any]:
    """A study of two arms that trains in milliseconds; two figures, because drawing all takes seconds."""
    return {**small_tree(), "figures": ["training_loss", "gradient_by_layer"]}
