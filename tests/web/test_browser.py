"""The lab in a real browser: two networks learn, a lesson is taken, a study is saved and run, runs are followed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import spawned
from lab_server import Lab, served, wait_for
from lab_visit import ENDED, READY, SMALL, Visit, digests, losses, play_to_the_end, read, wait

from gradlab import api
from gradlab.spec.yaml_text import dump

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with served(tmp_path_factory.mktemp("lab")) as found:
        yield found


def test_two_networks_train_and_part_when_the_skip_is_set_and_rewind_gives_the_same_bits(
    browser: Any, lab: Lab
) -> None:
    with Visit(browser, lab, "/" + SMALL.replace("b.skip=identity", "b.skip=none")) as page:
        play_to_the_end(page)
        first = losses(page)
        assert first[0] == first[1]
        wait(page, "#audit[data-state='same']")
        page.select_option("#b-skip", "identity")
        wait(page, "body[data-load='2']")
        read(page, "#said", "Restarted: the skip of B changed.")
        page.wait_for_url("**b.skip=identity**")
        wait(page, "#audit[data-state='fair']")
        read(page, "#audit .line", "Fair: they differ only in the skip.")
        assert page.locator("tr.differs").count() == 1
        page.locator("#play").click()
        wait(page, ENDED)
        apart, bits = losses(page), digests(page)
        assert apart[0] == first[0]
        assert apart[1] != first[1]
        page.locator("#rewind").click()
        wait(page, "body[data-load='3'][data-step='0']")
        read(page, "#play", "Play")
        assert page.locator("#step").is_enabled()
        page.locator("#play").click()
        wait(page, f"body[data-load='3']{ENDED[4:]}")
        assert digests(page) == bits


def test_save_as_study_then_gradlab_run_gives_the_digests_of_the_page(browser: Any, lab: Lab) -> None:
    with Visit(browser, lab, "/" + SMALL) as page:
        play_to_the_end(page)
        shown = digests(page)
        page.locator("#save").click()
        page.locator("#save-dialog[open]").wait_for()
        assert "task: moons" in page.locator("#save-dialog pre").inner_text()
        page.locator("#save-name").fill("from-the-page")
        page.locator("#save-write").click()
        page.get_by_text("Saved as from-the-page.yaml").wait_for()
    done = spawned("run", "from-the-page.yaml", cwd=lab.folder)
    assert done.returncode == 0, done.stderr
    trials = api.open_run(lab.folder / "runs/from-the-page").measured.frame()
    stored = dict(zip(trials["group"].to_pylist(), trials["digest"].to_pylist(), strict=True))
    assert shown == [stored["A"], stored["B"]]


def test_a_lesson_runs_through_by_keyboard_alone(browser: Any, lab: Lab) -> None:
    with Visit(browser, lab, "/lesson/learning-rate", color_scheme="dark") as page:
        read(page, "#lesson h1", "Too high a learning rate")
        page.keyboard.press("Space")
        wait(page, ".card.b .pill[data-state='diverged']")
        read(page, ".card.b .words", "Diverged at step 7")
        page.keyboard.press("Space")
        read(page, "#lesson-play", "Play")
        page.keyboard.press("r")
        wait(page, "body[data-load='2'][data-step='0'][data-playing='false']")
        for step in (1, 2):
            page.keyboard.press("s")
            wait(page, f"body[data-step='{step}']")
        page.locator("#lesson-answer").focus()
        page.keyboard.press("Enter")
        page.locator("#lesson .reply").wait_for()
        page.keyboard.press("[")
        page.locator("#live").wait_for()
        wait(page, "body[data-step='1']")
        page.keyboard.press("]")
        page.locator("#live").wait_for(state="hidden")
        wait(page, "body[data-step='2']")
        page.locator("#lesson a[rel='next']").focus()
        page.keyboard.press("Enter")
        page.wait_for_url("**/lesson/fair-comparison")
        wait(page, "#audit[data-state='unfair']")
        read(page, "#audit .line", "besides the skip they differ in the init scale")


def test_every_control_has_a_name_and_can_be_reached_by_tab(browser: Any, lab: Lab) -> None:
    with Visit(browser, lab, "/" + SMALL) as page:
        nameless = page.evaluate(
            "[...document.querySelectorAll('button, input, select, a, summary')].filter((e) => e.offsetParent && "
            "!(e.ariaLabel || e.textContent.trim() || e.labels?.length)).map((e) => e.outerHTML)"
        )
        assert nameless == []
        reached = set()
        for _ in range(60):
            page.keyboard.press("Tab")
            reached.add(page.evaluate("document.activeElement.id"))
        assert {"play", "rewind", "step", "scrub", "speed", "task", "seed", "a-skip", "b-batch", "save"} <= reached


@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_flows_over_at_any_width(browser: Any, lab: Lab, width: int, scheme: str) -> None:
    options = {"viewport": {"width": width, "height": 850}, "color_scheme": scheme}
    with Visit(browser, lab, "/" + SMALL, **options) as page:
        page.locator("#step").click()
        wait(page, "body[data-step='1']")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.goto(f"{lab.base}/runs")
        wait(page, READY)
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_bad_file_is_answered_with_a_sentence_and_a_good_one_is_trained(
    browser: Any, lab: Lab, tmp_path: Path
) -> None:
    (tmp_path / "bad.csv").write_text("a,y\nred,1\n")
    rows = "".join(f"{i % 7},{i % 5},{i % 2}\n" for i in range(80))
    (tmp_path / "good.csv").write_text(f"a,b,y\n{rows}")
    with Visit(browser, lab, "/" + SMALL, refusals=2) as page:
        with page.expect_file_chooser() as chooser:
            page.select_option("#task", "upload")
        chooser.value.set_files(tmp_path / "bad.csv")
        read(page, "#refusal", "column 'a' is not numeric")
        page.set_input_files("#file", tmp_path / "good.csv")
        wait(page, "body[data-load='2']")
        read(page, "#stated", "good.csv: 80 samples of 2 numbers")
        assert page.locator("#scene canvas").count() == 2
        page.fill("#a-depth", "1000")
        page.press("#a-depth", "Enter")
        page.get_by_text("The depth of A must be at most 100, not 1000.").wait_for()


def test_a_link_holds_every_setting_and_frames_can_be_looked_back_at(browser: Any, lab: Lab) -> None:
    link = "/#task=circles&seed=4&steps=40&factor=lr&a.lr=0.01&b.lr=0.02&a.depth=3&b.depth=3&a.width=8&b.width=8"
    with Visit(browser, lab, link) as page:
        assert page.input_value("#seed") == "4"
        assert page.input_value("#b-lr") == "0.02"
        page.locator("#step").click()
        wait(page, "body[data-step='1']")
        page.locator("#step").click()
        wait(page, "body[data-step='2']")
        page.locator("#scrub").fill("0")
        wait(page, "body[data-step='0']")
        page.locator("#live").click()
        wait(page, "body[data-step='2']")


def test_a_run_is_started_followed_stopped_and_opened(browser: Any, lab: Lab, tree: dict[str, Any]) -> None:
    base = {**tree["base"], "train": {**tree["base"]["train"], "steps": 3_000_000}}
    (lab.folder / "long.yaml").write_text(dump({**tree, "base": base, "figures": ["training_loss"]}))
    (lab.folder / "small.yaml").write_text(dump({**tree, "question": "<b>Is it bold?</b>", "figures": []}))
    with Visit(browser, lab, "/runs") as page:
        page.select_option("#study", "long.yaml")
        page.locator("#start").click()
        wait(page, "[data-run='runs/long'][data-state='running'] .live li")
        page.locator("[data-run='runs/long'] button", has_text="Stop").click()
        page.get_by_text("finished trials are kept").wait_for()
        page.select_option("#study", "small.yaml")
        page.locator("#start").click()
        wait(page, "[data-run='runs/long'][data-state='stopped']")
        page.locator("[data-run='runs/small'][data-state='finished'] a").wait_for()
        assert page.locator("[data-run='runs/small'] p").first.inner_text() == "<b>Is it bold?</b>"
        with page.expect_popup() as opened:
            page.locator("[data-run='runs/small'] a").click()
        report = opened.value
        report.wait_for_load_state()
        assert "Is it bold?" in report.title()
        report.close()
        page.locator("[data-run='runs/small'] button", has_text="Move aside").click()
        wait(page, ".run.aside[data-run='runs/small~1']")
        page.locator("#start").click()
        page.locator("[data-run='runs/small'][data-state='finished'] a").wait_for()
        for run in ("runs/small~1", "runs/small"):
            page.locator(f"[data-run='{run}'] input").check()
        page.locator("#compare").click()
        read(page, "#compared h2", "runs/small~1 and runs/small")


def test_a_page_that_is_closed_ends_its_session(browser: Any, lab: Lab) -> None:
    with Visit(browser, lab, "/" + SMALL.replace("steps=60", "steps=100000")) as page:
        page.locator("#play").click()
        wait(page, "body[data-playing='true']")
        assert len(lab.sessions) >= 1
    wait_for(lambda: len(lab.sessions) == 0)
