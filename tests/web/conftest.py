from __future__ import annotations

from collections.abc import Iterator

import pytest

from gradlab.web.uploads import Uploads


@pytest.fixture
def uploads() -> Iterator[Uploads]:
    found = Uploads()
    yield found
    found.remove_all()
