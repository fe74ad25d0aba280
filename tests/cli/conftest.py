"""What these tests are about is not how figures look: none is drawn unless a test asks for it."""

from __future__ import annotations

from typing import Any

import pytest

from gradlab.testing.trials import small_tree


@pytest.fixture
def tree() -> dict[str, Any]:
    """A study of two arms that trains in milliseconds."""
    return {**small_tree(), "figures": []}
