"""A fast hand, a slow frame, messages in any order: the page still shows and does what was asked for last."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from lab_server import Lab, served, wait_for
from lab_visit import SMALL, Visit, read, wait

from gradlab.spec.yaml_text import dump
from gradlab.web.frames import Stage

pytestmark = pytest.mark.browser
LONG = SMALL.replace("steps=60", "steps=100000")
PRESSES = (
    "(keys) => { for (const key of keys)"
    " document.body.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true })); }"
)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with served(tmp_path_factory.mktemp("lab")) as found:
        yield found


def only_session(lab: Lab) -> Any:
    """The one session; those of pages before end some seconds after their page."""
    wait_for(lambda: len(lab.sessions) == 1)
    return next(iter(lab.sessions._known.values()))


def test_keys_pressed_at_once_are_obeyed_one_after_the_other(browser: Any, lab: Lab) -> None:
    with Visit(browser, lab, "/" + LONG) as page:
        found = only_session(lab)
        page.evaluate(PRESSES, [" ", " "])
        wait_for(lambda: found.told == 3)
        assert found.aim[0] is False
        read(page, "#play", "Play")
        page.evaluate(PRESSES, ["r", "s", "s", "s"])
        wait(page, "body[data-load='2'][data-step='3'][data-playing='false']")
        page.evaluate(PRESSES, ["r", " "])
        wait(page, "body[data-load='3'][data-playing='true']:not([data-step='0'])")
        read(page, "#play", "Pause")


def test_what_was_shown_is_not_painted_into_the_picture_of_other_networks(
    browser: Any, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_look = threading.Event()
    may_look.set()
    frame = Stage.frame
    monkeypatch.setattr(Stage, "frame", lambda *given: may_look.wait(60) and frame(*given))
    with Visit(browser, lab, "/" + LONG.replace("moons", "identity")) as page:
        page.locator("#step").click()
        wait(page, "body[data-step='1']")
        may_look.clear()  # the new networks are announced, and their first frame is late
        page.select_option("#task", "moons")
        page.locator("#scene").wait_for()
        page.emulate_media(color_scheme="dark")  # paints everything again
        may_look.set()
        wait(page, "body[data-load='2']")
        page.evaluate("document.querySelector('#task').value = 'circles'; document.querySelector('#dice').click();")
        page.evaluate(PRESSES, ["n", "n"])
        page.wait_for_url("**task=circles&factor=skip&seed=3**")
        wait(page, "body[data-load='5']")


def test_looking_back_stays_where_it_is_while_training_goes_on(browser: Any, lab: Lab) -> None:
    with Visit(browser, lab, "/" + LONG) as page:
        page.locator("#step").click()
        wait(page, "body[data-step='1']")
        page.locator("#play").click()
        wait(page, "body[data-playing='true']:not([data-step='1'])")
        page.locator("#scrub").fill("1")
        wait(page, "body[data-step='1']")
        read(page, "#said", "Looking back at step 1; training goes on.")
        made = only_session(lab).step
        wait_for(lambda: only_session(lab).step > made + 20)
        wait(page, "body[data-step='1']")
        page.locator("#live").click()
        wait(page, "body:not([data-step='1'])")
        read(page, "#play", "Pause")


def test_a_click_is_not_lost_when_the_list_of_runs_changes_under_it(
    browser: Any, lab: Lab, tree: dict[str, Any]
) -> None:
    base = {**tree["base"], "train": {**tree["base"]["train"], "steps": 3_000_000}}
    (lab.folder / "long.yaml").write_text(dump({**tree, "base": base, "figures": []}))
    with Visit(browser, lab, "/runs") as page:
        page.select_option("#study", "long.yaml")
        page.locator("#start").click()
        stop, live = page.locator("[data-run='runs/long'] button", has_text="Stop"), "[data-run='runs/long'] .live li"
        wait(page, live)
        before = page.locator(live).first.inner_text()
        stop.hover()
        page.mouse.down()
        page.locator(live).first.filter(has_not_text=before).wait_for()
        page.mouse.up()
        read(page, "#start-said", "runs/long is stopping: finished trials are kept")
        wait(page, "[data-run='runs/long'][data-state='stopped']")
