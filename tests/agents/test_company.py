"""Several clients at once, processes that are killed, and calls that make no sense."""

from __future__ import annotations

import json
import os
import random
import signal
from contextlib import suppress
from pathlib import Path
from time import sleep
from typing import Any

import anyio
import pytest
from agent_client import CLAIM, STUDY, connected

from gradlab.agents.answers import MOST_CHARACTERS
from gradlab.agents.jobs import work
from gradlab.agents.lab import TOOLS, Lab
from gradlab.runs.store.ledger import read_ledger
from gradlab.runs.store.project import Project

LONG = (
    STUDY.replace("steps: 10", "steps: 4000").replace("batch: 16", "batch: 64").replace("samples: 64", "samples: 256")
)
LONG = LONG.replace("dim: 8", "dim: 64").replace("width: 8", "width: 64").replace("seeds: 6", "seeds: 8")


def test_two_clients_of_one_project_get_different_numbers_and_one_chain(tmp_path: Path) -> None:
    async def freeze(number: int) -> list[str]:
        async with connected(tmp_path) as agent:
            found = []
            for value in range(4):
                claim = {**CLAIM, "arms": "plain", "value": 0.1 * (value + 1) + number}
                found += (await agent.call("freeze_claims", study=STUDY, claims=[claim]))["claim_ids"]
            return found

    both: list[str] = []

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for number in range(2):
                group.start_soon(lambda number=number: take(number))

    async def take(number: int) -> None:
        both.extend(await freeze(number))

    anyio.run(main)
    assert sorted(both) == [f"c{number}" for number in range(1, 9)]
    assert not Project(tmp_path).read().problems


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.mark.skipif(not Path("/proc/self/stat").is_file(), reason="finds the server's process in /proc")
def test_a_killed_server_and_a_killed_run_lose_nothing_and_a_new_server_goes_on(tmp_path: Path) -> None:
    lab = Lab(tmp_path)

    async def begin() -> None:
        async with connected(tmp_path) as agent:
            await agent.call("freeze_claims", study=LONG, claims=[CLAIM])
            await agent.call("start_run", claim_ids=["c1"])
            while not (tmp_path / "runs/study-r1/results/000001").is_dir():
                await anyio.sleep(0.02)
            worker = json.loads((tmp_path / ".gradlab/r1/lock").read_text())["pid"]
            os.kill(parent_of(worker), signal.SIGKILL)
            os.kill(worker, signal.SIGKILL)

    with suppress(BaseExceptionGroup):  # the server is gone, which its client may notice
        anyio.run(begin)
    while lab.jobs.alive("r1"):
        sleep(0.1)
    left = lab.get_run("r1")
    assert left.state == "interrupted"
    before = read_ledger(tmp_path / "runs/study-r1")
    assert before is not None
    done = {trial for entry in before.of("trials") for trial, *_ in entry.data["trials"]}
    assert done

    async def resume() -> None:
        async with connected(tmp_path) as agent:
            await agent.call("start_run", claim_ids=["c1"])
            assert (await agent.finished("r1"))["state"] == "finished"

    anyio.run(resume)
    after = read_ledger(tmp_path / "runs/study-r1")
    assert after is not None
    trained = [trial for entry in after.of("trials") for trial, *_ in entry.data["trials"]]
    assert len(trained) == len(set(trained)) == 16
    assert not after.of("missing", "altered", "set_aside")
    state = lab.project.read()
    assert (len(state.runs), state.runs["r1"].outcome is not None) == (1, True)


