"""A live lab for tests: a real server in a thread, and a page as a client that speaks HTTP."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from gradlab.web.serve import Address, bind, make_server
from gradlab.web.session import Sessions

TINY = {"depth": 3, "width": 8, "batch": 32}
"""An arm that trains in no time."""


@dataclass(frozen=True)
class Lab:
    """Where a server is, and what it holds."""

    address: Address
    sessions: Sessions
    folder: Path

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.address.port}"

    @contextmanager
    def page(self) -> Iterator[httpx.Client]:
        """A client that came by the printed link."""
        with httpx.Client(base_url=self.base, headers={"origin": self.base}, timeout=120) as client:
            assert client.get("/", params={"token": self.address.token}).status_code == 303
            yield client


@contextmanager
def served(folder: Path) -> Iterator[Lab]:
    """Serve a folder while the block runs."""
    listening = bind("127.0.0.1", None)
    address = Address("127.0.0.1", listening.getsockname()[1], "the-key-of-this-test")
    server, sessions = make_server(folder, address)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    wait_for(lambda: server.started)
    try:
        yield Lab(address, sessions, folder)
    finally:
        server.should_exit = True
        thread.join(20)
        listening.close()
        assert not thread.is_alive()


def wait_for(happened: Any, seconds: float = 240, pause: float = 0.01) -> Any:
    """Wait until a function returns something true, and return it."""
    end = time.monotonic() + seconds
    while not (found := happened()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(pause)
    return found


def open_session(client: httpx.Client, **settings: Any) -> str:
    """Open a session with small networks; return its id."""
    tree = {"a": TINY, "b": {**TINY, "skip": "identity"}, "steps": 40, **settings}
    answer = client.post("/api/sessions", json={"settings": tree})
    assert answer.status_code == 200, answer.text
    found: str = answer.json()["id"]
    return found


def hear(client: httpx.Client, session: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The messages of a session: (kind, content)."""
    with client.stream("GET", f"/api/sessions/{session}/events") as stream:
        assert stream.status_code == 200, stream.read()
        kind = ""
        for line in stream.iter_lines():
            if line.startswith("event: "):
                kind = line[7:]
            elif line.startswith("data: "):
                yield kind, json.loads(line[6:])
