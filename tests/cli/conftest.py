"""These tests do not check figures: none is drawn unless a test requests it."""

from __future__ import annotations

from typing import Any

import pytest

from gradlab.testing.base import small_tree


@pytest.fixture
def tree() -> dict[str, Any]:
    """A study of two arms that trains in milliseconds."""
    return {**small_tree(), "figures": []}
