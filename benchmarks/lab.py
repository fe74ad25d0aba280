"""Measure the live lab: frames per second, the cost of being watched, click to first frame, memory over restarts.

python benchmarks/lab.py [ROUNDS]      # default 9; real servers, and a page that speaks HTTP from another process

Training is timed inside the server's process by turns: with a page that reads its stream, and with none. The best of
each counts, so that a busy moment of the machine has little effect. Needs the extra [test] (httpx).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, sleep

import httpx
import psutil

from gradlab.arithmetic import one_blas_thread
from gradlab.web.serve import SWITCH, Address, bind, make_server
from gradlab.web.session import Session, Sessions
from gradlab.web.settings import Settings, read_settings

RESTARTS, WARM, CLICKS = 300, 50, 30
DEEP = {"steps": 1000}
DIGITS = {"task": "mnist", "steps": 1200, "a": {"scale": 1.0}, "b": {"scale": 1.0, "skip": "identity"}}
POINTS = {
    "task": "spirals", "steps": 20_000,
    "a": {"depth": 6, "width": 16, "scale": 1.0}, "b": {"depth": 6, "width": 16, "skip": "identity"},
}  # fmt: skip
CLIENT = """
import http.client, sys
port, cookie, path = int(sys.argv[1]), sys.argv[2], sys.argv[3]
connection = http.client.HTTPConnection("127.0.0.1", port)
connection.request("GET", path, headers={"cookie": cookie})
for line in connection.getresponse():
    if line.startswith(b"event: "):
        print(line[7:].decode().strip(), flush=True)
"""
"""A page, as cheap as it can be: it reads its stream and tells what came."""


class Watched:
    """A server in this process, whose networks are timed; pages come from processes of their own."""

    def __init__(self, sessions: Sessions, address: Address) -> None:
        self._sessions, self._address = sessions, address

    def train(self, settings: Settings, *, watched: bool) -> tuple[float, int]:
        """Seconds to train both networks to their end at full speed, and the frames that reached the page."""
        session, page = self._sessions.open(settings), None
        if watched:
            page = self._open_page(session)
            assert page.stdout is not None
            while page.stdout.readline() != "frame\n":
                pass
        while session._pair is None:
            sleep(0.001)
        began = perf_counter()
        session.play()
        while session.step < settings.steps:
            sleep(0.002)
        spent, frames = perf_counter() - began, 0
        if page is not None:
            sleep(0.3)
            page.kill()
            frames = page.communicate()[0].count("frame\n")
        self._sessions.close(session.id)
        session.join(10)
        return spent, frames

    def _open_page(self, session: Session) -> subprocess.Popen[str]:
        cookie = f"gradlab-{self._address.port}={self._address.token}"
        words = [str(self._address.port), cookie, f"/api/sessions/{session.id}/events"]
        return subprocess.Popen([sys.executable, "-c", CLIENT, *words], stdout=subprocess.PIPE, text=True)


@contextmanager
def serve_here() -> Iterator[Watched]:
    """A server in a thread of this process."""
    with TemporaryDirectory() as folder:
        listening = bind("127.0.0.1", None)
        address = Address("127.0.0.1", listening.getsockname()[1], "benchmark")
        server, sessions = make_server(Path(folder), address)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        while not server.started:
            sleep(0.01)
        yield Watched(sessions, address)
        server.should_exit = True
        thread.join(10)
        listening.close()


def compare_watched(rounds: int) -> None:
    """Training watched and alone, by turns."""
    with serve_here() as lab:
        for name, tree in (("20 layers, identity", DEEP), ("20 layers, digits", DIGITS), ("6 layers, spirals", POINTS)):
            settings = read_settings(tree)
            lab.train(settings, watched=True)  # kernels, data
            found = [(lab.train(settings, watched=False)[0], *lab.train(settings, watched=True)) for _ in range(rounds)]
            alone, watched = min(a for a, _, _ in found), min(w for _, w, _ in found)
            rate = median(frames / seconds for _, seconds, frames in found)
            print(
                f"{name}: {2 * settings.steps / alone:,.0f} steps per second alone, "
                f"{2 * settings.steps / watched:,.0f} watched ({100 * (watched / alone - 1):+.1f} %), "
                f"{rate:.1f} frames per second at full speed"
            )


@contextmanager
def serve() -> Iterator[tuple[httpx.Client, int]]:
    """A server in a process of its own: a client that is let in, and the server's process id."""
    with TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "gradlab", "lab", folder, "--no-browser", "--json"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        url = json.loads("".join(iter(process.stdout.readline, "}\n")) + "}")["url"]
        base = url.split("/?")[0]
        try:
            with httpx.Client(base_url=base, headers={"origin": base}, timeout=120) as client:
                client.get(url)
                yield client, process.pid
        finally:
            process.terminate()
            process.wait()
            process.stdout.close()


def measure_page() -> None:
    """Through HTTP, as a browser does it: frames at the page's usual speed, clicks, memory."""
    with serve() as (client, pid):
        session = client.post("/api/sessions", json={"settings": {"steps": 100_000}, "speed": 100}).json()["id"]
        lines = client.stream("GET", f"/api/sessions/{session}/events")
        with lines as stream:
            messages = read(stream)
            wait_for_frame(messages, 1)
            client.post(f"/api/sessions/{session}/play")
            began, frames = perf_counter(), 0
            while perf_counter() - began < 5:
                frames += next(messages)[0] == "frame"
            print(f"100 steps per second: {frames / (perf_counter() - began):.1f} frames per second reach the page")
            client.post(f"/api/sessions/{session}/pause")
            spent, sizes = [], []
            for number in range(RESTARTS):
                tree = {"settings": {"steps": 1000, "seed": number}}
                clicked = perf_counter()
                load = client.post(f"/api/sessions/{session}/change", json=tree).json()["load"]
                wait_for_frame(messages, load)
                spent.append(perf_counter() - clicked)
                if number >= WARM and number % 50 == 0:
                    sizes.append(psutil.Process(pid).memory_info().rss / 2**20)
            sizes.append(psutil.Process(pid).memory_info().rss / 2**20)
            best, middle = min(spent[:CLICKS]), median(spent)
            print(f"click to first frame: {1000 * middle:.0f} ms (median of {RESTARTS}), {1000 * best:.0f} ms at best")
            print(f"memory of the server over {RESTARTS} restarts, MiB: {', '.join(f'{size:.0f}' for size in sizes)}")


def read(stream: httpx.Response) -> Iterator[tuple[str, str]]:
    """The messages of a stream."""
    kind = ""
    for line in stream.iter_lines():
        if line.startswith("event: "):
            kind = line[7:]
        elif line.startswith("data: "):
            yield kind, line[6:]


def wait_for_frame(messages: Iterator[tuple[str, str]], load: int) -> None:
    """Wait for the first frame of a restart."""
    for kind, content in messages:
        if kind == "frame" and json.loads(content)["load"] == load:
            return


def main() -> None:
    """All of it."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    sys.setswitchinterval(SWITCH)
    with one_blas_thread():
        compare_watched(rounds)
    measure_page()


if __name__ == "__main__":
    main()
