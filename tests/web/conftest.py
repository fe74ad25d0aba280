from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from gradlab.web.uploads import Uploads


@pytest.fixture
def uploads() -> Iterator[Uploads]:
    found = Uploads()
    yield found
    found.remove_all()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    sync = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install '.[browser]'")
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no Chromium")
    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
    with sync.sync_playwright() as play:
        found = play.chromium.launch(executable_path=program, args=[*flags, "--disable-sync", "--no-first-run"])
        yield found
        found.close()
