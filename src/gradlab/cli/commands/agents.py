"""Commands for agents: `mcp`, `skill`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Option


def mcp(
    project: Annotated[
        Path, Option(metavar="FOLDER", help="The project: studies, runs and gradlab.ledger lie in it.")
    ] = Path(),
    http: Annotated[
        bool, Option("--http", help="Serve over HTTP on this machine, with a token [default: stdio].")
    ] = False,
    port: Annotated[
        int | None, Option(help="With --http: the port [default: 8765 or the next free one].", min=1, max=65535)
    ] = None,
    allow_code: Annotated[
        bool, Option("--allow-code", help="Let the agent execute code: commands, part files, model factories.")
    ] = False,
) -> None:
    """Serve the lab to an agent (Model Context Protocol).

    Exploring gives numbers; a verdict needs claims that were frozen before, a fair audit, and seeds that the server
    draws. Everything is entered in the project's ledger, gradlab.ledger. Runs go on when the server ends. Needs
    pip install 'gradlab[mcp]'.
    """
    from gradlab.agents.server import require_mcp, serve_http, serve_stdio
    from gradlab.notices import say

    require_mcp()
    if http:
        serve_http(project, allow_code, port, lambda url, token: say(f"{url}\n  Authorization: Bearer {token}"))
    else:
        serve_stdio(project, allow_code)


def skill(
    out: Annotated[
        Path | None, Option(metavar="FOLDER", help="Write it to .agents/skills and .claude/skills below this folder.")
    ] = None,
) -> None:
    """Print the skill for agents, or write it to a folder."""
    from gradlab.agents.skill import skill_text, write_skill

    if out is None:
        typer.echo(skill_text(), nl=False)
        return
    for path in write_skill(out):
        typer.echo(str(path))
