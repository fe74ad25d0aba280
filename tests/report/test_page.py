"""The page: complete, alone, safe; and in a real browser quiet, wide and narrow, by mouse and by keyboard."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import gradlab
from gradlab.cli import app
from gradlab.errors import StoreError
from gradlab.report.figures.curves import MOST_POINTS, thinned
from gradlab.report.markdown import relative_links
from gradlab.report.story import make_explorer
from gradlab.testing.base import small_tree

RUNNER = CliRunner()
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>"
CLAIM = {"text": f"{HOSTILE} holds", "metric": "final_loss", "arms": ["plain", HOSTILE], "op": ">"}


def hostile(tree: dict[str, Any]) -> dict[str, Any]:
    """A study whose every name is markup."""
    tree["question"] = f"Is {HOSTILE} a question?"
    tree["base"]["model"]["depth"] = 5
    tree["arms"] = {"plain": {}, HOSTILE: {"model.skip": "identity"}}
    tree["limits"] = [f"{HOSTILE} cannot be attributed."]
    return {**tree, "claims": [CLAIM], "figures": ["training_loss", "gradient_by_layer"]}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page") / "run"
    gradlab.run(hostile(small_tree()), out=folder)
    return folder


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "run"))


def test_a_run_leaves_the_page_the_text_the_figures_and_their_data(run: Path) -> None:
    for name in ("report.html", "report.md", "tables.tex", "audit.json", "microworld.json"):
        assert (run / name).is_file(), name
    for name in ("training_loss", "gradient_by_layer"):
        for kind in ("png", "svg", "pdf", "csv"):
            assert (run / f"figures/{name}.{kind}").stat().st_size > 100
    csv = (run / "figures/training_loss.csv").read_text().splitlines()
    assert csv[0] == "series,step,loss,low,high"
    assert len(csv) == 1 + 2 * 20
    assert (run / "figures/training_loss.pdf").read_bytes().startswith(b"%PDF")


def test_the_page_holds_everything_and_asks_for_nothing(run: Path) -> None:
    page = (run / "report.html").read_text()
    for section in ("trust", "figures", "layers", "inside", "rest"):
        assert f'<section id="{section}"' in page
    for folded in ("fair", "limits", "claims", "tables", "methods", "again"):
        assert f'<details id="{folded}"' in page
    markup = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert re.findall(r'(?:src|href)="(?!data:|#)([^"]*)"', markup) == []
    assert "default-src 'none'" in page
    assert len(page) < 5e6
    described = re.findall(r'<svg role="img" aria-label="[^"]{30,}"', markup)
    assert len(described) == 2


def test_names_are_text_wherever_they_stand(run: Path) -> None:
    page = (run / "report.html").read_text()
    assert HOSTILE not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "<script>alert" not in (run / "report.md").read_text()


def test_a_missing_figure_fails_the_build_of_the_report(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = gradlab.open_run(run)
    monkeypatch.setattr("gradlab.report.writing.render_markdown", lambda *_: "![x](figures/nowhere.png)")
    with pytest.raises(StoreError, match=r"links to files that are not there: figures/nowhere\.png"):
        result.rewrite()


def test_relative_links_are_found() -> None:
    text = "![a](figures/a.png) [b](b.md) [c](https://example.org) [d](#here) \\[e\\](not/a/link)"
    assert relative_links(text) == ["figures/a.png", "b.md"]


@pytest.mark.shipped
def test_the_command_makes_one_format_or_both_and_another_pair(run: Path) -> None:
    for name in ("report.html", "report.md"):
        (run / name).unlink()
    assert RUNNER.invoke(app(), ["report", str(run), "--format", "md"]).exit_code == 0
    assert not (run / "report.html").exists()
    done = RUNNER.invoke(app(), ["report", str(run), "--pair", HOSTILE, "plain", "--seed", "1"])
    assert done.exit_code == 0, done.output
    recording = gradlab.open_run(run).recording
    assert recording is not None
    assert (recording.arms, recording.seed) == ((HOSTILE, "plain"), 1)
    wrong = RUNNER.invoke(app(), ["report", str(run), "--format", "pdf"])
    assert wrong.exit_code != 0
    assert RUNNER.invoke(app(), ["report", str(run), "--pair", "plian", "plain"]).exit_code != 0


def test_an_unfair_study_says_so_on_top_of_the_page(tree: dict[str, Any], tmp_path: Path) -> None:
    tree["arms"]["residual"]["model.init.scale"] = 0.5
    result = gradlab.run({**tree, "figures": ["training_loss"]})
    page = result.page()
    assert page.index('class="mark"') < page.index("<h1>")
    assert "NOT A CONTROLLED COMPARISON" in page


def test_results_audits_and_verdicts_show_themselves_in_a_notebook(tree: dict[str, Any]) -> None:
    result = gradlab.run(hostile(tree))
    assert result.audit is not None
    for html in (result._repr_html_(), result.audit._repr_html_(), result.verdicts[0]._repr_html_()):
        assert "<script>" not in html
        assert html.startswith("<")


# ---------------------------------------------------------------------- in a browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    sync = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install '.[browser]'")
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no Chromium on this machine")
    quiet = (
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
    )
    with sync.sync_playwright() as play:
        started = play.chromium.launch(executable_path=program, args=list(quiet))
        yield started
        started.close()


@pytest.mark.browser
def test_in_a_browser_the_page_is_quiet_complete_and_safe(browser: Any, run: Path) -> None:
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    noise: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: noise.append(message.text))
    page.on("pageerror", lambda error: noise.append(str(error)))
    page.on("dialog", lambda dialog: (noise.append("a script ran"), dialog.dismiss()))
    page.on("request", lambda request: asked.append(request.url))
    page.goto((run / "report.html").as_uri())
    page.wait_for_function("document.documentElement.dataset.ready === 'true'")
    assert noise == []
    assert [url for url in asked if not url.startswith(("data:", "file:"))] == []
    sizes = page.evaluate("[...document.querySelectorAll('figure > svg')].map((s) => s.getBoundingClientRect().width)")
    assert len(sizes) == 2
    assert min(sizes) > 300
    assert page.locator("h1").inner_text() == f"Is {HOSTILE} a question?"
    assert page.locator(".chart svg").count() >= 10
    page.close()


@pytest.mark.browser
@pytest.mark.parametrize("width", [320, 1440])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_in_a_browser_nothing_flows_over(browser: Any, run: Path, width: int, scheme: str) -> None:
    page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    page.goto((run / "report.html").as_uri())
    page.wait_for_function("document.documentElement.dataset.ready === 'true'")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 24, 28)"
    assert dark == (scheme == "dark")
    page.close()


@pytest.mark.browser
def test_in_a_browser_slider_switches_and_tables_work_by_keyboard(browser: Any, run: Path) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto((run / "report.html").as_uri())
    page.wait_for_function("document.documentElement.dataset.ready === 'true'")
    for controls, chart, first, key, then in (
        ("#inside-controls", '[data-scene="1"] .chart >> nth=0', "0", "ArrowRight", "1"),
        ("#explorer-controls", "#explorer-chart", "20", "ArrowLeft", "16"),
    ):
        slider, shown = page.locator(f"{controls} input[type=range]"), page.locator(f"{controls} output")
        assert shown.inner_text() == first
        before = page.locator(chart).inner_html()
        slider.focus()
        page.keyboard.press(key)
        assert shown.inner_text() == then
        assert slider.get_attribute("aria-valuetext") == f"step {then}"
        assert page.locator(chart).inner_html() != before
        box = page.locator(f"{controls} input[type=checkbox]").first
        box.focus()
        before = page.locator(chart).inner_html()
        page.keyboard.press("Space")
        assert page.locator(chart).inner_html() != before
    page.locator("#tables > summary").press("Enter")
    table = page.locator("#tables table.sortable").first
    first = table.locator("tbody tr").first.inner_text()
    head = table.locator("th button").first
    head.focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    assert table.locator("th").first.get_attribute("aria-sort") == "descending"
    rows = [row.inner_text() for row in table.locator("tbody tr").all()]
    assert first in rows
    page.close()


@pytest.mark.browser
def test_in_a_browser_play_moves_captions_and_leaves_axes_where_they_are(browser: Any, run: Path) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto((run / "report.html").as_uri())
    page.wait_for_function("document.documentElement.dataset.ready === 'true'")
    caption = page.locator("#inside .caption").first
    assert caption.inner_text().startswith("Before training")
    ticks = (
        "[...document.querySelectorAll('[data-scene=\"0\"] .chart text')].map((t) => t.textContent)"
        ".filter((t) => /^[10⁻¹²³⁴⁵⁶⁷⁸⁹⁰.]+$/.test(t))"
    )
    before = page.evaluate(ticks)
    page.locator("#inside-controls button").click()
    page.locator("#inside .caption", has_text="After 20 steps").first.wait_for(timeout=20_000)
    assert page.evaluate(ticks) == before
    page.close()


@pytest.mark.browser
def test_in_a_browser_figures_follow_a_dark_screen(browser: Any, run: Path) -> None:
    colors = {}
    for scheme in ("light", "dark"):
        page = browser.new_page(color_scheme=scheme)
        page.goto((run / "report.html").as_uri())
        colors[scheme] = page.evaluate(
            "[...document.querySelectorAll('figure > svg')].map((s) => getComputedStyle(s.querySelector('path')).fill)"
        )
        page.close()
    assert colors == {"light": ["rgb(255, 255, 255)"] * 2, "dark": ["rgb(20, 24, 28)"] * 2}


@pytest.mark.browser
def test_in_a_browser_a_hover_shows_the_value(browser: Any, run: Path) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto((run / "report.html").as_uri())
    page.wait_for_function("document.documentElement.dataset.ready === 'true'")
    chart = page.locator("#explorer-chart")
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_function("document.querySelector('#explorer-chart').innerText.includes('layer 3')")
    assert f"{HOSTILE}:" in chart.inner_text()
    page.close()


def test_a_long_curve_is_thinned_to_what_a_picture_can_show() -> None:
    x = np.arange(1.0, 100_001)
    y = np.sin(x / 500)
    y[77_777] = np.nan
    thin = thinned(x, y, y - 1, y + 1)
    assert all(len(part) == MOST_POINTS for part in thin)
    assert thin[0][-1] == x[-1]
    assert np.nanmin(thin[2]) == np.nanmin(y - 1)
    assert np.nanmax(thin[3]) == np.nanmax(y + 1)
    short = thinned(x[:9], y[:9], y[:9], y[:9])
    assert np.array_equal(short[0], x[:9])


def test_the_explorer_shows_measures_by_the_labels_that_their_probes_declare(tmp_path: Path, tree: Any) -> None:
    (tmp_path / "mine.py").write_text(
        "from gradlab.parts import Probe\n\n\nclass Largest(Probe):\n    'Largest weight.'\n\n    name = 'largest'\n"
        "    measures = ('weight_max', 'weight_min')\n    labels = {'weight_max': 'largest weight'}\n"
        "    kinds = {'weight_min': 'signed'}\n\n    def measure(self, layer):\n"
        "        return {'weight_max': float(layer.weight.max()), 'weight_min': float(layer.weight.min())}\n"
    )
    found = make_explorer(gradlab.run({**tree, "parts": [str(tmp_path / "mine.py")]}).measured)
    assert found is not None
    shown = {measure["name"]: measure for measure in found["measures"]}
    assert next(iter(shown)) == "grad_l2"
    assert shown["grad_l2"]["label"] == "weight gradient, ‖dL/dW‖₂"
    assert (shown["weight_max"]["label"], shown["weight_max"]["log"]) == ("largest weight", True)
    assert (shown["weight_min"]["label"], shown["weight_min"]["log"]) == ("weight min", False)
    assert not shown["activation_mean.post"]["log"]


def test_figures_on_the_page_have_colors_for_light_and_dark_and_ids_of_their_own(run: Path) -> None:
    page = (run / "report.html").read_text()
    figures = re.findall(r"<figure id=.*?</figure>", page, flags=re.DOTALL)
    assert len(figures) == 2
    dark = re.search(r"@media screen and \(prefers-color-scheme: dark\)\{:root\{(--f-.*?)\}\}", page)
    assert dark is not None
    known = set(re.findall(r"(--f-[0-9a-f]{6}):", dark.group(1)))
    used = {name for figure in figures for name in re.findall(r"var\((--f-[0-9a-f]{6}),#", figure)}
    assert {"--f-ffffff", "--f-1f2933", "--f-c2410c", "--f-0b5fa5"} <= used <= known
    styles = [style for figure in figures for style in re.findall(r'style="([^"]*)"', figure)]
    assert not [style for style in styles if re.search(r"(?<!,)#[0-9a-f]{6}", style)]  # no color without a counterpart
    ids = [found for figure in figures for found in re.findall(r'\bid="([^"]+)"', figure)]
    assert len(set(ids)) == len(ids)


def test_a_name_that_looks_like_a_color_stays_a_name(tree: dict[str, Any]) -> None:
    tree["arms"] = {"plain": {}, 'fill="#1f2933"': {"model.skip": "identity"}}
    page = gradlab.run({**tree, "figures": ["training_loss"]}).page()
    assert 'fill="#1f2933"</text>' in page
