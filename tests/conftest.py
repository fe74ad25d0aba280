"""What many tests need: a tiny study; and what keeps them quiet neighbors."""

from __future__ import annotations

import os

# tests run side by side, one core each
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
# some virtual machines announce AMX and then kill the process that uses it, as PyTorch does for bfloat16
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

from typing import Any

import pytest
from hypothesis import settings

from gradlab.testing.trials import small_tree

settings.register_profile("lab", deadline=None)  # machines differ: no test asserts a wall time
settings.load_profile("lab")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One worker per core that there is for us, also where two of them share a physical one."""
    return os.cpu_count() or 1


@pytest.fixture
def tree() -> dict[str, Any]:
    """A study of two arms that trains in milliseconds; two figures, because drawing all takes seconds."""
    return {**small_tree(), "figures": ["training_loss", "gradient_by_layer"]}
