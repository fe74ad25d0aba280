"""The commands `mcp` and `skill`, the server over HTTP, and `--project` on the command line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from agent_client import CLAIM, STUDY
from commands import gradlab as command
from starlette.testclient import TestClient

import gradlab
from gradlab.agents.lab import TOOLS, Lab
from gradlab.agents.server import RESOURCES, TokenGuard, make_server
from gradlab.agents.skill import read_resource, skill_text
from gradlab.runs.store.project import Project, project_of

CLAIMS = [CLAIM, {"text": "It starts above 0", "metric": "initial_loss", "arms": "plain", "op": ">", "value": 0}]


def written(folder: Path, **changes: Any) -> Path:
    path = folder / "mine.yaml"
    path.write_text(yaml.safe_dump({**yaml.safe_load(STUDY), "claims": CLAIMS, **changes}))
    return path


def run(folder: Path, out: str = "runs/mine", project: bool = True) -> None:
    gradlab.run(folder / "mine.yaml", out=folder / out, project=folder if project else None, figures=False)


def codes(folder: Path, run: str = "runs/mine") -> set[str]:
    return {fact.code for fact in gradlab.open_run(folder / run).story.facts}


def test_a_run_of_a_person_is_entered_in_the_ledger_and_its_report_says_so(tmp_path: Path) -> None:
    written(tmp_path)
    done = command("run", "mine.yaml", "--project", ".", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = {fact["code"]: fact for fact in json.loads(done.stdout)["facts"]}
    assert found["project_claims"]["numbers"] == {"first": 1, "claims": 2, "explorations_before": 0}
    assert {"seed_not_drawn", "settled_over_project"} <= found.keys()
    kinds = [entry.kind for entry in Project(tmp_path).read().entries]
    assert kinds == ["begun", "frozen", "run", "outcome"]
    run(tmp_path)  # the same run goes on
    assert len(Project(tmp_path).read().entries) == 4
    assert "Claims 1 to 2 of 2 frozen in this project" in (tmp_path / "runs/mine/report.md").read_text()


def test_claims_that_are_frozen_after_results_are_told(tmp_path: Path) -> None:
    written(tmp_path)
    run(tmp_path, project=False)
    written(tmp_path, claims=CLAIMS[:1])
    run(tmp_path)
    assert "frozen_after_results" in codes(tmp_path)


def test_another_root_seed_in_the_same_folder_is_another_run_of_claims_with_new_numbers(tmp_path: Path) -> None:
    for seed in (1, 2):
        written(tmp_path, seed=seed)
        run(tmp_path)
    state = Project(tmp_path).read()
    assert [claim.number for claim in state.claims] == [1, 2, 3, 4]
    assert "claimed_before" in codes(tmp_path)


def test_a_run_whose_ledger_is_gone_says_so_and_a_run_without_a_project_says_nothing(tmp_path: Path) -> None:
    written(tmp_path)
    run(tmp_path)
    (tmp_path / "gradlab.ledger").unlink()
    (tmp_path / "gradlab.ledger.json").unlink()
    assert "project_ledger_missing" in codes(tmp_path)
    run(tmp_path, "runs/other", project=False)
    assert not {code for code in codes(tmp_path, "runs/other") if code.startswith("project")}


def test_what_is_settled_over_the_project_stays_settled(tmp_path: Path) -> None:
    written(tmp_path, seeds=12)
    run(tmp_path)
    assert [claim.settled for claim in Project(tmp_path).read().claims] == ["holds", "holds"]
    written(tmp_path, seeds=14)
    run(tmp_path)
    state = Project(tmp_path).read()
    assert len(state.claims) == 2
    assert [entry.kind for entry in state.entries].count("outcome") == 2
    assert state.settled == 2


def test_the_skill_is_short_and_is_written_where_agents_look(tmp_path: Path) -> None:
    done = command("skill", "--out", ".", cwd=tmp_path)
    assert done.returncode == 0
    for place in (".agents", ".claude"):
        text = (tmp_path / place / "skills/gradlab/SKILL.md").read_text()
        head, body = re.fullmatch(r"---\n(.*?)\n---\n(.*)", text, re.DOTALL).groups()  # type: ignore[union-attr]
        fields = yaml.safe_load(head)
        assert fields["name"] == "gradlab"
        assert len(fields["description"]) <= 1024
        assert body.count("\n") < 300
    assert command("skill", cwd=tmp_path).stdout == skill_text()


def test_the_skill_names_tools_questions_and_options_that_exist() -> None:
    text = skill_text()
    tools = {tool.__name__ for tool in TOOLS}
    called = set(re.findall(r"`(\w+)\(", text)) | {"freeze_claims", "start_run"}
    assert called <= tools
    for options in re.findall(r"^gradlab (.*?)(?:  +#.*)?$", text.partition("## Without")[2], re.MULTILINE):
        words = options.split()
        assert words[0] in ("run", "audit", "predict", "report")


def test_every_tool_has_a_short_description_and_no_parameter_for_seeds_of_a_run(tmp_path: Path) -> None:
    assert all(len(tool.__doc__ or "") < 520 for tool in TOOLS)
    assert "seeds" not in Lab.start_run.__annotations__
    assert all(len(read_resource(name)) < 4000 for name in RESOURCES)


def test_http_answers_only_to_its_token_on_this_machine_and_not_to_pages(tmp_path: Path) -> None:
    app = TokenGuard(make_server(Lab(tmp_path)).streamable_http_app(), "secret")
    key = {"authorization": "Bearer secret", "accept": "application/json, text/event-stream"}
    hello = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    with TestClient(app, base_url="http://127.0.0.1:8765") as client:
        assert client.post("/mcp", json=hello, headers={**key, "authorization": ""}).status_code == 403
        assert client.post("/mcp", json=hello, headers={**key, "authorization": "Bearer wrong"}).status_code == 403
        assert client.post("/mcp", json=hello, headers={**key, "host": "evil.example"}).status_code == 403
        assert client.post("/mcp", json=hello, headers={**key, "origin": "http://evil.example"}).status_code == 403
        assert client.post("/mcp", json=hello, headers=key).status_code != 403


def test_a_project_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    done = command("mcp", "--project", "nothing", cwd=tmp_path)
    assert done.returncode == 2
    assert "nothing is not a folder" in done.stderr


@pytest.mark.parametrize("above", ["/etc", "../../etc", "runs", "", "..\\.."])
def test_a_foreign_run_cannot_name_a_project_elsewhere(tmp_path: Path, above: str) -> None:
    (tmp_path / "project.json").write_text(json.dumps({"project": above, "run": "r1"}))
    assert project_of(tmp_path) is None
