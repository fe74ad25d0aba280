"""An agent in a test: a client of `gradlab mcp` over stdio, and a small study that it works on."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

STUDY = """
question: Does the skip help?
factor: model.skip
base:
  data: {task: identity, dim: 8, samples: 64}
  model: {stem: none, depth: 4, width: 8, activation: relu, skip: none, norm: none, head: none, init: he_normal}
  train: {loss: mse, optimizer: adam, lr: 1e-2, batch: 16, steps: 10}
arms:
  plain: {}
  residual: {model.skip: identity}
seeds: 6
headline: {metric: final_loss}
measure: {layers: [start]}
"""
CLAIM = {"text": "The residual net starts higher", "metric": "initial_loss", "arms": ["residual", "plain"], "op": ">"}


class Agent:
    """A client of the server, as an agent is one: calls a tool and gets plain data, or the error."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.returned: list[tuple[str, int]] = []
        """Each call with the characters of its answer."""
        self.answers: list[Any] = []

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        answer = await self.client.call_tool(tool, arguments)
        self.answers.append(answer)
        self.returned.append((tool, sum(len(getattr(block, "text", "")) for block in answer.content)))
        found = answer.structured_content
        assert found is not None or not answer.is_error, answer
        return found if found is not None else {"content": answer.content}

    async def refused(self, tool: str, **arguments: Any) -> str:
        """The code of the error."""
        found = await self.call(tool, **arguments)
        assert "error" in found, found
        assert found["error"]["do"]
        return str(found["error"]["code"])

    async def finished(self, run_id: str) -> dict[str, Any]:
        """Wait for the end of a run."""
        for _ in range(20):
            found = await self.call("get_run", run_id=run_id, wait_seconds=20)
            if found["state"] not in ("starting", "running"):
                return found
        raise AssertionError(found)


@asynccontextmanager
async def connected(folder: Path, *words: str) -> AsyncIterator[Agent]:
    """Start `gradlab mcp` on a project and speak to it through the client of the mcp package."""
    from mcp.client.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    command = ["-m", "gradlab", "mcp", "--project", str(folder), *words]
    async with Client(stdio_client(StdioServerParameters(command=sys.executable, args=command))) as client:
        yield Agent(client)


def converse(folder: Path, talk: Callable[[Agent], Awaitable[None]], *words: str) -> Agent:
    """Let an agent talk to a server of its own."""
    agents = []

    async def main() -> None:
        async with connected(folder, *words) as agent:
            agents.append(agent)
            await talk(agent)

    anyio.run(main)
    return agents[0]
