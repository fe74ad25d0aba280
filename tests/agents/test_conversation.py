"""The identity conversation, replayed through the client of the mcp package over stdio."""

from __future__ import annotations

import json
import re
from pathlib import Path

from agent_client import Agent, converse

FAIR = """
question: Do residual connections help a 20-layer network to learn the identity?
factor: model.skip
base:
  data: {task: identity, dim: 16, samples: 64}
  model: {stem: none, depth: 20, width: 16, activation: relu, skip: none, norm: none, head: none,
          init: {kind: he_normal, scale: 1/sqrt(depth), bias: zeros}}
  train: {loss: mse, optimizer: adam, lr: 1e-3, batch: 64, steps: 300}
arms:
  plain: {}
  residual: {model.skip: identity}
seeds: 20
headline: {metric: final_loss}
measure: {layers: [start, end]}
"""
UNFAIR = FAIR.replace("scale: 1/sqrt(depth), ", "").replace(
    "{model.skip: identity}", "{model.skip: identity, model.init.scale: 1/sqrt(depth)}"
)
CLAIMS = [
    {"text": "The residual net ends at a lower loss", "metric": "final_loss", "arms": ["plain", "residual"], "op": ">"}
]
NUMBER = re.compile(r"(?<![\w.\[])-?\d+(?:\.\d+)?(?:e-?\d+)?(?![\w.\]])")


def uncited(report: str) -> list[str]:
    """Lines of a report with a number that no source follows."""
    body = report.partition("## Sources")[0]
    plain = re.sub(r"“[^”]*”", "", body)
    return [line for line in plain.splitlines() if NUMBER.search(line) and not re.search(r"\[\d+\]", line)]


async def talk(agent: Agent) -> None:
    tools = {tool.name for tool in (await agent.client.list_tools()).tools}
    assert len(tools) == 15
    # the unfair version, which the agent of the write-up called fair
    audited = await agent.call("audit", study=UNFAIR)
    assert not audited["fair"]
    assert "0.2236" in audited["answer"]
    frozen = await agent.call("freeze_claims", study=UNFAIR, claims=CLAIMS)
    refusal = await agent.call("start_run", claim_ids=frozen["claim_ids"])
    assert refusal["error"]["code"] == "unfair"
    assert "initial weights" in refusal["error"]["message"]
    # the fair one
    assert (await agent.call("check_study", study=FAIR))["valid"]
    assert (await agent.call("audit", study=FAIR))["passed"]
    explored = await agent.call("explore", study=FAIR, overrides={"train.steps": 5, "seeds": 2})
    assert explored["state"] == "finished"
    assert "verdicts" not in explored
    frozen = await agent.call("freeze_claims", study=FAIR, claims=CLAIMS, reason="what the write-up says")
    assert frozen["claim_ids"] == ["c2"]
    assert "claim 2 of 2 frozen in this project; 1 exploration of this question" in frozen["standing"]
    started = await agent.call("start_run", claim_ids=["c2"])
    run = started["run_id"]
    assert "%" in (await agent.call("ask", run_id=run, question="progress"))["answer"]  # "what is the progress"
    found = await agent.finished(run)
    assert found["state"] == "finished"
    assert found["verdicts"][0]["verdict"] == "holds"
    assert found["verdicts"][0]["settled_over_project"] == "holds"
    # "does the plain one have the same normalization?", asked four times there
    same = await agent.call("ask", run_id=run, question="same_setup", limit=50)
    traits = {row["trait"]: row for row in same["rows"]}
    assert traits["normalization"]["plain"] == traits["normalization"]["residual"] == "none"
    assert same["answer"].startswith("Yes")
    assert same["source"]
    # "did you rerun the experiment?"
    rerun = await agent.call("ask", run_id=run, question="rerun")
    assert rerun["answer"].startswith("40 trials were trained in this run")
    assert "no result was there before" in rerun["answer"]
    why = await agent.call("ask", run_id=run, question="why")
    assert why["rows"][0]["claim_id"] == "c2"
    report = await agent.call("write_report", run_ids=[run])
    assert "c1 never run" in report["text"] or "claim 1 never run" in report["text"]
    assert not uncited(report["text"])
    await every_source_is_there(agent, report["text"])
    figure = await agent.call("get_figure", run_id=run, name="training_loss")
    assert figure["content"][0].mime_type == "image/png"


async def every_source_is_there(agent: Agent, report: str) -> None:
    """Ask for the cell of every source, and compare the number."""
    sources = report.partition("## Sources")[2].replace("\\_", "_")
    cells = re.findall(r"(r\d+), table (\w+), (.*), ([\w.]+) = (\S+)", sources)
    assert len(cells) >= 8
    for run, table, where, column, value in cells:
        rows = await agent.call(
            "get_table", run_id=run, name=table, where=dict(pair.split("=", 1) for pair in where.split(", "))
        )
        assert rows["total"] == 1
        assert float(rows["rows"][0][column]) == float(value)


def test_the_identity_conversation_ends_with_a_fair_comparison_and_a_report_with_sources(tmp_path: Path) -> None:
    agent = converse(tmp_path, talk)
    sizes = [size for _, size in agent.returned]
    assert max(sizes) < 12_000
    assert all(json.loads(answer.content[-1].text) for answer in agent.answers)
    ledger = (tmp_path / "gradlab.ledger").read_text()
    assert ledger.count('"kind":"frozen"') == 2
    assert ledger.count('"kind":"run"') == 1
