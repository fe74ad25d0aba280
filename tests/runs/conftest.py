"""These tests do not check figures: none is drawn unless a test requests it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest

from gradlab.testing.base import small_tree


@pytest.fixture
def tree() -> dict[str, Any]:
    """A study of two arms that trains in milliseconds."""
    return {**small_tree(), "figures": []}


@pytest.fixture(autouse=True)
def _signals_as_usual() -> Iterator[None]:
    """A shell that starts the tests in the background ignores SIGINT, and the tests inherit that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
