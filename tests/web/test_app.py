"""The lab as pages use it: streams of the newest frame, small orders, limits, and what happens when a page is gone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from lab_server import TINY, Lab, hear, open_session, served, wait_for

from gradlab.runs.worker import run_trial
from gradlab.web import app
from gradlab.web import settings as limits
from gradlab.web.settings import plan_settings, read_settings


@pytest.fixture
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with served(tmp_path_factory.mktemp("lab")) as found:
        yield found


def test_a_page_opens_plays_and_sees_the_bits_of_the_study_that_it_can_save(lab: Lab) -> None:
    with lab.page() as page:
        session = open_session(page, seed=2)
        kinds, last = set(), None
        for kind, message in hear(page, session):
            kinds.add(kind)
            if kind == "stage":
                assert message["names"] == ["no skip", "skip"]
                assert page.post(f"/api/sessions/{session}/play").status_code == 200
            if kind == "frame":
                last = message
            if last is not None and all(arm["ended"] for arm in last["arms"]) and "audit" in kinds:
                break
        assert kinds - {"theory"} == {"stage", "frame", "audit"}  # the prediction comes when it is ready
        assert last is not None
        tree = {"a": TINY, "b": {**TINY, "skip": "identity"}, "steps": 40, "seed": 2}
        saved = page.post("/api/study", json={"settings": tree, "name": "mine"}).json()
        assert saved["command"] == "gradlab run mine.yaml"
        plan = plan_settings(read_settings(tree), lab.sessions.uploads)
        assert [arm["digest"] for arm in last["arms"]] == [run_trial(trial).digest for trial in plan.trials]
        assert (lab.folder / "mine.yaml").is_file()


def test_a_page_that_is_closed_stops_its_training(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "GRACE", 0.05)
    with lab.page() as page:
        session = open_session(page, steps=100_000)
        found = lab.sessions.get(session)
        for kind, message in hear(page, session):
            if kind == "stage":
                page.post(f"/api/sessions/{session}/play")
            if kind == "frame" and message["step"] > 0:
                break
        wait_for(lambda: len(lab.sessions) == 0)
        found.join(10)
        assert not any(thread.is_alive() for thread in found._threads)
        gone = page.post(f"/api/sessions/{session}/play")
        assert gone.status_code == 422
        assert "gone" in gone.json()["error"]


def test_a_session_that_no_page_ever_looks_at_is_ended(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "UNSEEN", 0.05)
    with lab.page() as page:
        open_session(page)
        wait_for(lambda: len(lab.sessions) == 0)


def test_a_slow_page_gets_the_newest_frame_and_never_a_queue(lab: Lab) -> None:
    with lab.page() as page:
        session = open_session(page, steps=3000)
        found = lab.sessions.get(session)
        stream = hear(page, session)
        assert next(stream)[0] == "stage"
        found.play()
        wait_for(lambda: found.step == 3000 and b'"ended":true' in found.messages.newest["frame"][1])
        steps = []
        for kind, message in stream:
            if kind == "frame":
                steps.append(message["step"])
            if steps and steps[-1] == 3000:
                break
        assert steps == sorted(steps)
        assert len(found.messages.newest) <= 4


def test_wrong_orders_are_answered_with_sentences(lab: Lab) -> None:
    with lab.page() as page:
        session = open_session(page)
        for path, body in (
            (f"/api/sessions/{session}/dance", {}),
            (f"/api/sessions/{session}/speed", {"speed": -1}),
            (f"/api/sessions/{session}/speed", {"speed": "fast"}),
            (f"/api/sessions/{session}/change", {"settings": {"a": {"depth": 0}}}),
            ("/api/sessions", {"settings": {"task": "nothing"}}),
            ("/api/runs/start", {"study": "../x.yaml"}),
            ("/api/runs/dance", {}),
            ("/api/study", {"settings": {}, "name": "../x"}),
        ):
            answer = page.post(path, json=body)
            assert answer.status_code == 422, path
            assert len(answer.json()["error"]) > 10
        assert page.get("/lesson/nothing").status_code == 404
        assert page.get("/api/sessions/nothing/events").status_code == 422
        file = page.post("/api/upload", params={"name": "<b>.csv"}, content=b"a,y\nx,1\n")
        assert (file.status_code, "column 'a' is not numeric" in file.json()["error"]) == (422, True)
        large = page.post("/api/upload", params={"name": "x.csv"}, content=b"1" * (limits.UPLOAD + 1))
        assert (large.status_code, "larger than 8 MiB" in large.json()["error"]) == (409, True)


def test_twenty_pages_are_connected_and_one_more_is_refused_with_a_sentence(lab: Lab) -> None:
    with ExitStack() as open_pages:
        page = open_pages.enter_context(lab.page())
        sessions = [open_session(page, steps=5) for _ in range(limits.PAGES)]
        streams, threads = [], []
        for session in sessions:
            client = open_pages.enter_context(lab.page())
            streams.append(open_pages.enter_context(client.stream("GET", f"/api/sessions/{session}/events")))
            threads.append(threading.current_thread())
        wait_for(lambda: lab.sessions.connected == limits.PAGES)
        one_more = page.get("/api/runs/events")
        assert one_more.status_code == 409
        assert one_more.json()["error"].startswith("20 pages are connected already")
        assert page.post("/api/sessions", json={"settings": {}}).status_code == 409
        playing = [page.post(f"/api/sessions/{session}/play").status_code for session in sessions[:1]]
        assert playing == [200]
    wait_for(lambda: lab.sessions.connected == 0)
