"""Two networks of a page: the bits of a run, whatever is paused, stepped, rewound or watched."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from lab_server import TINY, wait_for

from gradlab.runs.worker import run_trial
from gradlab.web import settings as limits
from gradlab.web.frames import Stage
from gradlab.web.lessons import get_lesson, lessons
from gradlab.web.pair import Pair
from gradlab.web.session import Order, Session, Sessions
from gradlab.web.settings import Settings, plan_settings, read_settings
from gradlab.web.uploads import Uploads


def settings_of(**changes: Any) -> Settings:
    return read_settings({"steps": 60, "a": TINY, "b": {**TINY, "skip": "identity"}, **changes})


def order_of(uploads: Uploads, playing: bool = True, **changes: Any) -> Order:
    settings = settings_of(**changes)
    return Order(settings, plan_settings(settings, uploads), playing)


@pytest.fixture
def session() -> Iterator[Session]:
    found = Session("one")
    found.messages.listen(lambda: None)
    yield found
    found.close()
    found.join(10)


def frame_of(session: Session) -> dict[str, Any]:
    found: dict[str, Any] = (
        json.loads(session.messages.newest["frame"][1]) if "frame" in session.messages.newest else {}
    )
    return found


def wait_for_end(session: Session, load: int) -> list[str]:
    """Wait for the last frame of a load; return the digests of both networks."""

    def ended() -> bool:
        frame = frame_of(session)
        return frame.get("load") == load and all(arm["ended"] for arm in frame["arms"])

    wait_for(ended)
    return [arm["digest"] for arm in frame_of(session)["arms"]]


def wait_for_step(session: Session, step: int) -> dict[str, Any]:
    wait_for(lambda: frame_of(session).get("step") == step)
    return frame_of(session)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"task": "xor", "a": {**TINY, "batch": "full"}, "b": {**TINY, "batch": "full", "activation": "tanh"}},
        {"task": "circles", "a": {**TINY, "norm": "batch"}, "b": {**TINY, "optimizer": "momentum"}},
        {"task": "mnist", "steps": 20, "a": TINY, "b": {**TINY, "skip": "rezero"}},
    ],
)
def test_what_the_page_trains_has_the_bits_of_a_run(session: Session, uploads: Uploads, changes: Any) -> None:
    order = order_of(uploads, **changes)
    assert wait_for_end(session, session.begin(order)) == [run_trial(trial).digest for trial in order.plan.trials]


def test_pausing_stepping_and_pacing_change_no_bit(session: Session, uploads: Uploads) -> None:
    order = order_of(uploads, playing=False)
    load = session.begin(order)
    wait_for_step(session, 0)
    session.make_step()
    assert wait_for_step(session, 1)["arms"][0]["loss"] is not None
    session.set_speed(400.0)
    session.play()
    wait_for(lambda: frame_of(session)["step"] > 5)
    session.pause()
    session.set_speed(None)
    session.make_step()
    session.play()
    assert wait_for_end(session, load) == [run_trial(trial).digest for trial in order.plan.trials]


def test_a_rewound_pair_is_the_same_again(uploads: Uploads) -> None:
    sessions = Sessions()
    try:
        session = sessions.open(settings_of(), playing=True)
        session.messages.listen(lambda: None)
        first = wait_for_end(session, 1)
        told = sessions.rewind(session)
        assert "initial weights" in told["said"]
        assert wait_for_step(session, 0)["playing"] is False
        session.play()
        assert wait_for_end(session, told["load"]) == first
    finally:
        sessions.close_all()


def test_a_larger_budget_continues_and_another_setting_restarts_and_both_are_said() -> None:
    sessions = Sessions()
    try:
        session = sessions.open(settings_of(), playing=True)
        session.messages.listen(lambda: None)
        wait_for_end(session, 1)
        session.pause()
        more = sessions.change(session, settings_of(steps=90))
        assert more["said"] == "Continues with a budget of 90 steps; what was trained is kept."
        wait_for(lambda: frame_of(session)["load"] == more["load"] and frame_of(session)["step"] == 60)
        other = sessions.change(session, settings_of(steps=90, b={**TINY, "lr": 0.01}))
        assert other["said"] == "Restarted: the skip of B and the learning rate of B changed."
        wait_for(lambda: frame_of(session)["load"] == other["load"])
        assert frame_of(session)["step"] == 0
        stage = json.loads(session.messages.newest["stage"][1])
        assert (stage["load"], stage["said"]) == (other["load"], other["said"])
    finally:
        sessions.close_all()


def test_a_second_change_before_the_first_is_there_keeps_the_step_and_the_pause() -> None:
    sessions = Sessions()
    try:
        session = sessions.open(settings_of(), playing=True)
        session.messages.listen(lambda: None)
        wait_for_end(session, 1)
        for steps in (70, 80, 90):
            load = sessions.change(session, settings_of(steps=steps))["load"]
        wait_for(lambda: frame_of(session)["load"] == load and frame_of(session)["step"] == 60)
        assert session.aim == (False, 60)
    finally:
        sessions.close_all()


def test_a_step_asked_for_while_the_networks_are_being_built_is_made(session: Session, uploads: Uploads) -> None:
    load = session.begin(order_of(uploads))
    session.make_step()
    wait_for(lambda: (frame_of(session).get("load"), frame_of(session).get("told")) == (load, 2))
    assert wait_for_step(session, 1)["playing"] is False


def test_every_order_is_followed_by_a_frame_that_has_heard_it(session: Session, uploads: Uploads) -> None:
    session.begin(order_of(uploads, playing=False))
    wait_for_step(session, 0)
    session.pause()
    session.pause()  # changes nothing, and is answered all the same
    wait_for(lambda: frame_of(session)["told"] == session.told == 3)


def test_without_a_listener_no_frame_is_made(uploads: Uploads) -> None:
    session = Session("alone")
    try:
        session.begin(order_of(uploads))
        wait_for(lambda: session.step == 60)
        assert "frame" not in session.messages.newest
    finally:
        session.close()
        session.join(10)


def test_a_closed_session_lets_its_networks_go(uploads: Uploads) -> None:
    session = Session("short")
    session.begin(order_of(uploads, steps=100_000))
    wait_for(lambda: session.step > 10)
    session.close()
    session.join(10)
    assert not any(thread.is_alive() for thread in session._threads)
    assert session._pair is None


def test_only_so_many_pages_train_at_once_and_the_refusal_is_a_sentence() -> None:
    sessions = Sessions()
    try:
        long = settings_of(steps=100_000)
        for _ in range(limits.TRAINING):
            sessions.open(long, playing=True, speed=1.0)
        third = sessions.open(long, playing=True)
        assert not third.training
        with pytest.raises(limits.Refused, match="2 pages are training already; pause one of them"):
            sessions.play(third)
        sessions._known[next(iter(sessions._known))].pause()
        sessions.play(third)
        assert third.training
        for _ in range(limits.PAGES - 3):
            sessions.open(settings_of())
        with pytest.raises(limits.Refused, match="20 pages are open already"):
            sessions.open(settings_of())
    finally:
        sessions.close_all()


def stage_and_frame(settings: Settings, uploads: Uploads, steps: int | None = None) -> tuple[Any, dict[str, Any]]:
    """A stage and its frame after some steps (all, if not given)."""
    with np.errstate(all="ignore"):
        plan = plan_settings(settings, uploads)
        pair = Pair(plan)
        stage = Stage(settings, plan, pair.setups)
        pair.advance(settings.steps if steps is None else steps)
        return stage, stage.frame(pair.state())


def test_a_diverged_network_says_at_which_step_in_which_layer_and_why(uploads: Uploads) -> None:
    _, frame = stage_and_frame(get_lesson("learning-rate").settings, uploads)
    arm = frame["arms"][1]
    assert arm["state"] == "diverged"
    assert arm["numbers"] == {"step": 7}
    assert "layer 5 of 5" in arm["words"]
    assert "rate of 3 " in arm["words"]
    too_large = settings_of(a={**TINY, "depth": 60, "scale": 1e6}, b={**TINY, "depth": 60, "scale": 1e6})
    assert stage_and_frame(too_large, uploads)[1]["arms"][0]["code"] == "diverged"


EXPECTED = {
    "deep-plain": ("learning", "vanishing"),
    "skip": ("vanishing", "learning"),
    "residual-branch": ("exploding", "learning"),
    "he-or-xavier": ("learning", "learning"),
    "batch-norm": ("learning", "exploding"),
    "dead-relus": ("dying", "learning"),
    "learning-rate": ("learning", "diverged"),
    "fair-comparison": ("learning", "learning"),
}
QUICK = ("skip", "residual-branch", "dead-relus", "learning-rate", "fair-comparison")


def check_lesson(name: str, uploads: Uploads) -> dict[str, Any]:
    _, frame = stage_and_frame(get_lesson(name).settings, uploads)
    assert tuple(arm["state"] for arm in frame["arms"]) == EXPECTED[name]
    return frame


@pytest.mark.parametrize("name", QUICK)
def test_a_lesson_shows_what_it_says(name: str, uploads: Uploads) -> None:
    frame = check_lesson(name, uploads)
    if name == "dead-relus":
        assert max(frame["arms"][0]["layers"]["dead"]) == 1
        assert max(frame["arms"][1]["layers"]["dead"]) == 0
        assert [arm["accuracy"] for arm in frame["arms"]] == [0.5, 1.0]
    if name == "skip":
        assert "4.5" in stage_and_frame(get_lesson(name).settings, uploads, 0)[1]["arms"][0]["words"]


@pytest.mark.shipped
@pytest.mark.parametrize("name", sorted(EXPECTED.keys() - set(QUICK)))
def test_a_lesson_with_digits_shows_what_it_says(name: str, uploads: Uploads) -> None:
    frame = check_lesson(name, uploads)
    a, b = frame["arms"]
    if name == "deep-plain":
        assert a["accuracy"] > 0.85
        assert b["accuracy"] < 0.2
    if name == "he-or-xavier":
        assert b["loss"] < a["loss"]


def test_there_are_eight_lessons_each_with_two_sentences_a_question_and_an_answer() -> None:
    assert set(lessons()) == set(EXPECTED)
    assert [lesson.order for lesson in lessons().values()] == list(range(1, 9))
    for lesson in lessons().values():
        assert len(lesson.text) == 2
        assert lesson.question.endswith("?")
        assert lesson.answer
        assert lesson.look in ("loss", "signal", "delta", "gradient", "dead", "scene", "audit")
        assert lesson.model_dump(mode="json")["settings"]["task"]


def test_a_frame_of_points_has_a_surface_and_one_of_digits_has_answers(uploads: Uploads) -> None:
    stage, frame = stage_and_frame(settings_of(task="moons", steps=2), uploads)
    scene = stage.scene.to_json()
    assert scene["kind"] == "plane"
    assert len(scene["points"]) == len(scene["labels"]) == 400
    assert all(0 <= x <= 1 and 0 <= y <= 1 for x, y in scene["points"])
    assert len(frame["arms"][0]["surface"]) == 4 * math.ceil(40 * 40 / 3)
    stage, frame = stage_and_frame(settings_of(task="mnist", steps=1), uploads)
    assert len(stage.scene.to_json()["labels"]) == 10
    assert all(0 <= digit <= 9 and 0 <= sure <= 100 for digit, sure in frame["arms"][0]["answers"])
    assert stage_and_frame(settings_of(steps=1), uploads)[0].scene is None
