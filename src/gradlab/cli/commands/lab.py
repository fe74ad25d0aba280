"""`gradlab lab`: the live page, on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

RANK = 15


def command(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="[FOLDER]", help="Where runs and saved studies are [default: here].", show_default=False
        ),
    ] = Path("."),
    port: Annotated[
        int | None, typer.Option(help="The port [default: 8765, or the next free one].", min=1, max=65535)
    ] = None,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Listen on another address, so that other machines can reach it.")
    ] = "127.0.0.1",
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page in a browser [default].", show_default=False)
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print the link as one JSON object on stdout.")] = False,
) -> None:
    """Open the live lab, where two networks learn side by side.

    With lessons, and with all runs below a folder.

    Serves a page on this machine until Ctrl-C, and prints its link. The link holds a key: who has it can train networks
    and start, stop and read the runs in FOLDER. Nothing is loaded from elsewhere; it works offline. Needs the extra
    [web].
    """
    import webbrowser

    from gradlab.cli.output import emit_json
    from gradlab.notices import say
    from gradlab.web.serve import Address, is_loopback, require_web, serve

    require_web()
    if not is_loopback(host):
        say(
            f"WARNING: --host {host}: everybody who can reach this machine and learns the link can train networks here "
            "and start and read runs, and the connection is not encrypted"
        )

    def tell(address: Address) -> None:
        if as_json:
            emit_json({"url": address.url, "host": address.host, "port": address.port, "folder": str(folder.resolve())})
        else:
            typer.echo(address.url)
            say("the live lab is at the link above; Ctrl-C ends it (runs that were started go on)")
        if browser:
            webbrowser.open(address.url)

    serve(folder, host, port, tell)
    say("the lab is closed")
