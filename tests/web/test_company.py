"""Several pages at one server, a server that ends, and what theory adds to the layer view; in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from lab_server import Lab, served, wait_for
from lab_visit import SMALL, Visit, read, wait

pytestmark = pytest.mark.browser
LONG = SMALL.replace("steps=60", "steps=100000")
BANDS = (
    "(id) => echarts.getInstanceByDom(document.querySelector(id)).getOption().series.map((s) => `${s.name}: ${s.type}`)"
)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with served(tmp_path_factory.mktemp("lab")) as found:
        yield found


def test_two_pages_train_and_a_third_is_refused_with_a_sentence_until_one_pauses(browser: Any, lab: Lab) -> None:
    with ExitStack() as stack:
        first, second = (stack.enter_context(Visit(browser, lab, "/" + LONG)) for _ in range(2))
        third = stack.enter_context(Visit(browser, lab, "/" + LONG, refusals=1))
        for page in (first, second):
            page.locator("#play").click()
            wait(page, "body[data-playing='true']:not([data-step='0'])")
        third.locator("#play").click()
        read(third, "#said", "2 pages are training already; pause one of them, then play here.")
        read(third, "#play", "Play")
        first.locator("#play").click()
        read(first, "#play", "Play")
        third.locator("#play").click()
        wait(third, "body[data-playing='true']:not([data-step='0'])")
        wait(third, "#said:empty")


def test_a_page_says_that_its_server_has_ended(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    with served(tmp_path_factory.mktemp("ending")) as ending:
        visit = Visit(browser, ending, "/" + LONG)
        page = visit.__enter__()
        page.locator("#play").click()
        wait(page, "body[data-playing='true']:not([data-step='0'])")
    read(page, "#said", "The lab's server does not answer.")
    read(page, "#play", "Play")
    visit.context.close()  # the browser's own notes of the lost connection are expected


def test_the_layer_view_has_the_band_of_theory_and_says_what_it_is(browser: Any, lab: Lab) -> None:
    with Visit(browser, lab, "/" + SMALL) as page:
        read(page, "#theory-note", "Dotted line and band: what theory expects before training")
        for row in ("signal", "delta", "gradient"):
            wait_for(
                lambda row=row: {"A, band: custom", "B, band: custom"} <= set(page.evaluate(BANDS, f"#{row}-chart"))
            )
        assert page.evaluate(BANDS, "#dead-chart") == ["A: line", "B: line"]
