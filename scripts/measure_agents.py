"""Measure what a conversation with the server costs an agent: the table of docs/agents.md.

python scripts/measure_agents.py

A whole conversation about the study `identity` (10 seeds, 100 steps) through the client of the mcp package over stdio:
characters that each tool returns, and those of the list of tools, which a client reads once. Four characters are about
one token.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from collections import defaultdict
from typing import Any

import anyio
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

STUDY: dict[str, Any] = {"study": "identity", "overrides": {"train.steps": 100}}
CLAIMS = [{"text": "The residual net ends lower", "metric": "final_loss", "arms": ["residual", "plain"], "op": "<"}]
RUN = {"run_id": "r1"}
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("list_studies", {"query": "identity"}),
    ("list_studies", {}),
    ("check_study", STUDY),
    ("check_study", {**STUDY, "overrides": {"train.lrr": 1}}),
    ("predict", STUDY),
    ("audit", STUDY),
    ("audit", {**STUDY, "overrides": {"arms.residual.model.init.scale": 1}}),
    ("explore", {**STUDY, "overrides": {"train.steps": 20, "seeds": 2}}),
    ("freeze_claims", {**STUDY, "claims": CLAIMS, "reason": "what the write-up says"}),
    ("start_run", {"claim_ids": ["c1"]}),
    ("get_run", RUN),
    ("ask", {**RUN, "question": "progress"}),
    ("get_run", {**RUN, "wait_seconds": 50}),
    ("get_run", {**RUN, "wait_seconds": 50}),
    *(("ask", {**RUN, "question": question}) for question in ("same_setup", "what_differs", "rerun", "why")),
    ("ask", {**RUN, "question": "which_numbers_changed"}),
    ("get_table", {**RUN, "name": "claims"}),
    ("get_table", RUN),
    ("get_table", {**RUN, "name": "layers", "where": {"measure": "delta_l2"}}),
    ("list_runs", {}),
    ("ledger", {}),
    ("write_report", {"run_ids": ["r1"]}),
]


async def converse(folder: str) -> tuple[int, dict[str, list[int]]]:
    """Characters of the list of tools, and by tool those of each answer."""
    found: dict[str, list[int]] = defaultdict(list)
    command = StdioServerParameters(command=sys.executable, args=["-m", "gradlab", "mcp", "--project", folder])
    async with Client(stdio_client(command)) as client:
        tools = (await client.list_tools()).tools
        listed = sum(len(tool.description or "") + len(json.dumps(tool.input_schema)) for tool in tools)
        for name, arguments in CALLS:
            answer = await client.call_tool(name, arguments)
            found[name].append(sum(len(getattr(block, "text", "")) for block in answer.content))
    return listed, found


def main() -> None:
    """Print the table in Markdown."""
    with tempfile.TemporaryDirectory() as folder:
        listed, found = anyio.run(converse, folder)
    print("| tool | calls | median | largest |\n| --- | --- | --- | --- |")
    for name, sizes in sorted(found.items(), key=lambda item: -max(item[1])):
        print(f"| `{name}` | {len(sizes)} | {statistics.median(sizes):,.0f} | {max(sizes):,} |")
    every = [size for sizes in found.values() for size in sizes]
    print(f"| **all** | {len(every)} | {statistics.median(every):,.0f} | {max(every):,} |")
    print(
        f"\n{sum(every):,} characters in all, and {listed:,} for descriptions and parameters of the tools, read once."
    )


if __name__ == "__main__":
    main()
