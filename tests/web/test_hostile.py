"""Messages that no page of the lab sends: each gets a sentence, none a traceback, and nothing of them stays."""

from __future__ import annotations

import gc
import logging
import os
import random
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hostile_messages import make_message
from lab_server import TINY, Lab, hear, open_session, served, wait_for

from gradlab.web import app
from gradlab.web.uploads import PREFIX, Scratch


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with served(tmp_path_factory.mktemp("lab")) as found:
        yield found


def send(lab: Lab, count: int, seed: int) -> Counter[int]:
    """Send generated messages; counts the status codes of the answers."""
    codes: Counter[int] = Counter()
    with lab.page() as page:
        session = open_session(page)
        for number in range(count):
            path, body = make_message(random.Random(f"{seed} {number}"), session)
            answer = page.post(path, content=body)
            codes[answer.status_code] += 1
            assert answer.status_code != 500, f"message {number} of {seed}: {path} {body!r}"
            if path == "/api/sessions" and answer.status_code == 200:
                lab.sessions.close(answer.json()["id"])
        lab.sessions.close(session)
    return codes


def test_malformed_messages_are_answered_with_what_is_wrong(
    lab: Lab, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    codes = send(lab, 120, seed=1)
    assert codes[422] > 60
    assert set(codes) <= {200, 404, 409, 422}
    assert capfd.readouterr().err == ""
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.slow
def test_thousands_of_malformed_messages_are_answered_and_no_memory_stays(
    lab: Lab, capfd: pytest.CaptureFixture[str], record_property: Any
) -> None:
    send(lab, 500, seed=2)  # kernels, data and caches
    before = resident()
    codes = send(lab, 4000, seed=3)
    wait_for(lambda: len(lab.sessions) == 0)
    after = wait_for(lambda: (now := resident()) < before + 30 and now, 30)
    assert set(codes) <= {200, 404, 409, 422}
    assert capfd.readouterr().err == ""
    record_property("megabytes", (before, after, dict(codes)))


@pytest.mark.parametrize(
    ("field", "value", "named"),
    [
        ("lr", "Infinity", "Infinity"),
        ("lr", "1" * 40, "the learning rate of A"),
        ("lr", "NaN", "NaN"),
        ("scale", "[1]", "scale"),
        ("depth", "1" * 40, "depth"),
        ("activation", '"\\ud800"', "not Unicode"),
        ("batch", "[]", "batch"),
        ("skip", '{"kind": [1]}', "skip"),
    ],
)
def test_a_setting_that_is_none_is_refused_by_name(field: str, value: str, named: str, lab: Lab) -> None:
    with lab.page() as page:
        for path in ("/api/sessions", "/api/study"):
            answer = page.post(path, content=f'{{"settings": {{"a": {{"{field}": {value}}}}}}}'.encode())
            assert answer.status_code == 422
            assert named in answer.json()["error"]


def test_a_connection_that_is_dropped_in_the_middle_of_a_message_prints_nothing(
    lab: Lab, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with lab.page() as page:
        cookie = "; ".join(f"{name}={value}" for name, value in page.cookies.items())
        head = (
            f"Host: 127.0.0.1:{lab.address.port}\r\nOrigin: {lab.base}\r\nCookie: {cookie}\r\n"
            "Content-Length: 5000\r\n\r\n"
        )
        for path in ("/api/sessions", "/api/upload?name=a.csv", "/api/runs/compare"):
            with socket.create_connection(("127.0.0.1", lab.address.port)) as raw:
                raw.sendall(f"POST {path} HTTP/1.1\r\n{head}{{".encode())
        for cut in ("POST /api/sess", "POST /api/sessions HTTP/1.1\r\nHost: 12"):
            with socket.create_connection(("127.0.0.1", lab.address.port)) as raw:
                raw.sendall(cut.encode())
        assert page.get("/api/choices").status_code == 200  # the others have been heard
        session = open_session(page)
        for _ in hear(page, session):
            break  # the page is closed while its stream goes on
        assert page.get("/api/choices").status_code == 200
    assert capfd.readouterr().err == ""
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


# ---------------------------------------------------------------------- what stays


def resident() -> float:
    """Memory of this process in MB."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
def test_pages_that_were_opened_and_closed_leave_no_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record_property: Any
) -> None:
    monkeypatch.setattr(app, "GRACE", 0.1)
    with served(tmp_path) as lab, lab.page() as page:

        def visit(depth: int) -> None:
            session = open_session(page, a={**TINY, "depth": depth, "width": 128}, steps=200)
            for kind, _ in hear(page, session):
                if kind == "audit":
                    break

        for number in range(5):
            visit(20 + number)
        wait_for(lambda: len(lab.sessions) == 0)
        before = resident()
        for number in range(25):
            visit(10 + 2 * number)
        wait_for(lambda: len(lab.sessions) == 0)
        after = wait_for(lambda: (now := resident()) < before + 40 and now, 30)
    record_property("megabytes", (before, after))


def test_the_folders_that_a_killed_lab_has_left_are_removed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    code = (
        "from gradlab.web.uploads import Scratch; import os; it = Scratch(); (it.path / 'a').touch(); "
        "os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code], env={**os.environ, "TMPDIR": str(tmp_path)}, check=False)
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(PREFIX)
    (tmp_path / "gradlab-lab-link").symlink_to(tmp_path.parent)
    living, other = Scratch(), Scratch()
    assert not left.exists()
    assert {living.path, other.path} <= {*tmp_path.iterdir()}
    assert (tmp_path / "gradlab-lab-link").is_symlink()
    for each in (living, other):
        each.remove()
    assert not living.path.exists()