STUDIES = (
    *(STUDY, STUDY[:200], "a: [1, 2", "!!python/object:os.system {}", "- 1\n- 2\n", "identity", "nothing.yaml"),
    *(STUDY.replace("depth: 4", "depth: 100000"), STUDY.replace("width: 8", "width: 100000")),
    *(STUDY.replace("seeds: 6", "seeds: 1000000"), STUDY.replace("samples: 64", "samples: 1000000000")),
    STUDY + "axes: {train.lr: {log: [1, 2], points: 9999}}",
)
WORDS = (
    *("", " ", "c1", "r1", "e1", "../../etc/passwd", "/etc/passwd", "\x00", "\u202e“”", "a" * 5000, "evil.py:make"),
    *("x.py:ARMS", "summary", "trials", "curves", "claims", "layers", "same_setup", "rerun", "why", "what_differs"),
    *("which_numbers_changed", "progress", "training_loss", "python -c 1 {seed}"),
)
OTHERS: tuple[Any, ...] = (
    *(None, True, -1, 0, 3, 10**30, 1e308, [], ["c1"], ["c1", "c9"], ["r1"], [{}], [CLAIM], {}, {"train.lr": 0.1}),
    *([{**CLAIM, "arms": ["x", "y"]}], {"train.lr": "x"}, {"metric": "final_loss"}, {"parts": ["evil.py"]}),
    *({"data.path": "/etc/passwd"}, {"": ""}, {"axes": 3}, {"a": {"b": {"c": []}}}),
)
JUNK = (*STUDIES, *WORDS, *OTHERS)
USUAL: dict[str, tuple[Any, ...]] = {
    "study": STUDIES,
    "run_id": ("r1", "r2"),
    "claim_ids": (["c1"], ["c2"]),
    "run_ids": (["r1"], ["r1", "r1"]),
    "overrides": ({}, {"train.lr": 0.1}, {"model.depth": 3}),
    "claims": ([CLAIM], []),
    "question": WORDS[-6:],
    "name": WORDS,
    "wait_seconds": (0,),
    "limit": (1, 3, 100),
    "where": ({}, {"group": "plain"}, {"x": 1}),
}


def fuzz(lab: Lab, calls: int, seed: int) -> set[str]:
    """Call tools with arguments that make no sense; gives the codes of the errors."""
    from mcp.client.client import Client

    from gradlab.agents.server import make_server

    draw, codes = random.Random(seed), set()
    names = {tool.__name__: list(tool.__annotations__)[:-1] for tool in TOOLS}

    async def main() -> None:
        async with Client(make_server(lab)) as client:
            for _ in range(calls):
                name = draw.choice([*names, "no_such_tool"])
                known = names.get(name, ["x"])
                some = draw.sample(known, draw.randint(len(known) // 2, len(known)))
                given = {key: draw.choice(USUAL.get(key, JUNK) if draw.random() < 0.7 else JUNK) for key in some}
                given |= {"seeds": 3} if draw.random() < 0.03 else {}
                answer = await client.call_tool(name, given)
                text = answer.content[-1].text
                assert len(text) <= 4 * MOST_CHARACTERS, name
                if answer.is_error:
                    error = answer.structured_content["error"]
                    assert error["do"], (name, given)
                    assert error["message"], (name, given)
                    assert error["code"] != "internal", (name, given, error)
                    codes.add(error["code"])

    anyio.run(main)
    return codes


class Ended:
    """A job that ends at once and finds nothing."""

    def wait(self, timeout: float) -> int:
        return 0


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.chdir(tmp_path)
    lab = Lab(tmp_path)
    monkeypatch.setattr(lab.jobs, "start", lambda name, study, **job: work(lab.jobs.write(name, study, job), job))
    lab.start_run(lab.freeze_claims(STUDY, [CLAIM]).claim_ids)
    monkeypatch.setattr(lab.jobs, "start", lambda name, study, **job: Ended())
    return lab


def test_calls_that_make_no_sense_end_in_typed_errors(lab: Lab) -> None:
    assert {"bad_arguments", "no_tool"} <= fuzz(lab, 80, seed=0)
    assert not lab.project.read().problems


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_two_thousand_calls_end_in_typed_errors(lab: Lab, seed: int) -> None:
    codes = fuzz(lab, 500, seed=seed + 1)
    assert {"bad_arguments", "no_tool", "no_run", "code_not_allowed", "too_large"} <= codes
