"""Measure the live lab: frames per second, the cost of being watched, click to first frame, memory over restarts.

python benchmarks/lab.py [ROUNDS]      # default 9; a real server in a process of its own, a page that speaks HTTP

Training is timed inside the server's process by turns, watched and alone, and the best of each counts: a busy moment of
the machine has then little effect. Needs the extra [test] (httpx).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, sleep

import httpx
import psutil

from gradlab.engines.base import one_blas_thread
from gradlab.web.planning import plan_settings
from gradlab.web.serve import SWITCH
from gradlab.web.session import Order, Session
from gradlab.web.settings import Settings, read_settings
from gradlab.web.uploads import Uploads

RESTARTS, WARM, CLICKS = 300, 50, 30
DEEP = {"steps": 1000}
DIGITS = {"task": "mnist", "steps": 400, "a": {"scale": 1.0}, "b": {"scale": 1.0, "skip": "identity"}}
POINTS = {
    "task": "spirals", "steps": 8000,
    "a": {"depth": 6, "width": 16, "scale": 1.0}, "b": {"depth": 6, "width": 16, "skip": "identity"},
}  # fmt: skip


def train(settings: Settings, uploads: Uploads, watched: bool) -> tuple[float, int]:
    """Seconds to train both networks to their end at full speed, and the frames that were made."""
    session, frames = Session("benchmark"), 0

    def count() -> None:
        nonlocal frames
        frames += 1

    leave = session.listen(count) if watched else None
    plan = plan_settings(settings, uploads)
    session.begin(Order(settings, plan, False))
    while session._pair is None:
        sleep(0.001)
    began = perf_counter()
    session.play()
    while session.step < settings.steps:
        sleep(0.001)
    spent = perf_counter() - began
    if leave is not None:
        leave()
    session.close()
    session.join(10)
    return spent, frames


def compare_watched(rounds: int) -> None:
    """Training watched and alone, by turns."""
    uploads = Uploads()
    for name, tree in (("20 layers, identity", DEEP), ("20 layers, digits", DIGITS), ("6 layers, spirals", POINTS)):
        settings = read_settings(tree)
        train(settings, uploads, watched=True)  # kernels, data
        found = [
            (train(settings, uploads, watched=False)[0], *train(settings, uploads, watched=True)) for _ in range(rounds)
        ]
        alone, watched = min(a for a, _, _ in found), min(w for _, w, _ in found)
        rate = median(frames / seconds for _, seconds, frames in found)
        print(
            f"{name}: {2 * settings.steps / alone:,.0f} steps per second alone, {2 * settings.steps / watched:,.0f} "
            f"watched ({100 * (watched / alone - 1):+.1f} %), {rate:.1f} frames per second at full speed"
        )
    uploads.remove_all()


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
