"""The documentation site: it builds without a warning and requests nothing from outside."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

import gradlab

pytestmark = pytest.mark.docs
ROOT = Path(__file__).parents[2]
LOADS = {
    "script": "src",
    "img": "src",
    "link": "href",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "object": "data",
}
"""Elements that make a browser load something, and the attribute that says what."""


class Loaded(HTMLParser):
    """What a page makes a browser load, and what can be jumped to in it."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.places: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        navigates = tag == "link" and found.get("rel") in ("canonical", "next", "prev")
        if tag in LOADS and not navigates and (address := found.get(LOADS[tag])):
            self.addresses.append(address)
        if place := found.get("id"):
            self.places.add(place)


def read(path: Path) -> Loaded:
    parser = Loaded()
    parser.feed(path.read_text(encoding="utf8"))
    return parser


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs", reason="pip install '.[docs]'")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr
    return folder


def test_no_page_loads_anything_from_outside(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 20
    for page in pages:
        outside = [address for address in read(page).addresses if re.match(r"(https?:)?//", address)]
        assert outside == [], page.relative_to(site)


def test_no_style_sheet_or_script_of_ours_loads_anything_from_outside(site: Path) -> None:
    for sheet in site.rglob("*.css"):
        text = sheet.read_text(encoding="utf8")
        assert not re.search(r"url\(['\"]?(https?:)?//|@import\s+['\"]?(https?:)?//", text), sheet.name
    for script in (site / "assets").glob("*.js"):
        assert not re.search(r"https?://", script.read_text(encoding="utf8")), script.name


def test_every_page_forbids_requests_to_other_sites(site: Path) -> None:
    for page in site.rglob("*.html"):
        assert "Content-Security-Policy" in page.read_text(encoding="utf8"), page.relative_to(site)


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    places = read(site / "reference/python.html").places
    for name in gradlab.__all__:
        assert f"gradlab.{name}" in places


def test_the_search_index_knows_the_pages(site: Path) -> None:
    text = (site / "search/search_index.json").read_text(encoding="utf8")
    for page in ("tutorials/first-study.html", "reference/python.html", "honest.html", "reference/study-fields.html"):
        assert page in text


@pytest.mark.browser
def test_search_works_from_the_file_system(site: Path) -> None:
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto((site / "index.html").as_uri())
        page.keyboard.press("/")
        page.keyboard.type("fairness audit")
        page.wait_for_selector(".md-search-result__item", timeout=20_000)
        browser.close()
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
