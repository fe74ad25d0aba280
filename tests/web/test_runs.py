"""Runs on the page: started, followed, stopped, moved aside, compared; nothing outside the folder."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from commands import ENVIRONMENT
from lab_server import TINY, served, wait_for

from gradlab import api
from gradlab.errors import InvalidInput, StoreError
from gradlab.runs.store.files import Lock
from gradlab.spec.yaml_text import dump
from gradlab.web.app import save_study
from gradlab.web.pair import Pair
from gradlab.web.runs import Runs
from gradlab.web.settings import plan_settings, read_settings
from gradlab.web.uploads import Uploads


@pytest.fixture
def folder(tree: dict[str, Any], tmp_path: Path) -> Path:
    (tmp_path / "small.yaml").write_text(dump({**tree, "figures": []}))
    return tmp_path


def listed(runs: Runs, identity: str) -> dict[str, Any]:
    runs._listed = None
    found = [run for run in runs.listing()["runs"] if run["id"] == identity]
    return found[0] if found else {}


def test_a_run_is_started_followed_to_its_end_opened_compared_and_moved_aside(folder: Path) -> None:
    with served(folder) as lab, lab.page() as page:
        runs = Runs(folder)
        assert page.get("/api/studies").json()["own"] == ["small.yaml"]
        checked = page.post("/api/runs/check", json={"study": "small.yaml"}).json()
        assert checked["audit"]["same_setup_except_factor"] is True
        assert len(checked["plan"]["trials"]) == 4
        started = page.post("/api/runs/start", json={"study": "small.yaml", "seeds": 3})
        assert started.json()["command"] == "gradlab run small.yaml --seeds 3"
        wait_for(lambda: (run := listed(runs, "runs/small")) and run["finished"] and run["report"], 120, 0.3)
        wait_for(lambda: not listed(runs, "runs/small")["alive"], pause=0.3)
        report = page.get("/api/runs/report", params={"run": "runs/small"})
        assert report.status_code == 200
        assert report.headers["content-security-policy"].startswith("sandbox allow-scripts")
        assert "allow-same-origin" not in report.headers["content-security-policy"]
        api.run(folder / "small.yaml", out=folder / "runs/other", figures=False)
        found = page.post("/api/runs/compare", json={"first": "runs/small", "second": "runs/other"}).json()
        assert found["summary"].startswith("1 settings differ. 4 trials")
        said = page.post("/api/runs/aside", json={"run": "runs/small"}).json()["said"]
        assert said == "runs/small is now runs/small~1."
        assert listed(runs, "runs/small~1")["aside"] is True
        assert not (folder / "runs/small").exists()


def test_a_run_is_stopped_as_by_the_first_ctrl_c_also_if_the_server_that_started_it_is_gone(
    tree: dict[str, Any], tmp_path: Path
) -> None:
    base = {**tree["base"], "train": {**tree["base"]["train"], "steps": 3_000_000}}
    (tmp_path / "long.yaml").write_text(dump({**tree, "base": base, "figures": []}))
    first = Runs(tmp_path)
    first.start("long.yaml")
    wait_for(lambda: listed(first, "runs/long").get("running"), pause=0.2)
    second = Runs(tmp_path)
    process = first._started[0].process
    assert second.stop("runs/long")["said"].startswith("runs/long is stopping")
    with pytest.raises(InvalidInput, match=r"stopping already|not running"):
        second.stop("runs/long")
    assert process.wait(60) == 130
    first.close()
    after = listed(second, "runs/long")
    assert (after["alive"], after["finished"], after["planned"]) == (False, False, 4)
    with pytest.raises(InvalidInput, match="not running"):
        second.stop("runs/long")


def test_only_a_process_that_holds_the_run_is_ever_signaled(folder: Path) -> None:
    api.run(folder / "small.yaml", seeds=1, out=folder / "runs/small", figures=False)
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        lock = Lock.take(folder / "runs/small")
        words = f'{{"pid": {sleeper.pid}, "host": "{socket.gethostname()}", "since": ""}}'
        (folder / "runs/small/lock").write_text(words)
        with pytest.raises(InvalidInput, match="stop it there"):
            Runs(folder).stop("runs/small")
        with pytest.raises(StoreError, match="in use"):
            Runs(folder).move_aside("runs/small")
        assert sleeper.poll() is None
        lock.release()
    finally:
        sleeper.kill()
        sleeper.wait()


@pytest.mark.parametrize("name", ["../x", "/etc", "runs/../..", "", None, 7, ["runs"], "runs"])
def test_no_path_outside_the_folder_and_nothing_but_a_run_can_be_named(name: Any, folder: Path) -> None:
    runs = Runs(folder)
    for work in (runs.find, runs.find_report, runs.stop, runs.move_aside):
        with pytest.raises(InvalidInput, match="there is no run"):
            work(name)


@pytest.mark.parametrize(
    "study", ["../small.yaml", "/etc/passwd", "--help", "-j", "nothing", None, 7, "small.yaml --force"]
)
def test_only_a_built_in_study_or_a_file_of_the_folder_can_be_started(study: Any, folder: Path) -> None:
    with pytest.raises(InvalidInput, match="there is no study"):
        Runs(folder).start(study)


@pytest.mark.parametrize("seeds", [0, -1, 2.5, "3", True, 10**9])
def test_seeds_are_a_small_whole_number(seeds: Any, folder: Path) -> None:
    with pytest.raises(InvalidInput, match="seeds: a whole number"):
        Runs(folder).start("small.yaml", seeds)


def test_a_report_that_is_a_link_to_another_place_is_not_sent(folder: Path, tmp_path_factory: Any) -> None:
    api.run(folder / "small.yaml", seeds=1, out=folder / "runs/small", figures=False)
    secret = tmp_path_factory.mktemp("elsewhere") / "secret.html"
    secret.write_text("secret")
    page = folder / "runs/small/report.html"
    page.unlink()
    page.symlink_to(secret)
    with pytest.raises(InvalidInput, match="has no report"):
        Runs(folder).find_report("runs/small")


def test_a_study_that_cannot_be_run_is_named_with_its_fault(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("question: x\nbase: {data: {task: nothing}}\narms: {a: {}}\n")
    runs = Runs(tmp_path)
    assert "nothing" in runs._ask("audit", "bad.yaml")["error"]
    runs.start("bad.yaml")
    wait_for(lambda: runs._started[0].process.poll() is not None, pause=0.2)
    told = runs.listing()["started"][0]
    assert told["code"] == 2
    assert "nothing" in told["said"]


def test_a_saved_page_gives_the_same_digests_as_a_run_of_its_file(tmp_path: Path, uploads: Uploads) -> None:
    settings = read_settings(
        {"task": "spirals", "steps": 30, "seed": 5, "factor": "norm", "a": TINY, "b": {**TINY, "norm": "batch"}}
    )
    save_study(settings, uploads, tmp_path, "page")
    pair = Pair(plan_settings(settings, uploads))
    for step in range(7, 36, 7):
        pair.advance(step)
    shown = pair.state()
    trials = api.run(tmp_path / "page.yaml", figures=False).measured.frame()
    stored = dict(zip(trials["group"].to_pylist(), trials["digest"].to_pylist(), strict=True))
    assert [arm.digest for arm in shown.arms] == [stored["A"], stored["B"]]


@pytest.mark.shipped
def test_a_server_that_is_killed_loses_nothing_of_a_run(folder: Path) -> None:
    server = subprocess.Popen(
        [sys.executable, "-m", "gradlab", "lab", ".", "--no-browser", "--json"],
        cwd=folder, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert server.stdout is not None
        words = "".join(iter(server.stdout.readline, "}\n")) + "}"
        url = json.loads(words)["url"]
        base = url.split("/?")[0]
        with httpx.Client(base_url=base, headers={"origin": base}, timeout=30) as page:
            page.get(url)
            assert page.post("/api/runs/start", json={"study": "small.yaml"}).status_code == 200
        os.kill(server.pid, signal.SIGKILL)
    finally:
        server.kill()
        server.wait()
        if server.stdout is not None:
            server.stdout.close()
    runs = Runs(folder)
    wait_for(lambda: (run := listed(runs, "runs/small")) and run["finished"] and not run["alive"], 120, 0.3)
    assert listed(runs, "runs/small")["done"] == 4
